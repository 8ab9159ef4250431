/* Op decode in both tiers. With a profile: docs/decode-contract.md rule by rule, over the second opinion on tensor
 * cores. Without: docs/attention.md section 4 (slow_attention.h). It can also be wrong on purpose. */
#ifndef KVG_TESTS_SLOWREF_SLOW_DECODE_H
#define KVG_TESTS_SLOWREF_SLOW_DECODE_H

#include "core/backend.h"

typedef enum slow_decode_fault {
#define FAULT(ENUM, name, what) SLOW_DECODE_##ENUM,
#include "tests/slowref/decode_faults.def"
#undef FAULT
    SLOW_DECODE_FAULTS /* how many there are */
} slow_decode_fault;

const char *slow_decode_fault_name(slow_decode_fault fault);
const char *slow_decode_fault_text(slow_decode_fault fault);

/* Whether a rule of the contract is to be broken; `faults`: 1 << fault for each. */
bool slow_decode_wrong(uint64_t faults, slow_decode_fault fault);

kvg_run_fn slow_decode_op;

/* The contract with these rules broken; 0: none. The problem has a profile. */
kvg_status slow_decode_faulty(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out,
                              uint64_t faults) KVG_CHECKED;

#endif
