#include "model/generate/generate_output.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "support/progress.h"
#include "support/version.h"
#include "support/whole_file.h"

/* --- recording --- */

kvg_status kvg_generate_record_row(void *records, const kvg_generate_row *row)
{
    kvg_generate_records *all = records;
    kvg_generate_record *r = &all->list[row->request];
    if (!row->drawn) return KVG_OK;
    const size_t bytes = all->vocab * sizeof *row->logits;
    kvg_sha256_add(&r->sum, row->logits, bytes);
    if (r->logits) memcpy(r->logits + (size_t)r->rows * all->vocab, row->logits, bytes);
    r->rows++;
    all->rows++;
    kvg_progress_at(all->rows, KVG_PROGRESS_NOT_JUDGED, "", 0);
    return KVG_OK;
}

void kvg_generate_records_end(kvg_generate_records *records)
{
    for (size_t i = 0; i < records->count; i++) kvg_sha256_end(&records->list[i].sum, &records->list[i].digest);
}

void kvg_generate_records_free(kvg_generate_records *records)
{
    for (size_t i = 0; i < records->count; i++) {
        free(records->list[i].tokens);
        free(records->list[i].logits);
    }
    free(records->list);
    *records = (kvg_generate_records){0};
}

/* --- text --- */

static void print_bytes(const int32_t *tokens, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const int32_t c = tokens[i];
        if ((c < ' ' && c != '\n' && c != '\t') || c == 127) fprintf(out, "\\x%02x", (unsigned)c);
        else fputc(c, out);
    }
    fputc('\n', out);
}

static void print_ids(const int32_t *tokens, uint32_t count, FILE *out)
{
    for (uint32_t i = 0; i < count; i++) fprintf(out, "%s%d", i ? "," : "", tokens[i]);
    fputc('\n', out);
}

void kvg_generate_print(const kvg_generate_records *records, bool text, FILE *out)
{
    for (size_t i = 0; i < records->count; i++) {
        const kvg_generate_record *r = &records->list[i];
        if (records->count > 1) fprintf(out, "--- request %zu\n", i);
        (text ? print_bytes : print_ids)(r->tokens, r->prompt_tokens + r->new_tokens, out);
    }
}

/* --- JSON --- */

static void add_settings(cJSON *root, const kvg_generate_about *a)
{
    const kvg_generate_settings *g = a->settings;
    const kvg_model_setup *s = &g->setup;
    char seed[24];
    cJSON_AddStringToObject(root, "kvgold", KVG_VERSION);
    cJSON_AddStringToObject(root, "model", a->model);
    cJSON_AddStringToObject(root, "backend", a->backend);
    cJSON_AddStringToObject(root, "dtype", kvg_dtype_name(s->dtype));
    cJSON *kv = cJSON_AddArrayToObject(root, "kv");
    for (int side = KVG_K; side <= KVG_V; side++) {
        char text[128];
        snprintf(text, sizeof text, "%s:%s", kvg_format_get(s->storage[side].format)->name, s->storage[side].dialect);
        cJSON_AddItemToArray(kv, cJSON_CreateString(text));
    }
    cJSON_AddStringToObject(root, "layout", kvg_layout_get(s->layout)->name);
    cJSON_AddStringToObject(root, "profile", kvg_profile_get(s->profile)->name);
    cJSON_AddStringToObject(root, "products", kvg_products_name(s->products));
    cJSON_AddNumberToObject(root, "block_tokens", s->block_tokens);
    cJSON_AddNumberToObject(root, "blocks", s->blocks);
    cJSON_AddNumberToObject(root, "chunk", g->chunk);
    cJSON_AddNumberToObject(root, "batch", g->batch);
    cJSON_AddNumberToObject(root, "drafts", g->drafts);
    cJSON_AddBoolToObject(root, "share_prefixes", g->share_prefixes);
    cJSON *scales = cJSON_AddArrayToObject(root, "tensor_scale"); /* of every layer's K, V */
    for (int side = KVG_K; side <= KVG_V; side++) {
        cJSON_AddItemToArray(scales, cJSON_CreateNumber(s->tensor_scale ? s->tensor_scale[0][side] : 1));
    }
    snprintf(seed, sizeof seed, "0x%llx", (unsigned long long)a->sampling->seed);
    cJSON_AddNumberToObject(root, "temperature", a->sampling->temperature);
    cJSON_AddNumberToObject(root, "top_p", a->sampling->top_p);
    cJSON_AddStringToObject(root, "seed", seed);
}

