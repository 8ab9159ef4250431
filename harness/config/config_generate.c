/* Groups of op generate: a model over a text, through a cache of each format (docs/guide/config.md section 18). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "harness/model/model_config.h"
#include "harness/wrong/defect_planted.h"

/* Axes that are a product, as those of other groups are. */
static const axis axes[] = {AXIS_LAYOUT, AXIS_DTYPE, AXIS_FORMAT, AXIS_DIALECT, AXIS_BLOCK_TOKENS, AXIS_SCALE,
                            AXIS_BACKEND};
enum { AXES = sizeof axes / sizeof axes[0], LAYERS = AXES, ROPE, PRODUCT };

static const char *const own_axes[] = {"layers", "quantise_k"};

/* Numbers that a group has once. */
typedef struct number_key {
    const char *key;
    uint64_t least, most;
    size_t offset;
} number_key;

static const number_key number_keys[] = {
    {"windows", 1, 1 << 20, offsetof(kvg_generate_case, windows)},
    {"stride", 1, 1 << 20, offsetof(kvg_generate_case, stride)},
    {"chunk", 1, 1 << 16, offsetof(kvg_generate_case, chunk)},
    {"batch", 1, 1 << 12, offsetof(kvg_generate_case, batch)},
    {"greedy", 0, 1 << 16, offsetof(kvg_generate_case, greedy)},
    {"bit_windows", 0, 1 << 20, offsetof(kvg_generate_case, bit_windows)},
    {"calibration_tokens", 1, 1 << 20, offsetof(kvg_generate_case, calibration_tokens)},
};
enum { NUMBERS = sizeof number_keys / sizeof number_keys[0] };

bool kvg_generate_is(kvg_json group)
{
    kvg_json op;
    const char *name;
    return kvg_json_has(group, "op") && !kvg_json_get(group, "op", &op) && kvg_json_is_string(op) &&
           !kvg_json_string(op, &name) && strcmp(name, "generate") == 0;
}

/* --- what a group has once --- */

static kvg_status check_keys(kvg_json group)
{
    static const char *const others[] = {"op", "comment", "model", "text", "calibration", "window", "max_loss",
                                         "max_kl", "min_top1", "budget", "defects"};
    enum { OTHERS = sizeof others / sizeof others[0] };
    const char *keys[OTHERS + NUMBERS + PRODUCT];
    memcpy(keys, others, sizeof others);
    for (size_t i = 0; i < NUMBERS; i++) keys[OTHERS + i] = number_keys[i].key;
    for (size_t i = 0; i < PRODUCT; i++) {
        keys[OTHERS + NUMBERS + i] = i < AXES ? kvg_axis_names[axes[i]] : own_axes[i - AXES];
    }
    return kvg_json_check_keys(group, keys, OTHERS + NUMBERS + PRODUCT);
}

static kvg_status read_path(kvg_config *config, kvg_json group, const char *key, const char **out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(group, key, &value);
    return s ? s : kvg_config_keep_path(config, value, out);
}

static kvg_status read_numbers(kvg_json group, kvg_generate_case *g)
{
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < NUMBERS && !s; i++) {
        kvg_json value;
        uint64_t number = 0;
        if (!kvg_json_has(group, number_keys[i].key)) continue;
        s = kvg_json_get(group, number_keys[i].key, &value);
        if (!s) s = kvg_json_u64(value, number_keys[i].least, number_keys[i].most, &number);
        if (!s) *(uint32_t *)((char *)g + number_keys[i].offset) = (uint32_t)number;
    }
    return s;
}

/* A limit: a number from 0 to `most`; without one `out` stays. */
static kvg_status read_limit(kvg_json group, const char *key, double most, double *out)
{
    kvg_json value;
    if (!kvg_json_has(group, key)) return KVG_OK;
    kvg_status s = kvg_json_get(group, key, &value);
    if (!s) s = kvg_json_double(value, out);
    if (!s && !(*out >= 0 && *out <= most)) s = kvg_json_fail(value, "expected a number from 0 to %g", most);
    return s;
}

static kvg_status read_budget(kvg_json group, uint64_t *out)
{
    kvg_json value;
    if (!kvg_json_has(group, "budget")) return KVG_OK;
    kvg_status s = kvg_json_get(group, "budget", &value);
    return s ? s : kvg_json_u64(value, 1, 1ull << 53, out);
}

static kvg_status read_defects(kvg_json group, kvg_generate_case *g)
{
    kvg_json list;
    if (!kvg_json_has(group, "defects")) return KVG_OK;
    kvg_status s = kvg_json_get(group, "defects", &list);
    if (!s && (!kvg_json_is_array(list) || kvg_json_count(list) > KVG_GENERATE_DEFECTS)) {
        s = kvg_json_fail(list, "expected a list of at most %d defects", KVG_GENERATE_DEFECTS);
    }
    for (size_t i = 0; !s && i < kvg_json_count(list); i++) {
        kvg_planted planted;
        s = kvg_json_string(kvg_json_at(list, i), &g->defects[i]);
        if (!s) s = kvg_json_locate(kvg_json_at(list, i), kvg_planted_find(g->defects[i], &planted));
        g->defect_count = i + 1;
    }
    return s;
}

