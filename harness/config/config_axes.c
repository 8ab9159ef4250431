#define _DEFAULT_SOURCE /* strdup under -std=c17 */
#include "harness/config/config_axes.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/case/invariance.h"
#include "harness/config/model.h"
#include "harness/trial/question/fill.h"

kvg_status kvg_config_append(kvg_config *config, const kvg_case *c)
{
    struct kvg_config_data *d = config->data;
    if (config->case_count == KVG_CONFIG_MAX_CASES) {
        return kvg_fail(KVG_ERR_INVALID, "%s: more than %d cases: split the config", config->path,
                        KVG_CONFIG_MAX_CASES);
    }
    if (config->case_count == d->capacity) {
        const size_t capacity = d->capacity ? 2 * d->capacity : 64;
        kvg_case *grown = realloc(config->cases, capacity * sizeof *grown);
        if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu cases", capacity);
        config->cases = grown;
        d->capacity = capacity;
    }
    config->cases[config->case_count++] = *c;
    return KVG_OK;
}

void kvg_config_close(kvg_config *config)
{
    struct kvg_config_data *d = config->data;
    if (d) {
        for (size_t i = 0; i < d->string_count; i++) free(d->strings[i]);
        free(d->strings);
        for (size_t i = 0; i < d->row_docs; i++) kvg_json_close(d->rows[i].doc);
        free(d->rows);
        kvg_json_close(d->doc);
    }
    free(d);
    free(config->cases);
    *config = (kvg_config){0};
}

kvg_status kvg_config_keep_bytes(kvg_config *config, const void *bytes, size_t size, const void **out)
{
    struct kvg_config_data *d = config->data;
    char **grown = realloc(d->strings, (d->string_count + 1) * sizeof *grown);
    if (!grown) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the strings of a config");
    d->strings = grown;
    grown[d->string_count] = malloc(size);
    if (!grown[d->string_count]) return kvg_fail(KVG_ERR_MEMORY, "cannot hold the strings of a config");
    *out = memcpy(grown[d->string_count++], bytes, size);
    return KVG_OK;
}

