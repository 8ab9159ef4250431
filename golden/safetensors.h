/* Reading safetensors files: an 8-byte little-endian header length, a JSON header, tensor bytes.
 * The file is memory-mapped read-only and checked whole before any tensor is handed out: header length and JSON, names,
 * dtypes, shapes, offsets in bounds, byte counts that fit shape and dtype, no overlap and no holes. */
#ifndef KVG_GOLDEN_SAFETENSORS_H
#define KVG_GOLDEN_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct kvg_safetensors kvg_safetensors;

enum { KVG_SAFETENSORS_MAX_RANK = 8 };

typedef struct kvg_safetensors_entry {
    const char *name;
    const char *dtype; /* as written: "F32", "F16", "BF16", "U8", "I32", ... */
    uint32_t rank;
    uint64_t shape[KVG_SAFETENSORS_MAX_RANK];
    const void *data; /* not necessarily aligned: copy with memcpy */
    size_t bytes;
} kvg_safetensors_entry;

/* Bytes of an element of a dtype as files name it; 0 for an unknown one. */
size_t kvg_safetensors_dtype_bytes(const char *dtype);

/* Opens a file. KVG_ERR_IO if the file cannot be read, KVG_ERR_INVALID naming the defect otherwise. */
kvg_status kvg_safetensors_open(const char *path, kvg_safetensors **out) KVG_CHECKED;

/* The same over bytes in memory, which must outlive the handle; `name` is used in error texts. */
kvg_status kvg_safetensors_parse(const char *name, const void *bytes, size_t size, kvg_safetensors **out) KVG_CHECKED;
void kvg_safetensors_close(kvg_safetensors *file); /* NULL is allowed */

/* Tensors in the order of their offsets. */
size_t kvg_safetensors_count(const kvg_safetensors *file);
const kvg_safetensors_entry *kvg_safetensors_at(const kvg_safetensors *file, size_t index);

/* KVG_ERR_NOT_FOUND names the file and the nearest tensor name. */
kvg_status kvg_safetensors_find(const kvg_safetensors *file, const char *name,
                                const kvg_safetensors_entry **out) KVG_CHECKED;

/* A string of "__metadata__"; NULL if absent. And how many there are. */
size_t kvg_safetensors_metadata_count(const kvg_safetensors *file);
const char *kvg_safetensors_metadata(const kvg_safetensors *file, const char *key);

#endif
