/* How the second reference is wrong on purpose, so that a test can show which fault it would see: decode_faults.def,
 * mma_faults.def, special_faults.def. Tests compile second/ with SLOW_FAULTS. The backend slowref is compiled without,
 * so there is no fault in it. */
#ifndef KVG_SECOND_SLOW_FAULT_H
#define KVG_SECOND_SLOW_FAULT_H

#include <stdbool.h>

/* A question to the faults that a computation is to have: "is it this one?". */
static inline bool slow_planted(bool asked_for)
{
#ifdef SLOW_FAULTS
    return asked_for;
#else
    (void)asked_for;
    return false;
#endif
}

typedef enum slow_decode_fault {
    SLOW_DECODE_RIGHT, /* no rule is broken */
#define FAULT(ENUM, contracts, name, what) SLOW_DECODE_##ENUM,
#include "second/decode_faults.def"
#undef FAULT
    SLOW_DECODE_FAULTS /* one past the last */
} slow_decode_fault;

typedef enum slow_mma_fault {
#define FAULT(ENUM, name, what) SLOW_MMA_##ENUM,
#include "second/mma_faults.def"
#undef FAULT
    SLOW_MMA_FAULTS /* how many there are */
} slow_mma_fault;

typedef enum slow_special_fault {
#define FAULT(ENUM, what) SLOW_SPECIAL_##ENUM,
#include "second/special_faults.def"
#undef FAULT
    SLOW_SPECIAL_FAULTS /* how many there are */
} slow_special_fault;

/* slow_faults.c, which is a part of tests alone. */
const char *slow_mma_fault_name(slow_mma_fault fault);
const char *slow_mma_fault_text(slow_mma_fault fault);
const char *slow_decode_fault_name(slow_decode_fault fault);
const char *slow_decode_fault_text(slow_decode_fault fault);

/* Whether the contract has the rule that is broken: docs/spec/decode-contract.md, docs/spec/simt-contract.md,
 * docs/spec/other-kernels.md. */
typedef enum slow_contract {
    SLOW_OF_MMA = 1, SLOW_OF_SIMT = 2, SLOW_OF_FA3 = 4, SLOW_OF_FI2 = 8, SLOW_OF_FI3 = 16,
    SLOW_OF_ONE = 32
} slow_contract;
bool slow_decode_fault_in(slow_decode_fault fault, slow_contract contract);

#endif
