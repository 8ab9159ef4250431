/* A pack's folder appears at once or not at all: docs/spec/golden-pack.md section 9. */
#define _GNU_SOURCE /* renameat2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden/pack_parts.h"
#include "golden/pack_write.h"

static kvg_status fail_errno(const char *what, const char *path)
{
    return kvg_fail(KVG_ERR_IO, "%s: %s: %s", kvg_input_name(path).text, what, strerror(errno));
}

/* The folder that holds `path`, which has no slash at its end, and the name in it. */
static const char *split(const char *path, char *parent, size_t size)
{
    const char *slash = strrchr(path, '/');
    if (!slash) snprintf(parent, size, ".");
    else snprintf(parent, size, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return slash ? slash + 1 : path;
}

kvg_status kvg_pack_folder_open(const char *path, kvg_pack_folder *out)
{
    char parent[sizeof out->path];
    size_t length = strlen(path);
    *out = (kvg_pack_folder){.fd = -1, .parent = -1};
    while (length > 1 && path[length - 1] == '/') length--;
    if (length == 0 || length >= sizeof out->path) {
        return kvg_fail(KVG_ERR_INVALID, "'%.60s' is no folder's name", path);
    }
    memcpy(out->path, path, length);
    const char *name = split(out->path, parent, sizeof parent);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return kvg_fail(KVG_ERR_INVALID, "'%s' is no name for a new folder", kvg_input_name(path).text);
    }
    out->parent = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->parent < 0) return fail_errno("cannot open its parent", out->path);
    snprintf(out->temporary, sizeof out->temporary, "%s/.%s.tmp-XXXXXX", parent, name);
    if (!mkdtemp(out->temporary)) {
        const kvg_status s = fail_errno("cannot make a folder beside it", out->path);
        out->temporary[0] = 0;
        kvg_pack_folder_abandon(out);
        return s;
    }
    out->fd = open(out->temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (out->fd >= 0 && fchmod(out->fd, 0755) == 0) return KVG_OK;
    const kvg_status s = fail_errno("cannot open", out->temporary);
    kvg_pack_folder_abandon(out);
    return s;
}

/* Removes a folder of plain files. */
static void remove_folder(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) unlinkat(dirfd(folder), e->d_name, 0);
    }
    closedir(folder);
    rmdir(path);
}

/* Nothing else than a pack's files may go with the folder that is replaced. */
static kvg_status check_old(const char *path)
{
    bool pack = false, empty = true;
    DIR *folder = opendir(path);
    if (!folder) return fail_errno("cannot be replaced", path);
    kvg_status s = KVG_OK;
    for (const struct dirent *e; !s && (e = readdir(folder)) != NULL;) {
        bool known = strcmp(e->d_name, KVG_PACK_MANIFEST_SUM) == 0 || strcmp(e->d_name, KVG_PACK_PROVENANCE_SUM) == 0;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        for (int i = 0; i < KVG_PACK_FILES; i++) known |= strcmp(e->d_name, kvg_pack_file_names[i]) == 0;
        pack |= strcmp(e->d_name, kvg_pack_file_names[KVG_PACK_MANIFEST]) == 0;
        empty = false;
        if (known) continue;
        s = kvg_fail(KVG_ERR_INVALID, "%s: holds '%s', which is no file of a pack: give another folder",
                     kvg_input_name(path).text, kvg_input_quote(e->d_name).text);
    }
    closedir(folder);
    if (!s && !pack && !empty) {
        s = kvg_fail(KVG_ERR_INVALID, "%s: is a folder without manifest.json: give another", kvg_input_name(path).text);
    }
    return s;
}

kvg_status kvg_pack_folder_commit(kvg_pack_folder *f)
{
    struct stat st;
    if (fsync(f->fd) != 0) return fail_errno("cannot synchronise", f->temporary);
    bool exists = fstatat(AT_FDCWD, f->path, &st, AT_SYMLINK_NOFOLLOW) == 0;
    kvg_status s = KVG_OK;
    if (exists && !S_ISDIR(st.st_mode)) s = kvg_fail(KVG_ERR_INVALID, "%s: is no folder", kvg_input_name(f->path).text);
    if (exists && !s) s = check_old(f->path);
    if (s) return s;
    if (renameat2(AT_FDCWD, f->temporary, AT_FDCWD, f->path, exists ? RENAME_EXCHANGE : RENAME_NOREPLACE) != 0) {
        return fail_errno("cannot put it in place", f->path);
    }
    if (fsync(f->parent) != 0) return fail_errno("cannot synchronise its parent", f->path);
    if (!exists) f->temporary[0] = 0; /* else it holds the old pack now, for abandon to remove */
    kvg_pack_folder_abandon(f);
    return KVG_OK;
}

void kvg_pack_folder_abandon(kvg_pack_folder *f)
{
    if (f->temporary[0]) remove_folder(f->temporary);
    if (f->fd >= 0) close(f->fd);
    if (f->parent >= 0) close(f->parent);
    *f = (kvg_pack_folder){.fd = -1, .parent = -1};
}
