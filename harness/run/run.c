#define _POSIX_C_SOURCE 200809L
#include "harness/run/run.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/report/result_line.h"
#include "harness/run/run_child.h"
#include "harness/run/run_file.h"
#include "harness/run/run_log.h"
#include "harness/run/run_origin.h"
#include "support/child.h"
#include "support/clock.h"
#include "support/progress.h"
#include "support/version.h"

static volatile sig_atomic_t stop_signal;

static void on_stop(int number)
{
    stop_signal = number;
}

/* --- children --- */

/* A child and its share: positions `first`, `first + stride`, ... of the selection. */
typedef struct worker {
    kvg_child child;    /* its channel is closed once the child has closed it */
    size_t position;    /* of the case it runs or will run next */
    bool in_case;       /* it announced that case */
    bool probing;       /* it asks the case's device whether it answers */
    bool waiting;       /* the candidate has a call of that case; else the judge computes */
    bool opening;       /* it has not opened the backend yet */
    bool leaving;       /* it said that it ends: its device is broken for it, or its next case is not for it */
    const char *suspect; /* backend whose device is to be asked before its next case; NULL: none */
    run_log log;
    uint64_t logged;    /* bytes of the log before that case */
    double since;       /* when it did, or when the child started */
    char *text;         /* bytes of an unfinished message */
    size_t length, capacity;
} worker;

typedef struct run_state {
    const kvg_config *config;
    const kvg_run_options *options;
    const size_t *selection; /* case indices */
    size_t count, finished, logs;
    kvg_run_claims *claims; /* of each backend of the config */
    size_t backends;
    run_file file;
    kvg_run_summary *summary;
    worker *workers;
    kvg_run_loss *lost; /* of each position */
    kvg_verdict *of;    /* the same; KVG_VERDICT_COUNT: there is none yet */
    double start; /* kvg_clock_seconds */
    char bad_end[160]; /* how a child ended that had answered all; "": none did */
    unsigned again[KVG_OP_END]; /* failed cases of each op that were asked again */
    struct run_state *asks;     /* the run that asks a case again by this one; NULL: this is the run itself */
} run_state;

static const char device_lost[] = "the device was lost", not_opened[] = "its library could not be opened";

static const kvg_case *current_case(const run_state *state, const worker *w)
{
    return &state->config->cases[state->selection[w->position]];
}

static kvg_run_claims *claims_of(const run_state *state, const worker *w)
{
    kvg_run_claims *claims = state->claims;
    while (strcmp(claims->backend, current_case(state, w)->backend) != 0) claims++;
    return claims;
}

/* What a new child has to know. */
typedef struct birth {
    run_state *state;
    worker *w;
} birth;

static int be_child(void *context, int channel)
{
    const birth *b = context;
    run_state *state = b->state;
    const char *results = NULL; /* of the run itself */
    run_log_take_output(&b->w->log);
    for (const run_state *s = state; s; s = s->asks) {
        results = s->file.path;
        for (uint32_t i = 0; i < s->options->jobs; i++) {
            kvg_child_close(&s->workers[i].child);
            run_log_close(&s->workers[i].log);
        }
        if (s->file.fd >= 0) close(s->file.fd);
    }
    return kvg_run_child(&(kvg_run_share){
        .config = state->config, .options = state->options, .claims = claims_of(state, b->w),
        .selection = state->selection, .lost = state->lost, .count = state->count, .position = b->w->position,
        .fd = channel, .results = results,
        .suspect = b->w->suspect && strcmp(b->w->suspect, current_case(state, b->w)->backend) == 0});
}

/* A child of another backend has another log. */
static kvg_status choose_log(run_state *state, worker *w)
{
    const char *backend = current_case(state, w)->backend;
    if (w->log.backend && strcmp(w->log.backend, backend) == 0) return KVG_OK;
    kvg_status s = run_log_end(&w->log);
    return s ? s : run_log_open(state->options->out_folder, ++state->logs, backend, &w->log);
}

