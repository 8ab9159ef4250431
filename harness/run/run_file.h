/* The file of a run's results, line by line; private to run*.c. */
#ifndef KVG_HARNESS_RUN_RUN_FILE_H
#define KVG_HARNESS_RUN_RUN_FILE_H

#include <limits.h>

#include "golden/golden.h"

typedef struct run_file {
    int fd;         /* -1: nothing is kept */
    kvg_sha256 sum; /* of what was written */
    char path[PATH_MAX];
} run_file;

/* Makes the folder, locks FOLDER/results.jsonl until the file is closed, and removes what an earlier run left there.
 * KVG_ERR_IO if another run writes there. */
kvg_status run_file_open(const char *folder, run_file *out) KVG_CHECKED;

/* Writes a line, which it frees, and a '\n'; NULL: there was no memory for it. If that fails, the part that was written
 * is taken back: the file stays valid. */
kvg_status run_file_write(run_file *f, char *line) KVG_CHECKED;

#endif
