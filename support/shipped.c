#define _DEFAULT_SOURCE /* readlink, realpath, d_type */
#include "support/shipped.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/name.h"

void kvg_shipped_program_folder(char *out, size_t size)
{
    ssize_t n = readlink("/proc/self/exe", out, size - 1);
    if (n < 0) n = snprintf(out, size, "./kvgold");
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
}

kvg_status kvg_shipped_path(const char *name, char *out, size_t size)
{
    static const char *const places[] = {"", "/../../../", "/../share/kvgold/", "/../include/kvgold/"};
    char program[PATH_MAX], path[2 * PATH_MAX], real[PATH_MAX];
    kvg_shipped_program_folder(program, sizeof program);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        snprintf(path, sizeof path, "%s%s%s", i == 0 ? "" : program, places[i], name);
        if (!realpath(path, real)) continue;
        const int n = snprintf(out, size, "%s", i == 0 ? name : real);
        if (n > 0 && (size_t)n < size) return KVG_OK;
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no %s here or beside the program: run from the repository", name);
}

static kvg_status take(const char *path, char *out, size_t size)
{
    const int n = snprintf(out, size, "%s", path);
    return n >= 0 && (size_t)n < size ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "path too long: %.40s...", path);
}

kvg_status kvg_shipped_find(const char *folder, const char *ending, const char *argument, char *out, size_t size)
{
    char name[PATH_MAX];
    struct stat own;
    const bool is_there = stat(argument, &own) == 0, folders = !*ending;
    if (strchr(argument, '/') || (is_there && (S_ISDIR(own.st_mode) != 0) == folders)) return take(argument, out, size);
    const size_t length = strlen(argument), tail = strlen(ending);
    const bool ends = length > tail && strcmp(argument + length - tail, ending) == 0;
    const int n = snprintf(name, sizeof name, "%s/%s%s", folder, argument, ends ? "" : ending);
    if (length && n > 0 && (size_t)n < sizeof name && kvg_shipped_path(name, out, size) == KVG_OK) return KVG_OK;
    if (is_there) return take(argument, out, size); /* its reader says what is wrong with it */
    return kvg_name_fail_file(argument, kvg_shipped_path(folder, name, sizeof name) == KVG_OK ? name : NULL);
}

kvg_status kvg_shipped_each(const char *folder, const char *ending, void (*each)(const char *name, void *context),
                            void *context)
{
    char path[PATH_MAX];
    struct dirent **entries;
    kvg_status s = kvg_shipped_path(folder, path, sizeof path);
    if (s) return s;
    const int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) return kvg_fail(KVG_ERR_IO, "cannot read the folder %s", path);
    for (int i = 0; i < count; i++) {
        char *name = entries[i]->d_name, *end = name + strlen(name) - strlen(ending);
        const bool taken = *ending ? end > name && strcmp(end, ending) == 0
                                   : entries[i]->d_type == DT_DIR && name[0] != '.';
        if (taken) {
            *end = 0;
            each(name, context);
        }
        free(entries[i]);
    }
    free(entries);
    return KVG_OK;
}