kvg_status kvg_config_keep(kvg_config *config, const char *text, const char **out)
{
    const void *kept;
    kvg_status s = kvg_config_keep_bytes(config, text, strlen(text) + 1, &kept);
    if (!s) *out = kept;
    return s;
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

static kvg_status read_model(kvg_config *config, kvg_json value, kvg_case *c)
{
    const char *name;
    char path[2 * PATH_MAX];
    kvg_model model;
    kvg_model_group whole;
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
    if (!s) s = kvg_model_whole(&model, &whole);
    s = kvg_json_locate(value, s);
    if (s) return s;
    c->model = name;
    c->problem.kv_heads = whole.kv_heads;
    c->problem.head_dim = whole.head_dim;
    if (c->problem.op == KVG_OP_DECODE) c->problem.attention.query_heads = model.query_heads / whole.kv_heads;
    return KVG_OK;
}

/* A text whose name stands in the config already is that one. */
static kvg_status keep_layout(kvg_config *config, kvg_json value, const kvg_layout_text *text, kvg_case *c)
{
    const void *kept;
    for (size_t i = config->case_count; i-- > 0;) {
        const kvg_layout_text *other = config->cases[i].problem.text;
        if (!other || strcmp(other->name, text->name) != 0) continue;
        if (strcmp(other->text, text->text) != 0) {
            return kvg_json_fail(value, "'%s' is another text earlier in this config: rename one of them", text->name);
        }
        c->problem.text = other;
        return KVG_OK;
    }
    kvg_status s = kvg_config_keep_bytes(config, text, sizeof *text, &kept);
    if (!s) c->problem.text = kept;
    return s;
}

kvg_status kvg_config_layout_text(kvg_json value, kvg_layout_text *out)
{
    static const char *const keys[] = {"name", "text"};
    kvg_json members[2];
    kvg_layout shipped;
    kvg_status s = kvg_json_check_keys(value, keys, 2);
    if (!s) s = kvg_json_get(value, keys[0], &members[0]);
    if (!s) s = kvg_json_get(value, keys[1], &members[1]);
    if (!s) s = kvg_json_string(members[0], &out->name);
    if (!s) s = kvg_json_string(members[1], &out->text);
    if (s) return s;
    const size_t length = strlen(out->name);
    if (length < 1 || length > 32 || strspn(out->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != length) {
        return kvg_json_fail(members[0], "is '%s': a name is 1 to 32 of a to z, 0 to 9 and _", out->name);
    }
    if (kvg_layout_find(out->name, &shipped) == KVG_OK || strcmp(out->name, "text") == 0) {
        return kvg_json_fail(members[0], "'%s' is a layout of kvgold: give yours another name", out->name);
    }
    return KVG_OK;
}

/* A name of core/layouts.def, or a text. */
static kvg_status read_layout(kvg_config *config, kvg_json value, kvg_case *c)
{
    kvg_layout_text text;
    c->problem.text = NULL;
    if (!kvg_json_is_object(value)) return config_read_word(config_words_of(KVG_AXIS_LAYOUT), KVG_K, value, c);
    kvg_status s = kvg_config_layout_text(value, &text);
    if (s) return s;
    c->problem.layout = KVG_LAYOUT_TEXT;
    return keep_layout(config, value, &text, c);
}

/* A number, or "8 each". */
static kvg_status read_queries(kvg_config *config, kvg_json value, kvg_case *c)
{
    const kvg_axis_info *axis = kvg_axis_get(KVG_AXIS_QUERIES);
    const char *text;
    char same[32];
    (void)config;
    c->even_queries = false;
    if (!kvg_json_is_string(value)) return config_read_value(&axis->value, axis->name, value, c);
    kvg_status s = kvg_json_string(value, &text);
    if (s) return s;
    c->queries = (uint32_t)strtoul(text, NULL, 10);
    snprintf(same, sizeof same, "%u each", c->queries); /* a text with a sign or a blank more is another one */
    c->even_queries = strcmp(text, same) == 0;
    if (c->even_queries && c->queries >= axis->value.least && c->queries <= axis->value.most) return KVG_OK;
    return kvg_json_fail(value, "is '%s': give a number, or one with 'each': \"8 each\"", text);
}

/* A number, or "seed". */
static kvg_status read_layer(kvg_config *config, kvg_json value, kvg_case *c)
{
    const char *text;
    uint64_t layer;
    (void)config;
    c->layer = 0;
    if (!kvg_json_is_string(value)) {
        kvg_status s = kvg_json_u64(value, 0, UINT32_MAX, &layer);
        if (!s && layer >= c->problem.paging.layers) {
            s = kvg_json_fail(value, "is no layer of %u, which count from 0", c->problem.paging.layers);
        }
        if (!s) c->layer = (uint32_t)layer + 1;
        return s;
    }
    kvg_status s = kvg_json_string(value, &text);
    return s || strcmp(text, "seed") == 0 ? s : kvg_json_fail(value, "is '%s': give a number or \"seed\"", text);
}

static kvg_status read_policy(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    c->policy.given = true;
    c->policy.request = (kvg_mode_request){.domain = KVG_POLICY_TURBOMIND, .has_flatten = true};
    return config_read_object(CONFIG_POLICY, value, c);
}

static kvg_status read_padding(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return config_read_object(CONFIG_PADDING, value, c);
}

static kvg_status read_shared_kv(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    c->problem.paging.shared_kv = true;
    return config_read_object(CONFIG_SHARED_KV, value, c);
}

static kvg_status read_rope(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_rope_read(value, c);
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
    size_t at = 0;
    while (kvg_fill_names[at] && strcmp(kvg_fill_names[at], name) != 0) at++;
    if (!kvg_fill_names[at]) return kvg_json_fail_name(value, "fill", name, kvg_fill_names, at);
    c->fill = (kvg_fill)at;
    return KVG_OK;
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
    kvg_status s = config_read_sides(value, sides);
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

kvg_status kvg_config_invariance(kvg_json value, uint32_t *set)
{
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    const kvg_invariance axis = kvg_invariance_find(name);
    if (axis == KVG_INVARIANCE_AXES) {
        return kvg_json_fail_name(value, "axis of invariance", name, kvg_invariance_names, KVG_INVARIANCE_AXES);
    }
    *set |= 1u << axis;
    return KVG_OK;
}

/* A list of names is one value. */
static kvg_status read_invariant(kvg_config *config, kvg_json value, kvg_case *c)
{
    kvg_status s = KVG_OK;
    (void)config;
    c->invariant = 0;
    if (!kvg_json_is_array(value)) return kvg_json_fail(value, "expected a list of axes");
    for (size_t i = 0; i < kvg_json_count(value) && !s; i++) {
        s = kvg_config_invariance(kvg_json_at(value, i), &c->invariant);
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

/* --- every axis --- */

/* Axes that are not read as their kind of value is. */
static kvg_status (*const own_readers[KVG_AXIS_COUNT])(kvg_config *config, kvg_json value, kvg_case *c) = {
    [KVG_AXIS_POLICY] = read_policy,   [KVG_AXIS_MODEL] = read_model, [KVG_AXIS_PADDING] = read_padding,
    [KVG_AXIS_SHARED_KV] = read_shared_kv, [KVG_AXIS_ROPE] = read_rope, [KVG_AXIS_QUERIES] = read_queries,
    [KVG_AXIS_FILL] = read_fill,       [KVG_AXIS_SCALE] = read_scale, [KVG_AXIS_BACKEND] = read_backend,
    [KVG_AXIS_LAYER] = read_layer,     [KVG_AXIS_LAYOUT] = read_layout, [KVG_AXIS_INVARIANT] = read_invariant,
};

static kvg_status read_both(const config_words *words, kvg_json value, kvg_case *c)
{
    kvg_json sides[2];
    kvg_status s = config_read_sides(value, sides);
    for (int side = KVG_K; !s && side <= KVG_V; side++) s = config_read_word(words, (kvg_side)side, sides[side], c);
    return s;
}

kvg_status kvg_axis_read(kvg_axis which, kvg_config *config, kvg_json value, kvg_case *c)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    if (own_readers[which]) return own_readers[which](config, value, c);
    if (axis->value.kind == KVG_VALUE_WORD) return config_read_word(config_words_of(which), KVG_K, value, c);
    if (axis->value.kind == KVG_VALUE_SIDES) return read_both(config_words_of(which), value, c);
    return config_read_value(&axis->value, axis->name, value, c);
}

kvg_status kvg_axis_default(kvg_axis which, kvg_case *c)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    if (!kvg_scope_holds(axis->scope, &c->problem)) return KVG_OK;
    if (axis->value.kind == KVG_VALUE_WORD && strcmp(axis->fallback, "required") != 0)
        return config_words_of(which)->set(c, KVG_K, axis->fallback);
    config_take_fallback(&axis->value, axis->fallback, c);
    return KVG_OK;
}

/* --- what follows from the axes --- */

/* Blocks of n neighbours in a sequence that start anywhere in a block, at worst. */
static uint64_t worst_blocks(uint64_t n, uint32_t block_tokens)
{
    return n ? (n + block_tokens - 2) / block_tokens + 1 : 0;
}

/* The most that harness/trial/question/paged_fill.h can need. New tokens are spread evenly and start anywhere; what
 * flatten reads starts at position 0, and with lengths any one of three or more sequences is empty. */
static uint64_t blocks_needed(const kvg_case *c)
{
    const kvg_problem *p = &c->problem;
    const kvg_paging *g = &p->paging;
    const bool one_empty = g->sequences > 2 && c->lengths == KVG_LENGTHS_ANY;
    const uint64_t each = p->tokens / g->sequences, longer = p->tokens % g->sequences;
    if (kvg_problem_blocks(p) != KVG_BLOCKS_TABLE) return g->sequences;
    if (kvg_op_reads_sequences(p->op)) {
        const uint64_t width = kvg_layout_table_width(p->layout, g, p->tokens);
        const uint64_t shared = c->shared_prefix < p->tokens ? c->shared_prefix / g->block_tokens : 0;
        return shared + (width - shared) * (g->sequences - one_empty);
    }
    return longer * worst_blocks(each + 1, g->block_tokens) +
           (g->sequences - longer) * worst_blocks(each, g->block_tokens);
}

static kvg_status check_prefix(const kvg_case *c)
{
    const kvg_problem *p = &c->problem;
    if (!kvg_op_reads_sequences(p->op)) {
        return kvg_fail(KVG_ERR_INVALID, "op %s reads no sequences: leave out shared_prefix", kvg_op_get(p->op)->name);
    }
    if (kvg_problem_blocks(p) != KVG_BLOCKS_TABLE) {
        return kvg_fail(KVG_ERR_INVALID, "layout %s has one block a sequence and none to share: leave out "
                        "shared_prefix", kvg_problem_layout_name(p));
    }
    if (p->paging.sequences < 2) {
        return kvg_fail(KVG_ERR_INVALID, "one sequence shares nothing: use more sequences, or leave out shared_prefix");
    }
    if (c->shared_prefix >= p->tokens) {
        return kvg_fail(KVG_ERR_INVALID, "sequences of %u tokens do not part behind a shared_prefix of %u: use less",
                        p->tokens, c->shared_prefix);
    }
    if (c->fill == KVG_FILL_CODES && p->op != KVG_OP_DECODE) {
        return kvg_fail(KVG_ERR_INVALID, "fill codes is what lies in the pools: leave out shared_prefix");
    }
    return KVG_OK;
}

kvg_status kvg_axis_check_blocks(const kvg_case *c)
{
    const kvg_problem *p = &c->problem;
    const kvg_paging *g = &p->paging;
    if (c->shared_prefix) {
        kvg_status s = check_prefix(c);
        if (s) return s;
    }
    if (!kvg_layout_get(p->layout)->paged) return KVG_OK;
    if (c->lengths != KVG_LENGTHS_ANY && !kvg_op_reads_sequences(p->op)) {
        return kvg_fail(KVG_ERR_INVALID, "op %s reads no sequences: leave out lengths", kvg_op_get(p->op)->name);
    }
    if (c->unowned != KVG_UNOWNED_ANY && c->fill == KVG_FILL_CODES && p->op != KVG_OP_DECODE) {
        return kvg_fail(KVG_ERR_INVALID, "fill codes is what lies in the pools: leave out unowned");
    }
    const uint64_t needed = blocks_needed(c), longest = ((uint64_t)p->tokens + g->sequences - 1) / g->sequences;
    if (kvg_problem_blocks(p) == KVG_BLOCKS_ONE && !kvg_op_reads_sequences(p->op) && longest > g->block_tokens) {
        return kvg_fail(KVG_ERR_INVALID,
                        "%u tokens in %u sequences need %llu or more as capacity (block_tokens), not %u", p->tokens,
                        g->sequences, (unsigned long long)longest, g->block_tokens);
    }
    if (c->far_blocks && c->far_blocks < g->blocks) {
        return kvg_fail(KVG_ERR_INVALID, "the case has %u blocks: %u far_blocks are too few", g->blocks, c->far_blocks);
    }
    if (c->far_blocks) {
        kvg_problem far = *p;
        uint64_t bytes;
        far.paging.blocks = c->far_blocks;
        kvg_status s = kvg_problem_pool_bytes(&far, KVG_ROLE_DATA_POOL, KVG_K, &bytes);
        if (s) return s;
        if (bytes <= INT32_MAX) {
            return kvg_fail(KVG_ERR_INVALID,
                            "%u far_blocks make a pool of %llu bytes, where no offset overflows 31 bits: use more",
                            c->far_blocks, (unsigned long long)bytes);
        }
    }
    if (g->blocks < needed) {
        return kvg_fail(KVG_ERR_INVALID, "%u tokens in %u sequences can need %llu blocks of %u tokens: %u are too few",
                        p->tokens, g->sequences, (unsigned long long)needed, g->block_tokens, g->blocks);
    }
    return KVG_OK;
}

void kvg_axis_derive(kvg_case *c)
{
    kvg_problem *p = &c->problem;
    kvg_paging *g = &p->paging;
    if (!kvg_op_stores(p->op)) {
        p->storage[KVG_K].format = kvg_format_of_dtype(p->dtype == KVG_DTYPE_F16 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16);
        p->storage[KVG_V].format = p->storage[KVG_K].format;
    }
    if (p->op == KVG_OP_MMA) { /* its tiles follow from the operands' type alone */
        p->kv_heads = 1;
        p->head_dim = KVG_MMA_K;
    }
    if (!kvg_layout_get(p->layout)->paged) return;
    g->layer = (p->tokens + g->block_tokens) % g->layers; /* kvg_config_open chooses another */
    if (g->blocks) return;
    const uint64_t needed = blocks_needed(c);
    g->blocks = needed + 2 < 1 << 24 ? (uint32_t)needed + 2 : 1 << 24;
}
