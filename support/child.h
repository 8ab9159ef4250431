/* Room support: what the program stands on. It knows no format, no case and no command.
 *
 *   child                  Child processes: all that starts, reads, limits, waits for and kills them.
 *   confine                What a process gives up before foreign code runs in it.
 *   apart                  A list of items that are each done in a child.
 *   interrupt              Ctrl-C and SIGTERM are noted, so that a command can keep what it has.
 *   guard, tensor_set      Tensors lie between canary bytes and unmapped pages, which show a stray write.
 *   json_out               The text of a JSON value, for a line, a file or stdout.
 *   json_schema            What the printers of JSON Schemas share: lists of names, lines for people.
 *   whole_file, used_files A file appears whole or not at all. No file is written that a command also reads.
 *   progress               How far a command is, for whoever waits. Its thread survives no fork.
 *   mma_tile               Where the operands of a tile of op mma lie.
 *   clock, exit_code, version, commit
 *
 * The room includes no other room of the program. */
/* Child processes: the one file of the program that starts them, waits for them, reads what they say and kills them.
 * ci/check-style refuses the system's calls for that elsewhere.
 *
 * Ownership. Whoever starts a child ends it, by kvg_child_wait, kvg_child_kill, or kvg_child_over until it is true.
 * Then the process is reaped, the parent's end of the channel is closed, and the struct is KVG_NO_CHILD. A child is
 * killed when its parent ends, however that happens: no orphans.
 *
 * Descriptors. A child has those of its parent, but not the parent's end of the parent's own channel: whoever reads
 * that one learns of the parent's end.
 *
 * Confinement. A confined child runs foreign code (support/confine.h). One in namespaces has a keeper, a process
 * between it and its parent that ends as it did. All that the child has started ends with it.
 *
 * Errors. Starting fails with KVG_ERR_IO. How a child ended is the wait status of waitpid, for <sys/wait.h>'s macros.
 *
 * Signals. What the parent made of signals is not the child's: SIGTERM, SIGALRM and those of a crash end it. SIGINT is
 * the parent's to handle: a child ignores it. In the parent a signal that support/interrupt.h has noted ends
 * kvg_child_receive alone; every other call goes on after a signal.
 *
 * Time. `seconds` of a job end the child by SIGALRM (kvg_child_timed_out). kvg_child_receive has a limit of its own.
 * kvg_child_wait has none: use it where the job or whoever watches this process has one. */
#ifndef KVG_SUPPORT_CHILD_H
#define KVG_SUPPORT_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#include "core/status.h"
#include "support/confine.h"

typedef enum kvg_channel {
    KVG_CHANNEL_NONE,
    KVG_CHANNEL_PIPE,  /* bytes from the child to the parent */
    KVG_CHANNEL_SOCKET /* messages both ways */
} kvg_channel;

typedef struct kvg_child_job {
    /* The child's life, and its exit status. `channel` is its end, -1 without one. What it leaves in buffers of stdio
     * is not written. */
    int (*work)(void *context, int channel);
    void *context;
    kvg_channel channel;
    unsigned seconds; /* that it may take; 0: no limit */
    bool group;       /* it and all that it starts are one group, which ends when it ends and is killed with it */
    kvg_confinement confinement;
    const char *hidden; /* in namespaces: a file that it sees empty; NULL: none */
} kvg_child_job;

typedef struct kvg_child {
    pid_t id;    /* 0: there is none */
    int channel; /* the parent's end; -1: closed, or none */
    bool group;
} kvg_child;

#define KVG_NO_CHILD ((kvg_child){.channel = -1})

/* Starts a child, after what was printed is written, so that the child has no copy of it. KVG_ERR_IO also where the
 * machine refuses the job's confinement; the text says what. */
kvg_status kvg_child_start(const kvg_child_job *job, kvg_child *child) KVG_CHECKED;

/* In a child: SIGALRM ends it in so many seconds, in place of the limit of its job. */
void kvg_child_limit(unsigned seconds);

/* In a child: writes all of it; false: nobody reads any more. */
bool kvg_child_send(int channel, const void *data, size_t bytes);

typedef enum kvg_reception { KVG_CAME, KVG_ENDED, KVG_TOO_LATE, KVG_INTERRUPTED } kvg_reception;

/* All of `bytes` from a pipe, or why they do not come. `seconds` without a byte are too late; 0: no limit. */
kvg_reception kvg_child_receive(const kvg_child *child, double seconds, void *data, size_t bytes);

/* Waits at most `milliseconds` until one of the channels has something to read or is closed: ready[i] says which. None
 * is ready after that time or a signal, nor is a child whose channel is closed here. */
enum { KVG_CHILDREN_MAX = 256 };
kvg_status kvg_child_poll(const kvg_child *const *children, size_t count, int milliseconds, bool *ready) KVG_CHECKED;

void kvg_child_close(kvg_child *child); /* the parent's end of the channel */

/* Closes the channel and waits for the child's end; 0 where there is no child. */
int kvg_child_wait(kvg_child *child);

/* Kills and reaps what this process has not started: processes whose parents have ended, which come to it once
 * kvg_child_adopt was called. For where none of its own is left. False: some did not end within ten seconds. */
void kvg_child_adopt(void);
bool kvg_child_end_adopted(void);

/* Whether it has ended by now. */
bool kvg_child_over(kvg_child *child, int *wait_status);

/* Kills it and gives how it ended. A dead driver may hold a process that nothing kills: after half a minute it is left
 * behind, as one that SIGKILL ended. */
int kvg_child_kill(kvg_child *child);

/* How it ended: SIGALRM, by the job's limit; and in words, "killed by signal 11 (Segmentation fault)". */
bool kvg_child_timed_out(int wait_status);
void kvg_child_describe(int wait_status, char *out, size_t size);

/* Runs `work` in a child and brings back what it left in answer[bytes], which holds no pointer to what the child makes.
 * *death: 0, or the wait status of a child that ended without an answer, which is then as it was. KVG_ERR_IO also after
 * a noted signal. */
kvg_status kvg_child_answer(void (*work)(void *context), void *context, void *answer, size_t bytes,
                            unsigned seconds, int *death) KVG_CHECKED;

/* Runs a program found in PATH on three files, as its standard streams, and waits for its end. KVG_ERR_IO: it "is not
 * installed" or "cannot be started"; the text begins with its name. */
kvg_status kvg_child_program(char *const *arguments, FILE *const streams[3], int *wait_status) KVG_CHECKED;

#endif
