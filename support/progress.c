#define _POSIX_C_SOURCE 200809L
#include "support/progress.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/terminal.h"

/* Seconds between lines. */
static const double TERMINAL = 1, LOG = 20;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static struct {
    bool on, started, paused, drawn;
    pthread_t writer;
    pthread_cond_t changed; /* on or started */
    unsigned width; /* of the terminal; 0: none */
    double period, start, since;
    const char *command, *noun, *part_noun;
    size_t total, done, failed, part, parts;
    char current[320];
} state;

/* --- the line --- */

static void write_line(void)
{
    enum { BAR = 20 };
    char failed[48] = "", speed[64] = "", part[96] = "", current[480] = "", line[768];
    const double now = kvg_clock_seconds(), seconds = now - state.start;
    if (state.paused) return;
    if (state.failed != KVG_PROGRESS_NOT_JUDGED) snprintf(failed, sizeof failed, ", %zu failed", state.failed);
    if (state.done > 0 && seconds > 1) {
        const double rate = (double)state.done / seconds;
        snprintf(speed, sizeof speed, ", %.3g/s, %.0f s left", rate, (double)(state.total - state.done) / rate);
    }
    if (state.parts) snprintf(part, sizeof part, "%zu of %zu %s after ", state.part, state.parts, state.part_noun);
    if (state.current[0]) {
        snprintf(current, sizeof current, "; %s%.0f s in %s", part, now - state.since, state.current);
    }
    snprintf(line, sizeof line, "%zu of %zu %s%s%s%s", state.done, state.total, state.noun, failed, speed, current);
    if (!state.width) {
        fprintf(stderr, "kvgold %s: %s\n", state.command, line);
        return;
    }
    const int filled = state.total ? (int)(state.done * BAR / state.total) : 0;
    const int room = (int)state.width - 1 - (BAR + 3);
    fprintf(stderr, "\r\033[K[%.*s%*s] %.*s", filled, "####################", BAR - filled, "", room > 0 ? room : 0,
            line);
    state.drawn = true;
}

static void clear_line(void)
{
    if (state.drawn) fputs("\r\033[K", stderr);
    state.drawn = false;
}

/* --- the thread --- */

static void *write_lines(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    state.started = true;
    pthread_cond_signal(&state.changed);
    while (state.on) {
        const double next = kvg_clock_seconds() + state.period;
        const time_t seconds = (time_t)next;
        const struct timespec until = {seconds, (long)((next - (double)seconds) * 1e9)};
        if (pthread_cond_timedwait(&state.changed, &lock, &until) && state.on) write_line();
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* A signal is for the thread that waits for children. Returns when the writer waits, for a child that is forked while
 * a thread begins would inherit locks of the C library or of a sanitizer that nobody gives back. */
static bool start_writer(void)
{
    pthread_condattr_t clock;
    sigset_t all, before;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&state.changed, &clock);
    pthread_condattr_destroy(&clock);
    state.started = false;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&state.writer, NULL, write_lines, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (!error && !state.started) pthread_cond_wait(&state.changed, &lock);
    return error == 0;
}

/* A fork waits until the writer holds nothing, so what the child inherits is whole; it has no writer. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void begin_child(void)
{
    state.on = false;
    pthread_mutex_unlock(&lock);
}

/* --- the command's calls --- */

void kvg_progress_begin(const char *command, size_t total, const char *noun)
{
    static bool forks_known;
    const char *wanted = getenv("KVGOLD_PROGRESS_SECONDS");
    const double given = wanted ? strtod(wanted, NULL) : 0, log = given > 0 ? given : LOG;
    const double now = kvg_clock_seconds();
    const unsigned width = kvg_terminal_width(STDERR_FILENO);
    pthread_mutex_lock(&lock);
    if (!forks_known) forks_known = pthread_atfork(before_fork, after_fork, begin_child) == 0;
    state.width = width;
    state.period = width ? TERMINAL : log;
    state.start = state.since = now;
    state.command = command;
    state.noun = noun;
    state.total = total;
    state.done = state.parts = 0;
    state.failed = KVG_PROGRESS_NOT_JUDGED;
    state.current[0] = 0;
    state.paused = false;
    state.on = forks_known; /* before the writer looks */
    if (state.on) state.on = start_writer();
    pthread_mutex_unlock(&lock);
}

void kvg_progress_at(size_t done, size_t failed, const char *current, double since)
{
    pthread_mutex_lock(&lock);
    if (state.on) {
        state.done = done;
        state.failed = failed;
        state.since = since;
        state.parts = 0;
        state.paused = false;
        snprintf(state.current, sizeof state.current, "%s", current);
        if (state.width) write_line();
    }
    pthread_mutex_unlock(&lock);
}

void kvg_progress_part(size_t done, size_t of, const char *noun)
{
    pthread_mutex_lock(&lock);
    state.part = done;
    state.parts = of;
    state.part_noun = noun;
    pthread_mutex_unlock(&lock);
}

void kvg_progress_pause(void)
{
    pthread_mutex_lock(&lock);
    if (state.on) {
        clear_line();
        state.paused = true;
    }
    pthread_mutex_unlock(&lock);
}

void kvg_progress_end(void)
{
    pthread_mutex_lock(&lock);
    const bool on = state.on;
    if (on) clear_line();
    state.on = false;
    if (on) pthread_cond_signal(&state.changed);
    pthread_mutex_unlock(&lock);
    if (!on) return;
    pthread_join(state.writer, NULL);
    pthread_cond_destroy(&state.changed);
}
