#include "model/checkpoint/model_weights.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/bits.h"
#include "golden/golden.h"
#include "reference/reference.h"

/* --- the table --- */

typedef enum layered { ONCE, EVERY_LAYER } layered;

typedef enum condition {
    ALWAYS,
    ATTENTION_BIAS,
    QK_NORM,
    SINKS,
    DENSE,
    MLP_BIAS,
    EXPERTS,
    WIDE_EXPERTS,
    MXFP4_EXPERTS,
    UNTIED,
    CONDITIONS
} condition;

typedef enum dim {
    END, /* of a shape */
    VOCAB,
    HIDDEN,
    QUERY, /* heads x head_dim */
    KEYS,
    DIM,
    HEADS,
    INNER,
    TWO_INNER,
    COUNT, /* experts */
    HIDDEN_BLOCKS,
    INNER_BLOCKS,
    BYTES, /* of the codes of a block */
    DIMS
} dim;

enum { MXFP4_BLOCK = 32, MXFP4_MOST_SCALE = 252 }; /* 6 * 2^(253 - 127) is beyond f32 */

static const struct {
    layered layered;
    condition which;
    const char *name;
    dim dims[5];
} weights_table[KVG_WEIGHT_COUNT] = {
#define WEIGHT(ENUM, LAYERED, CONDITION, name, ...) {LAYERED, CONDITION, name, {__VA_ARGS__}},
#include "core/model_weights.def"
#undef WEIGHT
};

static bool holds(const kvg_model_config *c, condition which)
{
    const bool conditions[CONDITIONS] = {
        [ALWAYS] = true, [ATTENTION_BIAS] = c->attention_bias, [QK_NORM] = c->qk_norm, [SINKS] = c->sinks,
        [DENSE] = c->experts == 0, [MLP_BIAS] = c->mlp_bias, [EXPERTS] = c->experts > 0,
        [WIDE_EXPERTS] = c->experts > 0 && !c->mxfp4, [MXFP4_EXPERTS] = c->experts > 0 && c->mxfp4,
        [UNTIED] = !c->tied};
    return conditions[which];
}

static uint64_t size_of(const kvg_model_config *c, dim d)
{
    const uint64_t dims[DIMS] = {
        [VOCAB] = c->vocab, [HIDDEN] = c->hidden, [QUERY] = (uint64_t)c->query_heads * c->head_dim,
        [KEYS] = (uint64_t)c->kv_heads * c->head_dim, [DIM] = c->head_dim, [HEADS] = c->query_heads,
        [INNER] = c->intermediate, [TWO_INNER] = 2 * (uint64_t)c->intermediate, [COUNT] = c->experts,
        [HIDDEN_BLOCKS] = c->hidden / MXFP4_BLOCK, [INNER_BLOCKS] = c->intermediate / MXFP4_BLOCK,
        [BYTES] = MXFP4_BLOCK / 2};
    return dims[d];
}

uint32_t kvg_model_weight_shape(const kvg_model_config *config, kvg_weight weight, uint32_t *rank, uint64_t shape[4])
{
    const dim *dims = weights_table[weight].dims;
    for (*rank = 0; dims[*rank] != END; ++*rank) shape[*rank] = size_of(config, dims[*rank]);
    if (!holds(config, weights_table[weight].which)) return 0;
    return weights_table[weight].layered == ONCE ? 1 : config->layers;
}

/* --- the folder --- */

typedef struct shard {
    char *name;
    kvg_safetensors *file;
} shard;

struct kvg_model_weights {
    kvg_model_config config;
    char folder[PATH_MAX];
    shard *shards;
    size_t shard_count;
    kvg_json_doc *index; /* NULL: one file */
    const kvg_safetensors_entry *entries[]; /* [layer][weight]; those that come once under layer 0 */
};

static const kvg_safetensors_entry **entry_at(kvg_model_weights *w, kvg_weight weight, uint32_t layer)
{
    return &w->entries[(size_t)layer * KVG_WEIGHT_COUNT + weight];
}

static kvg_status path_in(const kvg_model_weights *w, const char *name, char path[PATH_MAX])
{
    if (snprintf(path, PATH_MAX, "%s/%s", w->folder, name) < PATH_MAX) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "the path of %.60s is too long", name);
}