static void add_counts(cJSON *root, const kvg_generate_about *a)
{
    const kvg_generate_counts *c = &a->counts;
    cJSON *counts = cJSON_AddObjectToObject(root, "counts");
    cJSON_AddNumberToObject(counts, "steps", (double)c->steps);
    cJSON_AddNumberToObject(counts, "rows", (double)c->rows);
    cJSON_AddNumberToObject(counts, "shared_tokens", (double)c->shared_tokens);
    cJSON_AddNumberToObject(counts, "copies", (double)c->copies);
    cJSON_AddNumberToObject(counts, "preemptions", (double)c->preemptions);
    cJSON_AddNumberToObject(counts, "drafted", (double)c->drafted);
    cJSON_AddNumberToObject(counts, "accepted", (double)c->accepted);
    cJSON_AddNumberToObject(counts, "peak_blocks", c->peak_blocks);
    cJSON_AddNumberToObject(root, "seconds", a->seconds);
}

/* All requests' digests, one after the other, hashed. */
static void hash_all(const kvg_generate_records *records, char text[KVG_SHA256_TEXT])
{
    kvg_sha256 sum;
    kvg_sha256_digest digest;
    kvg_sha256_init(&sum);
    for (size_t i = 0; i < records->count; i++) {
        kvg_sha256_add(&sum, records->list[i].digest.bytes, KVG_SHA256_BYTES);
    }
    kvg_sha256_end(&sum, &digest);
    kvg_sha256_text(&digest, text);
}

static void add_requests(cJSON *root, const kvg_generate_records *records)
{
    char text[KVG_SHA256_TEXT];
    hash_all(records, text);
    cJSON_AddStringToObject(root, "logits_sha256", text);
    cJSON *list = cJSON_AddArrayToObject(root, "requests");
    for (size_t i = 0; i < records->count; i++) {
        const kvg_generate_record *r = &records->list[i];
        cJSON *one = cJSON_CreateObject();
        cJSON_AddItemToArray(list, one);
        cJSON_AddNumberToObject(one, "prompt_tokens", r->prompt_tokens);
        cJSON_AddNumberToObject(one, "new_tokens", r->new_tokens);
        cJSON_AddNumberToObject(one, "cache_bytes", (double)r->bytes);
        kvg_sha256_text(&r->digest, text);
        cJSON_AddStringToObject(one, "logits_sha256", text);
        cJSON_AddItemToObject(one, "tokens", cJSON_CreateIntArray(r->tokens, (int)(r->prompt_tokens + r->new_tokens)));
    }
}

kvg_status kvg_generate_write_json(const kvg_generate_records *records, const kvg_generate_about *about,
                                   const char *path)
{
    cJSON *root = cJSON_CreateObject();
    add_settings(root, about);
    add_counts(root, about);
    add_requests(root, records);
    kvg_status s = kvg_whole_file_write_json(path, root);
    cJSON_Delete(root);
    return s;
}

/* --- logits --- */

static kvg_status put_logits(void *context, FILE *out)
{
    const kvg_generate_records *records = context;
    kvg_safetensors_writer *w;
    kvg_sha256_digest digest;
    uint64_t bytes;
    kvg_status s = kvg_safetensors_writer_make(&w);
    if (s) return s;
    for (size_t i = 0; i < records->count && !s; i++) {
        char name[32];
        snprintf(name, sizeof name, "request_%zu", i);
        s = kvg_safetensors_writer_declare(w, name, "F32", 2, (uint64_t[]){records->list[i].rows, records->vocab});
    }
    if (!s) s = kvg_safetensors_writer_begin(w, out);
    for (size_t i = 0; i < records->count && !s; i++) {
        const kvg_generate_record *r = &records->list[i];
        s = kvg_safetensors_writer_put(w, r->logits, (size_t)r->rows * records->vocab * sizeof *r->logits);
    }
    if (!s) kvg_safetensors_writer_end(w, &bytes, &digest);
    kvg_safetensors_writer_free(w);
    return s;
}

kvg_status kvg_generate_write_logits(kvg_generate_records *records, const char *path)
{
    return kvg_whole_file_write(path, put_logits, records);
}
