#define _DEFAULT_SOURCE
#include "harness/run/run_child.h"

#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/case/guest.h"
#include "harness/report/result_line.h"
#include "harness/run/backends.h"
#include "harness/run/run_log.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/question/fill.h"
#include "support/child.h"
#include "support/clock.h"

kvg_status kvg_run_claims_read(const kvg_config *config, const char *capabilities, kvg_run_claims **out, size_t *count)
{
    for (size_t i = 0; i < config->case_count; i++) {
        const char *backend = config->cases[i].backend;
        size_t k = 0;
        while (k < *count && strcmp((*out)[k].backend, backend) != 0) k++;
        if (k < *count) continue;
        kvg_run_claims *all = realloc(*out, (k + 1) * sizeof *all);
        if (!all) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the claims of %zu backends", k + 1);
        *out = all;
        all[(*count)++] = (kvg_run_claims){.backend = backend, .openings = 1};
        if (kvg_capabilities_find(backend, capabilities, &all[k].capabilities)) {
            snprintf(all[k].why, sizeof all[k].why, "%s", kvg_error_text());
        }
    }
    return KVG_OK;
}

void kvg_run_claims_free(kvg_run_claims *claims, size_t count)
{
    for (size_t i = 0; i < count; i++) kvg_capabilities_close(claims[i].capabilities);
    free(claims);
}

static void send_message(int fd, kvg_run_header header, const char *line)
{
    header.length = strlen(line);
    char *message = malloc(sizeof header + header.length);
    if (!message) _exit(3);
    memcpy(message, &header, sizeof header);
    memcpy(message + sizeof header, line, header.length);
    if (!kvg_child_send(fd, message, sizeof header + header.length)) _exit(3); /* the parent is gone */
    free(message);
}

static void send_word(int fd, kvg_run_message kind)
{
    send_message(fd, (kvg_run_header){.kind = kind}, "");
}

/* A child's candidate: one process, one backend. */
typedef struct session {
    kvg_candidate *candidate;
    kvg_candidate_facts facts;
    const kvg_run_claims *claims;
    bool tried;                        /* to open the backend */
    char why[KVG_CANDIDATE_TEXT_SIZE]; /* why it cannot be had; "": it is open */
    bool suspect;                      /* its device is to be asked first */
    const kvg_case *now;               /* the case that is asked */
    const kvg_case *before;            /* what was asked before; NULL: nothing */
    size_t before_at;                  /* its position */
    const kvg_guest *guest;            /* NULL before its first case, which opens its session */
    void *guest_session;
} session;

/* Opens the backend at the first case. False, and a verdict, if it cannot be had. */
static bool backend_opens(session *a, const kvg_run_share *share, const kvg_case *c, kvg_result *r)
{
    if (!a->tried) {
        a->tried = true;
        memcpy(a->why, a->claims->why, sizeof a->why);
        const kvg_status s = a->why[0] ? KVG_OK : kvg_candidate_open(a->candidate, c->backend, &a->facts);
        if (s == KVG_ERR_DEVICE) {
            r->verdict = KVG_VERDICT_CRASH;
            snprintf(r->detail, sizeof r->detail, "while its library was opened: %s", kvg_error_text());
            return false;
        }
        if (s) snprintf(a->why, sizeof a->why, "%s", kvg_error_text());
        send_word(share->fd, KVG_RUN_OPEN);
    }
    if (!a->why[0]) return true;
    r->verdict = KVG_VERDICT_ERROR;
    snprintf(r->detail, sizeof r->detail, "%s", a->why);
    return false;
}

/* What is claimed must be done. */
static void blame_claim(const session *a, kvg_result *r)
{
    char text[KVG_RESULT_TEXT];
    if (!a->claims->capabilities || r->verdict != KVG_VERDICT_UNIMPLEMENTED) return;
    memcpy(text, r->detail, sizeof text);
    snprintf(r->detail, sizeof r->detail, "claimed in %.200s, but: %.400s",
             kvg_capabilities_path(a->claims->capabilities), text);
}