static kvg_status start_worker(run_state *state, worker *w)
{
    birth b = {state, w};
    const kvg_child_job job = {.work = be_child, .context = &b, .channel = KVG_CHANNEL_PIPE, .group = true};
    kvg_status s = choose_log(state, w);
    if (!s) s = kvg_child_start(&job, &w->child);
    if (s) return s;
    w->in_case = w->waiting = w->probing = w->leaving = false;
    w->opening = true;
    w->length = 0;
    w->since = kvg_clock_seconds();
    return KVG_OK;
}

static void case_done(run_state *state, worker *w, kvg_verdict verdict)
{
    state->summary->counts[verdict]++;
    state->finished++;
    state->of[w->position] = verdict;
    w->position += state->options->jobs;
    w->in_case = w->waiting = w->probing = false;
    w->since = kvg_clock_seconds();
}

static bool same_op(const kvg_case *a, const kvg_case *b)
{
    return a->guest == b->guest && a->problem.op == b->problem.op;
}

/* For the reason that the worker's case gave, no case of its backend will run; or none of its op there. */
static void lose(run_state *state, const worker *w, bool op_alone, kvg_verdict verdict, const char *why)
{
    const kvg_case *c = current_case(state, w);
    for (size_t i = 0; i < state->count; i++) {
        const kvg_case *other = &state->config->cases[state->selection[i]];
        if (state->lost[i].in || strcmp(other->backend, c->backend) != 0 || (op_alone && !same_op(other, c))) continue;
        state->lost[i] = (kvg_run_loss){c, verdict, why};
    }
}

/* A library that never opened would not open in the next process either. One that did may, up to three times. */
static void lose_unopened(run_state *state, const worker *w, kvg_verdict verdict)
{
    kvg_run_claims *claims = claims_of(state, w);
    if (claims->openings > 1) claims->openings--;
    else lose(state, w, false, verdict, not_opened);
}

/* Where three cases of an op hang, the others would, too, and each takes its time. */
static bool hangs_again(const run_state *state, const worker *w)
{
    const kvg_case *c = current_case(state, w);
    unsigned hung = 1;
    for (size_t i = 0; i < state->count; i++) {
        const kvg_case *other = &state->config->cases[state->selection[i]];
        hung += state->of[i] == KVG_VERDICT_HANG && strcmp(other->backend, c->backend) == 0 && same_op(other, c);
    }
    return hung >= 3;
}

/* A case that gave no result: the parent writes its line. */
static kvg_status record_loss(run_state *state, worker *w, kvg_verdict verdict, const char *detail)
{
    const kvg_case *c = current_case(state, w);
    char repro[KVG_REPRO_SIZE];
    run_log_tail tail;
    const double seconds = kvg_clock_seconds() - w->since;
    kvg_result r = {.verdict = verdict, .milliseconds = 1e3 * seconds, .seconds = seconds};
    kvg_case_repro(c, state->config->path, state->options->capabilities, NULL, repro, sizeof repro);
    snprintf(r.detail, sizeof r.detail, "%s", detail);
    if (w->in_case) run_log_read_tail(w->log.fd, w->logged, &tail, &r.printed);
    if (state->options->confinement == KVG_CONFINE_NOT) {
        snprintf(r.confinement, sizeof r.confinement, "%s", kvg_confinement_name(KVG_CONFINE_NOT));
    }
    r.slow = seconds > state->config->slow_seconds;
    kvg_status s = run_file_write(&state->file, kvg_result_line(c, &r, repro));
    case_done(state, w, verdict);
    return s;
}

/* The worker's next cases whose backend or op is lost get their verdict without a process. */
static kvg_status skip_lost(run_state *state, worker *w)
{
    kvg_status s = KVG_OK;
    while (!s && w->position < state->count && state->lost[w->position].in) {
        const kvg_run_loss *l = &state->lost[w->position];
        char detail[KVG_RESULT_TEXT];
        snprintf(detail, sizeof detail, "not run: %s in '%s'", l->why, l->in->id);
        w->since = kvg_clock_seconds();
        s = record_loss(state, w, l->verdict, detail);
    }
    return s;
}

static kvg_status step(run_state *state, size_t *alive);

/* How the worker's case, which failed behind that at position `before`, ends in a new process, alone or behind it. Few
 * cases of an op are asked again: an engine that is wrong everywhere is wrong alone, too. The children go on; that
 * nobody listens meanwhile does not count against them. */
