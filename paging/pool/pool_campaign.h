/* A pool config, run: its random and scripted traces in child processes, or its planted defects. */
#ifndef KVG_PAGING_POOL_POOL_CAMPAIGN_H
#define KVG_PAGING_POOL_POOL_CAMPAIGN_H

#include "paging/pool/pool_config.h"
#include "paging/pool/pool_shrink.h"

typedef struct kvg_pool_options {
    const kvg_pool_backend *backend;
    const kvg_pool_defect *defect; /* NULL: none */
    const char *scenario;          /* this one alone; NULL: all, and the scripted traces */
    uint64_t operations;           /* of all scenarios together; 0: as the config says */
    unsigned jobs;                 /* child processes */
} kvg_pool_options;

/* What came of a config. The trace that failed, if any, is shrunk. */
typedef struct kvg_pool_result {
    kvg_pool_totals *totals; /* of each scenario, then of the scripted traces: scenario_count + 1; to be freed */
    kvg_pool_verdict verdict; /* of `trace` */
    kvg_pool_trace trace;     /* if verdict.failed; to be freed */
    uint64_t attempts;        /* that shrinking took */
    double seconds;
} kvg_pool_result;

/* The status tells of the prover alone; result->verdict of the managers. A child that dies is a verdict. */
kvg_status kvg_pool_campaign(const kvg_pool_config *config, const kvg_pool_options *options,
                             kvg_pool_result *result) KVG_CHECKED;
void kvg_pool_result_free(kvg_pool_result *result);

/* A planted defect: the rule that caught it and after how many operations, over the config's traces in turn. `blind`:
 * by the invariants alone, without what the model predicts. */
typedef struct kvg_pool_catch {
    bool caught;
    kvg_pool_rule rule;
    uint64_t operations, traces;
    char scenario[64], text[320];
} kvg_pool_catch;

kvg_status kvg_pool_catch_defect(const kvg_pool_config *config, const kvg_pool_options *options,
                                 const kvg_pool_defect *defect, bool blind,
                                 kvg_pool_catch *out) KVG_CHECKED;

/* How many traces of a scenario make up its operations. */
uint64_t kvg_pool_trace_count(const kvg_pool_config *config, const kvg_pool_options *options, size_t scenario);

#endif
