/* support/child.h: children that answer, crash, hang, lose their parent, or start others. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/child.h"
#include "support/clock.h"

static int end_with(void *context, int channel)
{
    (void)channel;
    return *(const int *)context;
}

static int raise_signal(void *context, int channel)
{
    (void)channel;
    raise(*(const int *)context);
    return 0;
}

static int hang(void *context, int channel)
{
    (void)context;
    (void)channel;
    while (pause() < 0) {}
    return 0;
}

static kvg_child start(int (*work)(void *context, int channel), void *context, kvg_channel channel, unsigned seconds)
{
    kvg_child child;
    const kvg_child_job job = {.work = work, .context = context, .channel = channel, .seconds = seconds};
    assert_int_equal(kvg_child_start(&job, &child), KVG_OK);
    return child;
}

static void test_end(void **state)
{
    int exit_code = 7;
    char text[128];
    (void)state;
    kvg_child child = start(end_with, &exit_code, KVG_CHANNEL_NONE, 0);
    const int status = kvg_child_wait(&child);
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_int_equal(child.id, 0);
    kvg_child_describe(status, text, sizeof text);
    assert_string_equal(text, "the process exited with status 7");
}

/* What the parent ignores ends the child all the same; SIGINT does not. */
static void test_signals(void **state)
{
    int fatal[] = {SIGSEGV, SIGABRT, SIGTERM, SIGALRM, SIGFPE}, interrupt = SIGINT;
    char text[128];
    (void)state;
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) {
        signal(fatal[i], SIG_IGN);
        kvg_child child = start(raise_signal, &fatal[i], KVG_CHANNEL_NONE, 0);
        const int status = kvg_child_wait(&child);
        signal(fatal[i], SIG_DFL);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), fatal[i]);
        kvg_child_describe(status, text, sizeof text);
        assert_non_null(strstr(text, strsignal(fatal[i])));
    }
    kvg_child child = start(raise_signal, &interrupt, KVG_CHANNEL_NONE, 0);
    assert_int_equal(kvg_child_wait(&child), 0);
}

/* A parent that was told to ignore the end of children still learns how they ended. */
static void test_ignored_ends(void **state)
{
    int exit_code = 5;
    (void)state;
    signal(SIGCHLD, SIG_IGN);
    kvg_child child = start(end_with, &exit_code, KVG_CHANNEL_NONE, 0);
    assert_int_equal(WEXITSTATUS(kvg_child_wait(&child)), 5);
}

static void test_limits(void **state)
{
    char byte;
    (void)state;
    kvg_child child = start(hang, NULL, KVG_CHANNEL_PIPE, 1);
    assert_int_equal(kvg_child_receive(&child, 0.05, &byte, 1), KVG_TOO_LATE);
    assert_true(kvg_child_timed_out(kvg_child_wait(&child)));
    child = start(hang, NULL, KVG_CHANNEL_PIPE, 0);
    const int status = kvg_child_kill(&child);
    assert_int_equal(WTERMSIG(status), SIGKILL);
    assert_false(kvg_child_timed_out(status));
    assert_int_equal(child.id, 0);
    assert_int_equal(child.channel, -1);
}

static int say_half(void *context, int channel)
{
    (void)context;
    return !kvg_child_send(channel, "half", 4);
}

static void test_half_a_message(void **state)
{
    char eight[8];
    (void)state;
    kvg_child child = start(say_half, NULL, KVG_CHANNEL_PIPE, 0);
    assert_int_equal(kvg_child_receive(&child, 10, eight, sizeof eight), KVG_ENDED);
    assert_memory_equal(eight, "half", 4);
    assert_int_equal(kvg_child_wait(&child), 0);
}

/* --- answers: larger than what a pipe takes at once --- */

enum { LARGE = 1 << 20 };

static void fill(void *context)
{
    memset(context, 0x5a, LARGE);
}

static void fill_and_crash(void *context)
{
    fill(context);
    raise(SIGSEGV);
}

static void fill_and_leave(void *context)
{
    fill(context);
    _exit(0);
}

static void test_answer(void **state)
{
    uint8_t *answer = calloc(1, LARGE);
    int death = -1;
    (void)state;
    assert_non_null(answer);
    assert_int_equal(kvg_child_answer(fill_and_crash, answer, answer, LARGE, 0, &death), KVG_OK);
    assert_int_equal(WTERMSIG(death), SIGSEGV);
    assert_int_equal(kvg_child_answer(fill_and_leave, answer, answer, LARGE, 0, &death), KVG_OK);
    assert_true(death != 0);
    assert_int_equal(answer[0] | answer[LARGE - 1], 0);
    assert_int_equal(kvg_child_answer(fill, answer, answer, LARGE, 0, &death), KVG_OK);
    assert_int_equal(death, 0);
    assert_int_equal(answer[0] & answer[LARGE - 1], 0x5a);
    free(answer);
}

/* --- processes that a child starts: they hold its pipe open, so that its end shows theirs --- */

static int start_another(void *context, int channel)
{
    const bool *stay = context;
    if (fork() == 0) return hang(NULL, channel);
    kvg_child_send(channel, "x", 1);
    return *stay ? hang(NULL, channel) : 0;
}

static bool closes(int channel)
{
    const kvg_child pipe = {.channel = channel};
    char byte;
    return kvg_child_receive(&pipe, 10, &byte, 1) == KVG_ENDED;
}