static kvg_status ask_again(run_state *state, const worker *failed, size_t before, kvg_run_again *out)
{
    enum { MOST = 2 };
    const double start = kvg_clock_seconds();
    const size_t pair[] = {state->selection[before], state->selection[failed->position]};
    unsigned *asked = &state->again[current_case(state, failed)->problem.op];
    *out = KVG_RUN_FAILS_ALONE;
    if (state->asks || (*asked)++ >= MOST) return KVG_OK;
    kvg_run_options options = *state->options;
    kvg_status s = KVG_OK;
    options.jobs = 1;
    for (size_t count = 1; count <= 2 && !s && (count == 1 || *out != KVG_RUN_FAILS_ALONE); count++) {
        kvg_run_summary summary = {0};
        kvg_run_loss lost[2] = {{0}};
        kvg_verdict of[2] = {KVG_VERDICT_COUNT, KVG_VERDICT_COUNT};
        size_t alive = 1;
        worker w = {.child = KVG_NO_CHILD, .log = failed->log};
        run_state again = {.config = state->config, .options = &options, .selection = pair + 2 - count, .count = count,
                           .claims = state->claims, .backends = state->backends, .file.fd = -1, .summary = &summary,
                           .workers = &w, .lost = lost, .of = of, .asks = state};
        s = start_worker(&again, &w);
        while (!s && alive && !stop_signal) s = step(&again, &alive);
        kvg_child_kill(&w.child);
        free(w.text);
        const bool in_one = count == 1 || (of[0] < KVG_VERDICT_COUNT && kvg_verdict_judges(of[0]));
        if (stop_signal || !in_one) *out = KVG_RUN_FAILS_ALONE; /* nobody knows */
        else if (of[count - 1] == KVG_VERDICT_PASS) *out = count == 1 ? KVG_RUN_FAILS_BEHIND : KVG_RUN_PASSES;
    }
    for (uint32_t i = 0; i < state->options->jobs; i++) state->workers[i].since += kvg_clock_seconds() - start;
    return s;
}

/* `line`: the bytes behind the header. */
static kvg_status handle_message(run_state *state, worker *w, const kvg_run_header *message, const char *line)
{
    switch (message->kind) {
    case KVG_RUN_START: {
        w->since = kvg_clock_seconds();
        const kvg_case *c = current_case(state, w);
        char repro[KVG_REPRO_SIZE];
        w->in_case = true;
        w->logged = message->logged;
        kvg_case_repro(c, state->config->path, state->options->capabilities, NULL, repro, sizeof repro);
        return run_file_write(&state->file, kvg_result_start_line(c, repro));
    }
    case KVG_RUN_OPEN:
        w->opening = false;
        claims_of(state, w)->openings = 3;
        return KVG_OK;
    case KVG_RUN_WAIT:
    case KVG_RUN_JUDGE:
        w->since = kvg_clock_seconds();
        w->waiting = message->kind == KVG_RUN_WAIT;
        return KVG_OK;
    case KVG_RUN_PROBE:
    case KVG_RUN_ALIVE:
        w->since = kvg_clock_seconds();
        w->probing = message->kind == KVG_RUN_PROBE;
        if (!w->probing) w->suspect = NULL;
        return KVG_OK;
    case KVG_RUN_LEAVE:
        w->since = kvg_clock_seconds();
        w->leaving = true;
        return KVG_OK;
    case KVG_RUN_BROKEN:
    case KVG_RUN_LOST: w->leaving = true; break;
    case KVG_RUN_RESULT: w->leaving = false; break;
    }
    if (message->kind == KVG_RUN_BROKEN) w->suspect = current_case(state, w)->backend;
    if (message->length == 0 || message->verdict >= KVG_VERDICT_COUNT) {
        return record_loss(state, w, KVG_VERDICT_ERROR, "the child sent no result");
    }
    if (message->kind == KVG_RUN_LOST) {
        if (message->verdict == KVG_VERDICT_DEVICE_LOST) lose(state, w, false, message->verdict, device_lost);
        else lose_unopened(state, w, message->verdict);
    }
    kvg_run_again again = KVG_RUN_FAILS_ALONE;
    const bool asks = memchr(line, '\n', message->length) != NULL;
    kvg_status s = asks ? ask_again(state, w, message->before, &again) : KVG_OK;
    const kvg_status written = run_file_write(&state->file, kvg_run_child_line(line, message->length, again));
    case_done(state, w, message->verdict);
    return s ? s : written;
}