/* The geometry is the model's; the rest of a decode of one window is here. */
static kvg_status read_model(kvg_json group, kvg_case *c)
{
    char path[PATH_MAX];
    kvg_model_config model;
    kvg_json value, window;
    uint64_t tokens = 0;
    snprintf(path, sizeof path, "%s/config.json", c->generate.model);
    kvg_status s = kvg_json_get(group, "model", &value);
    if (!s) s = kvg_json_locate(value, kvg_model_config_open(path, &model));
    if (!s) s = kvg_json_get(group, "window", &window);
    if (s) return s;
    s = kvg_json_u64(window, 2, 1 << 20, &tokens);
    if (!s && tokens + c->generate.greedy > model.positions) {
        s = kvg_json_fail(window, "%llu tokens and %u generated ones: the model has positions for %u",
                          (unsigned long long)tokens, c->generate.greedy, model.positions);
    }
    if (!s && model.vocab < 256) {
        s = kvg_json_fail(value, "a text's bytes need 256 tokens: the model has %u", model.vocab);
    }
    c->problem.op = KVG_OP_DECODE;
    c->problem.profile = KVG_PROFILE_SIMT_FMA_V1;
    c->problem.tokens = (uint32_t)tokens;
    c->problem.kv_heads = model.kv_heads;
    c->problem.head_dim = model.head_dim;
    c->problem.paging = (kvg_paging){.layers = model.layers, .block_tokens = 16, .sequences = 1};
    c->problem.attention = (kvg_attention){.query_heads = model.query_heads, .queries = 1, .sinks = model.sinks};
    return s;
}

static kvg_status read_once(kvg_config *config, kvg_json group, kvg_case *c)
{
    kvg_generate_case *g = &c->generate;
    kvg_status s = check_keys(group);
    if (!s) s = kvg_axis_comment(group);
    if (!s) s = read_path(config, group, "model", &g->model);
    if (!s) s = read_path(config, group, "text", &g->text);
    if (!s && kvg_json_has(group, "calibration")) s = read_path(config, group, "calibration", &g->calibration);
    if (!s) s = read_numbers(group, g);
    if (!s) s = read_limit(group, "max_loss", 64, &g->limits.loss);
    if (!s) s = read_limit(group, "max_kl", 64, &g->limits.kl);
    if (!s) s = read_limit(group, "min_top1", 1, &g->limits.top1);
    if (!s) s = read_budget(group, &g->budget);
    if (!s) s = read_defects(group, g);
    if (!s) s = read_model(group, c);
    if (!g->stride) g->stride = c->problem.tokens;
    if (!s && g->windows && g->bit_windows > g->windows) {
        s = kvg_json_fail(group, "bit_windows %u of %u windows", g->bit_windows, g->windows);
    }
    if (!s && g->defect_count && !g->bit_windows) {
        s = kvg_json_fail(group, "defects are planted in bit_windows: give one");
    }
    return s;
}

/* --- the product --- */

/* How many values a key of the product has; 0 without it. */
static size_t value_count(kvg_json group, const char *key)
{
    kvg_json value;
    if (!kvg_json_has(group, key) || kvg_json_get(group, key, &value)) return 0;
    return kvg_json_is_array(value) ? kvg_json_count(value) : 1;
}

static kvg_status read_word(kvg_json value, const char *what, const char *const *names, unsigned *out)
{
    const char *name;
    size_t count = 0;
    kvg_status s = kvg_json_string(value, &name);
    if (s) return s;
    for (; names[count]; count++) {
        if (strcmp(names[count], name) == 0) *out = (unsigned)count;
        if (strcmp(names[count], name) == 0) return KVG_OK;
    }
    return kvg_json_fail_name(value, what, name, names, count);
}

static kvg_status read_own(size_t key, kvg_json value, kvg_generate_case *g)
{
    static const char *const rope[] = {"after_rope", "before_rope", NULL};
    unsigned chosen = 0;
    kvg_status s = key == LAYERS ? read_word(value, "choice of layers", kvg_quantised_layers_names, &chosen)
                                 : read_word(value, "place", rope, &chosen);
    if (key == LAYERS) g->layers = (kvg_quantised_layers)chosen;
    else g->before_rope = chosen;
    return s;
}

