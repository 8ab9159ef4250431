#include "golden/safetensors_write.h"

#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "golden/json_write.h"

struct kvg_safetensors_writer {
    kvg_json_text notes, tensors; /* members of "__metadata__" and of the header, without the outer brackets */
    uint64_t *sizes;              /* of the declared tensors */
    size_t declared, capacity, put;
    uint64_t end;                 /* of the last declared tensor, in the data */
    size_t pads;
    FILE *file;
    kvg_sha256 sum;
    uint64_t written; /* bytes of the file so far */
};

kvg_status kvg_safetensors_writer_make(kvg_safetensors_writer **out)
{
    *out = cJSON_malloc(sizeof **out);
    if (!*out) return kvg_fail(KVG_ERR_MEMORY, "no memory to write a safetensors file");
    **out = (kvg_safetensors_writer){0};
    kvg_sha256_init(&(*out)->sum);
    return KVG_OK;
}

void kvg_safetensors_writer_free(kvg_safetensors_writer *w)
{
    if (!w) return;
    kvg_json_text_free(&w->notes);
    kvg_json_text_free(&w->tensors);
    cJSON_free(w->sizes);
    cJSON_free(w);
}

kvg_status kvg_safetensors_writer_note(kvg_safetensors_writer *w, const char *key, const char *value)
{
    if (w->notes.size) kvg_json_add(&w->notes, ",");
    kvg_json_add_string(&w->notes, key);
    kvg_json_add(&w->notes, ":");
    kvg_json_add_string(&w->notes, value);
    return kvg_json_text_check(&w->notes);
}

/* The data starts at a multiple of the alignment, so that offsets in it are aligned as those in the file. */
static uint64_t gap_after(uint64_t offset)
{
    return (KVG_SAFETENSORS_ALIGNMENT - offset % KVG_SAFETENSORS_ALIGNMENT) % KVG_SAFETENSORS_ALIGNMENT;
}

static void add_entry(kvg_safetensors_writer *w, const char *name, const char *dtype, uint32_t rank,
                      const uint64_t *shape, uint64_t bytes)
{
    if (w->tensors.size) kvg_json_add(&w->tensors, ",");
    kvg_json_add_string(&w->tensors, name);
    kvg_json_add(&w->tensors, ":{\"dtype\":\"%s\",\"shape\":[", dtype);
    for (uint32_t i = 0; i < rank; i++) kvg_json_add(&w->tensors, "%s%" PRIu64, i ? "," : "", shape[i]);
    kvg_json_add(&w->tensors, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", w->end, w->end + bytes);
    w->end += bytes;
}

static kvg_status keep_size(kvg_safetensors_writer *w, uint64_t bytes)
{
    if (w->declared == w->capacity) {
        const size_t capacity = w->capacity ? 2 * w->capacity : 64;
        uint64_t *grown = cJSON_malloc(capacity * sizeof *grown);
        if (!grown) return kvg_fail(KVG_ERR_MEMORY, "no memory for %zu tensors", capacity);
        if (w->declared) memcpy(grown, w->sizes, w->declared * sizeof *grown);
        cJSON_free(w->sizes);
        w->sizes = grown;
        w->capacity = capacity;
    }
    w->sizes[w->declared++] = bytes;
    return KVG_OK;
}

kvg_status kvg_safetensors_writer_declare(kvg_safetensors_writer *w, const char *name, const char *dtype, uint32_t rank,
                                          const uint64_t *shape)
{
    uint64_t bytes = kvg_safetensors_dtype_bytes(dtype);
    bool over = name[0] == '_' || rank > KVG_SAFETENSORS_MAX_RANK;
    for (uint32_t i = 0; i < rank && !over; i++) over |= __builtin_mul_overflow(bytes, shape[i], &bytes);
    if (over || bytes == 0) return kvg_fail(KVG_ERR_INVALID, "cannot write tensor '%s': no such name or size", name);
    const uint64_t gap = gap_after(w->end);
    if (gap) {
        char pad[32];
        snprintf(pad, sizeof pad, "_pad.%zu", w->pads++);
        add_entry(w, pad, "U8", 1, &gap, gap);
    }
    add_entry(w, name, dtype, rank, shape, bytes);
    kvg_status s = kvg_json_text_check(&w->tensors);
    return s ? s : keep_size(w, bytes);
}

static kvg_status write_bytes(kvg_safetensors_writer *w, const void *bytes, size_t count)
{
    kvg_sha256_add(&w->sum, bytes, count);
    w->written += count;
    if (w->file && fwrite(bytes, 1, count, w->file) != count) {
        return kvg_fail(KVG_ERR_IO, "cannot write %zu bytes of a safetensors file: %s", count, strerror(errno));
    }
    return KVG_OK;
}

/* `fill` up to the next multiple of the alignment. */
static kvg_status write_gap(kvg_safetensors_writer *w, int fill)
{
    uint8_t gap[KVG_SAFETENSORS_ALIGNMENT];
    memset(gap, fill, sizeof gap);
    return write_bytes(w, gap, (size_t)gap_after(w->written));
}

kvg_status kvg_safetensors_writer_begin(kvg_safetensors_writer *w, FILE *file)
{
    kvg_json_text header = {0};
    uint8_t length[8];
    w->file = file;
    kvg_json_add(&header, "{\"__metadata__\":{%s}%s%s}", w->notes.text ? w->notes.text : "", w->tensors.size ? "," : "",
                 w->tensors.text ? w->tensors.text : "");
    kvg_status s = kvg_json_text_check(&header);
    const uint64_t padded = header.size + gap_after(sizeof length + header.size);
    for (size_t i = 0; i < sizeof length; i++) length[i] = (uint8_t)(padded >> 8 * i);
    if (!s) s = write_bytes(w, length, sizeof length);
    if (!s) s = write_bytes(w, header.text, header.size);
    if (!s) s = write_gap(w, ' ');
    kvg_json_text_free(&header);
    return s;
}

kvg_status kvg_safetensors_writer_put(kvg_safetensors_writer *w, const void *data, size_t bytes)
{
    assert(w->put < w->declared && bytes == w->sizes[w->put]);
    kvg_status s = write_gap(w, 0); /* the `_pad.N` that was declared */
    if (!s) s = write_bytes(w, data, bytes);
    w->put++;
    return s;
}

void kvg_safetensors_writer_end(kvg_safetensors_writer *w, uint64_t *bytes, kvg_sha256_digest *digest)
{
    assert(w->put == w->declared);
    *bytes = w->written;
    kvg_sha256_end(&w->sum, digest);
}