/* False if the device of a suspected backend does not answer. */
static bool device_answers(session *a, int fd, kvg_result *r)
{
    if (!a->suspect || !a->facts.has_ready) return true;
    a->suspect = false;
    send_word(fd, KVG_RUN_PROBE);
    if (kvg_candidate_ready(a->candidate)) {
        r->verdict = KVG_VERDICT_DEVICE_LOST;
        snprintf(r->detail, sizeof r->detail, "the device does not answer: %s", kvg_error_text());
        return false;
    }
    send_word(fd, KVG_RUN_ALIVE);
    return true;
}

static void tell_waiting(const void *context, bool waiting)
{
    const kvg_run_share *share = context;
    send_word(share->fd, waiting ? KVG_RUN_WAIT : KVG_RUN_JUDGE);
}

/* Of the case that is asked, with another problem. */
static bool claims(const void *context, const kvg_problem *problem)
{
    const session *a = context;
    kvg_case c = *a->now;
    kvg_result r;
    c.problem = *problem;
    return kvg_capabilities_claim(a->claims->capabilities, &c, a->facts.sm, &r);
}

/* The one place that chooses who judges: the judge of ops, or a guest. */
static void check_case(session *a, const kvg_case *c, kvg_result *r)
{
    if (!c->guest) {
        kvg_case asked = *c;
        const kvg_capabilities *claimed = a->claims->capabilities;
        if (claimed) asked.findings = c->invariant & ~kvg_capabilities_invariant(claimed, c, a->facts.sm);
        kvg_check_case(&asked, a->candidate, r);
    } else if (!a->guest && c->guest->open(&a->guest_session)) {
        r->verdict = KVG_VERDICT_ERROR;
        snprintf(r->detail, sizeof r->detail, "%s", kvg_error_text());
    } else {
        assert(!a->guest || a->guest == c->guest); /* there is one */
        a->guest = c->guest;
        a->guest->check(a->guest_session, c, a->candidate, r);
    }
}

/* The line of a case and, if it failed where it may be asked again, its other lines. A crash may have cost a device: it
 * is not repeated where there may be one. */
static void write_lines(const session *a, const kvg_run_share *share, const kvg_result *r, kvg_json_text *out)
{
    static const char *const says[KVG_RUN_AGAINS] = {
        [KVG_RUN_FAILS_BEHIND] = "alone it passes: it depends on the case before",
        [KVG_RUN_PASSES] = "alone it passes, and behind the case before: it depends on earlier cases, or on chance",
    };
    const bool broken = r->lost || r->verdict == KVG_VERDICT_CRASH;
    const bool device = r->lost == KVG_ERR_DEVICE_LOST || (a->facts.has_ready && broken);
    const bool failed = (r->verdict == KVG_VERDICT_FAIL || r->verdict == KVG_VERDICT_CRASH) && !device;
    const bool behind = a->before && share->options->after, again = failed && a->before && !behind && !a->now->guest;
    const kvg_case drawn = kvg_fill_draw(a->now, r->verdict == KVG_VERDICT_MISTRUSTED ? 0 : r->redraws);
    for (int i = 0; i < (again ? KVG_RUN_AGAINS : 1); i++) {
        char repro[KVG_REPRO_SIZE];
        kvg_result said = *r;
        const bool both = behind || i == KVG_RUN_FAILS_BEHIND; /* then each is drawn again as it was */
        if (says[i]) {
            said.detail[sizeof said.detail - strlen(says[i]) - sizeof "; "] = 0; /* it must have room */
            kvg_result_add(&said, "%s", says[i]);
        }
        kvg_case_repro(both ? a->now : &drawn, share->config->path, share->options->capabilities,
                       both ? a->before->id : NULL, repro, sizeof repro);
        char *line = kvg_result_line(a->now, &said, repro);
        kvg_json_add(out, "%s%s", i ? "\n" : "", line ? line : "");
        free(line);
    }
}