/* Takes what the pipe holds; *closed if the child closed it. */
static kvg_status read_worker(run_state *state, worker *w, bool *closed)
{
    if (w->length + 4096 > w->capacity) {
        char *grown = realloc(w->text, w->capacity + 65536);
        if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a result line");
        w->text = grown;
        w->capacity += 65536;
    }
    const ssize_t n = read(w->child.channel, w->text + w->length, w->capacity - w->length);
    if (n < 0 && errno == EINTR) return KVG_OK;
    *closed = n <= 0;
    if (*closed) return KVG_OK;
    w->length += (size_t)n;
    kvg_status s = KVG_OK;
    kvg_run_header message;
    size_t at = 0;
    while (!s && w->length - at >= sizeof message) {
        memcpy(&message, w->text + at, sizeof message);
        if (w->length - at - sizeof message < message.length) break; /* the rest is to come */
        s = handle_message(state, w, &message, w->text + at + sizeof message);
        at += sizeof message + message.length;
    }
    w->length -= at;
    memmove(w->text, w->text + at, w->length);
    return s;
}

/* Blames the case that the child had announced. */
static kvg_status blame(run_state *state, worker *w, const char *detail, bool hang)
{
    char lost[256];
    if (!w->probing) {
        w->suspect = current_case(state, w)->backend;
        const kvg_verdict verdict = hang ? KVG_VERDICT_HANG : w->in_case ? KVG_VERDICT_CRASH : KVG_VERDICT_ERROR;
        if (hang && w->opening) lose_unopened(state, w, verdict);
        else if (hang && hangs_again(state, w)) lose(state, w, true, verdict, "three cases of its op hung, the last");
        return record_loss(state, w, verdict, detail);
    }
    lose(state, w, false, KVG_VERDICT_DEVICE_LOST, device_lost);
    snprintf(lost, sizeof lost, "the device does not answer: %s", detail);
    return record_loss(state, w, KVG_VERDICT_DEVICE_LOST, lost);
}

/* The child is gone: start another for what is left. */
static kvg_status child_ended(run_state *state, worker *w, int wait_status, const char *hang)
{
    char detail[160];
    kvg_status s = KVG_OK;
    kvg_child_describe(wait_status, detail, sizeof detail);
    if (stop_signal) return KVG_OK;
    if (w->leaving) {
        /* its result is there */
    } else if (w->position < state->count) {
        s = blame(state, w, hang ? hang : detail, hang != NULL);
    } else if (wait_status) { /* all done: a memory checker or a destructor may have the last word */
        memcpy(state->bad_end, detail, sizeof detail);
    }
    if (!s) s = skip_lost(state, w);
    if (!s && w->position < state->count) s = start_worker(state, w);
    return s;
}

/* The judge of a large case may compute for long, and it does so alone. */
static double patience(const run_state *state, const worker *w)
{
    enum { JUDGE = 60 };
    return (w->in_case && !w->waiting ? JUDGE : 1) * state->config->hang_seconds;
}

/* Kills a child that is over its budget, and takes note of one that ended. A child that closed its pipe may live on, so
 * it is never waited for without a deadline. */
static kvg_status watch_worker(run_state *state, worker *w)
{
    int wait_status = 0;
    const bool silent = w->child.channel < 0;
    if (silent && kvg_child_over(&w->child, &wait_status)) return child_ended(state, w, wait_status, NULL);
    if (!w->in_case && !w->leaving && !silent) return KVG_OK;
    if (kvg_clock_seconds() - w->since <= patience(state, w)) return KVG_OK;
    char detail[96];
    snprintf(detail, sizeof detail, "no result after %g s: killed", patience(state, w));
    return child_ended(state, w, kvg_child_kill(&w->child), detail);
}

static void stop_workers(run_state *state)
{
    for (uint32_t i = 0; i < state->options->jobs; i++) {
        kvg_child_kill(&state->workers[i].child);
        free(state->workers[i].text);
    }
}

