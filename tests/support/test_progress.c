/* Lines of progress in a log, of a command that is busy for longer than they wait. */
#define _POSIX_C_SOURCE 200809L
#include "support/progress.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/clock.h"

static FILE *log_file;
static int own_stderr;

/* Standard error is a file from here on. */
static int begin_log(void **state)
{
    (void)state;
    log_file = tmpfile();
    own_stderr = dup(STDERR_FILENO);
    setenv("KVGOLD_PROGRESS_SECONDS", "0.02", 1);
    return log_file && dup2(fileno(log_file), STDERR_FILENO) >= 0 ? 0 : -1;
}

static int end_log(void **state)
{
    (void)state;
    dup2(own_stderr, STDERR_FILENO);
    close(own_stderr);
    fclose(log_file);
    return 0;
}

static size_t log_size(void)
{
    return (size_t)lseek(fileno(log_file), 0, SEEK_END);
}

/* The last line, once a new one is there: after 20 s at most. */
static const char *next_line(void)
{
    static char text[1 << 16];
    const size_t before = log_size();
    for (const double start = kvg_clock_seconds(); log_size() == before;) {
        if (kvg_clock_seconds() - start > 20) return "no line came";
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    const ssize_t n = pread(fileno(log_file), text, sizeof text - 1, 0);
    if (n < 1) return "nothing to read";
    text[n - 1] = 0; /* in place of the line's end */
    const char *last = strrchr(text, '\n');
    return last ? last + 1 : text;
}

static void wait_for_lines(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
}

static void test_a_long_call_is_no_silence(void **state)
{
    (void)state;
    kvg_progress_begin("lint", 40, "cases");
    assert_string_equal(next_line(), "kvgold lint: 0 of 40 cases");
    kvg_progress_at(12, 1, "append/slow", kvg_clock_seconds() - 40.6);
    assert_string_equal(next_line(), "kvgold lint: 12 of 40 cases, 1 failed; 41 s in append/slow");
    kvg_progress_part(17, 90, "known-wrong answers");
    assert_string_equal(next_line(),
                        "kvgold lint: 12 of 40 cases, 1 failed; "
                        "17 of 90 known-wrong answers after 41 s in append/slow");
    kvg_progress_at(13, KVG_PROGRESS_NOT_JUDGED, "", 0);
    assert_string_equal(next_line(), "kvgold lint: 13 of 40 cases");
    kvg_progress_end();
}

static void test_rate(void **state)
{
    (void)state;
    kvg_progress_begin("check", 40, "cases");
    kvg_progress_at(10, 0, "", 0);
    nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 100000000}, NULL);
    assert_non_null(strstr(next_line(), "kvgold check: 10 of 40 cases, 0 failed, "));
    assert_non_null(strstr(next_line(), "/s, "));
    assert_non_null(strstr(next_line(), " s left"));
    kvg_progress_end();
}

static void test_nothing_comes_during_a_pause_nor_after_the_end(void **state)
{
    (void)state;
    kvg_progress_begin("compare", 2, "cases");
    (void)next_line();
    kvg_progress_pause();
    const size_t paused = log_size();
    wait_for_lines();
    assert_int_equal(log_size(), paused);
    kvg_progress_at(1, 0, "", 0);
    (void)next_line();
    kvg_progress_end();
    const size_t ended = log_size();
    kvg_progress_at(2, 0, "", 0);
    wait_for_lines();
    assert_int_equal(log_size(), ended);
    kvg_progress_end();
}

/* Forks at any moment: a child that found the lock held, or wrote, would hang or add lines. */
static void test_a_forked_process_has_none(void **state)
{
    enum { FORKS = 200 };
    (void)state;
    setenv("KVGOLD_PROGRESS_SECONDS", "0.00001", 1);
    kvg_progress_begin("check", FORKS, "cases");
    for (int i = 0; i < FORKS; i++) {
        int status;
        const pid_t id = fork();
        if (id == 0) {
            alarm(20);
            kvg_progress_at(0, 0, "a child", 0);
            kvg_progress_part(0, 1, "parts");
            kvg_progress_pause();
            kvg_progress_end();
            _exit(0);
        }
        assert_int_equal(waitpid(id, &status, 0), id);
        assert_int_equal(status, 0);
    }
    (void)next_line(); /* the parent's goes on */
    kvg_progress_end();
    setenv("KVGOLD_PROGRESS_SECONDS", "0.02", 1);
}

static volatile sig_atomic_t handled_by_us; /* -1: by another thread */
static pthread_t this_thread;

static void on_signal(int number)
{
    (void)number;
    handled_by_us = pthread_equal(pthread_self(), this_thread) ? 1 : -1;
}

static void test_signals_are_for_the_thread_that_waits(void **state)
{
    struct sigaction action = {.sa_handler = on_signal}, old;
    sigset_t usr, before;
    (void)state;
    this_thread = pthread_self();
    sigaction(SIGUSR1, &action, &old);
    sigemptyset(&usr);
    sigaddset(&usr, SIGUSR1);
    kvg_progress_begin("check", 1, "cases");
    pthread_sigmask(SIG_BLOCK, &usr, &before); /* so only the writer could take it now */
    kill(getpid(), SIGUSR1);
    wait_for_lines();
    assert_int_equal(handled_by_us, 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_int_equal(handled_by_us, 1);
    kvg_progress_end();
    sigaction(SIGUSR1, &old, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_long_call_is_no_silence),
        cmocka_unit_test(test_rate),
        cmocka_unit_test(test_nothing_comes_during_a_pause_nor_after_the_end),
        cmocka_unit_test(test_a_forked_process_has_none),
        cmocka_unit_test(test_signals_are_for_the_thread_that_waits),
    };
    return cmocka_run_group_tests(tests, begin_log, end_log);
}