/* Opens a file of the folder, once. */
static kvg_status open_shard(kvg_model_weights *w, const char *name, size_t *index)
{
    char path[PATH_MAX];
    for (*index = 0; *index < w->shard_count; ++*index) {
        if (strcmp(w->shards[*index].name, name) == 0) return KVG_OK;
    }
    shard *more = realloc(w->shards, (w->shard_count + 1) * sizeof *more);
    if (more) w->shards = more;
    char *copy = more ? malloc(strlen(name) + 1) : NULL;
    if (!copy) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the names of %zu shards", w->shard_count + 1);
    strcpy(copy, name);
    w->shards[w->shard_count++] = (shard){.name = copy};
    kvg_status s = path_in(w, name, path);
    return s ? s : kvg_safetensors_open(path, &w->shards[*index].file);
}

/* The files that the index names: plain names, so that none lies outside of the folder. */
static kvg_status open_index(kvg_model_weights *w, const char *path)
{
    static const char *const known[] = {"metadata", "weight_map"};
    kvg_json map;
    size_t index;
    kvg_status s = kvg_json_open(path, &w->index);
    if (s) return s;
    const kvg_json root = kvg_json_root(w->index);
    s = kvg_json_check_keys(root, known, 2);
    if (!s) s = kvg_json_get(root, "weight_map", &map);
    if (!s && kvg_json_count(map) == 0) s = kvg_json_fail(map, "expected an object of tensors and files");
    for (size_t i = 0; !s && i < kvg_json_count(map); i++) {
        const kvg_json value = kvg_json_at(map, i);
        const char *name;
        s = kvg_json_string(value, &name);
        if (s) break;
        if (name[0] == 0 || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
            return kvg_json_fail(value, "'%.60s' is no plain file name: a shard lies in the folder itself", name);
        }
        s = open_shard(w, name, &index);
    }
    return s;
}

static kvg_status open_files(kvg_model_weights *w)
{
    char path[PATH_MAX];
    size_t index;
    kvg_status s = path_in(w, "model.safetensors", path);
    if (s) return s;
    if (access(path, F_OK) == 0) return open_shard(w, "model.safetensors", &index);
    s = path_in(w, "model.safetensors.index.json", path);
    if (!s && access(path, F_OK) == 0) return open_index(w, path);
    return s ? s : kvg_fail(KVG_ERR_NOT_FOUND, "%.200s has neither model.safetensors nor model.safetensors.index.json",
                            w->folder);
}

/* --- tensors --- */

/* The row of the table that a tensor's name belongs to: KVG_WEIGHT_COUNT for none, or for a layer that is not there. */
static kvg_weight weight_of(const kvg_model_weights *w, const char *name, uint32_t *layer)
{
    static const char prefix[] = "model.layers.";
    const char *rest = name;
    layered wanted = ONCE;
    *layer = 0;
    if (strncmp(name, prefix, sizeof prefix - 1) == 0) {
        char *end;
        const char *digits = name + sizeof prefix - 1;
        const unsigned long number = strtoul(digits, &end, 10);
        const bool plain = digits[0] >= '0' && digits[0] <= '9' && (digits[0] != '0' || end == digits + 1);
        if (!plain || *end != '.' || number >= w->config.layers) return KVG_WEIGHT_COUNT;
        *layer = (uint32_t)number;
        rest = end + 1;
        wanted = EVERY_LAYER;
    }
    for (int i = 0; i < KVG_WEIGHT_COUNT; i++) {
        if (weights_table[i].layered != wanted || strcmp(weights_table[i].name, rest) != 0) continue;
        return holds(&w->config, weights_table[i].which) ? (kvg_weight)i : KVG_WEIGHT_COUNT;
    }
    return KVG_WEIGHT_COUNT;
}

/* Nobody takes them: the output embedding beside tied ones, which `check_tied` compares, the frequencies that old
 * checkpoints carry, and what docs/spec/golden-pack.md fills gaps with. */
