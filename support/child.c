#define _GNU_SOURCE /* prctl and strsignal beside POSIX */
#include "support/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/clock.h"
#include "support/interrupt.h"

enum { SILENT = -1 };                     /* in place of the wait status of a child that ended well without an answer */
enum { CANNOT_SAY = 3, NOT_FOUND = 127 }; /* exit statuses: nobody reads the child; a shell's for a program */
enum { REFUSAL = 256 };                   /* bytes of a refusal, its NUL among them */

/* --- start --- */

static kvg_status open_channel(kvg_channel channel, int ends[2])
{
    ends[0] = ends[1] = -1;
    switch (channel) {
    case KVG_CHANNEL_NONE: break;
    case KVG_CHANNEL_PIPE:
        if (pipe2(ends, O_CLOEXEC) != 0) return kvg_fail(KVG_ERR_IO, "cannot make a pipe: %s", strerror(errno));
        break;
    case KVG_CHANNEL_SOCKET:
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
            return kvg_fail(KVG_ERR_IO, "cannot make a socket: %s", strerror(errno));
        }
        break;
    }
    return KVG_OK;
}

/* Ends this process as another one ended. */
static int end_like(int wait_status)
{
    if (!WIFSIGNALED(wait_status)) return WEXITSTATUS(wait_status);
    signal(WTERMSIG(wait_status), SIG_DFL);
    raise(WTERMSIG(wait_status));
    return 128 + WTERMSIG(wait_status);
}

/* The first process of a pid namespace, with which all others there end: it lives as long as its keeper. */
static void be_first(int keeper)
{
    char byte;
    signal(SIGCHLD, SIG_IGN); /* orphans come to it, and are reaped */
    kvg_confine_drop(keeper);
    kvg_confine_own_memory();
    while (read(keeper, &byte, 1) < 0 && errno == EINTR) {}
}

/* Tells the parent why this child is not going to live. */
static int refuse(int refusal)
{
    char text[REFUSAL];
    snprintf(text, sizeof text, "%s", kvg_error_text());
    kvg_child_send(refusal, text, sizeof text);
    return CANNOT_SAY;
}

/* The keeper of a child in namespaces: it stands outside of their pid namespace. */
static int keep(const kvg_child_job *job, int channel, int refusal)
{
    int life[2], wait_status = 0;
    kvg_status s = kvg_confine_enter(job->hidden);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* new credentials may have cleared it */
    if (!s && pipe2(life, O_CLOEXEC) != 0) s = kvg_fail(KVG_ERR_IO, "cannot make a pipe: %s", strerror(errno));
    const pid_t first = s ? -1 : fork();
    if (first == 0) {
        be_first(life[0]); /* kvg_confine_drop closed life[1] */
        _exit(0);
    }
    const pid_t child = first < 0 ? -1 : fork();
    if (child == 0) {
        if (kvg_confine_see_own()) _exit(refuse(refusal));
        kvg_confine_drop(channel);
        _exit(job->work(job->context, channel));
    }
    if (child < 0 && !s) s = kvg_fail(KVG_ERR_IO, "cannot start a process: %s", strerror(errno));
    if (s) return refuse(refusal);
    close(refusal);
    close(channel);
    while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {}
    kill(first, SIGKILL);
    while (waitpid(first, NULL, 0) < 0 && errno == EINTR) {}
    return end_like(wait_status);
}

static int own_channel = -1; /* this process's end of the channel to its parent */