/* What cannot be run is refused here, not found out later. */
static kvg_status check_case(const kvg_case *c)
{
    const kvg_generate_case *g = &c->generate;
    bool scaled = false;
    if (c->problem.dtype == KVG_DTYPE_F32) return kvg_fail(KVG_ERR_INVALID, "op generate has dtype f16 or bf16");
    if (c->scale.given) return kvg_fail(KVG_ERR_INVALID, "op generate has a scale by layer: a convention, P1 to P4");
    for (int side = KVG_K; side <= KVG_V; side++) {
        scaled |= kvg_format_get(c->problem.storage[side].format)->tensor_scale;
    }
    if (scaled && !g->calibration && c->scale.convention != KVG_SCALE_P4) {
        return kvg_fail(KVG_ERR_INVALID, "a format with a tensor scale needs \"calibration\", a text to take it from");
    }
    if (!g->bit_windows && !isfinite(g->limits.loss) && !isfinite(g->limits.kl) && !(g->limits.top1 > 0)) {
        return kvg_fail(KVG_ERR_INVALID, "nothing is judged: give bit_windows, max_loss, max_kl or min_top1");
    }
    return KVG_OK;
}

static kvg_status finish(kvg_config *config, kvg_json group, kvg_case *c)
{
    const kvg_layout_info *layout = kvg_layout_get(c->problem.layout);
    c->problem.paging.blocks = (c->problem.tokens + c->generate.greedy) / c->problem.paging.block_tokens + 1;
    kvg_status s = check_case(c);
    if (!s && !layout->paged) s = kvg_fail(KVG_ERR_INVALID, "op generate needs a paged layout, not %s", layout->name);
    if (!s) s = kvg_problem_check(&c->problem);
    if (!s) s = kvg_case_name(c);
    return s ? kvg_json_locate(group, s) : kvg_config_append(config, c);
}

static bool is_all(kvg_json value)
{
    const char *name;
    return kvg_json_is_string(value) && !kvg_json_string(value, &name) && strcmp(name, "all") == 0;
}

/* "dialect": "all": a case for each. */
static kvg_status add_dialects(kvg_config *config, kvg_json group, const kvg_case *c)
{
    const kvg_format format = c->problem.storage[KVG_K].format;
    if (c->problem.storage[KVG_V].format != format) {
        return kvg_json_fail(group, "dialect \"all\" needs one format for K and V");
    }
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_reference_dialect_count(format) && !s; i++) {
        kvg_case one = *c;
        one.problem.storage[KVG_K].dialect = one.problem.storage[KVG_V].dialect =
            kvg_reference_dialect(format, i)->name;
        s = finish(config, group, &one);
    }
    return s;
}

static kvg_status add_combination(kvg_config *config, kvg_json group, const size_t at[PRODUCT], const kvg_case *from)
{
    kvg_case c = *from;
    bool all = false;
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < PRODUCT && !s; i++) {
        kvg_json value;
        const char *key = i < AXES ? kvg_axis_names[axes[i]] : own_axes[i - AXES];
        if (!kvg_json_has(group, key)) continue;
        s = kvg_json_get(group, key, &value);
        if (!s && kvg_json_is_array(value)) value = kvg_json_at(value, at[i]);
        if (s) break;
        if (i >= AXES) s = read_own(i, value, &c.generate);
        else if (axes[i] == AXIS_DIALECT && is_all(value)) all = true;
        else s = kvg_axis_read(axes[i], config, value, &c);
    }
    if (s) return s;
    return all ? add_dialects(config, group, &c) : finish(config, group, &c);
}

kvg_status kvg_generate_add(kvg_config *config, kvg_json group)
{
    size_t counts[PRODUCT], total = 1;
    kvg_case c = {
        .problem = {.layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16},
        .generate = {.given = true, .chunk = 64, .batch = 4, .calibration_tokens = 512,
                     .limits = {.loss = INFINITY, .kl = INFINITY}},
        .scale = {.convention = KVG_SCALE_P2},
        .backend = "reference",
        .seed = config->seed,
    };
    c.problem.storage[KVG_K].dialect = c.problem.storage[KVG_V].dialect = "canonical";
    kvg_status s = read_once(config, group, &c);
    if (!s && !kvg_json_has(group, "format")) s = kvg_json_fail(group, "\"format\" is required");
    for (size_t i = 0; i < PRODUCT && !s; i++) {
        const char *key = i < AXES ? kvg_axis_names[axes[i]] : own_axes[i - AXES];
        counts[i] = value_count(group, key);
        if (kvg_json_has(group, key) && !counts[i]) {
            s = kvg_json_fail(group, "\"%s\" is an empty list: the product has no case", key);
        }
        if (!counts[i]) counts[i] = 1;
        total *= counts[i];
        if (!s && total > KVG_CONFIG_MAX_CASES) {
            s = kvg_json_fail(group, "more than %d combinations", KVG_CONFIG_MAX_CASES);
        }
    }
    for (size_t n = 0; n < total && !s; n++) {
        size_t at[PRODUCT], rest = n;
        for (size_t i = PRODUCT; i-- > 0; rest /= counts[i]) at[i] = rest % counts[i];
        s = add_combination(config, group, at, &c);
    }
    return s;
}