static bool is_idle(const kvg_model_weights *w, const char *name)
{
    static const char suffix[] = ".rotary_emb.inv_freq";
    const size_t length = strlen(name);
    if (w->config.tied && strcmp(name, "lm_head.weight") == 0) return true;
    if (strncmp(name, "_pad.", 5) == 0) return true;
    return length > sizeof suffix && strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

static void shape_text(const uint64_t *shape, uint32_t rank, char *out, size_t size)
{
    size_t used = (size_t)snprintf(out, size, "[");
    for (uint32_t i = 0; i < rank && used < size; i++) {
        used += (size_t)snprintf(out + used, size - used, "%s%llu", i ? ", " : "", (unsigned long long)shape[i]);
    }
    if (used < size) snprintf(out + used, size - used, "]");
}

static kvg_dtype dtype_of(const kvg_safetensors_entry *e)
{
    if (strcmp(e->dtype, "BF16") == 0) return KVG_DTYPE_BF16;
    if (strcmp(e->dtype, "F16") == 0) return KVG_DTYPE_F16;
    return strcmp(e->dtype, "F32") == 0 ? KVG_DTYPE_F32 : KVG_DTYPE_U8;
}

static kvg_status check_entry(const kvg_model_weights *w, const char *file, kvg_weight weight,
                              const kvg_safetensors_entry *e)
{
    const bool codes = weights_table[weight].which == MXFP4_EXPERTS;
    uint64_t shape[4];
    uint32_t rank;
    char is[96], wanted[96];
    (void)kvg_model_weight_shape(&w->config, weight, &rank, shape);
    if (e->rank != rank || memcmp(e->shape, shape, rank * sizeof *shape) != 0) {
        shape_text(e->shape, e->rank, is, sizeof is);
        shape_text(shape, rank, wanted, sizeof wanted);
        return kvg_fail(KVG_ERR_INVALID, "%.160s/%s: tensor %.100s has shape %s, not %s", w->folder, file, e->name, is,
                        wanted);
    }
    if (codes ? strcmp(e->dtype, "U8") == 0 : dtype_of(e) != KVG_DTYPE_U8) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%.160s/%s: tensor %.100s is %s, not %s", w->folder, file, e->name, e->dtype,
                    codes ? "U8" : "BF16, F16 or F32");
}

/* The shard that the index gives a tensor; NULL: none. */
static const char *mapped_shard(const kvg_model_weights *w, const char *name)
{
    kvg_json map, value;
    const char *file;
    if (kvg_json_get(kvg_json_root(w->index), "weight_map", &map)) return NULL;
    if (!kvg_json_has(map, name) || kvg_json_get(map, name, &value) || kvg_json_string(value, &file)) return NULL;
    return file;
}

static kvg_status take_entry(kvg_model_weights *w, const shard *from, const kvg_safetensors_entry *e)
{
    uint32_t layer;
    const char *mapped = w->index ? mapped_shard(w, e->name) : from->name;
    const kvg_weight weight = weight_of(w, e->name, &layer);
    if (is_idle(w, e->name)) return KVG_OK;
    if (weight == KVG_WEIGHT_COUNT) {
        return kvg_fail(KVG_ERR_INVALID, "%.160s/%s: tensor %.100s belongs to no part of this model", w->folder,
                        from->name, e->name);
    }
    if (!mapped || strcmp(mapped, from->name) != 0) {
        return kvg_fail(KVG_ERR_INVALID, "%.160s/%s: tensor %.100s lies here, but the index says %.60s", w->folder,
                        from->name, e->name, mapped ? mapped : "nothing of it");
    }
    *entry_at(w, weight, layer) = e;
    return check_entry(w, from->name, weight, e);
}

static kvg_status find_tensors(kvg_model_weights *w)
{
    for (size_t i = 0; i < w->shard_count; i++) {
        for (size_t k = 0; k < kvg_safetensors_count(w->shards[i].file); k++) {
            kvg_status s = take_entry(w, &w->shards[i], kvg_safetensors_at(w->shards[i].file, k));
            if (s) return s;
        }
    }
    for (uint32_t layer = 0; layer < w->config.layers; layer++) {
        for (int i = 0; i < KVG_WEIGHT_COUNT; i++) {
            const bool once = weights_table[i].layered == ONCE;
            if (!holds(&w->config, weights_table[i].which) || (once && layer > 0)) continue;
            if (*entry_at(w, (kvg_weight)i, layer)) continue;
            char number[32] = "";
            if (!once) snprintf(number, sizeof number, "model.layers.%u.", layer);
            return kvg_fail(KVG_ERR_INVALID, "%.160s: tensor %s%s is missing", w->folder, number,
                            weights_table[i].name);
        }
    }
    return KVG_OK;
}