static void test_group(void **state)
{
    (void)state;
    for (int stay = 0; stay < 2; stay++) {
        bool stays = stay != 0;
        const kvg_child_job job = {.work = start_another, .context = &stays, .channel = KVG_CHANNEL_PIPE,
                                   .group = true};
        kvg_child child;
        char byte;
        int wait_status = 0;
        assert_int_equal(kvg_child_start(&job, &child), KVG_OK);
        assert_int_equal(kvg_child_receive(&child, 10, &byte, 1), KVG_CAME);
        const int channel = dup(child.channel);
        if (stays) kvg_child_kill(&child);
        else while (!kvg_child_over(&child, &wait_status)) {}
        assert_true(closes(channel));
        close(channel);
    }
}

/* The child's own child dies with it, although nobody but its parent knows it. */
static int start_orphan(void *context, int channel)
{
    kvg_child child;
    const kvg_child_job job = {.work = hang};
    (void)context;
    if (dup(channel) < 0 || kvg_child_start(&job, &child)) return 1; /* the duplicate is its child's, too */
    kvg_child_send(channel, "x", 1);
    return hang(NULL, channel);
}

static void test_no_orphans(void **state)
{
    char byte;
    (void)state;
    kvg_child child = start(start_orphan, NULL, KVG_CHANNEL_PIPE, 0);
    assert_int_equal(kvg_child_receive(&child, 10, &byte, 1), KVG_CAME);
    const int channel = dup(child.channel);
    kvg_child_kill(&child);
    assert_true(closes(channel));
    close(channel);
}

/* --- several children, and a socket --- */

static int wait_for_message(void *context, int channel)
{
    char byte;
    (void)context;
    return read(channel, &byte, 1) == 1 && kvg_child_send(channel, &byte, 1) ? 0 : 1;
}

static void test_poll(void **state)
{
    kvg_child children[3];
    const kvg_child *all[3];
    bool ready[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        children[i] = start(wait_for_message, NULL, KVG_CHANNEL_SOCKET, 0);
        all[i] = &children[i];
    }
    assert_int_equal(kvg_child_poll(all, 3, 1, ready), KVG_OK);
    assert_false(ready[0] || ready[1] || ready[2]);
    assert_int_equal(kvg_child_kill(&children[2]), SIGKILL);
    assert_true(kvg_child_send(children[1].channel, "!", 1));
    const double start = kvg_clock_seconds();
    do assert_int_equal(kvg_child_poll(all, 3, 1000, ready), KVG_OK);
    while (!ready[1] && kvg_clock_seconds() - start < 10);
    assert_true(!ready[0] && ready[1] && !ready[2]);
    assert_int_equal(kvg_child_wait(&children[1]), 0);
    assert_int_equal(WEXITSTATUS(kvg_child_wait(&children[0])), 1); /* its socket was closed */
    assert_int_equal(kvg_child_wait(&children[2]), 0);
}

/* A machine that refuses namespaces is planted: by a file that cannot be hidden. */
static void test_refused_confinement(void **state)
{
    int exit_code = 0;
    kvg_child child;
    const kvg_child_job job = {.work = end_with, .context = &exit_code, .channel = KVG_CHANNEL_PIPE,
                               .confinement = KVG_CONFINE_NAMESPACES, .hidden = "/no/such/file"};
    (void)state;
    assert_int_equal(kvg_child_start(&job, &child), KVG_ERR_IO);
    assert_non_null(strstr(kvg_error_text(), "the machine "));
    assert_int_equal(child.id, 0);
    assert_int_equal(child.channel, -1);
}

static int sees_file(void *context, int channel)
{
    (void)channel;
    return access(context, F_OK) == 0;
}

/* Pids begin again in each namespace: what a candidate left in /dev/shm under its pid is not there for the next one. */
static void test_shared_memory_of_its_own(void **state)
{
    char path[64];
    kvg_child child;
    snprintf(path, sizeof path, "/dev/shm/kvgold-test-%d", (int)getpid());
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    const kvg_child_job outside = {.work = sees_file, .context = path, .channel = KVG_CHANNEL_PIPE};
    kvg_child_job inside = outside;
    inside.confinement = KVG_CONFINE_NAMESPACES;
    (void)state;
    assert_int_equal(kvg_child_start(&outside, &child), KVG_OK);
    assert_int_equal(WEXITSTATUS(kvg_child_wait(&child)), 1);
    const kvg_status s = kvg_child_start(&inside, &child);
    const int status = s ? 0 : kvg_child_wait(&child);
    unlink(path);
    if (s) skip(); /* this machine has no namespaces */
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_no_program(void **state)
{
    char name[] = "kvgold-is-not-there";
    char *const arguments[] = {name, NULL};
    FILE *const streams[] = {stdin, stdout, stderr};
    int wait_status;
    (void)state;
    assert_int_equal(kvg_child_program(arguments, streams, &wait_status), KVG_ERR_IO);
    assert_string_equal(kvg_error_text(), "kvgold-is-not-there is not installed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_end), cmocka_unit_test(test_signals), cmocka_unit_test(test_ignored_ends),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_half_a_message), cmocka_unit_test(test_answer),
        cmocka_unit_test(test_group), cmocka_unit_test(test_no_orphans), cmocka_unit_test(test_poll),
        cmocka_unit_test(test_shared_memory_of_its_own),
        cmocka_unit_test(test_no_program), cmocka_unit_test(test_refused_confinement),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
