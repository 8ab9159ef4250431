#define _POSIX_C_SOURCE 200809L
#include "core/name.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 255 };

static const char *name_at(const char *const *first, size_t stride, size_t row)
{
    return *(const char *const *)(const void *)((const char *)first + row * stride);
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Insertions, deletions, substitutions and swaps of neighbours that make b from a, case aside: "hdn" is 1 from "hnd".
 * Both are at most LONGEST bytes long. Row i of three has the distances of the first i bytes of a. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t rows[3][LONGEST + 1];
    for (size_t j = 0; j <= b_length; j++) rows[0][j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            const char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = least(above[j - 1] + (x != y), least(above[j], row[j - 1]) + 1);
            const bool swapped = i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]);
            if (swapped) row[j] = least(row[j], before[j - 2] + 1);
        }
    }
    return rows[a_length % 3][b_length];
}

/* The only name that begins with the `length` bytes of `name`, or NULL. */
static const char *begins_with(const char *name, size_t length, const char *const *first, size_t stride, size_t count)
{
    const char *found = NULL;
    for (size_t i = 0; length > 1 && i < count; i++) {
        if (strncmp(name_at(first, stride, i), name, length) != 0) continue;
        if (found) return NULL;
        found = name_at(first, stride, i);
    }
    return found;
}

const char *kvg_name_nearest(const char *name, const char *const *first, size_t stride, size_t count)
{
    size_t length = strnlen(name, LONGEST + 1);
    if (length > LONGEST) return NULL;
    size_t limit = length / 3 > 2 ? length / 3 : 2;
    const char *nearest = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *known = name_at(first, stride, i);
        size_t known_length = strnlen(known, LONGEST + 1);
        size_t apart = known_length > length ? known_length - length : length - known_length;
        if (known_length > LONGEST || apart > limit) continue;
        size_t distance = edit_distance(name, length, known, known_length);
        if (distance > limit || distance >= length) continue; /* nothing of a short name is left: not near */
        nearest = known;
        if (distance == 0) break;
        limit = distance - 1; /* from here on only a nearer one counts */
    }
    return nearest ? nearest : begins_with(name, length, first, stride, count);
}

kvg_status kvg_name_fail(const char *what, const char *name, const char *const *first, size_t stride, size_t count)
{
    const char *nearest = kvg_name_nearest(name, first, stride, count);
    if (nearest) return kvg_fail(KVG_ERR_NOT_FOUND, "no %s '%s' (did you mean '%s'?)", what, name, nearest);
    char known[400] = "";
    for (size_t i = 0; i < count; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", name_at(first, stride, i));
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "no %s '%s'; known: %s", what, name, known);
}

kvg_status kvg_name_find(const char *what, const char *name, const char *const *first, size_t stride, size_t count,
                         size_t *row)
{
    for (*row = 0; *row < count; ++*row) {
        if (strcmp(name_at(first, stride, *row), name) == 0) return KVG_OK;
    }
    return kvg_name_fail(what, name, first, stride, count);
}

enum { MOST_FILES = 512, FILE_BYTES = 128 };

typedef struct file_names {
    char text[MOST_FILES][FILE_BYTES];
    const char *at[MOST_FILES];
    size_t count;
} file_names;

/* Without `ending` where they have it. */
static void add_files(const char *folder, const char *ending, file_names *names)
{
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && names->count < MOST_FILES && (e = readdir(dir));) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= FILE_BYTES) continue;
        strcpy(names->text[names->count], e->d_name);
        char *end = strstr(names->text[names->count], ending);
        if (end && strcmp(end, ending) == 0) *end = 0;
        names->at[names->count] = names->text[names->count];
        names->count++;
    }
    if (dir) closedir(dir);
}

kvg_status kvg_name_fail_file(const char *path, const char *shipped)
{
    char folder[4096] = ".";
    file_names names = {.count = 0};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const size_t length = (size_t)(name - path);
    if (length > 0 && length < sizeof folder) snprintf(folder, sizeof folder, "%.*s", (int)length, path);
    add_files(folder, "", &names);
    if (shipped) add_files(shipped, ".json", &names);
    const char *nearest = kvg_name_nearest(name, names.at, sizeof names.at[0], names.count);
    if (!nearest) return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no such file", path);
    return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no such file (did you mean '%.*s%s'?)", path, (int)length, path, nearest);
}
