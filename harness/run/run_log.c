#define _GNU_SOURCE /* fallocate */
#include "harness/run/run_log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/run/run.h"

bool kvg_run_is_log(const char *name)
{
    static const char first[] = "candidate.", last[] = ".log";
    const size_t length = strlen(name);
    return strncmp(name, first, strlen(first)) == 0 && strcmp(name + length - strlen(last), last) == 0;
}

kvg_status run_log_remove_all(const char *folder)
{
    DIR *names = opendir(folder);
    if (!names) return kvg_fail(KVG_ERR_IO, "cannot read %s: %s", folder, strerror(errno));
    kvg_status s = KVG_OK;
    for (const struct dirent *e; !s && (e = readdir(names));) {
        if (!kvg_run_is_log(e->d_name) || unlinkat(dirfd(names), e->d_name, 0) == 0) continue;
        s = kvg_fail(KVG_ERR_IO, "cannot remove %s/%s: %s", folder, e->d_name, strerror(errno));
    }
    closedir(names);
    return s;
}

kvg_status run_log_open(const char *folder, size_t number, const char *backend, run_log *out)
{
    char name[64], path[PATH_MAX];
    const char *slash = strrchr(backend, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : backend);
    for (char *c = name; *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c)) *c = '_';
    }
    snprintf(path, sizeof path, "%s/candidate.%zu.%s.log", folder, number, name);
    *out = (run_log){.fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
    if (out->fd >= 0) out->end = open(path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (out->fd < 0 || out->end < 0) {
        const int error = errno;
        if (out->fd >= 0) close(out->fd);
        return kvg_fail(KVG_ERR_IO, "cannot write %s: %s", path, strerror(error));
    }
    out->backend = backend;
    return KVG_OK;
}

void run_log_close(run_log *log)
{
    if (!log->backend) return;
    close(log->fd);
    close(log->end);
    *log = (run_log){0};
}

void run_log_limit(const run_log *log)
{
    enum { BLOCK = 512, SLACK = 1 << 20 }; /* of stat; what the ends of a hole may leave behind */
    struct stat info;
    if (fstat(log->fd, &info) != 0 || info.st_blocks <= (2 * RUN_LOG_HALF + SLACK) / BLOCK) return;
    if (info.st_size <= 2 * RUN_LOG_HALF) return;
    (void)fallocate(log->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, RUN_LOG_HALF,
                    info.st_size - 2 * RUN_LOG_HALF); /* where that is not possible, run_log_end cuts */
}

/* Moves bytes towards the beginning of the file. */
static bool move(int fd, off_t from, off_t to, off_t bytes)
{
    char piece[1 << 16];
    while (bytes > 0) {
        const ssize_t n = pread(fd, piece, bytes < (off_t)sizeof piece ? (size_t)bytes : sizeof piece, from);
        if (n <= 0 || pwrite(fd, piece, (size_t)n, to) != n) return false;
        from += n;
        to += n;
        bytes -= n;
    }
    return true;
}

kvg_status run_log_end(run_log *log)
{
    char line[128];
    const off_t size = log->backend ? (off_t)run_log_size(log->fd) : 0, cut = size - 2 * RUN_LOG_HALF;
    bool good = true;
    if (cut > (off_t)sizeof line) { /* less is not worth a line */
        const int length = snprintf(line, sizeof line, "\n... kvgold cut %lld bytes here ...\n", (long long)cut);
        const off_t tail = RUN_LOG_HALF + length;
        good = pwrite(log->fd, line, (size_t)length, RUN_LOG_HALF) == length &&
               move(log->fd, size - RUN_LOG_HALF, tail, RUN_LOG_HALF) &&
               ftruncate(log->fd, tail + RUN_LOG_HALF) == 0;
    }
    const int error = errno;
    run_log_close(log);
    return good ? KVG_OK : kvg_fail(KVG_ERR_IO, "cannot cut a candidate's log of %lld bytes: %s", (long long)size,
                                    strerror(error));
}

void run_log_take_output(const run_log *log)
{
    dup2(log->end, STDOUT_FILENO);
    dup2(log->end, STDERR_FILENO);
}

uint64_t run_log_size(int fd)
{
    struct stat info;
    return fstat(fd, &info) == 0 ? (uint64_t)info.st_size : 0;
}

void run_log_read_tail(int fd, uint64_t start, run_log_tail *tail, kvg_names *out)
{
    enum { READ = 1 << 14 }; /* lines of eight times the width */
    char bytes[READ + 1], *lines[RUN_LOG_LINES], *rest;
    const uint64_t size = run_log_size(fd), from = size > start + READ ? size - READ : start;
    const ssize_t n = pread(fd, bytes, READ, (off_t)from);
    size_t count = 0;
    for (ssize_t i = 0; i < n; i++) {
        if (!bytes[i]) bytes[i] = '?';
    }
    bytes[n > 0 ? n : 0] = 0;
    for (char *line = strtok_r(bytes, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        lines[count++ % RUN_LOG_LINES] = line;
    }
    for (size_t i = count > RUN_LOG_LINES ? count - RUN_LOG_LINES : 0, k = 0; i < count; i++, k++) {
        const char *line = lines[i % RUN_LOG_LINES];
        snprintf(tail->lines[k], sizeof tail->lines[k], "%.*s%s", RUN_LOG_WIDTH, line,
                 strlen(line) > RUN_LOG_WIDTH ? "..." : "");
        kvg_names_add(out, tail->lines[k]);
    }
}
