#include "harness/bench/device_bench.h"

#include <stdlib.h>
#include <string.h>

#include "harness/bench/device_case.h"
#include "support/apart.h"
#include "support/clock.h"

/* --- one case --- */

static int by_time(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

kvg_device_times kvg_device_times_of(float *ms, uint32_t runs)
{
    kvg_device_times t = {.runs = runs};
    if (runs == 0) return t;
    qsort(ms, runs, sizeof *ms, by_time);
    const double to_us = 1e3;
    t.least = to_us * (double)ms[0];
    t.lower = to_us * (double)ms[runs / 4];
    t.median = to_us * (double)ms[runs / 2];
    t.upper = to_us * (double)ms[runs - 1 - runs / 4];
    t.most = to_us * (double)ms[runs - 1];
    return t;
}

kvg_verdict kvg_device_verdict_of(kvg_status s)
{
    return s == KVG_ERR_UNIMPLEMENTED ? KVG_VERDICT_UNIMPLEMENTED
           : s == KVG_ERR_DEVICE_LOST ? KVG_VERDICT_DEVICE_LOST
           : s == KVG_ERR_DEVICE      ? KVG_VERDICT_CRASH
                                      : KVG_VERDICT_ERROR;
}

static void give_up(kvg_device_measurement *m, kvg_status s)
{
    m->outcome = KVG_DEVICE_NOT_TIMED;
    m->verdict = kvg_device_verdict_of(s);
    snprintf(m->detail, sizeof m->detail, "%s", kvg_error_text());
}

/* The outputs as they are: a sample against the reference. Sets the verdict. */
static kvg_status judge(const kvg_device_case *d, kvg_device_measurement *m)
{
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    kvg_status s = kvg_device_judge(d, &r);
    if (s) return s;
    m->verdict = r.verdict;
    m->checked = r.bytes.compared;
    memcpy(m->detail, r.detail, sizeof m->detail);
    return KVG_OK;
}

static void fail(kvg_device_measurement *m, const char *why)
{
    m->verdict = KVG_VERDICT_FAIL;
    snprintf(m->detail, sizeof m->detail, "%s", why);
}

/* Fewer runs where one takes long. */
static uint32_t runs_for(const kvg_device_options *o, uint64_t bytes)
{
    const uint64_t long_run = 8ull << 30;
    return bytes > long_run && o->runs > 5 ? o->runs / 2 : o->runs;
}

/* What the outputs and the inputs hold. */
typedef struct contents {
    uint64_t outputs, inputs;
} contents;

static kvg_status look(const kvg_device_case *d, contents *out)
{
    kvg_status s = d->device->checksum(d->out, kvg_roles_tensors(d->op->outputs), &out->outputs);
    return s ? s : d->device->checksum(d->in, kvg_roles_tensors(d->op->inputs), &out->inputs);
}

/* The first answer is judged; every byte of the timed ones, and of the inputs, is compared with what was there then. */
static kvg_status time_case(kvg_device_case *d, const kvg_device_options *o, kvg_device_measurement *m)
{
    kvg_bench_job job;
    kvg_bench_result *result = calloc(1, sizeof *result);
    contents judged = {0, 0}, timed = {0, 0};
    uint64_t as_graph = 0;
    if (!result) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the times of a case");
    kvg_device_case_job(d, &job);
    m->writes = job.writes;
    for (int i = 0; i < KVG_BENCH_PARTS; i++) m->reads += job.reads[i].bytes;
    for (size_t i = 0; i < kvg_roles_tensors(d->op->outputs); i++) m->outputs += d->out[i].bytes;
    job.quick = o->quick;
    job.runs = runs_for(o, m->reads + m->writes);
    kvg_status s = d->device->run(&job);
    if (!s) s = judge(d, m);
    if (!s && m->verdict == KVG_VERDICT_PASS) {
        s = look(d, &judged);
        if (!s) s = d->device->time(&job, result, &as_graph);
        if (!s) s = look(d, &timed);
        if (!s && timed.outputs != judged.outputs) fail(m, "a timed run gave other bytes than the first run");
        else if (!s && as_graph != judged.outputs) fail(m, "the op as a graph gave other bytes than the first run");
        else if (!s && timed.inputs != judged.inputs) fail(m, "a timed run wrote an input");
    }
    if (!s && m->verdict == KVG_VERDICT_PASS) {
        m->outcome = KVG_DEVICE_TIMED;
        for (int i = 0; i < KVG_BENCH_SERIES; i++) m->times[i] = kvg_device_times_of(result->ms[i], result->runs[i]);
        memcpy(m->plain, result->plain, sizeof m->plain);
        m->clock = result->clock;
    }
    free(result);
    return s;
}

void kvg_device_measure(const kvg_case *c, const kvg_bench_device *device, const kvg_bench_info *info,
                        const kvg_device_options *o, kvg_device_measurement *out)
{
    const double start = kvg_clock_seconds();
    kvg_problem p;
    *out = (kvg_device_measurement){.outcome = KVG_DEVICE_NOT_TIMED, .verdict = KVG_VERDICT_ERROR, .info = *info};
    kvg_status s = kvg_device_case_problem(c, device, info->sm, &p);
    size_t workspace = 0;
    if (!s) s = device->workspace(&p, &workspace);
    if (!s) s = device->room(&out->room);
    if (!s) {
        out->profile = p.profile;
        out->needs = kvg_device_case_bytes(&p) + workspace;
        if (out->needs > out->room) {
            out->outcome = KVG_DEVICE_DOES_NOT_FIT;
            out->most_sequences = kvg_device_case_most(c, out->room - (workspace < out->room ? workspace : out->room));
            return;
        }
        kvg_device_case *d = calloc(1, sizeof *d);
        s = d ? kvg_device_case_make(c, &p, device, d) : kvg_fail(KVG_ERR_MEMORY, "cannot hold a case");
        if (!s) s = time_case(d, o, out);
        if (d) kvg_device_case_free(d);
        free(d);
    }
    if (s) give_up(out, s);
    out->seconds = kvg_clock_seconds() - start;
}

/* --- all cases --- */

typedef struct bench {
    const kvg_case *const *cases;
    const kvg_bench_device *device;
    const kvg_device_options *options;
    kvg_device_report_fn *report;
    void *context;
    kvg_bench_info info;
} bench;

static kvg_status open_device(void *context)
{
    bench *b = context;
    return b->device->open(&b->info);
}

static bool measure_case(void *context, size_t item, void *answer)
{
    const bench *b = context;
    kvg_device_measurement *m = answer;
    kvg_device_measure(b->cases[item], b->device, &b->info, b->options, m);
    return m->outcome != KVG_DEVICE_NOT_TIMED || m->verdict == KVG_VERDICT_FAIL ||
           m->verdict == KVG_VERDICT_UNIMPLEMENTED;
}

static void report_case(void *context, size_t item, const void *answer)
{
    const bench *b = context;
    b->report(b->cases[item], answer, b->context);
}

static void report_lost(void *context, size_t item, kvg_verdict verdict, const char *why)
{
    kvg_device_measurement m = {.outcome = KVG_DEVICE_NOT_TIMED, .verdict = verdict};
    snprintf(m.detail, sizeof m.detail, "%s", why);
    report_case(context, item, &m);
}

kvg_status kvg_device_bench(const kvg_case *const *cases, size_t count, const kvg_bench_device *device, double patience,
                            const kvg_device_options *o, kvg_device_report_fn *report, void *context)
{
    bench b = {.cases = cases, .device = device, .options = o, .report = report, .context = context};
    const kvg_apart job = {.context = &b, .count = count, .answer_bytes = sizeof(kvg_device_measurement),
                           .patience = patience, .open = open_device, .work = measure_case, .report = report_case,
                           .lost = report_lost};
    return kvg_apart_run(&job);
}
