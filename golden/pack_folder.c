/* A pack's folder: read whole, and written so that it appears at once or not at all (docs/spec/golden-pack.md sections
 * 9 and 11). */
#define _GNU_SOURCE /* renameat2 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/name.h"
#include "golden/pack_parts.h"
#include "golden/pack_write.h"

/* --- reading --- */

/* A folder that is itself, not a link to one. */
static kvg_status open_folder(const char *path, int *folder)
{
    char name[4096];
    struct stat st;
    const kvg_input_text shown = kvg_input_name(path);
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--; /* a slash at the end would follow a link */
    if (length == 0 || length >= sizeof name) return kvg_fail(KVG_ERR_IO, "%s: is no folder's name", shown.text);
    memcpy(name, path, length);
    name[length] = 0;
    if (fstatat(AT_FDCWD, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT) return kvg_name_fail_file(name, NULL);
        return kvg_fail(KVG_ERR_IO, "%s: cannot open: %s", shown.text, strerror(errno));
    }
    if (S_ISLNK(st.st_mode)) {
        return kvg_fail(KVG_ERR_IO, "%s: is a symbolic link: give the pack's own folder", shown.text);
    }
    if (!S_ISDIR(st.st_mode)) return kvg_fail(KVG_ERR_IO, "%s: is not a folder: a golden pack is one", shown.text);
    *folder = open(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*folder < 0) return kvg_fail(KVG_ERR_IO, "%s: cannot open: %s", shown.text, strerror(errno));
    return KVG_OK;
}

/* A file's bytes and their hash. `shown` is the name in error texts, which starts with the pack's. */
static kvg_status read_file(int folder, const char *pack, const char *name, uint64_t most, char *shown, size_t size,
                            kvg_input_bytes *out, kvg_sha256_digest *digest)
{
    snprintf(shown, size, "%s/%s", pack, name);
    kvg_status s = kvg_input_map_at(folder, name, shown, most, out);
    if (!s) kvg_sha256_of(out->bytes, out->size, digest);
    return s;
}

/* The small file that gives the hash of another. */
static kvg_status read_sum(int folder, const char *pack, const char *sum_name, const char *name,
                           kvg_sha256_digest *digest)
{
    char shown[512], line[KVG_PACK_SUM_BYTES];
    kvg_input_bytes bytes = {0};
    kvg_sha256_digest own;
    kvg_status s = read_file(folder, pack, sum_name, KVG_PACK_SUM_BYTES, shown, sizeof shown, &bytes, &own);
    if (!s) {
        const char *text = bytes.bytes;
        bool good = bytes.size > 2 * KVG_SHA256_BYTES && kvg_sha256_parse(text, 2 * KVG_SHA256_BYTES, digest);
        if (good) {
            kvg_pack_sum_line(digest, name, line);
            good = bytes.size == strlen(line) && memcmp(text, line, bytes.size) == 0;
        }
        if (!good) {
            s = kvg_fail(KVG_ERR_INVALID, "%s: is not one line \"<64 lower-case hex digits>  %s\"",
                         kvg_input_name(shown).text, name);
        }
    }
    kvg_input_unmap(&bytes);
    return s;
}

/* A file, held against the hash that another gives. */
static kvg_status read_summed(int folder, const char *pack, const char *sum_name, kvg_pack_file which, char *shown,
                              size_t size, kvg_input_bytes *out, kvg_sha256_digest *digest)
{
    const char *name = kvg_pack_file_names[which];
    kvg_sha256_digest wanted;
    kvg_status s = read_sum(folder, pack, sum_name, name, &wanted);
    if (!s) s = read_file(folder, pack, name, KVG_JSON_MAX_BYTES, shown, size, out, digest);
    if (!s && !kvg_sha256_same(&wanted, digest)) {
        char is[KVG_SHA256_TEXT];
        kvg_sha256_text(digest, is);
        s = kvg_fail(KVG_ERR_INVALID, "%s: its SHA-256 is %.12s..., not what %s says: damaged or tampered with",
                     kvg_input_name(shown).text, is, sum_name);
    }
    return s;
}

static kvg_status read_manifest(kvg_pack *pack, int folder)
{
    struct kvg_pack_data *d = pack->data;
    char shown[512];
    kvg_input_bytes *bytes = &d->bytes[KVG_PACK_MANIFEST];
    kvg_status s = read_summed(folder, pack->path, KVG_PACK_MANIFEST_SUM, KVG_PACK_MANIFEST, shown, sizeof shown, bytes,
                               &pack->manifest);
    if (!s) s = kvg_json_parse(shown, bytes->bytes, bytes->size, &d->manifest);
    return s ? s : kvg_pack_read_manifest(pack, kvg_json_root(d->manifest));
}

/* How far wrong answers were from the cases of op decode, where the maker says so. For people: what is not as section 8
 * of the page has it is left out, and no reason to refuse the pack. */
