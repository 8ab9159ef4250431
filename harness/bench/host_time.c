#include "harness/bench/host_time.h"

#include <inttypes.h>
#include <stdio.h>

/* Bytes that a core moves in a millisecond at most: 192 in a cycle (two loads and a store of 64 bytes, as Golden Cove
 * and Zen 5 do), at 6.5 GHz. Memory is far slower. */
static const double CORE_BYTES = 192 * 6.5e6;

/* Milliseconds of a call beside the run: two messages and two processes that wake up. 0.02 on an idle machine; where
 * processes wait for cores it may be 10, which is why the fastest call counts. */
static const double CALL_MS = 2;

void kvg_host_doubt(const kvg_timing *t, double bytes, unsigned cores, bool own_memory, char out[KVG_HOST_DOUBT_SIZE])
{
    out[0] = 0;
    if (t->impossible) {
        snprintf(out, KVG_HOST_DOUBT_SIZE, "%" PRIu64 " of %" PRIu64 " runs gave times below 0 or above that of the "
                 "call", t->impossible, t->runs);
    } else if (!own_memory && bytes > t->median_ms * CORE_BYTES * cores) {
        snprintf(out, KVG_HOST_DOUBT_SIZE, "%.0f bytes in %g ms: %u cores move at most %g bytes in a ms", bytes,
                 t->median_ms, cores, CORE_BYTES * cores);
    } else if (!own_memory && t->median_ms < (t->fastest_call_ms - CALL_MS) / 2) {
        snprintf(out, KVG_HOST_DOUBT_SIZE, "%g ms a run, and the fastest call %g ms by the judge's clock: less than "
                 "half of it, without %g ms for the call", t->median_ms, t->fastest_call_ms, CALL_MS);
    }
}