kvg_status kvg_model_weights_open(const char *folder, const kvg_model_config *config, kvg_model_weights **out)
{
    const size_t entries = (size_t)config->layers * KVG_WEIGHT_COUNT;
    kvg_model_weights *w = calloc(1, sizeof *w + entries * sizeof *w->entries);
    *out = NULL;
    if (!w) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the tensors of %u layers", config->layers);
    w->config = *config;
    kvg_status s = KVG_OK;
    if (snprintf(w->folder, sizeof w->folder, "%s", folder) >= (int)sizeof w->folder) {
        s = kvg_fail(KVG_ERR_INVALID, "the folder's name is too long: %.60s...", folder);
    }
    if (!s) s = open_files(w);
    if (!s) s = find_tensors(w);
    if (s) kvg_model_weights_close(w);
    else *out = w;
    return s;
}

void kvg_model_weights_close(kvg_model_weights *w)
{
    if (!w) return;
    for (size_t i = 0; i < w->shard_count; i++) {
        kvg_safetensors_close(w->shards[i].file);
        free(w->shards[i].name);
    }
    free(w->shards);
    kvg_json_close(w->index);
    free(w);
}

/* --- numbers --- */

kvg_weight_view kvg_model_weights_view(const kvg_model_weights *w, kvg_weight weight, uint32_t layer)
{
    const kvg_safetensors_entry *e = w->entries[(size_t)layer * KVG_WEIGHT_COUNT + weight];
    kvg_weight_view view = {0};
    if (!e) return view;
    view = (kvg_weight_view){.dtype = dtype_of(e), .rank = e->rank, .data = e->data};
    memcpy(view.shape, e->shape, e->rank * sizeof *e->shape);
    return view;
}

/* Blocks of 32 E2M1 codes, low nibble first, and their power of two: exact. */
static void decode_blocks(const uint8_t *codes, const uint8_t *scales, size_t blocks, float *out)
{
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (size_t i = 0; i < blocks * MXFP4_BLOCK; i++) {
        const uint8_t scale = scales[i / MXFP4_BLOCK], pair = codes[i / 2];
        const float power = kvg_f32_of_bits(scale ? (uint32_t)scale << 23 : 0x400000u); /* 2^-127 is subnormal */
        out[i] = values[i % 2 ? pair >> 4 : pair & 15] * power;
    }
}

/* Row of a tensor [.., rows, length] as it lies. */
static size_t plain_row(const kvg_weight_view *v, size_t row, float *out)
{
    const size_t length = (size_t)v->shape[v->rank - 1];
    kvg_reference_load(v->dtype, (const uint8_t *)v->data + row * length * kvg_dtype_bytes(v->dtype), length, out);
    return length;
}

/* Output `row` mod outputs of an expert's [in, out]: a column. */
static size_t expert_column(const kvg_weight_view *v, size_t row, float *out)
{
    const size_t inputs = (size_t)v->shape[1], outputs = (size_t)v->shape[2], bytes = kvg_dtype_bytes(v->dtype);
    const uint8_t *expert = (const uint8_t *)v->data + row / outputs * inputs * outputs * bytes;
    for (size_t i = 0; i < inputs; i++) {
        kvg_reference_load(v->dtype, expert + (i * outputs + row % outputs) * bytes, 1, &out[i]);
    }
    return inputs;
}

size_t kvg_model_weights_row(const kvg_model_weights *w, kvg_weight weight, uint32_t layer, size_t row, float *out)
{
    const bool gate_up = weight == KVG_WEIGHT_EXPERT_GATE_UP;
    if (!gate_up && weight != KVG_WEIGHT_EXPERT_DOWN) {
        const kvg_weight_view v = kvg_model_weights_view(w, weight, layer);
        return plain_row(&v, row, out);
    }
    if (!w->config.mxfp4) {
        const kvg_weight_view v = kvg_model_weights_view(w, weight, layer);
        return expert_column(&v, row, out);
    }
    const kvg_weight_view codes = kvg_model_weights_view(
        w, gate_up ? KVG_WEIGHT_EXPERT_GATE_UP_CODES : KVG_WEIGHT_EXPERT_DOWN_CODES, layer);
    const kvg_weight_view scales = kvg_model_weights_view(
        w, gate_up ? KVG_WEIGHT_EXPERT_GATE_UP_SCALES : KVG_WEIGHT_EXPERT_DOWN_SCALES, layer);
    const size_t blocks = (size_t)scales.shape[2];
    decode_blocks((const uint8_t *)codes.data + row * blocks * (MXFP4_BLOCK / 2),
                  (const uint8_t *)scales.data + row * blocks, blocks, out);
    return blocks * MXFP4_BLOCK;
}

