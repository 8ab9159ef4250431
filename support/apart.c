#include "support/apart.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/child.h"
#include "support/interrupt.h"

/* What a process says first. */
typedef struct greeting {
    kvg_status opened;
    char text[512];
} greeting;

/* What a process is to do: the items from `first` on. */
typedef struct share {
    const kvg_apart *job;
    size_t first;
} share;

static int work(void *context, int to)
{
    const share *mine = context;
    const kvg_apart *job = mine->job;
    greeting hello = {.opened = job->open(job->context)};
    void *answer = calloc(1, job->answer_bytes);
    if (!hello.opened && !answer) hello.opened = kvg_fail(KVG_ERR_MEMORY, "cannot hold an answer");
    if (hello.opened) snprintf(hello.text, sizeof hello.text, "%s", kvg_error_text());
    bool sent = kvg_child_send(to, &hello, sizeof hello), on = !hello.opened;
    for (size_t i = mine->first; i < job->count && sent && on; i++) {
        on = job->work(job->context, i, answer);
        sent = kvg_child_send(to, &on, sizeof on) && kvg_child_send(to, answer, job->answer_bytes);
    }
    free(answer);
    return sent ? 0 : 3;
}

static void report_lost(const kvg_apart *job, size_t item, kvg_reception reason, int status)
{
    char why[96];
    if (reason == KVG_TOO_LATE) snprintf(why, sizeof why, "no result after %g s", job->patience);
    else snprintf(why, sizeof why, "the process ended with wait status 0x%x", (unsigned)status);
    job->lost(job->context, item, reason == KVG_TOO_LATE ? KVG_VERDICT_HANG : KVG_VERDICT_CRASH, why);
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
    share mine = {job, *done};
    const kvg_child_job life = {.work = work, .context = &mine, .channel = KVG_CHANNEL_PIPE};
    kvg_child child;
    bool on = true;
    kvg_status s = kvg_child_start(&life, &child);
    if (s) return s;
    kvg_reception reason = kvg_child_receive(&child, job->patience, &hello, sizeof hello);
    if (reason == KVG_INTERRUPTED) s = kvg_interrupt_check();
    else if (reason != KVG_CAME) s = kvg_fail(KVG_ERR_IO, "the process of the first item does not come up");
    else if (hello.opened) s = kvg_fail(hello.opened, "%s", hello.text);
    while (!s && on && *done < job->count && reason == KVG_CAME) {
        reason = kvg_child_receive(&child, job->patience, &on, sizeof on);
        if (reason == KVG_CAME) reason = kvg_child_receive(&child, job->patience, answer, job->answer_bytes);
        if (reason == KVG_CAME) job->report(job->context, (*done)++, answer);
        if (*done < job->count) s = kvg_interrupt_check();
    }
    const int status = kvg_child_kill(&child);
    if (!s && reason != KVG_CAME) report_lost(job, (*done)++, reason, status);
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
