#include "golden/pack.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#include "golden/pack_parts.h"
#include "golden/pack_write.h"

const char *const kvg_pack_compare_names[] = {"bits", "rule", "bound", NULL};
const char *const kvg_pack_packings[] = {"low_first", "turbomind", "halves", NULL};
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

const char *kvg_pack_print(kvg_pack *pack, kvg_json value)
{
    char *text = kvg_json_print(value);
    const char *kept = text ? kvg_pack_keep(pack, text) : NULL;
    if (!text) (void)kvg_fail(KVG_ERR_MEMORY, "no memory for a JSON text");
    cJSON_free(text);
    return kept;
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

void kvg_pack_sum_line(const kvg_sha256_digest *digest, const char *name, char line[KVG_PACK_SUM_BYTES])
{
    char text[KVG_SHA256_TEXT];
    kvg_sha256_text(digest, text);
    snprintf(line, KVG_PACK_SUM_BYTES, "%s  %s\n", text, name);
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
