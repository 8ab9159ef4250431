/* Whether times of an implementation on the host can be true. They come from its own process, which can forge them. */
#ifndef KVG_HARNESS_BENCH_HOST_TIME_H
#define KVG_HARNESS_BENCH_HOST_TIME_H

#include "harness/trial/judge/judge.h"

enum { KVG_HOST_DOUBT_SIZE = 200 };

/* What speaks against the times, with the numbers; "" if nothing does. `bytes`: that a run moves. `cores` of the
 * machine. Of an implementation with memory of its own neither the copies to it nor its speed are known: `own_memory`
 * leaves out what needs them. */
void kvg_host_doubt(const kvg_timing *t, double bytes, unsigned cores, bool own_memory, char out[KVG_HOST_DOUBT_SIZE]);

#endif
