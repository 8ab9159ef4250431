#define _DEFAULT_SOURCE
#include "paging/pool/pool_campaign.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "paging/pool/pool_generate.h"
#include "support/child.h"
#include "support/clock.h"

/* What a child tells its parent, as it goes. */
typedef struct share {
    size_t scenario; /* it is at this trace */
    uint64_t number;
    bool failed, finished;
    kvg_status status; /* of the prover */
    kvg_pool_totals *totals; /* of each scenario, behind the shares */
} share;

typedef struct campaign {
    const kvg_pool_config *config;
    const kvg_pool_options *options;
    atomic_bool *stop; /* one child has found something */
    share *shares;
    size_t bytes;
} campaign;

static bool wanted(const kvg_pool_options *options, const kvg_pool_scenario *scenario)
{
    return !options->scenario || strcmp(options->scenario, scenario->name) == 0;
}

uint64_t kvg_pool_trace_count(const kvg_pool_config *config, const kvg_pool_options *options, size_t scenario)
{
    const kvg_pool_scenario *s = &config->scenarios[scenario];
    uint64_t operations = (uint64_t)s->operations.hi, total = 0;
    if (!wanted(options, s)) return 0;
    if (options->operations) {
        for (size_t i = 0; i < config->scenario_count; i++) {
            if (wanted(options, &config->scenarios[i])) total += (uint64_t)config->scenarios[i].operations.hi;
        }
        operations = (uint64_t)((double)operations * (double)options->operations / (double)total) + 1;
    }
    return (operations + (uint64_t)s->trace.hi - 1) / (uint64_t)s->trace.hi;
}

/* One trace of a scenario: drawn and run in one go, or drawn whole and run with every fault. */
static kvg_status run_one(const campaign *x, size_t scenario, uint64_t number, kvg_pool_totals *totals,
                          kvg_pool_verdict *verdict)
{
    const kvg_pool_scenario *s = &x->config->scenarios[scenario];
    kvg_pool_trace trace;
    kvg_pool_generator g;
    kvg_pool_runner r;
    if (s->faults) {
        kvg_pool_trial trial = {.backend = x->options->backend, .defect = x->options->defect};
        kvg_status status = kvg_pool_generate(s, x->config->seed, number, &trace);
        if (!status) status = kvg_pool_try_faults(&trial, &trace, totals, verdict);
        kvg_pool_trace_free(&trace);
        return status;
    }
    kvg_pool_geometry geometry;
    kvg_pool_generator_start(&g, s, x->config->seed, number, &geometry);
    kvg_status status = kvg_pool_runner_start(&r, x->options->backend, &geometry, s->blocks, x->options->defect, false,
                                              totals, verdict);
    if (status) return status;
    for (int64_t i = 0; i < s->trace.hi; i++) {
        kvg_pool_op op;
        kvg_pool_generator_next(&g, &r.model, &op);
        if (!kvg_pool_runner_step(&r, &op)) break;
    }
    kvg_pool_runner_stop(&r);
    kvg_pool_generator_stop(&g);
    return KVG_OK;
}

/* A child of the campaign. */
typedef struct runner {
    const campaign *campaign;
    unsigned job;
} runner;

/* Every jobs-th trace of every scenario. */
static int run_share(void *context, int channel)
{
    const runner *r = context;
    const campaign *x = r->campaign;
    const unsigned job = r->job;
    share *mine = &x->shares[job];
    (void)channel;
    for (size_t i = 0; i < x->config->scenario_count; i++) {
        const uint64_t count = kvg_pool_trace_count(x->config, x->options, i);
        for (uint64_t n = job; n < count && !atomic_load(x->stop); n += x->options->jobs) {
            kvg_pool_verdict verdict = {0};
            mine->scenario = i;
            mine->number = n;
            mine->status = run_one(x, i, n, &mine->totals[i], &verdict);
            mine->failed = verdict.failed;
            if (!mine->status && !mine->failed) continue;
            atomic_store(x->stop, true);
            return 0;
        }
    }
    mine->finished = true;
    return 0;
}

