#define _DEFAULT_SOURCE /* strdup under -std=c17 */
#include "harness/config/config_axes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/data/fill.h"
#include "harness/model/model.h"

const char *const kvg_axis_names[AXIS_COUNT] = {
    "op", "format", "policy", "dialect", "layout", "dtype", "model", "kv_heads", "head_dim", "tokens", "block_tokens",
    "blocks", "layers", "sequences", "padding", "v_scale_swizzle", "shared_kv", "rope", "bias", "group",
    "queries", "window", "softcap", "score_scale", "sinks", "profile", "operands", "relations", "fill", "scale",
    "backend",
};

kvg_status kvg_config_keep(kvg_config *config, const char *text, const char **out)
{
    struct kvg_config_data *d = config->data;
    char **grown = realloc(d->strings, (d->string_count + 1) * sizeof *grown);
    if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the strings of a config");
    d->strings = grown;
    grown[d->string_count] = strdup(text);
    if (!grown[d->string_count]) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the strings of a config");
    *out = grown[d->string_count++];
    return KVG_OK;
}

/* A relative path in a config starts at the config's folder. */
static void config_path(const kvg_config *config, const char *path, char *out, size_t size)
{
    const bool absolute = path[0] == '/';
    snprintf(out, size, "%s%s%s", absolute ? "" : config->data->folder, absolute ? "" : "/", path);
}

kvg_status kvg_config_keep_path(kvg_config *config, kvg_json value, const char **out)
{
    const char *path;
    char full[2 * PATH_MAX];
    kvg_status s = kvg_json_string(value, &path);
    if (s) return s;
    config_path(config, path, full, sizeof full);
    return kvg_config_keep(config, full, out);
}

/* --- one axis value into a case --- */

static kvg_status read_op(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_op_find(name, &c->problem.op));
}

/* A string for both sides, or {"k": ..., "v": ...}. */
static kvg_status read_sides(kvg_json value, kvg_json out[2])
{
    static const char *const keys[] = {"k", "v"};
    out[KVG_K] = out[KVG_V] = value;
    if (!kvg_json_is_object(value)) return KVG_OK;
    kvg_status s = kvg_json_check_keys(value, keys, 2);
    if (!s) s = kvg_json_get(value, "k", &out[KVG_K]);
    if (!s) s = kvg_json_get(value, "v", &out[KVG_V]);
    return s;
}

static kvg_status read_format(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    kvg_json sides[2];
    kvg_status s = read_sides(value, sides);
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        const char *name;
        s = kvg_json_string(sides[side], &name);
        if (!s) s = kvg_json_locate(sides[side], kvg_format_find(name, &c->problem.storage[side].format));
    }
    return s;
}

static kvg_status read_policy(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_policy_read(value, c);
}

static kvg_status read_dialect(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    kvg_json sides[2];
    kvg_status s = read_sides(value, sides);
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        size_t index;
        const char *name;
        s = kvg_json_string(sides[side], &name);
        if (s) break;
        s = kvg_reference_dialect_find(c->problem.storage[side].format, name, &index);
        s = kvg_json_locate(sides[side], s);
        if (!s) c->problem.storage[side].dialect = name;
    }
    return s;
}

static kvg_status read_layout(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_layout_find(name, &c->problem.layout));
}

static kvg_status read_dtype(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_dtype_find(name, &c->problem.dtype));
}

static kvg_status read_model(kvg_config *config, kvg_json value, kvg_case *c)
{
    const char *name;
    char path[2 * PATH_MAX];
    kvg_model model;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    const size_t length = strlen(name);
    if (length > 5 && strcmp(name + length - 5, ".json") == 0) {
        config_path(config, name, path, sizeof path);
        s = kvg_model_load(NULL, path, &model);
    } else {
        /* beside the config, or among the shipped ones; the text of the second failure names those */
        config_path(config, "models", path, sizeof path);
        s = kvg_model_load(path, name, &model);
        if (s == KVG_ERR_NOT_FOUND) s = kvg_model_load(NULL, name, &model);
    }
    s = kvg_json_locate(value, s);
    if (s) return s;
    c->problem.kv_heads = model.kv_heads;
    c->problem.head_dim = model.head_dim;
    if (c->problem.op == KVG_OP_DECODE) c->problem.attention.query_heads = model.query_heads / model.kv_heads;
    return KVG_OK;
}

kvg_status kvg_axis_number(kvg_json value, uint64_t max, uint32_t *out)
{
    uint64_t number = 0;
    kvg_status s = kvg_json_u64(value, 1, max, &number);
    *out = (uint32_t)number;
    return s;
}

static kvg_status read_kv_heads(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 1024, &c->problem.kv_heads);
}

static kvg_status read_head_dim(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, KVG_MAX_HEAD_DIM, &c->problem.head_dim);
}