_Noreturn static void live(const kvg_child_job *job, pid_t parent, int channel, int refusal)
{
    static const int fatal[] = {SIGALRM, SIGTERM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(CANNOT_SAY); /* it ended before that */
    if (job->group) setpgid(0, 0);
    if (own_channel >= 0) close(own_channel);
    own_channel = channel;
    signal(SIGINT, SIG_IGN);
    for (size_t i = 0; i < sizeof fatal / sizeof fatal[0]; i++) signal(fatal[i], SIG_DFL);
    alarm(job->seconds);
    if (job->confinement == KVG_CONFINE_NAMESPACES) _exit(keep(job, channel, refusal));
    close(refusal);
    if (job->confinement == KVG_CONFINE_RIGHTS) kvg_confine_drop(channel);
    _exit(job->work(job->context, channel));
}

/* What a child says that is not going to live; nothing where it is. */
static kvg_status hear_refusal(int refusal)
{
    char text[REFUSAL];
    const kvg_child pipe = {.channel = refusal};
    return kvg_child_receive(&pipe, 0, text, sizeof text) == KVG_CAME ? kvg_fail(KVG_ERR_IO, "%s", text) : KVG_OK;
}

kvg_status kvg_child_start(const kvg_child_job *job, kvg_child *child)
{
    int ends[2], refusal[2];
    const pid_t parent = getpid();
    *child = KVG_NO_CHILD;
    kvg_status s = open_channel(KVG_CHANNEL_PIPE, refusal);
    if (s) return s;
    s = open_channel(job->channel, ends);
    fflush(NULL);
    signal(SIGCHLD, SIG_DFL); /* where it was ignored, there would be nothing to wait for */
    const pid_t id = s ? -1 : fork();
    if (id == 0) {
        close(refusal[0]);
        if (ends[0] >= 0) close(ends[0]);
        live(job, parent, ends[1], refusal[1]);
    }
    if (id < 0 && !s) s = kvg_fail(KVG_ERR_IO, "cannot start a process: %s", strerror(errno));
    close(refusal[1]);
    if (ends[1] >= 0) close(ends[1]);
    if (id > 0 && job->group) setpgid(id, id); /* whoever of the two is first */
    *child = id > 0 ? (kvg_child){id, ends[0], job->group} : KVG_NO_CHILD;
    if (!s) s = hear_refusal(refusal[0]);
    close(refusal[0]);
    if (s && id > 0) kvg_child_wait(child);
    else if (s && ends[0] >= 0) close(ends[0]);
    return s;
}

void kvg_child_limit(unsigned seconds)
{
    alarm(seconds);
}

/* --- channels --- */

bool kvg_child_send(int channel, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t n = write(channel, (const char *)data + sent, bytes - sent);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        sent += (size_t)n;
    }
    return true;
}

kvg_reception kvg_child_receive(const kvg_child *child, double seconds, void *data, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        struct pollfd wait = {.fd = child->channel, .events = POLLIN};
        const int ready = poll(&wait, 1, seconds > 0 ? (int)(seconds * 1e3) : -1);
        if (ready < 0 && errno == EINTR && kvg_interrupted()) return KVG_INTERRUPTED;
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return KVG_TOO_LATE;
        const ssize_t n = read(child->channel, (char *)data + got, bytes - got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return kvg_interrupted() ? KVG_INTERRUPTED : KVG_ENDED; /* the signal may have been for both */
        got += (size_t)n;
    }
    return KVG_CAME;
}

kvg_status kvg_child_poll(const kvg_child *const *children, size_t count, int milliseconds, bool *ready)
{
    struct pollfd waits[KVG_CHILDREN_MAX];
    assert(count <= KVG_CHILDREN_MAX);
    for (size_t i = 0; i < count; i++) waits[i] = (struct pollfd){.fd = children[i]->channel, .events = POLLIN};
    const int found = poll(waits, (nfds_t)count, milliseconds);
    if (found < 0 && errno != EINTR) return kvg_fail(KVG_ERR_IO, "poll: %s", strerror(errno));
    for (size_t i = 0; i < count; i++) ready[i] = found > 0 && waits[i].revents;
    return KVG_OK;
}

void kvg_child_close(kvg_child *child)
{
    if (child->channel >= 0) close(child->channel);
    child->channel = -1;
}

/* --- end --- */

static int reap(kvg_child *child)
{
    int wait_status = 0;
    while (waitpid(child->id, &wait_status, 0) < 0 && errno == EINTR) {}
    kvg_child_close(child);
    *child = KVG_NO_CHILD;
    return wait_status;
}

int kvg_child_wait(kvg_child *child)
{
    kvg_child_close(child);
    return child->id ? reap(child) : 0;
}

/* While it is not reaped, its id is nobody else's: the group is killed before. */
bool kvg_child_over(kvg_child *child, int *wait_status)
{
    siginfo_t info = {0};
    const int found = waitid(P_PID, (id_t)child->id, &info, WEXITED | WNOHANG | WNOWAIT);
    if (found != 0 || info.si_pid != child->id) return false;
    if (child->group) kill(-child->id, SIGKILL);
    *wait_status = reap(child);
    return true;
}

