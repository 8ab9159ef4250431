/* The log of a candidate: what it prints, and what its judge prints; private to run*.c. Each child of a run has its own
 * for each backend, and its next child goes on with it.
 *
 * Children write into the file itself, so that no print waits for the parent, and nothing is lost if the parent is
 * killed. The parent keeps the file small: its first and its last RUN_LOG_HALF bytes stay. As long as somebody writes,
 * the bytes between them become a hole, which takes no room on the disk; in the end a line stands in their place. */
#ifndef KVG_HARNESS_RUN_RUN_LOG_H
#define KVG_HARNESS_RUN_RUN_LOG_H

#include "harness/case/result.h"

enum { RUN_LOG_HALF = 32 << 20 }; /* bytes: the logs of 64 children have 4 GiB at most */

typedef struct run_log {
    const char *backend; /* whose it is; NULL: there is no log */
    int fd;              /* the parent's */
    int end;             /* the children's: whatever they write is appended */
} run_log;

/* Removes the logs of an earlier run. */
kvg_status run_log_remove_all(const char *folder) KVG_CHECKED;

/* Makes FOLDER/candidate.NUMBER.BACKEND.log, with the last name of the backend's path. */
kvg_status run_log_open(const char *folder, size_t number, const char *backend, run_log *out) KVG_CHECKED;
void run_log_close(run_log *log);

/* As long as it grows: gives room on the disk back, where the file system can. */
void run_log_limit(const run_log *log);

/* When nobody writes any more: cuts and closes it. */
kvg_status run_log_end(run_log *log) KVG_CHECKED;

/* In a child: what this process prints goes into the log, so that it can neither disturb the table nor get lost. */
void run_log_take_output(const run_log *log);

/* The bytes of a log so far. `fd`: of the log, or standard error of a child. */
uint64_t run_log_size(int fd);

/* The last lines of a log. */
enum { RUN_LOG_LINES = 10, RUN_LOG_WIDTH = 200 };
typedef struct run_log_tail {
    char lines[RUN_LOG_LINES][RUN_LOG_WIDTH + 4];
} run_log_tail;

/* Adds the last lines behind byte `start` to the names, which then point into the tail: bytes of the candidate, cut to
 * RUN_LOG_WIDTH and "...". Empty lines are left out. */
void run_log_read_tail(int fd, uint64_t start, run_log_tail *tail, kvg_names *out);

#endif