/* Of the cases under way, the one that has taken longest is named. */
static void show_progress(const run_state *state)
{
    const worker *slowest = NULL;
    size_t failed = 0;
    if (state->asks) return;
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        if (kvg_verdict_fails((kvg_verdict)i)) failed += state->summary->counts[i];
    }
    for (uint32_t i = 0; i < state->options->jobs; i++) {
        const worker *w = &state->workers[i];
        if (w->position < state->count && (!slowest || w->since < slowest->since)) slowest = w;
    }
    kvg_progress_at(state->finished, failed, slowest ? current_case(state, slowest)->id : "",
                    slowest ? slowest->since : 0);
}

/* Waits for news of any child, at most 50 ms, and handles it. */
static kvg_status step(run_state *state, size_t *alive)
{
    const kvg_child *children[KVG_MAX_JOBS];
    worker *polled[KVG_MAX_JOBS];
    bool ready[KVG_MAX_JOBS];
    size_t n = 0;
    for (uint32_t i = 0; i < state->options->jobs; i++) {
        if (!state->workers[i].child.id) continue;
        children[n] = &state->workers[i].child;
        polled[n++] = &state->workers[i];
    }
    *alive = n;
    if (n == 0) return KVG_OK;
    kvg_status s = kvg_child_poll(children, n, 50, ready);
    bool news = false;
    for (size_t i = 0; !s && i < n; i++) {
        worker *w = polled[i];
        bool closed = false;
        if (ready[i]) s = read_worker(state, w, &closed);
        if (closed) kvg_child_close(&w->child);
        run_log_limit(&w->log);
        if (!s) s = watch_worker(state, w);
        news |= ready[i];
    }
    if (news) show_progress(state);
    return s;
}

static kvg_status run_all(run_state *state)
{
    kvg_status s = KVG_OK;
    size_t alive = 1;
    for (uint32_t i = 0; i < state->options->jobs; i++) state->workers[i].child = KVG_NO_CHILD;
    if (state->options->confinement != KVG_CONFINE_NOT) kvg_confine_own_memory();
    kvg_child_adopt();
    for (uint32_t i = 0; !s && i < state->options->jobs; i++) {
        state->workers[i].position = i;
        if (i < state->count) s = start_worker(state, &state->workers[i]);
    }
    while (!s && alive && !stop_signal) s = step(state, &alive);
    if (!s && state->bad_end[0]) s = kvg_fail(KVG_ERR_IO, "a child ended badly behind all cases: %s", state->bad_end);
    stop_workers(state);
    if (!kvg_child_end_adopted() && !s) s = kvg_fail(KVG_ERR_IO, "a process that a candidate started does not end");
    for (uint32_t i = 0; i < state->options->jobs; i++) {
        const kvg_status ended = run_log_end(&state->workers[i].log);
        if (!s) s = ended;
    }
    return s;
}

bool kvg_run_selects(const kvg_run_options *o, const kvg_case *c)
{
    const bool is_first = o->after && strcmp(c->id, o->after) == 0;
    if (o->only_case && !is_first && strcmp(c->id, o->only_case) != 0) return false;
    return kvg_case_shard(c, o->shards) == o->shard;
}

static kvg_status select_cases(const kvg_config *config, const kvg_run_options *o, size_t *selection, size_t *count)
{
    const kvg_case *only, *first;
    kvg_status s = o->only_case ? kvg_config_find(config, o->only_case, &only) : KVG_OK;
    *count = 0;
    if (!s && o->after) {
        s = kvg_config_find(config, o->after, &first);
        if (s) return s;
        if (first == only || strcmp(first->backend, only->backend) != 0) {
            return kvg_fail(KVG_ERR_INVALID, "--after %s: name another case of the same implementation", o->after);
        }
        selection[(*count)++] = (size_t)(first - config->cases);
        selection[(*count)++] = (size_t)(only - config->cases);
        return KVG_OK;
    }
    for (size_t i = 0; !s && i < config->case_count; i++) {
        if (kvg_run_selects(o, &config->cases[i])) selection[(*count)++] = i;
    }
    if (s || *count || !o->only_case) return s;
    return kvg_fail(KVG_ERR_INVALID, "%s: case %s is not in shard %u of %u", config->path, o->only_case, o->shard + 1,
                    o->shards);
}

