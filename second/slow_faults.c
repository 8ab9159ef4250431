/* What the faults are called. */
#include "second/slow_fault.h"

enum {
    MMA = SLOW_OF_MMA, SIMT = SLOW_OF_SIMT, FA3 = SLOW_OF_FA3, FI2 = SLOW_OF_FI2, FI3 = SLOW_OF_FI3, ONE = SLOW_OF_ONE,
    BOTH = MMA | SIMT, FI = FI2 | FI3, LANE = FA3 | FI3, KERN = FA3 | FI, PAGE = KERN | ONE, CHIP = MMA | KERN,
    SINK = BOTH | FA3 | FI2, ALL = BOTH | PAGE
};

static const struct {
    int contracts;
    const char *name, *text;
} fault_rows[] = {
    {ALL, "right", "nothing"},
#define FAULT(ENUM, contracts, name, what) {contracts, name, what},
#include "second/decode_faults.def"
#undef FAULT
};

const char *slow_decode_fault_name(slow_decode_fault fault)
{
    return fault_rows[fault].name;
}

const char *slow_decode_fault_text(slow_decode_fault fault)
{
    return fault_rows[fault].text;
}

bool slow_decode_fault_in(slow_decode_fault fault, slow_contract contract)
{
    return (fault_rows[fault].contracts & (int)contract) != 0;
}

static const struct {
    const char *name, *text;
} mma_rows[] = {
#define FAULT(ENUM, name, what) {name, what},
#include "second/mma_faults.def"
#undef FAULT
};

const char *slow_mma_fault_name(slow_mma_fault fault)
{
    return mma_rows[fault].name;
}

const char *slow_mma_fault_text(slow_mma_fault fault)
{
    return mma_rows[fault].text;
}
