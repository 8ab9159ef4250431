/* What the readers share; private to golden/. Opening regular files, and quoting a file's own text in errors. */
#ifndef KVG_GOLDEN_INPUT_H
#define KVG_GOLDEN_INPUT_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

/* Opens a regular file for reading and never blocks. KVG_ERR_NOT_FOUND if there is none
 * (kvg_name_fail_file), KVG_ERR_IO for a folder, a FIFO and what may not be read, KVG_ERR_INVALID for an empty
 * file. On success *fd must be closed. */
kvg_status kvg_input_open(const char *path, int *fd, size_t *size) KVG_CHECKED;

/* A file's bytes, mapped read-only. */
typedef struct kvg_input_bytes {
    const void *bytes;
    size_t size;
} kvg_input_bytes;

/* The bytes of a regular file `name` of the folder `fd`, of at most `most` bytes. A symbolic link is refused. `shown`
 * is its name in error texts; the statuses are those of kvg_input_open. At the end kvg_input_unmap. */
kvg_status kvg_input_map_at(int fd, const char *name, const char *shown, uint64_t most,
                            kvg_input_bytes *out) KVG_CHECKED;
void kvg_input_unmap(kvg_input_bytes *bytes); /* of zero: nothing */

/* Text from outside, made fit for a one-line error: control bytes become '?', what is too long is cut to "...".
 * Returned by value, so that callers write kvg_input_quote(s).text in an argument list. */
typedef struct kvg_input_text {
    char text[164];
} kvg_input_text;

kvg_input_text kvg_input_quote(const char *text); /* a key, a value: keeps the first 60 bytes */
kvg_input_text kvg_input_name(const char *path);  /* a file's name: keeps the last 160 bytes */

void kvg_input_printable(char *text); /* in place: control bytes become '?' */

#endif