static kvg_status read_tokens(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 1 << 20, &c->problem.tokens);
}

/* --- paged layouts --- */

static kvg_status read_block_tokens(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 1 << 20, &c->problem.paging.block_tokens);
}

static kvg_status read_blocks(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 1 << 24, &c->problem.paging.blocks);
}

static kvg_status read_layers(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 1024, &c->problem.paging.layers);
}

static kvg_status read_sequences(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 1 << 16, &c->problem.paging.sequences);
}

/* Reads the numbers that `keys` name from an object. The first `required` must be there; another that is not leaves its
 * number alone. */
static kvg_status read_numbers(kvg_json object, const char *const *keys, size_t count, size_t required,
                               uint32_t *const *out)
{
    kvg_status s = kvg_json_check_keys(object, keys, count);
    for (size_t i = 0; i < count && !s; i++) {
        kvg_json value;
        uint64_t number = 0;
        if (i >= required && !kvg_json_has(object, keys[i])) continue;
        s = kvg_json_get(object, keys[i], &value);
        if (!s) s = kvg_json_u64(value, 0, 1 << 24, &number);
        *out[i] = (uint32_t)number;
    }
    return s;
}

/* {"row": 3, "data": 64, "scales": 32}: bytes after each row of codes, page of data, page of scales. */
static kvg_status read_padding(kvg_config *config, kvg_json value, kvg_case *c)
{
    static const char *const keys[] = {"row", "data", "scales"};
    kvg_paging *g = &c->problem.paging;
    (void)config;
    return read_numbers(value, keys, 3, 0, (uint32_t *const[]){&g->row_padding, &g->data_padding, &g->scale_padding});
}

static kvg_status read_swizzle(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_json_bool(value, &c->problem.paging.v_scale_swizzle);
}

/* {"v_dim": 512, "v_first": 64} */
static kvg_status read_shared_kv(kvg_config *config, kvg_json value, kvg_case *c)
{
    static const char *const keys[] = {"v_dim", "v_first"};
    kvg_paging *g = &c->problem.paging;
    (void)config;
    g->shared_kv = true;
    return read_numbers(value, keys, 2, 1, (uint32_t *const[]){&g->v_dim, &g->v_first});
}

static kvg_status read_bias(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_json_bool(value, &c->problem.bias);
}

/* One block per sequence, as large as the sequence may become. */
static bool has_capacity(kvg_layout layout)
{
    return layout == KVG_LAYOUT_CONTIGUOUS || layout == KVG_LAYOUT_RING;
}

/* Blocks of n neighbours in a sequence that start anywhere in a block, at worst. */
static uint64_t worst_blocks(uint64_t n, uint32_t block_tokens)
{
    return n ? (n + block_tokens - 2) / block_tokens + 1 : 0;
}

/* The most that harness/data/paged_fill.h can need. New tokens are spread evenly and start anywhere; what flatten reads
 * starts at position 0, and the first of three or more sequences is empty. */
static uint64_t blocks_needed(const kvg_problem *p)
{
    const kvg_paging *g = &p->paging;
    const uint64_t each = p->tokens / g->sequences, longer = p->tokens % g->sequences;
    if (has_capacity(p->layout)) return g->sequences;
    if (kvg_op_reads_sequences(p->op)) {
        return (uint64_t)kvg_layout_table_width(p->layout, g, p->tokens) * (g->sequences - (g->sequences > 2));
    }
    return longer * worst_blocks(each + 1, g->block_tokens) +
           (g->sequences - longer) * worst_blocks(each, g->block_tokens);
}

kvg_status kvg_axis_check_blocks(const kvg_problem *p)
{
    const kvg_paging *g = &p->paging;
    if (!kvg_layout_get(p->layout)->paged) return KVG_OK;
    const uint64_t needed = blocks_needed(p), longest = ((uint64_t)p->tokens + g->sequences - 1) / g->sequences;
    if (p->layout == KVG_LAYOUT_CONTIGUOUS && !kvg_op_reads_sequences(p->op) && longest > g->block_tokens) {
        return kvg_fail(KVG_ERR_INVALID,
                        "%u tokens in %u sequences need %llu or more as capacity (block_tokens), not %u", p->tokens,
                        g->sequences, (unsigned long long)longest, g->block_tokens);
    }
    if (g->blocks < needed) {
        return kvg_fail(KVG_ERR_INVALID, "%u tokens in %u sequences can need %llu blocks of %u tokens: %u are too few",
                        p->tokens, g->sequences, (unsigned long long)needed, g->block_tokens, g->blocks);
    }
    return KVG_OK;
}