static kvg_status make_shares(campaign *x)
{
    const size_t jobs = x->options->jobs, scenarios = x->config->scenario_count;
    x->bytes = 64 + jobs * (sizeof(share) + scenarios * sizeof(kvg_pool_totals));
    char *memory = mmap(NULL, x->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return kvg_fail(KVG_ERR_MEMORY, "cannot map %zu bytes", x->bytes);
    x->stop = (atomic_bool *)memory;
    x->shares = (share *)(memory + 64);
    kvg_pool_totals *totals = (kvg_pool_totals *)(x->shares + jobs);
    for (size_t i = 0; i < jobs; i++) x->shares[i].totals = totals + i * scenarios;
    return KVG_OK;
}

/* Starts a child per job and waits for all. A child that ends badly has not finished: that is a crash at its trace. */
static kvg_status run_children(const campaign *x)
{
    kvg_child children[KVG_CHILDREN_MAX];
    unsigned started = 0;
    kvg_status s = KVG_OK;
    for (; !s && started < x->options->jobs; started += !s) {
        runner r = {x, started};
        s = kvg_child_start(&(kvg_child_job){.work = run_share, .context = &r}, &children[started]);
        if (s) atomic_store(x->stop, true);
    }
    for (unsigned i = 0; i < started; i++) {
        if (kvg_child_wait(&children[i]) != 0) {
            x->shares[i].failed = true;
            x->shares[i].status = KVG_OK;
            atomic_store(x->stop, true);
        }
        if (!s && x->shares[i].status) s = kvg_fail(x->shares[i].status, "a child of the run ran out of memory");
    }
    return s;
}

/* Draws the failing trace again and shrinks it; `apart`, for it may crash. */
static kvg_status explain(const campaign *x, const share *failed, kvg_pool_result *result)
{
    const kvg_pool_scenario *scenario = &x->config->scenarios[failed->scenario];
    kvg_pool_trial trial = {.backend = x->options->backend, .defect = x->options->defect, .apart = true};
    kvg_status s = kvg_pool_generate(scenario, x->config->seed, failed->number, &result->trace);
    if (!s && x->options->defect) {
        snprintf(result->trace.defect, sizeof result->trace.defect, "%s", x->options->defect->id);
    }
    if (!s && scenario->faults) {
        kvg_pool_totals ignored = {0};
        s = kvg_pool_try_faults(&trial, &result->trace, &ignored, &result->verdict);
    }
    if (!s) s = kvg_pool_shrink(&trial, &result->trace, &result->verdict);
    result->attempts = trial.attempts;
    return s;
}

/* A control names a planted defect and the rule that it must break. */
static void judge_control(const kvg_pool_trace *trace, kvg_pool_verdict *verdict)
{
    if (verdict->failed && strcmp(kvg_pool_rules[verdict->rule].name, trace->violation) == 0) {
        verdict->failed = false;
        return;
    }
    *verdict = (kvg_pool_verdict){.failed = true, .rule = KVG_RULE_MODEL, .op = trace->op_count};
    snprintf(verdict->text, sizeof verdict->text, "a control: defect %s should break rule %s, and does not",
             trace->defect, trace->violation);
}

/* A scripted trace must pass, a control must fail; with a defect of the run controls are left out. */
static kvg_status run_script(const campaign *x, const char *path, kvg_pool_result *result)
{
    kvg_pool_trace trace;
    kvg_pool_verdict verdict = {0};
    kvg_pool_trial trial = {.backend = x->options->backend, .defect = x->options->defect, .apart = true};
    kvg_status s = kvg_pool_trace_open(path, &trace);
    if (s) return s;
    const bool control = trace.defect[0] != 0;
    if (control && !trial.defect) s = kvg_pool_defect_find(trace.defect, &trial.defect);
    if (!s && !(control && x->options->defect)) {
        s = kvg_pool_try(&trial, &trace, &result->totals[x->config->scenario_count], &verdict);
        if (!s && control) judge_control(&trace, &verdict);
        if (!s && !control && verdict.failed) {
            if (trial.defect) snprintf(trace.defect, sizeof trace.defect, "%s", trial.defect->id);
            s = kvg_pool_shrink(&trial, &trace, &verdict);
        }
    }
    result->attempts = trial.attempts;
    result->verdict = verdict;
    if (!s && verdict.failed) result->trace = trace;
    else kvg_pool_trace_free(&trace);
    return s;
}

kvg_status kvg_pool_campaign(const kvg_pool_config *config, const kvg_pool_options *options, kvg_pool_result *result)
{
    campaign x = {.config = config, .options = options};
    const double start = kvg_clock_seconds();
    *result = (kvg_pool_result){0};
    result->totals = calloc(config->scenario_count + 1, sizeof *result->totals);
    if (!result->totals) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the totals");
    kvg_status s = KVG_OK;
    for (size_t i = 0; !s && !options->scenario && !result->verdict.failed && i < config->trace_count; i++) {
        s = run_script(&x, config->traces[i], result);
    }
    if (!s && !result->verdict.failed && config->scenario_count) {
        s = make_shares(&x);
        if (s) return s;
        s = run_children(&x);
        const share *failed = NULL;
        for (unsigned job = 0; job < options->jobs; job++) {
            for (size_t i = 0; i < config->scenario_count; i++) {
                kvg_pool_totals_add(&result->totals[i], &x.shares[job].totals[i]);
            }
            if (!failed && x.shares[job].failed) failed = &x.shares[job];
        }
        if (!s && failed) s = explain(&x, failed, result);
        munmap((void *)x.stop, x.bytes);
    }
    result->seconds = kvg_clock_seconds() - start;
    return s;
}

void kvg_pool_result_free(kvg_pool_result *result)
{
    free(result->totals);
    kvg_pool_trace_free(&result->trace);
    result->totals = NULL;
}

/* --- planted defects --- */

typedef struct hunt {
    const kvg_pool_config *config;
    const kvg_pool_options *options;
    kvg_pool_trial trial;
    kvg_status status;
    kvg_pool_catch found;
} hunt;

/* The next trace of one scenario. */
static kvg_status hunt_one(hunt *h, const kvg_pool_scenario *scenario, uint64_t number)
{
    kvg_pool_trace trace;
    kvg_pool_totals totals = {0};
    kvg_pool_verdict verdict = {0};
    kvg_status s = kvg_pool_generate(scenario, h->config->seed, number, &trace);
    if (!s) {
        s = scenario->faults ? kvg_pool_try_faults(&h->trial, &trace, &totals, &verdict)
                             : kvg_pool_try(&h->trial, &trace, &totals, &verdict);
    }
    kvg_pool_trace_free(&trace);
    h->found.traces++;
    h->found.operations += totals.operations;
    if (s || !verdict.failed) return s;
    h->found.caught = true;
    h->found.rule = verdict.rule;
    snprintf(h->found.scenario, sizeof h->found.scenario, "%s", scenario->name);
    memcpy(h->found.text, verdict.text, sizeof h->found.text);
    return KVG_OK;
}

/* A trace of each scenario in turn, until one catches it. */
static void hunt_all(void *context)
{
    hunt *h = context;
    bool more = true;
    for (uint64_t n = 0; more; n++) {
        more = false;
        for (size_t i = 0; i < h->config->scenario_count; i++) {
            if (n >= kvg_pool_trace_count(h->config, h->options, i)) continue;
            more = true;
            h->status = hunt_one(h, &h->config->scenarios[i], n);
            if (h->status || h->found.caught) return;
        }
    }
}

kvg_status kvg_pool_catch_defect(const kvg_pool_config *config, const kvg_pool_options *options,
                                 const kvg_pool_defect *defect, bool blind, kvg_pool_catch *out)
{
    hunt h = {.config = config, .options = options,
              .trial = {.backend = options->backend, .defect = defect, .blind = blind}};
    int death = 0;
    kvg_status s = kvg_child_answer(hunt_all, &h, &h, sizeof h, 0, &death);
    if (!s && death) { /* it kills: trace by trace then */
        h.trial.apart = true;
        hunt_all(&h);
    }
    *out = h.found;
    return s ? s : h.status;
}
