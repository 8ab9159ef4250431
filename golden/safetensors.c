#define _POSIX_C_SOURCE 200809L
#include "golden/safetensors.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/name.h"
#include "golden/input.h"
#include "golden/json.h"

enum { LENGTH_BYTES = 8 };

/* All memory is cJSON_malloc's, as the header's is. */
struct kvg_safetensors {
    kvg_json_doc *header; /* owns the names, dtypes and metadata */
    kvg_json metadata;    /* item NULL if the header has none */
    kvg_safetensors_entry *entries;
    size_t count;
    const uint8_t *data; /* the tensor bytes */
    size_t data_size;
    void *map; /* what to unmap; NULL if the bytes are the caller's */
    size_t map_size;
    kvg_input_text name;
};

static const char *const dtype_names[] = {"BOOL", "U8",   "I8",  "F8_E4M3", "F8_E5M2", "F8_E8M0", "I16", "U16",
                                          "F16",  "BF16", "I32", "U32",     "F32",     "F64",     "I64", "U64"};
enum { DTYPE_COUNT = sizeof dtype_names / sizeof dtype_names[0] };
static const uint8_t dtype_bytes[DTYPE_COUNT] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};

size_t kvg_safetensors_dtype_bytes(const char *dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (strcmp(dtype_names[i], dtype) == 0) return dtype_bytes[i];
    }
    return 0;
}

/* ---- one tensor of the header ---- */

static kvg_status read_dtype(kvg_json value, kvg_safetensors_entry *entry, uint64_t *element_bytes)
{
    kvg_status s = kvg_json_string(value, &entry->dtype);
    if (s != KVG_OK) return s;
    *element_bytes = kvg_safetensors_dtype_bytes(entry->dtype);
    if (*element_bytes) return KVG_OK;
    return kvg_json_fail_name(value, "dtype", entry->dtype, dtype_names, DTYPE_COUNT);
}

/* *bytes: what a tensor of the shape takes. */
static kvg_status read_shape(kvg_json value, uint64_t element_bytes, kvg_safetensors_entry *entry, uint64_t *bytes)
{
    if (!kvg_json_is_array(value)) return kvg_json_fail(value, "expected an array of sizes");
    if (kvg_json_count(value) > KVG_SAFETENSORS_MAX_RANK) {
        return kvg_json_fail(value, "rank %zu is over the limit of %d: reshape the tensor", kvg_json_count(value),
                             KVG_SAFETENSORS_MAX_RANK);
    }
    entry->rank = (uint32_t)kvg_json_count(value);
    *bytes = element_bytes;
    for (uint32_t i = 0; i < entry->rank; i++) {
        kvg_status s = kvg_json_u64(kvg_json_at(value, i), 0, UINT64_MAX, &entry->shape[i]);
        if (s != KVG_OK) return s;
        if (entry->shape[i] != 0 && *bytes > UINT64_MAX / entry->shape[i]) {
            return kvg_json_fail(value, "the product of the shape overflows: the header is damaged");
        }
        *bytes *= entry->shape[i];
    }
    return KVG_OK;
}

static kvg_status read_offsets(kvg_json value, const kvg_safetensors *file, uint64_t *begin, uint64_t *end)
{
    if (!kvg_json_is_array(value) || kvg_json_count(value) != 2) {
        return kvg_json_fail(value, "expected an array of two offsets, begin and end");
    }
    kvg_status s = kvg_json_u64(kvg_json_at(value, 0), 0, UINT64_MAX, begin);
    if (s == KVG_OK) s = kvg_json_u64(kvg_json_at(value, 1), 0, UINT64_MAX, end);
    if (s != KVG_OK) return s;
    if (*begin > *end) {
        return kvg_json_fail(value, "begin %llu is after end %llu", (unsigned long long)*begin,
                             (unsigned long long)*end);
    }
    if (*end > file->data_size) {
        return kvg_json_fail(value, "end %llu is past the %zu bytes of data: the file is cut short",
                             (unsigned long long)*end, file->data_size);
    }
    return KVG_OK;
}

static kvg_status read_entry(const kvg_safetensors *file, kvg_json tensor, kvg_safetensors_entry *entry)
{
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    kvg_json member[3];
    kvg_status s = kvg_json_check_keys(tensor, keys, 3);
    for (int i = 0; s == KVG_OK && i < 3; i++) s = kvg_json_get(tensor, keys[i], &member[i]);
    if (s != KVG_OK) return s;
    *entry = (kvg_safetensors_entry){.name = kvg_json_key(tensor)};
    uint64_t element_bytes = 0;
    uint64_t bytes = 0;
    uint64_t begin = 0;
    uint64_t end = 0;
    s = read_dtype(member[0], entry, &element_bytes);
    if (s == KVG_OK) s = read_shape(member[1], element_bytes, entry, &bytes);
    if (s == KVG_OK) s = read_offsets(member[2], file, &begin, &end);
    if (s != KVG_OK) return s;
    if (end - begin != bytes) {
        return kvg_json_fail(tensor, "dtype and shape take %llu bytes, the offsets hold %llu",
                             (unsigned long long)bytes, (unsigned long long)(end - begin));
    }
    entry->data = file->data + begin;
    entry->bytes = (size_t)bytes;
    return KVG_OK;
}