void kvg_axis_defaults(kvg_problem *p)
{
    kvg_paging *g = &p->paging;
    if (p->op == KVG_OP_MMA) { /* its tiles follow from the operands' type alone */
        p->storage[KVG_K].format = kvg_format_of_dtype(p->dtype == KVG_DTYPE_F16 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16);
        p->storage[KVG_V].format = p->storage[KVG_K].format;
        p->kv_heads = 1;
        p->head_dim = KVG_MMA_K;
    }
    if (!kvg_layout_get(p->layout)->paged) return;
    if (!g->block_tokens) g->block_tokens = 16;
    if (!g->layers) g->layers = 2;
    if (!g->sequences) g->sequences = 3;
    g->layer = (p->tokens + g->block_tokens) % g->layers; /* not always the last, nor the first */
    if (g->blocks) return;
    const uint64_t needed = blocks_needed(p);
    g->blocks = needed + 2 < 1 << 24 ? (uint32_t)needed + 2 : 1 << 24;
}

static size_t name_count(const char *const *names)
{
    size_t n = 0;
    while (names[n]) n++;
    return n;
}

/* {"capture": FILE, "k": TENSOR, "v": TENSOR} */
static kvg_status read_capture(kvg_config *config, kvg_json value, kvg_case *c)
{
    static const char *const keys[] = {"capture", "k", "v"};
    kvg_json file, sides[2];
    const char *path;
    kvg_status s = kvg_json_check_keys(value, keys, 3);
    if (!s) s = kvg_json_get(value, "capture", &file);
    if (!s) s = kvg_json_get(value, "k", &sides[KVG_K]);
    if (!s) s = kvg_json_get(value, "v", &sides[KVG_V]);
    if (!s) s = kvg_json_string(file, &path);
    if (!s) s = kvg_json_string(sides[KVG_K], &c->capture[KVG_K]);
    if (!s) s = kvg_json_string(sides[KVG_V], &c->capture[KVG_V]);
    if (s) return s;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (strpbrk(c->capture[side], "/,"))
            return kvg_json_fail(sides[side], "'/' and ',' separate the words of a case id");
    }
    char full[2 * PATH_MAX];
    config_path(config, path, full, sizeof full);
    c->fill = KVG_FILL_CAPTURE;
    return kvg_config_keep(config, full, &c->capture_file);
}

static kvg_status read_fill(kvg_config *config, kvg_json value, kvg_case *c)
{
    if (kvg_json_is_object(value)) return read_capture(config, value, c);
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    if (strcmp(name, kvg_fill_names[KVG_FILL_CAPTURE]) == 0) {
        return kvg_json_fail(value, "a capture is written {\"capture\": FILE, \"k\": TENSOR, \"v\": TENSOR}");
    }
    for (int i = 0; kvg_fill_names[i]; i++) {
        if (strcmp(kvg_fill_names[i], name) == 0) {
            c->fill = (kvg_fill)i;
            return KVG_OK;
        }
    }
    return kvg_json_fail_name(value, "fill", name, kvg_fill_names, name_count(kvg_fill_names));
}

/* "P1" to "P4", or {"k": 0.5, "v": 0.25}. */
static kvg_status read_scale(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    if (kvg_json_is_string(value)) {
        const char *name;
        kvg_status s = kvg_json_string(value, &name);
        return s ? s : kvg_json_locate(value, kvg_scale_convention_find(name, &c->scale.convention));
    }
    kvg_json sides[2];
    kvg_status s = read_sides(value, sides);
    c->scale.given = true;
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        double g = 0;
        s = kvg_json_double(sides[side], &g);
        c->scale.value[side] = (float)g;
        if (!s && !(c->scale.value[side] > 0 && c->scale.value[side] <= 3.4e38f)) {
            s = kvg_json_fail(sides[side], "a tensor scale must be finite and above 0");
        }
    }
    return s;
}

static kvg_status read_backend(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    kvg_status s = kvg_json_string(value, &c->backend);
    if (!s && !*c->backend) s = kvg_json_fail(value, "a backend needs a name: reference, defect:<id> or a plug-in");
    return s;
}

static kvg_axis_reader *const readers[AXIS_COUNT] = {
    read_op,        read_format,   read_policy,    read_dialect, read_layout,       read_dtype,
    read_model,     read_kv_heads, read_head_dim,  read_tokens,  read_block_tokens, read_blocks,
    read_layers,    read_sequences, read_padding,  read_swizzle, read_shared_kv,    kvg_rope_read,
    read_bias,
    kvg_attention_read_group,      kvg_attention_read_queries,     kvg_attention_read_window,
    kvg_attention_read_softcap,    kvg_attention_read_score_scale, kvg_attention_read_sinks,
    kvg_attention_read_profile,    kvg_attention_read_operands,    kvg_attention_read_relations,
    read_fill,      read_scale,    read_backend,
};

kvg_status kvg_axis_read(axis which, kvg_config *config, kvg_json value, kvg_case *c)
{
    return readers[which](config, value, c);
}
