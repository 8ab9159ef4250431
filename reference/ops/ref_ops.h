/* Room ops: the reference as a backend.
 *
 *   ref_backend            The table of implementations.
 *   ref_op_rows            Ops quantise and dequantise.
 *   ref_op_paged           Ops append, flatten, expand and probe.
 *   ref_op_decode, _mma    Ops decode and merge; op mma.
 *   ref_rope_table         The table of cos and sin that op append takes.
 *
 * An op is a loop over rows that the rooms above encode, decode and place. */
/* The ops of the reference's backend, one function for each group of them. */
#ifndef KVG_REFERENCE_OPS_REF_OPS_H
#define KVG_REFERENCE_OPS_REF_OPS_H

#include "core/backend.h"

/* So many rows are not worth waking threads for: on a busy machine the threads wait for each other longer than the rows
 * take. */
enum { REF_FEW_ROWS = 128 };

/* Quantise and dequantise over rows; append, flatten, expand and probe over a paged cache; decode and merge; mma. */
kvg_run_fn ref_quantise, ref_dequantise, ref_paged, ref_decode, ref_mma;

#endif
