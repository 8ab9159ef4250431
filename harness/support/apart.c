#include "harness/support/apart.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/support/child.h"
#include "harness/support/interrupt.h"

/* What a process says first. */
typedef struct greeting {
    kvg_status opened;
    char text[512];
} greeting;

static bool send_all(int to, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t n = write(to, (const char *)data + sent, bytes - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        sent += (size_t)n;
    }
    return true;
}

static void work(const kvg_apart *job, size_t first, int to)
{
    greeting hello = {.opened = job->open(job->context)};
    void *answer = calloc(1, job->answer_bytes);
    if (!hello.opened && !answer) hello.opened = kvg_fail(KVG_ERR_MEMORY, "cannot hold an answer");
    if (hello.opened) snprintf(hello.text, sizeof hello.text, "%s", kvg_error_text());
    bool sent = send_all(to, &hello, sizeof hello), on = !hello.opened;
    for (size_t i = first; i < job->count && sent && on; i++) {
        on = job->work(job->context, i, answer);
        sent = send_all(to, &on, sizeof on) && send_all(to, answer, job->answer_bytes);
    }
    _exit(sent ? 0 : 3);
}

enum reception { CAME, ENDED, TOO_LATE, INTERRUPTED };

/* All of `bytes`, or the reason why they do not come. */
static enum reception receive(int from, double seconds, void *data, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        struct pollfd wait = {.fd = from, .events = POLLIN};
        const int ready = poll(&wait, 1, (int)(seconds * 1e3));
        if (ready < 0 && errno == EINTR && kvg_interrupted()) return INTERRUPTED;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return TOO_LATE;
        const ssize_t n = read(from, (char *)data + got, bytes - got);
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

static kvg_status start(const kvg_apart *job, size_t first, worker *w)
{
    int ends[2];
    if (pipe(ends) != 0) return kvg_fail(KVG_ERR_IO, "cannot make a pipe");
    w->pid = kvg_child_fork();
    if (w->pid < 0) {
        close(ends[0]);
        close(ends[1]);
        return kvg_fail(KVG_ERR_IO, "cannot start a process");
    }
    if (w->pid == 0) {
        close(ends[0]);
        kvg_interrupt_leave();
        work(job, first, ends[1]);
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

static void report_lost(const kvg_apart *job, size_t item, enum reception reason, int status)
{
    char why[96];
    if (reason == TOO_LATE) snprintf(why, sizeof why, "no result after %g s", job->patience);
    else snprintf(why, sizeof why, "the process ended with wait status 0x%x", (unsigned)status);
    job->lost(job->context, item, reason == TOO_LATE ? KVG_VERDICT_HANG : KVG_VERDICT_CRASH, why);
}

/* No process opens any more: the item before took something with it. What was measured stays. */
static void report_rest(const kvg_apart *job, size_t first)
{
    char why[600];
    snprintf(why, sizeof why, "not run: %s", kvg_error_text());
    for (size_t i = first; i < job->count; i++) job->lost(job->context, i, KVG_VERDICT_DEVICE_LOST, why);
}

/* As many items as one process does. */
static kvg_status run_some(const kvg_apart *job, void *answer, size_t *done)
{
    greeting hello;
    worker w = {0};
    bool on = true;
    kvg_status s = start(job, *done, &w);
    if (s) return s;
    enum reception reason = receive(w.from, job->patience, &hello, sizeof hello);
    if (reason == INTERRUPTED) s = kvg_interrupt_check();
    else if (reason != CAME) s = kvg_fail(KVG_ERR_IO, "the process of the first item does not come up");
    else if (hello.opened) s = kvg_fail(hello.opened, "%s", hello.text);
    while (!s && on && *done < job->count && reason == CAME) {
        reason = receive(w.from, job->patience, &on, sizeof on);
        if (reason == CAME) reason = receive(w.from, job->patience, answer, job->answer_bytes);
        if (reason == CAME) job->report(job->context, (*done)++, answer);
        if (*done < job->count) s = kvg_interrupt_check();
    }
    const int status = stop(&w);
    if (!s && reason != CAME) report_lost(job, (*done)++, reason, status);
    return s;
}

kvg_status kvg_apart_run(const kvg_apart *job)
{
    void *answer = calloc(1, job->answer_bytes);
    kvg_status s = answer ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold an answer");
    for (size_t done = 0; !s && done < job->count;) {
        s = run_some(job, answer, &done);
        if (!s || done == 0 || kvg_interrupted()) continue;
        report_rest(job, done);
        s = KVG_OK;
        break;
    }
    free(answer);
    return s;
}