/* ---- the whole header ---- */

static kvg_status read_metadata(kvg_json metadata)
{
    if (!kvg_json_is_object(metadata)) return kvg_json_fail(metadata, "expected an object of strings");
    for (size_t i = 0; i < kvg_json_count(metadata); i++) {
        const char *text = NULL;
        kvg_status s = kvg_json_string(kvg_json_at(metadata, i), &text);
        if (s != KVG_OK) return s;
    }
    return KVG_OK;
}

static kvg_status read_entries(kvg_safetensors *file, kvg_json root)
{
    size_t members = kvg_json_count(root);
    file->entries = cJSON_malloc((members + 1) * sizeof file->entries[0]); /* + 1: never 0 bytes */
    if (!file->entries) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for %zu tensors", file->name.text, members);
    for (size_t i = 0; i < members; i++) {
        kvg_json member = kvg_json_at(root, i);
        kvg_status s = KVG_OK;
        if (strcmp(kvg_json_key(member), "__metadata__") == 0) {
            file->metadata = member;
            s = read_metadata(member);
        } else {
            s = read_entry(file, member, &file->entries[file->count++]);
        }
        if (s != KVG_OK) return s;
    }
    return KVG_OK;
}

static size_t begin_of(const kvg_safetensors *file, const kvg_safetensors_entry *entry)
{
    return (size_t)((const uint8_t *)entry->data - file->data);
}

/* By begin, then end (an empty tensor comes before what begins where it stands), then name. */
static int compare_entries(const void *a, const void *b)
{
    const kvg_safetensors_entry *x = a;
    const kvg_safetensors_entry *y = b;
    const uint8_t *x_data = x->data;
    const uint8_t *y_data = y->data;
    if (x_data != y_data) return x_data < y_data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

/* Sorted tensors must follow each other without a gap, from the first byte of data to the last. */
static kvg_status check_coverage(kvg_safetensors *file)
{
    qsort(file->entries, file->count, sizeof file->entries[0], compare_entries);
    size_t covered = 0;
    for (size_t i = 0; i < file->count; i++) {
        const kvg_safetensors_entry *entry = &file->entries[i];
        size_t begin = begin_of(file, entry);
        if (begin < covered) {
            return kvg_fail(KVG_ERR_INVALID, "%s: tensors '%s' and '%s' overlap: data byte %zu is in both",
                            file->name.text, kvg_input_quote(file->entries[i - 1].name).text,
                            kvg_input_quote(entry->name).text, begin);
        }
        if (begin > covered) {
            return kvg_fail(KVG_ERR_INVALID, "%s: hole before tensor '%s': data bytes %zu to %zu belong to no tensor",
                            file->name.text, kvg_input_quote(entry->name).text, covered, begin - 1);
        }
        covered = begin + entry->bytes;
    }
    if (covered < file->data_size) {
        return kvg_fail(KVG_ERR_INVALID, "%s: %zu bytes after the last tensor belong to no tensor", file->name.text,
                        file->data_size - covered);
    }
    return KVG_OK;
}

static kvg_status parse_header(const kvg_input_text *name, const char *text, size_t size, kvg_json_doc **out)
{
    size_t trimmed = size;
    while (trimmed > 0 && text[trimmed - 1] == ' ') trimmed--; /* padding that the format allows */
    if (trimmed == 0 || text[0] != '{' || text[trimmed - 1] != '}') {
        return kvg_fail(KVG_ERR_INVALID, "%s: the header is not '{...}' and spaces: is this a safetensors file?",
                        name->text);
    }
    char title[sizeof name->text + 8];
    snprintf(title, sizeof title, "%s: header", name->text);
    return kvg_json_parse(title, text, trimmed, out);
}

/* Fills a handle that has its name. */
static kvg_status parse_bytes(kvg_safetensors *file, const uint8_t *bytes, size_t size)
{
    const char *name = file->name.text;
    if (size < LENGTH_BYTES) {
        return kvg_fail(KVG_ERR_INVALID, "%s: %zu bytes cannot hold the header's length: the file is cut short", name,
                        size);
    }
    uint64_t length = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--) length = length << 8 | bytes[i];
    size_t left = size - LENGTH_BYTES;
    if (length > left) {
        return kvg_fail(KVG_ERR_INVALID, "%s: header of %llu bytes, but only %zu follow: cut short or not safetensors",
                        name, (unsigned long long)length, left);
    }
    if (length > KVG_JSON_MAX_BYTES) {
        return kvg_fail(KVG_ERR_INVALID, "%s: header of %llu bytes is over this reader's limit of %d: split the file",
                        name, (unsigned long long)length, KVG_JSON_MAX_BYTES);
    }
    file->data = bytes + LENGTH_BYTES + length;
    file->data_size = left - (size_t)length;
    kvg_status s = parse_header(&file->name, (const char *)bytes + LENGTH_BYTES, (size_t)length, &file->header);
    if (s == KVG_OK) s = read_entries(file, kvg_json_root(file->header));
    if (s == KVG_OK) s = check_coverage(file);
    return s;
}