static kvg_status read_separations(kvg_pack *pack, kvg_json list)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_json_count(list) && !s; i++) {
        const kvg_json one = kvg_json_at(list, i);
        kvg_pack_separation found = {.measured = true, .least = INFINITY};
        const kvg_pack_case *c;
        const char *unit = "", *nearest = "";
        kvg_json value;
        s = kvg_pack_find(pack, kvg_json_key(one), &c);
        if (!s) s = kvg_json_get_string(one, "unit", &unit);
        if (!s) s = kvg_json_get_string(one, "nearest", &nearest);
        if (!s) s = kvg_json_get(one, "least", &value);
        if (!s && !kvg_json_is_null(value)) s = kvg_json_double(value, &found.least);
        if (s == KVG_ERR_INVALID || s == KVG_ERR_NOT_FOUND) {
            s = KVG_OK;
            continue;
        }
        if (s) break;
        found.bits = strcmp(unit, "bits") == 0;
        found.nearest = kvg_pack_keep(pack, nearest);
        if (!found.nearest) s = KVG_ERR_MEMORY;
        pack->cases[c - pack->cases].separation = found;
    }
    return s;
}

/* Outside of what is compared; but it must be what its maker wrote. */
static kvg_status read_provenance(kvg_pack *pack, int folder)
{
    char shown[512];
    kvg_input_bytes *bytes = &pack->data->bytes[KVG_PACK_PROVENANCE];
    kvg_sha256_digest digest;
    kvg_json_doc *doc = NULL;
    kvg_status s = read_summed(folder, pack->path, KVG_PACK_PROVENANCE_SUM, KVG_PACK_PROVENANCE, shown, sizeof shown,
                               bytes, &digest);
    if (!s) s = kvg_json_parse(shown, bytes->bytes, bytes->size, &doc);
    if (!s && !kvg_json_is_object(kvg_json_root(doc))) s = kvg_json_fail(kvg_json_root(doc), "expected an object");
    if (!s && kvg_json_has(kvg_json_root(doc), "separations")) {
        kvg_json list;
        s = kvg_json_get(kvg_json_root(doc), "separations", &list);
        if (!s && kvg_json_is_object(list)) s = read_separations(pack, list);
    }
    kvg_json_close(doc);
    return s;
}

/* A safetensors file of the size and the hash that the manifest gives. */
static kvg_status read_payload(kvg_pack *pack, int folder, kvg_pack_file which)
{
    struct kvg_pack_data *d = pack->data;
    const bool prompt = which == KVG_PACK_PROMPT;
    const kvg_sha256_digest *wanted = prompt ? &pack->prompt : &pack->expected;
    const uint64_t bytes = prompt ? pack->prompt_bytes : pack->expected_bytes;
    char shown[512];
    kvg_sha256_digest digest;
    snprintf(shown, sizeof shown, "%s/%s", pack->path, kvg_pack_file_names[which]);
    kvg_status s = kvg_input_map_at(folder, kvg_pack_file_names[which], shown, KVG_PACK_MAX_FILE_BYTES,
                                    &d->bytes[which]);
    if (s) return s;
    if (d->bytes[which].size != bytes) {
        return kvg_fail(KVG_ERR_INVALID, "%s: has %zu bytes, the manifest says %llu: cut short or written over",
                        kvg_input_name(shown).text, d->bytes[which].size, (unsigned long long)bytes);
    }
    kvg_sha256_of(d->bytes[which].bytes, d->bytes[which].size, &digest);
    if (!kvg_sha256_same(&digest, wanted)) {
        return kvg_fail(KVG_ERR_INVALID, "%s: its SHA-256 is not what the manifest says: damaged or tampered with",
                        kvg_input_name(shown).text);
    }
    return kvg_safetensors_parse(shown, d->bytes[which].bytes, d->bytes[which].size, &d->files[which]);
}

kvg_status kvg_pack_open(const char *path, kvg_pack **out)
{
    int folder = -1;
    kvg_pack *pack = NULL;
    *out = NULL;
    kvg_status s = kvg_pack_new(&pack);
    if (s) return s;
    pack->path = kvg_pack_keep(pack, path);
    if (!pack->path) s = KVG_ERR_MEMORY;
    if (!s) s = open_folder(path, &folder);
    if (!s) s = read_manifest(pack, folder);
    if (!s) s = read_payload(pack, folder, KVG_PACK_PROMPT);
    if (!s) s = read_payload(pack, folder, KVG_PACK_EXPECTED);
    if (!s) s = kvg_pack_read_tensors(pack);
    if (!s) s = read_provenance(pack, folder);
    if (folder >= 0) close(folder);
    if (s) kvg_pack_close(pack);
    else *out = pack;
    return s;
}

/* --- writing --- */

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
