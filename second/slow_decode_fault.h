/* The ways in which op decode can be wrong on purpose: decode_faults.def. */
#ifndef KVG_SECOND_SLOW_DECODE_FAULT_H
#define KVG_SECOND_SLOW_DECODE_FAULT_H

#include <stdbool.h>

typedef enum slow_decode_fault {
    SLOW_DECODE_RIGHT, /* no rule is broken */
#define FAULT(ENUM, contracts, name, what) SLOW_DECODE_##ENUM,
#include "second/decode_faults.def"
#undef FAULT
    SLOW_DECODE_FAULTS /* one past the last */
} slow_decode_fault;

const char *slow_decode_fault_name(slow_decode_fault fault);
const char *slow_decode_fault_text(slow_decode_fault fault);

/* Whether the contract (docs/spec/simt-contract.md or docs/spec/decode-contract.md) has the rule that is broken. */
bool slow_decode_fault_in(slow_decode_fault fault, bool simt);

#endif