static kvg_status finish(kvg_safetensors *file, kvg_status s, kvg_safetensors **out)
{
    if (s == KVG_OK) *out = file;
    else kvg_safetensors_close(file);
    return s;
}

static kvg_status create_file(const char *name, kvg_safetensors **out)
{
    *out = cJSON_malloc(sizeof **out);
    if (!*out) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory to open it", kvg_input_name(name).text);
    **out = (kvg_safetensors){.name = kvg_input_name(name)};
    return KVG_OK;
}

kvg_status kvg_safetensors_parse(const char *name, const void *bytes, size_t size, kvg_safetensors **out)
{
    *out = NULL;
    kvg_safetensors *file = NULL;
    kvg_status s = create_file(name, &file);
    return s == KVG_OK ? finish(file, parse_bytes(file, bytes, size), out) : s;
}

/* A file that another process cuts while it is mapped ends this one with SIGBUS: captures are written once. */
static kvg_status map_file(kvg_safetensors *file, int fd, size_t size)
{
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED) {
        return kvg_fail(KVG_ERR_IO, "%s: cannot map %zu bytes: %s", file->name.text, size, strerror(errno));
    }
    file->map = map;
    file->map_size = size;
    return parse_bytes(file, map, size);
}

kvg_status kvg_safetensors_open(const char *path, kvg_safetensors **out)
{
    *out = NULL;
    int fd = -1;
    size_t size = 0;
    kvg_status s = kvg_input_open(path, &fd, &size);
    if (s != KVG_OK) return s;
    kvg_safetensors *file = NULL;
    s = create_file(path, &file);
    if (s == KVG_OK) s = finish(file, map_file(file, fd, size), out);
    close(fd);
    return s;
}

void kvg_safetensors_close(kvg_safetensors *file)
{
    if (!file) return;
    kvg_json_close(file->header);
    if (file->map) munmap(file->map, file->map_size);
    cJSON_free(file->entries);
    cJSON_free(file);
}

/* ---- what a file holds ---- */

size_t kvg_safetensors_count(const kvg_safetensors *file)
{
    return file->count;
}

const kvg_safetensors_entry *kvg_safetensors_at(const kvg_safetensors *file, size_t index)
{
    return index < file->count ? &file->entries[index] : NULL;
}

kvg_status kvg_safetensors_find(const kvg_safetensors *file, const char *name, const kvg_safetensors_entry **out)
{
    for (size_t i = 0; i < file->count; i++) {
        if (strcmp(file->entries[i].name, name) != 0) continue;
        *out = &file->entries[i];
        return KVG_OK;
    }
    const char **names = cJSON_malloc((file->count + 1) * sizeof names[0]);
    if (!names) return kvg_fail(KVG_ERR_MEMORY, "%s: no memory for %zu names", file->name.text, file->count);
    for (size_t i = 0; i < file->count; i++) names[i] = file->entries[i].name;
    const char *nearest = kvg_name_nearest(name, names, sizeof names[0], file->count);
    cJSON_free(names);
    kvg_input_text shown = kvg_input_quote(name);
    if (nearest) {
        return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no tensor '%s' (did you mean '%s'?)", file->name.text, shown.text,
                        kvg_input_quote(nearest).text);
    }
    return kvg_fail(KVG_ERR_NOT_FOUND, "%s: no tensor '%s' among its %zu", file->name.text, shown.text, file->count);
}

const char *kvg_safetensors_metadata(const kvg_safetensors *file, const char *key)
{
    kvg_json value = {0};
    const char *text = NULL;
    if (!file->metadata.item || !kvg_json_has(file->metadata, key)) return NULL;
    if (kvg_json_get(file->metadata, key, &value) != KVG_OK || kvg_json_string(value, &text) != KVG_OK) return NULL;
    return text;
}

size_t kvg_safetensors_metadata_count(const kvg_safetensors *file)
{
    return file->metadata.item ? kvg_json_count(file->metadata) : 0;
}