/* A copy of the line for that outcome, of the lines in a message. */
char *kvg_run_child_line(const char *lines, size_t size, kvg_run_again outcome)
{
    const char *end = lines + size, *newline = memchr(lines, '\n', size);
    for (int i = 0; i < (int)outcome; i++) {
        lines = newline + 1;
        newline = memchr(lines, '\n', (size_t)(end - lines));
    }
    const size_t length = (size_t)((newline ? newline : end) - lines);
    char *line = malloc(length + 1);
    if (line) memcpy(line, lines, length);
    if (line) line[length] = 0;
    return line;
}

static const kvg_case *case_at(const kvg_run_share *share, size_t position)
{
    return &share->config->cases[share->selection[position]];
}

/* Runs the case at a position and sends its result; false if this process cannot go on. */
static bool run_one(const kvg_run_share *share, size_t position, session *a)
{
    const kvg_case *c = case_at(share, position);
    run_log_tail tail;
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    const uint64_t logged = run_log_size(STDERR_FILENO);
    send_message(share->fd, (kvg_run_header){.kind = KVG_RUN_START, .logged = logged}, "");
    const double start = kvg_clock_seconds();
    bool lost = false;
    a->now = c;
    if (!backend_opens(a, share, c, &r)) {
        lost = r.verdict == KVG_VERDICT_CRASH;
    } else if (kvg_capabilities_claim(a->claims->capabilities, c, a->facts.sm, &r)) {
        lost = !device_answers(a, share->fd, &r);
        if (!lost) check_case(a, c, &r);
        const bool said = r.verdict == KVG_VERDICT_DEVICE_LOST || r.lost == KVG_ERR_DEVICE_LOST;
        if (said && !a->facts.has_ready) lost = true; /* taken at its word */
        blame_claim(a, &r);
    }
    snprintf(r.confinement, sizeof r.confinement, "%s", kvg_candidate_confinement(a->candidate));
    memcpy(r.engine, a->facts.name, sizeof r.engine);
    snprintf(r.reference_in, sizeof r.reference_in, "%s", kvg_candidate_reference_in(a->candidate));
    r.seconds = kvg_clock_seconds() - start;
    r.slow = r.seconds > share->config->slow_seconds;
    const bool broken = r.lost || r.verdict == KVG_VERDICT_CRASH || r.verdict == KVG_VERDICT_DEVICE_LOST;
    if (broken) run_log_read_tail(STDERR_FILENO, logged, &tail, &r.printed);
    kvg_json_text lines = {0};
    write_lines(a, share, &r, &lines);
    const kvg_run_message kind = lost ? KVG_RUN_LOST : broken ? KVG_RUN_BROKEN : KVG_RUN_RESULT;
    send_message(share->fd, (kvg_run_header){.kind = kind, .verdict = r.verdict, .before = a->before_at},
                 lines.text ? lines.text : "");
    kvg_json_text_free(&lines);
    if (r.verdict != KVG_VERDICT_SKIP) {
        a->before = c;
        a->before_at = position;
    }
    return !broken;
}

int kvg_run_child(const kvg_run_share *share)
{
    const int threads = omp_get_max_threads() / (int)share->options->jobs;
    omp_set_num_threads(threads < 1 ? 1 : threads);
    session a = {.suspect = share->suspect, .claims = share->claims};
    if (kvg_candidate_start(share->options->confinement, share->results, kvg_check_backend, &a.candidate)) return 3;
    kvg_candidate_set_watch(a.candidate, tell_waiting, share);
    kvg_candidate_limit(a.candidate, claims, &a);
    size_t position = share->position;
    const char *backend = case_at(share, position)->backend;
    bool fit = true;
    while (fit && position < share->count && strcmp(case_at(share, position)->backend, backend) == 0 &&
           !share->lost[position].in) {
        fit = run_one(share, position, &a);
        position += share->options->jobs;
    }
    if (fit && position < share->count) send_word(share->fd, KVG_RUN_LEAVE);
    if (a.guest) a.guest->close(a.guest_session);
    close(share->fd); /* from here on the parent waits for the end, but not for ever */
    const int left = kvg_candidate_end(a.candidate);
    return WIFSIGNALED(left) ? 128 + WTERMSIG(left) : WEXITSTATUS(left);
}