static kvg_status write_end(run_state *state, double seconds)
{
    char scale[KVG_CASE_SCALE_SIZE]; /* no part of a cell */
    kvg_result_asked *asked = calloc(state->count + 1, sizeof *asked);
    kvg_cell *cells = calloc(state->count + 1, sizeof *cells);
    kvg_status s = asked && cells ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot count cells of %zu cases", state->count);
    for (size_t i = 0; !s && i < state->count; i++) {
        const kvg_verdict verdict = state->of[i];
        asked[i] = kvg_result_ask(&state->config->cases[state->selection[i]], scale);
        cells[i] = (kvg_cell){.asked = &asked[i], .judged = verdict < KVG_VERDICT_COUNT && kvg_verdict_judges(verdict)};
    }
    if (!s) {
        const size_t count = kvg_cells_merge(cells, state->count);
        const kvg_run_summary *all = state->summary;
        s = run_file_write(&state->file, kvg_result_end_line(all->interrupted, seconds, all->counts, cells, count));
    }
    free(asked);
    free(cells);
    return s;
}

static kvg_status run_selection(run_state *state)
{
    char shard[32];
    run_origin origin;
    const kvg_config *config = state->config;
    state->start = kvg_clock_seconds();
    snprintf(shard, sizeof shard, "%u/%u", state->options->shard + 1, state->options->shards);
    kvg_status s = run_file_open(state->options->out_folder, &state->file);
    if (s) return s;
    s = run_origin_find(config, state->options, state->claims, state->backends, &origin);
    const kvg_result_run run = {
        .version = KVG_VERSION,
        .config = config->path,
        .name = config->name,
        .shard = shard,
        .seed = config->seed,
        .public_seed = config->public_seed,
        .cases = state->count,
        .config_cases = config->case_count,
        .origins = &origin.origin,
        .origin_count = 1,
    };
    if (!s) s = run_file_write(&state->file, kvg_result_run_line(&run));
    run_origin_free(&origin);
    kvg_progress_begin("check", state->count, "cases");
    if (!s) s = run_all(state);
    kvg_progress_end();
    state->summary->interrupted = stop_signal != 0;
    if (!s) s = write_end(state, kvg_clock_seconds() - state->start);
    if (close(state->file.fd) != 0 && !s)
        s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", state->file.path, strerror(errno));
    kvg_sha256_end(&state->file.sum, &state->summary->digest);
    return s;
}

kvg_status kvg_run(const kvg_config *config, const kvg_run_options *options, kvg_run_summary *summary)
{
    *summary = (kvg_run_summary){0};
    size_t *selection = calloc(config->case_count, sizeof *selection);
    worker *workers = calloc(options->jobs, sizeof *workers);
    kvg_run_loss *lost = calloc(config->case_count, sizeof *lost);
    kvg_verdict *of = calloc(config->case_count, sizeof *of);
    run_state state = {.config = config,
                       .options = options,
                       .selection = selection,
                       .summary = summary,
                       .workers = workers,
                       .lost = lost,
                       .of = of};
    kvg_status s = selection && workers && lost && of
                       ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu cases", config->case_count);
    for (size_t i = 0; !s && i < config->case_count; i++) of[i] = KVG_VERDICT_COUNT;
    if (!s) s = select_cases(config, options, selection, &state.count);
    if (!s) s = kvg_run_claims_read(config, options->capabilities, &state.claims, &state.backends);
    summary->cases = state.count;
    if (!s) {
        struct sigaction action = {.sa_handler = on_stop}, old_int, old_term, old_pipe;
        struct sigaction ignore = {.sa_handler = SIG_IGN};
        sigaction(SIGINT, &action, &old_int);
        sigaction(SIGTERM, &action, &old_term);
        sigaction(SIGPIPE, &ignore, &old_pipe);
        stop_signal = 0;
        s = run_selection(&state);
        sigaction(SIGINT, &old_int, NULL);
        sigaction(SIGTERM, &old_term, NULL);
        sigaction(SIGPIPE, &old_pipe, NULL);
    }
    free(selection);
    free(workers);
    free(lost);
    free(of);
    kvg_run_claims_free(state.claims, state.backends);
    return s;
}
