/* Op decode in both tiers. With a profile: docs/spec/decode-contract.md rule by rule, over the second opinion on
 * tensor cores, or docs/spec/simt-contract.md, or docs/spec/other-kernels.md. Without: docs/spec/attention.md section 4
 * (slow_attention.h). It can also be wrong on purpose. */
#ifndef KVG_SECOND_SLOW_DECODE_H
#define KVG_SECOND_SLOW_DECODE_H

#include "core/backend.h"
#include "second/slow_fault.h"

kvg_run_fn slow_decode_op;

/* The contract with this rule broken. The problem has a profile. */
kvg_status slow_decode_faulty(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out,
                              slow_decode_fault fault) KVG_CHECKED;

#endif
