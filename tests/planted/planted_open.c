/* A plug-in that goes wrong while it is opened, as KVGOLD_PLANTED_OPEN says: "null", "aborts", "exits", "hangs". Of
 * "FIRST-LAST" it aborts in the openings of these numbers, which the bytes of the file KVGOLD_PLANTED_OPENINGS count.
 * Behind another opening the number of KV heads chooses what a case does. */
#define _GNU_SOURCE /* fopencookie */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reference/reference.h"

enum planted {
    GOOD = 1,
    ABORTS = 2,
    SLOW = 3,        /* right */
    ABORTS_LAST = 4  /* right, and aborts when its process flushes its files once more, which is at the end */
};

static bool counts;

/* Of a process that has answered all. Nothing calls it: the process ends without. */
__attribute__((destructor)) static void unload(void)
{
    if (counts) abort();
}

static ssize_t flushed(void *cookie, const char *bytes, size_t size);

static void await_flush(void *cookie)
{
    putc('x', fopencookie(cookie, "w", (cookie_io_functions_t){.write = flushed}));
}

/* The first time is behind the answer. */
static ssize_t flushed(void *cookie, const char *bytes, size_t size)
{
    (void)bytes;
    if (cookie) abort();
    await_flush(&counts);
    return (ssize_t)size;
}

static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (p->kv_heads == ABORTS) abort();
    if (p->kv_heads == SLOW) usleep(400000);
    if (p->kv_heads == ABORTS_LAST) await_flush(NULL);
    return kvg_reference_run(p, in, out);
}

static const kvg_impl impl = {"planted_open_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI,
    .struct_size = sizeof backend,
    .name = "planted_open",
    .impls = &impl,
    .impl_count = 1,
    .error_text = kvg_error_text,
};

static long openings(void)
{
    struct stat info;
    const int fd = open(getenv("KVGOLD_PLANTED_OPENINGS"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    if (write(fd, "x", 1) != 1 || fstat(fd, &info) != 0) abort();
    close(fd);
    return (long)info.st_size;
}

KVG_PLUGIN_EXPORT const kvg_backend *kvg_backend_export(void)
{
    const char *what = getenv("KVGOLD_PLANTED_OPEN");
    long first, last;
    if (what && strcmp(what, "aborts") == 0) abort();
    if (what && strcmp(what, "exits") == 0) exit(0);
    if (what && strcmp(what, "hangs") == 0) for (;;) pause();
    if (!what || sscanf(what, "%ld-%ld", &first, &last) != 2) return NULL;
    const long number = openings();
    if (first <= number && number <= last) abort();
    counts = true;
    return &backend;
}
