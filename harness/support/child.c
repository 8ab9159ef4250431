#define _GNU_SOURCE /* prctl beside POSIX */
#include "harness/support/child.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

pid_t kvg_child_fork(void)
{
    fflush(NULL);
    const pid_t parent = getpid(), pid = fork();
    if (pid != 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(3); /* it ended before that */
    return 0;
}
