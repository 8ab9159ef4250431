/* Room second: a second, independent reference. `kvgold check --backend slowref` sets it beside the golden one.
 *
 *   slow_backend           The backend: which op is answered by which file.
 *   slow_codec, slow_<format>, slow_convert, slow_element
 *                          Formats, from docs/spec/formats.md.
 *   slow_layout, slow_cache, slow_paged, slow_request, slow_side
 *                          Addresses and paged ops, from docs/spec/layouts.md.
 *   slow_attention         The exact answer of op decode, with MPFR.
 *   slow_decode, slow_leaf, slow_score, slow_operand, slow_exp2, slow_special
 *                          The decode contracts, rule by rule; slow_fault.h breaks one rule (decode_faults.def).
 *   slow_mma               Tensor cores; mma_faults.def breaks one rule of them.
 *   slow_rope, slow_rope_table, slow_model, slow_number
 *                          RoPE, the arithmetic of a model, exact numbers.
 *
 * It is written from the pages alone and includes core/ and itself: a shared helper would be a shared bug. */
/* The symbol KVG_BACKEND_SYMBOL of this backend, for those who link it instead of opening the shared library. */
#ifndef KVG_SECOND_SLOW_BACKEND_H
#define KVG_SECOND_SLOW_BACKEND_H

#include "core/backend.h"

const kvg_backend *kvg_backend_export(void);

#endif
