/* What the faults are called. */
#include "second/slow_fault.h"

enum { MMA = 1, SIMT = 2, BOTH = MMA | SIMT };

static const struct {
    int contracts;
    const char *name, *text;
} fault_rows[] = {
    {BOTH, "right", "nothing"},
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

bool slow_decode_fault_in(slow_decode_fault fault, bool simt)
{
    return (fault_rows[fault].contracts & (simt ? SIMT : MMA)) != 0;
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
