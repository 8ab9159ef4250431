#include "harness/device_bench.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/clock.h"
#include "harness/device_case.h"

/* --- one case --- */

static int by_time(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static kvg_device_times times_of(float *ms, uint32_t runs)
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

static void give_up(kvg_device_measurement *m, kvg_status s)
{
    m->outcome = KVG_DEVICE_NOT_TIMED;
    m->verdict = s == KVG_ERR_UNIMPLEMENTED ? KVG_VERDICT_UNIMPLEMENTED
                 : s == KVG_ERR_DEVICE_LOST ? KVG_VERDICT_DEVICE_LOST
                 : s == KVG_ERR_DEVICE      ? KVG_VERDICT_CRASH
                                            : KVG_VERDICT_ERROR;
    snprintf(m->detail, sizeof m->detail, "%s", kvg_error_text());
}

/* The outputs as they are: a sample against the reference. Sets the verdict. */
static kvg_status judge(const kvg_device_case *d, kvg_device_measurement *m)
{
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    kvg_status s = kvg_device_judge(d, &r);
    if (s) return s;
    m->verdict = r.verdict;
    m->checked = r.compared_bytes;
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
        for (int i = 0; i < KVG_BENCH_SERIES; i++) m->times[i] = times_of(result->ms[i], result->runs[i]);
        memcpy(m->plain, result->plain, sizeof m->plain);
        m->clock_mhz = result->clock_mhz;
        m->driver_knows = result->driver_knows;
        m->driver_mhz = result->driver_mhz;
        m->power_mw = result->power_mw;
        m->throttle = result->throttle;
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

/* --- processes --- */

/* What a process says first, then after each case. */
typedef struct message {
    kvg_status opened;
    bool last; /* the process ends: nobody knows what state the device is in, so the next case gets a new one */
    kvg_device_measurement m;
} message;

static void work(const kvg_case *const *cases, size_t count, const kvg_bench_device *device,
                 const kvg_device_options *o, int to)
{
    static message out;
    kvg_bench_info info;
    out.opened = device->open(&info);
    if (out.opened) snprintf(out.m.detail, sizeof out.m.detail, "%s", kvg_error_text());
    out.last = out.opened != KVG_OK;
    bool sent = write(to, &out, sizeof out) == (ssize_t)sizeof out;
    for (size_t i = 0; i < count && sent && !out.last; i++) {
        kvg_device_measure(cases[i], device, &info, o, &out.m);
        out.last = out.m.outcome == KVG_DEVICE_NOT_TIMED && out.m.verdict != KVG_VERDICT_FAIL &&
                   out.m.verdict != KVG_VERDICT_UNIMPLEMENTED;
        sent = write(to, &out, sizeof out) == (ssize_t)sizeof out;
    }
    _exit(sent ? 0 : 3);
}

enum reception { CAME, ENDED, TOO_LATE };

/* A whole message, or the reason why there is none. */
static enum reception receive(int from, double seconds, message *out)
{
    size_t got = 0;
    while (got < sizeof *out) {
        struct pollfd wait = {.fd = from, .events = POLLIN};
        const int ready = poll(&wait, 1, (int)(seconds * 1e3));
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return TOO_LATE;
        const ssize_t n = read(from, (char *)out + got, sizeof *out - got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return ENDED;
        got += (size_t)n;
    }
    return CAME;
}

typedef struct worker {
    pid_t pid;
    int from;
} worker;

static kvg_status start(const kvg_case *const *cases, size_t count, const kvg_bench_device *device,
                        const kvg_device_options *o, worker *w)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0) return kvg_fail(KVG_ERR_IO, "cannot make a pipe");
    w->pid = fork();
    if (w->pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return kvg_fail(KVG_ERR_IO, "cannot start a process");
    }
    if (w->pid == 0) {
        close(ends[0]);
        work(cases, count, device, o, ends[1]);
    }
    close(ends[1]);
    w->from = ends[0];
    return KVG_OK;
}

static int stop(worker *w)
{
    int status = 0;
    kill(w->pid, SIGKILL);
    close(w->from);
    while (waitpid(w->pid, &status, 0) < 0 && errno == EINTR) {}
    return status;
}

static void describe_end(enum reception reason, double patience, int status, kvg_device_measurement *m)
{
    *m = (kvg_device_measurement){.outcome = KVG_DEVICE_NOT_TIMED, .verdict = KVG_VERDICT_CRASH};
    snprintf(m->detail, sizeof m->detail, "the process ended with wait status 0x%x", (unsigned)status);
    if (reason != TOO_LATE) return;
    m->verdict = KVG_VERDICT_HANG;
    snprintf(m->detail, sizeof m->detail, "no result after %g s", patience);
}

/* Cases that nobody can time any more; the reason is that of the last failure. */
static void report_lost(const kvg_case *const *cases, size_t count, kvg_device_report_fn *report, void *context)
{
    kvg_device_measurement m = {.outcome = KVG_DEVICE_NOT_TIMED, .verdict = KVG_VERDICT_DEVICE_LOST};
    snprintf(m.detail, sizeof m.detail, "not run: %s", kvg_error_text());
    for (size_t i = 0; i < count; i++) report(cases[i], &m, context);
}

kvg_status kvg_device_bench(const kvg_case *const *cases, size_t count, const kvg_bench_device *device, double patience,
                            const kvg_device_options *o, kvg_device_report_fn *report, void *context)
{
    static message in;
    for (size_t done = 0; done < count;) {
        worker w = {0};
        kvg_status s = start(cases + done, count - done, device, o, &w);
        if (s) return s;
        enum reception reason = receive(w.from, patience, &in);
        if (reason != CAME) s = kvg_fail(KVG_ERR_IO, "the device of backend %s does not open", device->backend);
        else if (in.opened) s = kvg_fail(in.opened, "%s", in.m.detail);
        while (!s && done < count && !in.last && (reason = receive(w.from, patience, &in)) == CAME) {
            report(cases[done++], &in.m, context);
        }
        const int status = stop(&w);
        if (s && done == 0) return s;
        if (s) { /* the case before took the device with it: what was measured stays */
            report_lost(cases + done, count - done, report, context);
            return KVG_OK;
        }
        if (reason == CAME) continue;
        describe_end(reason, patience, status, &in.m);
        report(cases[done++], &in.m, context);
    }
    return KVG_OK;
}
