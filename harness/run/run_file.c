#define _POSIX_C_SOURCE 200809L
#include "harness/run/run_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/run/run_log.h"
#include "harness/run/run_origin.h"
#include "support/whole_file.h"

kvg_status run_file_write(run_file *f, char *line)
{
    if (!line) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a result line");
    if (f->fd < 0) {
        free(line);
        return KVG_OK;
    }
    const size_t length = strlen(line);
    line[length] = '\n'; /* in place of the terminator: the length is known */
    const off_t start = lseek(f->fd, 0, SEEK_END);
    size_t done = 0;
    int error = 0;
    while (done < length + 1 && !error) {
        const ssize_t n = write(f->fd, line + done, length + 1 - done);
        if (n >= 0) done += (size_t)n;
        else if (errno != EINTR) error = errno;
    }
    if (!error) kvg_sha256_add(&f->sum, line, length + 1);
    free(line);
    if (!error) return KVG_OK;
    if (ftruncate(f->fd, start) != 0) error = errno;
    return kvg_fail(KVG_ERR_IO, "cannot write %s: %s. What had finished is kept there", f->path, strerror(error));
}

/* One run at a time writes into a folder. The lock ends with this process, or when it closes the file; children do not
 * have it. A file system without locks locks nothing. */
static kvg_status lock_results(const run_file *f, const char *folder)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char since[32];
    if (fcntl(f->fd, F_SETLK, &lock) == 0 || (errno != EACCES && errno != EAGAIN)) return KVG_OK;
    if (fcntl(f->fd, F_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return lock_results(f, folder); /* it has ended */
    run_origin_read_date(f->path, since, sizeof since);
    return kvg_fail(KVG_ERR_IO, "another run (process %ld, since %s) writes into %s: wait for it, or name another "
                    "folder by -o", (long)lock.l_pid, since, folder);
}

kvg_status run_file_open(const char *folder, run_file *f)
{
    kvg_status s = kvg_whole_file_folder(folder);
    if (s) return s;
    snprintf(f->path, sizeof f->path, "%s/results.jsonl", folder);
    f->fd = open(f->path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (f->fd < 0) return kvg_fail(KVG_ERR_IO, "cannot write %s: %s", f->path, strerror(errno));
    s = lock_results(f, folder);
    if (!s && ftruncate(f->fd, 0) != 0) s = kvg_fail(KVG_ERR_IO, "cannot write %s: %s", f->path, strerror(errno));
    if (!s) s = run_log_remove_all(folder);
    if (s) close(f->fd);
    kvg_sha256_init(&f->sum);
    return s;
}
