#define _POSIX_C_SOURCE 200809L
#include "support/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/json_out.h"

static kvg_status fail_write(const char *path, int error)
{
    return kvg_fail(KVG_ERR_IO, "%s: cannot write: %s", path, strerror(error ? error : EIO));
}

/* Fills `out` and closes it. */
static kvg_status fill(const char *path, FILE *out, kvg_status (*write)(void *context, FILE *out), void *context)
{
    errno = 0;
    kvg_status s = write(context, out);
    int error = 0;
    if (ferror(out)) error = errno ? errno : EIO;
    if (fclose(out) != 0 && !error) error = errno ? errno : EIO;
    return error ? fail_write(path, error) : s;
}

kvg_status kvg_whole_file_write(const char *path, kvg_status (*write)(void *context, FILE *out), void *context)
{
    struct stat st;
    if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode)) { /* a rename would replace the device or the link */
        FILE *out = fopen(path, "w");
        return out ? fill(path, out, write, context) : fail_write(path, errno);
    }
    const size_t size = strlen(path) + 32;
    char *part = malloc(size);
    if (!part) return kvg_fail(KVG_ERR_MEMORY, "no memory for the name of %s", path);
    snprintf(part, size, "%s.%ld.part", path, (long)getpid());
    const int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    kvg_status s = out ? fill(path, out, write, context) : fail_write(path, errno);
    if (fd >= 0 && !out) close(fd);
    if (!s && rename(part, path) != 0) s = fail_write(path, errno);
    if (s && fd >= 0) unlink(part);
    free(part);
    return s;
}

static kvg_status put_json(void *value, FILE *out)
{
    return kvg_json_put(value, out);
}

kvg_status kvg_whole_file_write_json(const char *path, const cJSON *value)
{
    return kvg_whole_file_write(path, put_json, (void *)value);
}

kvg_status kvg_whole_file_check(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
    if (!folder) return kvg_fail(KVG_ERR_MEMORY, "no memory for the folder of %s", path);
    const bool good = access(folder, W_OK | X_OK) == 0;
    const int error = errno;
    free(folder);
    if (!good) return fail_write(path, error);
    struct stat st;
    const bool is_folder = (slash && !slash[1]) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    return is_folder ? fail_write(path, EISDIR) : KVG_OK;
}

kvg_status kvg_whole_file_folder(const char *path)
{
    char *outer = strdup(path);
    for (char *slash = outer; slash && (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        mkdir(outer, 0777); /* if this fails, the last one does */
    }
    free(outer);
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return KVG_OK;
    return kvg_fail(KVG_ERR_IO, "cannot make the folder %s: %s", path, strerror(errno));
}
