#define _POSIX_C_SOURCE 200809L
#include "support/used_files.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Where a path leads: its longest beginning that is there, and the names after it, last one first. */
typedef struct place {
    struct stat there;
    char rest[PATH_MAX + 2];
} place;

static bool path_of(const kvg_used_file *f, char path[PATH_MAX])
{
    const int length = snprintf(path, PATH_MAX, "%s%s%s", f->folder ? f->folder : "", f->folder ? "/" : "", f->name);
    return length >= 0 && length < PATH_MAX;
}

static bool find_place(const kvg_used_file *f, place *out)
{
    char path[PATH_MAX];
    size_t used = 0;
    out->rest[0] = 0;
    if (!path_of(f, path)) return false;
    while (stat(path, &out->there) != 0) {
        char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        if (strcmp(path, ".") == 0 || strcmp(path, "/") == 0) return false;
        if (*name && strcmp(name, ".") != 0) {
            used += (size_t)snprintf(out->rest + used, sizeof out->rest - used, "%s/", name);
        }
        if (!slash) snprintf(path, sizeof path, ".");
        else slash[slash == path] = 0;
    }
    return used > 0 || S_ISREG(out->there.st_mode) || S_ISDIR(out->there.st_mode);
}

static bool are_same(const kvg_used_file *a, const kvg_used_file *b)
{
    place p, q;
    if (!a->name || !b->name || !(a->written || b->written) || !find_place(a, &p) || !find_place(b, &q)) return false;
    return p.there.st_dev == q.there.st_dev && p.there.st_ino == q.there.st_ino && strcmp(p.rest, q.rest) == 0;
}

kvg_status kvg_used_files_check(const kvg_used_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            char a[PATH_MAX], b[PATH_MAX];
            if (!are_same(&files[i], &files[j]) || !path_of(&files[i], a) || !path_of(&files[j], b)) continue;
            return kvg_fail(KVG_ERR_INVALID, "%s and %s are the same file: give another for what is written", a, b);
        }
    }
    return KVG_OK;
}
