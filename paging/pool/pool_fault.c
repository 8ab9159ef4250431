#include <stdlib.h>
#include <string.h>

#include "paging/pool/pool_shrink.h"
#include "support/child.h"

enum { PATIENCE = 20 }; /* seconds that a trace may take in a child */

/* --- one trial --- */

typedef struct answer {
    const kvg_pool_trial *trial;
    const kvg_pool_trace *trace;
    kvg_status status;
    kvg_pool_totals totals;
    kvg_pool_verdict verdict;
} answer;

static void run_trial(void *context)
{
    answer *a = context;
    a->status = kvg_pool_run_trace(a->trace, a->trial->backend, a->trial->defect, a->trial->blind, &a->totals,
                                   &a->verdict);
}

static void judge_death(int death, kvg_pool_verdict *v, size_t op)
{
    *v = (kvg_pool_verdict){.failed = true, .rule = KVG_RULE_CRASH, .op = op};
    if (kvg_child_timed_out(death)) {
        snprintf(v->text, sizeof v->text, "no end after %d seconds", PATIENCE);
    } else {
        snprintf(v->text, sizeof v->text, "the process ended with wait status 0x%x", (unsigned)death);
    }
}

kvg_status kvg_pool_try(kvg_pool_trial *trial, const kvg_pool_trace *trace, kvg_pool_totals *totals,
                        kvg_pool_verdict *verdict)
{
    answer a = {.trial = trial, .trace = trace};
    int death = 0;
    kvg_status s = KVG_OK;
    trial->attempts++;
    if (trial->apart) s = kvg_child_answer(run_trial, &a, &a, sizeof a, PATIENCE, &death);
    else run_trial(&a);
    if (death) judge_death(death, &a.verdict, trace->op_count);
    if (!s) s = a.status;
    if (totals) kvg_pool_totals_add(totals, &a.totals);
    *verdict = a.verdict;
    return s;
}

/* --- every fault --- */

/* The making of the managers with each of its allocations and growths failing. */
static void try_making(const kvg_pool_trial *trial, const kvg_pool_trace *trace, kvg_pool_totals *totals,
                       kvg_pool_verdict *verdict)
{
    static const kvg_pool_fault_kind kinds[] = {KVG_POOL_FAULT_MEMORY, KVG_POOL_FAULT_GROW};
    for (size_t k = 0; k < 2; k++) {
        for (uint32_t at = 0;; at++) {
            kvg_pool_stack stack = {.fault = {kinds[k], at}};
            const kvg_status s = kvg_pool_stack_make(&stack, trial->backend, &trace->geometry, trace->blocks, NULL);
            if (s == KVG_OK) kvg_pool_stack_destroy(&stack);
            const bool fired = stack.fired;
            totals->faults += fired;
            totals->evaluated[KVG_RULE_FAILURE]++;
            totals->evaluated[KVG_RULE_LEAK]++;
            if (stack.live) {
                *verdict = (kvg_pool_verdict){.failed = true, .rule = KVG_RULE_LEAK};
                snprintf(verdict->text, sizeof verdict->text, "making with %s fault %u leaves %zu allocations behind",
                         kvg_pool_fault_names[kinds[k]], at, stack.live);
                return;
            }
            if (fired != (s == KVG_ERR_MEMORY)) {
                *verdict = (kvg_pool_verdict){.failed = true, .rule = KVG_RULE_FAILURE};
                snprintf(verdict->text, sizeof verdict->text, "making with %s fault %u gives %s",
                         kvg_pool_fault_names[kinds[k]], at, kvg_status_name(s));
                return;
            }
            if (!fired) break;
        }
    }
}

/* How often each kind of fault could happen in each operation: KVG_POOL_FAULT_KINDS numbers an operation. */
static kvg_status count_places(const kvg_pool_trial *trial, const kvg_pool_trace *trace, uint32_t *places,
                               kvg_pool_totals *totals, kvg_pool_verdict *verdict)
{
    kvg_pool_runner r;
    kvg_status s = kvg_pool_runner_start(&r, trial->backend, &trace->geometry, trace->blocks, trial->defect,
                                         trial->blind, totals, verdict);
    if (s) return s;
    for (size_t i = 0; i < trace->op_count && kvg_pool_runner_step(&r, &trace->ops[i]); i++) {
        memcpy(places + i * KVG_POOL_FAULT_KINDS, r.stack.calls, sizeof r.stack.calls);
    }
    kvg_pool_runner_stop(&r);
    return KVG_OK;
}

kvg_status kvg_pool_try_faults(kvg_pool_trial *trial, kvg_pool_trace *trace, kvg_pool_totals *totals,
                               kvg_pool_verdict *verdict)
{
    uint32_t *places = calloc(trace->op_count + 1, KVG_POOL_FAULT_KINDS * sizeof *places);
    if (!places) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the faults of a trace");
    kvg_status s = count_places(trial, trace, places, totals, verdict);
    if (!s && !verdict->failed) try_making(trial, trace, totals, verdict);
    for (size_t i = 0; !s && !verdict->failed && i < trace->op_count; i++) {
        for (int kind = 1; !s && !verdict->failed && kind < KVG_POOL_FAULT_KINDS; kind++) {
            const uint32_t count = places[i * KVG_POOL_FAULT_KINDS + (size_t)kind];
            for (uint32_t at = 0; !s && !verdict->failed && at < count; at++) {
                trace->ops[i].fault = (kvg_pool_fault){(kvg_pool_fault_kind)kind, at};
                s = kvg_pool_try(trial, trace, totals, verdict);
            }
        }
        if (!verdict->failed) trace->ops[i].fault = (kvg_pool_fault){0};
    }
    free(places);
    return s;
}