/* --- the check of every number --- */

static bool is_finite(const uint8_t *at, kvg_dtype dtype)
{
    uint16_t half = 0;
    uint32_t word = 0;
    if (dtype == KVG_DTYPE_F32) memcpy(&word, at, sizeof word);
    else memcpy(&half, at, sizeof half);
    if (dtype == KVG_DTYPE_F16) return (half & 0x7C00) != 0x7C00;
    if (dtype == KVG_DTYPE_BF16) return (half & 0x7F80) != 0x7F80;
    return (word & 0x7F800000) != 0x7F800000;
}

static kvg_status check_numbers(const kvg_model_weights *w, kvg_weight weight, const kvg_safetensors_entry *e)
{
    const kvg_dtype dtype = dtype_of(e);
    const uint8_t *bytes = e->data;
    const size_t size = kvg_dtype_bytes(dtype);
    const bool scales = weight == KVG_WEIGHT_EXPERT_GATE_UP_SCALES || weight == KVG_WEIGHT_EXPERT_DOWN_SCALES;
    if (dtype == KVG_DTYPE_U8 && !scales) return KVG_OK; /* every code is a number */
    for (size_t i = 0; i < e->bytes / size; i++) {
        if (scales ? bytes[i] <= MXFP4_MOST_SCALE : is_finite(bytes + i * size, dtype)) continue;
        return kvg_fail(KVG_ERR_INVALID, "%.160s: tensor %.100s, number %zu is %s", w->folder, e->name, i,
                        scales ? "a scale beyond f32 or NaN" : "NaN or Inf");
    }
    return KVG_OK;
}

/* Hugging Face's classes take an output embedding that lies beside tied ones and differs from them. */
static kvg_status check_tied(const kvg_model_weights *w)
{
    const kvg_safetensors_entry *input = w->entries[KVG_WEIGHT_EMBED];
    for (size_t i = 0; i < w->shard_count && w->config.tied; i++) {
        for (size_t k = 0; k < kvg_safetensors_count(w->shards[i].file); k++) {
            const kvg_safetensors_entry *e = kvg_safetensors_at(w->shards[i].file, k);
            if (strcmp(e->name, "lm_head.weight") != 0) continue;
            if (strcmp(e->dtype, input->dtype) == 0 && e->bytes == input->bytes &&
                memcmp(e->data, input->data, e->bytes) == 0) continue;
            return kvg_fail(KVG_ERR_INVALID, "%.160s/%s: lm_head.weight is not the tied model.embed_tokens.weight: "
                            "set tie_word_embeddings to false to use it, or leave it out", w->folder,
                            w->shards[i].name);
        }
    }
    return KVG_OK;
}

kvg_status kvg_model_weights_check(const kvg_model_weights *w)
{
    for (size_t i = 0; i < (size_t)w->config.layers * KVG_WEIGHT_COUNT; i++) {
        kvg_status s = w->entries[i] ? check_numbers(w, (kvg_weight)(i % KVG_WEIGHT_COUNT), w->entries[i]) : KVG_OK;
        if (s) return s;
    }
    return check_tied(w);
}

static kvg_weight_view source_view(const void *weights, kvg_weight weight, uint32_t layer)
{
    return kvg_model_weights_view(weights, weight, layer);
}

static size_t source_row(const void *weights, kvg_weight weight, uint32_t layer, size_t row, float *out)
{
    return kvg_model_weights_row(weights, weight, layer, row, out);
}

kvg_model_source kvg_model_weights_source(const kvg_model_weights *weights)
{
    return (kvg_model_source){weights, source_view, source_row};
}
