/* Room pool: managers of block ids under random and scripted traces (`kvgold pool`).
 *
 *   pool_trace, _config    Traces and configs as data.
 *   pool_model, pool_model_*
 *                          An independent model that predicts what every operation does.
 *   pool_check_*           The invariants, looked up in the managers after every operation.
 *   pool_stack             The managers under test, with gates where faults and defects sit.
 *   pool_defects, _*       Planted defects: pool_defects.def.
 *   pool_generate, _run, _shrink, _fault, _campaign, _bench
 *                          Draws traces, runs them, shrinks what fails, and times managers.
 *   pool_audit, _audit_state, _log, _log_reader, _kv_events, _table
 *                          Judges other managers by logs of their events: docs/guide/pool-audit.md.
 *   pool_guest, _guest_*
 *                          Plays an engine to a manager in a library, for such a log: paging/paging_plugin.h.
 *
 * The room includes core/, support/, golden/golden.h and the headers in paging/ itself alone. It knows no
 * format and no bytes.
 * docs/guide/pool.md is the manual. */
/* One trace: every operation done by the managers, predicted by the model and checked. */
#ifndef KVG_PAGING_POOL_POOL_RUN_H
#define KVG_PAGING_POOL_POOL_RUN_H

#include "paging/pool/pool_check.h"
#include "paging/pool/pool_defects.h"

typedef struct kvg_pool_totals {
    uint64_t traces, operations, refused; /* refused: illegal ones, that had to be */
    uint64_t faults, evictions, preemptions, matches, matched_blocks, forks, copies, published, windowed;
    uint64_t evaluated[KVG_RULE_COUNT];
} kvg_pool_totals;

typedef struct kvg_pool_verdict {
    bool failed;
    kvg_pool_rule rule;
    size_t op; /* which operation, from 0; the number of operations if the end was wrong */
    char text[320];
} kvg_pool_verdict;

typedef struct kvg_pool_runner {
    kvg_pool_stack stack;
    kvg_pool_model model;
    kvg_pool_checker checker;
    kvg_pool_expectation expect;
    kvg_sequence_request *requests;
    kvg_sequence_grant *grants;
    uint32_t grant_room;
    uint32_t number;            /* what the operation gave: moved, valid */
    kvg_id_list ids;            /* allocated or evicted */
    size_t done;
    bool blocks;
    kvg_pool_totals *totals;
    kvg_pool_verdict *verdict;
} kvg_pool_runner;

/* `defect` may be NULL; `blind`: without the model's predictions, for planted defects. The totals grow; the verdict is
 * that of the first operation that breaks a rule. */
kvg_status kvg_pool_runner_start(kvg_pool_runner *r, const kvg_pool_backend *backend,
                                 const kvg_pool_geometry *geometry, bool blocks, const kvg_pool_defect *defect,
                                 bool blind, kvg_pool_totals *totals, kvg_pool_verdict *verdict) KVG_CHECKED;
bool kvg_pool_runner_step(kvg_pool_runner *r, const kvg_pool_op *op); /* false: the verdict says why */
void kvg_pool_runner_stop(kvg_pool_runner *r);

/* A whole trace. The status tells of the prover alone (no memory); the managers' failures are in the verdict. */
kvg_status kvg_pool_run_trace(const kvg_pool_trace *trace, const kvg_pool_backend *backend,
                              const kvg_pool_defect *defect, bool blind, kvg_pool_totals *totals,
                              kvg_pool_verdict *verdict) KVG_CHECKED;

void kvg_pool_totals_add(kvg_pool_totals *sum, const kvg_pool_totals *part);

#endif
