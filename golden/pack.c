#define _POSIX_C_SOURCE 200809L
#define _DEFAULT_SOURCE
#include "golden/pack.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "golden/pack_parts.h"
#include "golden/pack_write.h"

const char *const kvg_pack_compare_names[] = {"bits", "rule", "bound", NULL};
const char *const kvg_pack_file_names[KVG_PACK_FILES] = {
    "manifest.json", "prompt.safetensors", "expected.safetensors", "provenance.json",
};

/* --- memory --- */

struct kvg_pack_block {
    kvg_pack_block *next;
    max_align_t bytes[];
};

kvg_status kvg_pack_new(kvg_pack **out)
{
    *out = cJSON_malloc(sizeof **out);
    struct kvg_pack_data *data = cJSON_malloc(sizeof *data);
    if (!*out || !data) {
        cJSON_free(*out);
        cJSON_free(data);
        *out = NULL;
        return kvg_fail(KVG_ERR_MEMORY, "no memory for a golden pack");
    }
    *data = (struct kvg_pack_data){0};
    **out = (kvg_pack){.data = data};
    return KVG_OK;
}

void *kvg_pack_alloc(kvg_pack *pack, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - sizeof(kvg_pack_block)) return NULL;
    kvg_pack_block *block = cJSON_malloc(sizeof *block + bytes);
    if (!block) {
        (void)kvg_fail(KVG_ERR_MEMORY, "no memory for %zu bytes of a golden pack", bytes);
        return NULL;
    }
    memset(block->bytes, 0, bytes);
    block->next = pack->data->blocks;
    pack->data->blocks = block;
    return block->bytes;
}

const char *kvg_pack_keep(kvg_pack *pack, const char *text)
{
    char *copy = kvg_pack_alloc(pack, strlen(text) + 1, 1);
    return copy ? strcpy(copy, text) : NULL;
}

void kvg_pack_close(kvg_pack *pack)
{
    if (!pack) return;
    struct kvg_pack_data *d = pack->data;
    for (int i = 0; i < KVG_PACK_FILES; i++) {
        kvg_safetensors_close(d->files[i]);
        kvg_input_unmap(&d->bytes[i]);
    }
    kvg_json_close(d->manifest);
    while (d->blocks) {
        kvg_pack_block *next = d->blocks->next;
        cJSON_free(d->blocks);
        d->blocks = next;
    }
    cJSON_free(d);
    cJSON_free(pack);
}

/* --- the folder and its files --- */

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

void kvg_pack_sum_line(const kvg_sha256_digest *digest, const char *name, char line[KVG_PACK_SUM_BYTES])
{
    char text[KVG_SHA256_TEXT];
    kvg_sha256_text(digest, text);
    snprintf(line, KVG_PACK_SUM_BYTES, "%s  %s\n", text, name);
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

/* --- what a pack holds --- */

kvg_status kvg_pack_find(const kvg_pack *pack, const char *key_or_id, const kvg_pack_case **out)
{
    for (size_t i = 0; i < pack->case_count; i++) {
        const kvg_pack_case *c = &pack->cases[i];
        if (strcmp(c->key, key_or_id) != 0 && strcmp(c->id, key_or_id) != 0) continue;
        *out = c;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no case '%s': keys are 0000 to %04zu, `kvgold golden inspect` lists ids",
                    kvg_input_name(pack->path).text, kvg_input_quote(key_or_id).text, pack->case_count - 1);
}

const kvg_pack_tensor *kvg_pack_tensor_find(const kvg_pack_tensor *list, size_t count, const char *short_name)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].short_name, short_name) == 0) return &list[i];
    }
    return NULL;
}

static bool concerns(const kvg_pack_erratum *erratum, const char *only)
{
    for (size_t i = 0; i < erratum->case_count; i++) {
        if (!only || strcmp(erratum->cases[i], only) == 0) return true;
    }
    return false;
}

void kvg_pack_warnings(const kvg_pack *pack, const char *only, kvg_pack_warn *warn, void *context)
{
    char line[1024];
    if (pack->superseded_by) {
        snprintf(line, sizeof line, "pack %s is superseded: use %s", pack->name, pack->superseded_by);
        warn(context, line);
    }
    for (size_t i = 0; i < pack->erratum_count; i++) {
        const kvg_pack_erratum *e = &pack->errata[i];
        if (!concerns(e, only)) continue;
        snprintf(line, sizeof line, "erratum %s of pack %s (%s, %zu cases): %s", e->id, pack->name, e->date,
                 e->case_count, e->text);
        kvg_input_printable(line);
        warn(context, line);
    }
}
