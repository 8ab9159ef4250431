#define _GNU_SOURCE
#include "tests/planted/left_behind.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

void leave_behind(bool daemon)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0) _exit(4);
    const pid_t pid = fork();
    if (pid == 0) {
        if (daemon) setsid();
        if (daemon && fork() != 0) _exit(0);
        const int log = open("/proc/self/fd/1", O_WRONLY); /* a description of its own */
        if (flock(log, LOCK_EX | LOCK_NB) == 0 && write(ready[1], "x", 1) == 1) sleep(60); /* the harness ends it */
        _exit(0);
    }
    close(ready[1]);
    if (daemon) waitpid(pid, NULL, 0);
    if (read(ready[0], &byte, 1) != 1) _exit(4);
    close(ready[0]);
}
