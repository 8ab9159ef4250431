/* Failing traces: every possible fault of a trace, and the smallest trace that still breaks the same rule. */
#ifndef KVG_PAGING_POOL_POOL_SHRINK_H
#define KVG_PAGING_POOL_POOL_SHRINK_H

#include "paging/pool/pool_run.h"

/* Who is tried, and how: `apart` runs the trace in a child process, so that a crash or a hang is a verdict too.
 * `blind`: as kvg_pool_runner_start has it. */
typedef struct kvg_pool_trial {
    const kvg_pool_backend *backend;
    const kvg_pool_defect *defect;
    bool apart, blind;
    uint64_t attempts; /* traces run so far */
} kvg_pool_trial;

kvg_status kvg_pool_try(kvg_pool_trial *trial, const kvg_pool_trace *trace, kvg_pool_totals *totals,
                        kvg_pool_verdict *verdict) KVG_CHECKED;

/* Runs the trace once without and then once for every place where something can fail: each allocation, each growth,
 * each call of a pool or of the index, during each operation and while the pools are made. Stops at the first that
 * breaks a rule: the verdict says which, and the trace carries the fault. */
kvg_status kvg_pool_try_faults(kvg_pool_trial *trial, kvg_pool_trace *trace, kvg_pool_totals *totals,
                               kvg_pool_verdict *verdict) KVG_CHECKED;

/* Makes a trace that breaks `rule` as small as it can: no single operation and no entry of a list can be left out, no
 * number be halved, no key of the geometry be simpler. Sets trace->violation and *verdict. */
kvg_status kvg_pool_shrink(kvg_pool_trial *trial, kvg_pool_trace *trace, kvg_pool_verdict *verdict) KVG_CHECKED;

#endif