int kvg_child_kill(kvg_child *child)
{
    int wait_status = SIGKILL;
    if (!child->id) return 0;
    if (child->group) kill(-child->id, SIGKILL);
    kill(child->id, SIGKILL);
    kvg_child_close(child);
    for (const double start = kvg_clock_seconds(); kvg_clock_seconds() - start < 30;) {
        if (kvg_child_over(child, &wait_status)) return wait_status;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    *child = KVG_NO_CHILD;
    return wait_status;
}

void kvg_child_adopt(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* The children of this thread, which is the only one that starts any. */
static void kill_children(void)
{
    FILE *f = fopen("/proc/thread-self/children", "re");
    for (int id; f && fscanf(f, "%d", &id) == 1;) kill(id, SIGKILL);
    if (f) fclose(f);
}

bool kvg_child_end_adopted(void)
{
    for (const double start = kvg_clock_seconds(); kvg_clock_seconds() - start < 10;) {
        kill_children();
        const pid_t id = waitpid(-1, NULL, WNOHANG);
        if (id < 0 && errno == ECHILD) return true;
        if (id == 0) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

bool kvg_child_timed_out(int wait_status)
{
    return WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGALRM;
}

void kvg_child_describe(int wait_status, char *out, size_t size)
{
    if (wait_status == SILENT) {
        snprintf(out, size, "the process exited with status 0 in the midst of its work");
    } else if (WIFSIGNALED(wait_status)) {
        snprintf(out, size, "killed by signal %d (%s)", WTERMSIG(wait_status), strsignal(WTERMSIG(wait_status)));
    } else {
        snprintf(out, size, "the process exited with status %d", WEXITSTATUS(wait_status));
    }
}

/* --- one answer --- */

typedef struct question {
    void (*work)(void *context);
    void *context;
    const void *answer;
    size_t bytes;
} question;

static int answer_question(void *context, int channel)
{
    const question *q = context;
    q->work(q->context);
    return kvg_child_send(channel, q->answer, q->bytes) ? 0 : CANNOT_SAY;
}

kvg_status kvg_child_answer(void (*work)(void *context), void *context, void *answer, size_t bytes,
                            unsigned seconds, int *death)
{
    question q = {work, context, answer, bytes};
    const kvg_child_job job = {.work = answer_question, .context = &q, .channel = KVG_CHANNEL_PIPE, .seconds = seconds};
    kvg_child child;
    void *sent = malloc(bytes);
    kvg_status s = sent ? kvg_child_start(&job, &child) : kvg_fail(KVG_ERR_MEMORY, "cannot hold an answer");
    if (!s) {
        const kvg_reception reception = kvg_child_receive(&child, 0, sent, bytes);
        *death = reception == KVG_INTERRUPTED ? kvg_child_kill(&child) : kvg_child_wait(&child);
        if (reception == KVG_INTERRUPTED) s = kvg_interrupt_check();
        if (reception != KVG_CAME && *death == 0) *death = SILENT;
        if (reception == KVG_CAME) {
            *death = 0;
            memcpy(answer, sent, bytes);
        }
    }
    free(sent);
    return s;
}

/* --- another program --- */

kvg_status kvg_child_program(char *const *arguments, FILE *const streams[3], int *wait_status)
{
    posix_spawn_file_actions_t actions;
    kvg_child child = KVG_NO_CHILD;
    int error = posix_spawn_file_actions_init(&actions);
    if (!error) {
        for (int fd = 0; fd < 3 && !error; fd++) {
            error = posix_spawn_file_actions_adddup2(&actions, fileno(streams[fd]), fd);
        }
        signal(SIGCHLD, SIG_DFL);
        if (!error) error = posix_spawnp(&child.id, arguments[0], &actions, NULL, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
    }
    if (!error) *wait_status = kvg_child_wait(&child);
    const bool absent = error ? error == ENOENT : WIFEXITED(*wait_status) && WEXITSTATUS(*wait_status) == NOT_FOUND;
    if (!error && !absent) return KVG_OK;
    return kvg_fail(KVG_ERR_IO, "%s %s", arguments[0], absent ? "is not installed" : "cannot be started");
}
