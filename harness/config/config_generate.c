/* Groups of op generate: a model over a text, through a cache of each format (docs/guide/config.md section 18). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "harness/model/model_config.h"
#include "harness/wrong/defect_planted.h"

/* Axes that are a product, as those of other groups are. */
enum { LAYOUT, DTYPE, FORMAT, DIALECT, BLOCK_TOKENS, SCALE, BACKEND, AXES, LAYERS = AXES, ROPE, PRODUCT };
static const kvg_axis axes[AXES] = {
    [LAYOUT] = KVG_AXIS_LAYOUT, [DTYPE] = KVG_AXIS_DTYPE, [FORMAT] = KVG_AXIS_FORMAT, [DIALECT] = KVG_AXIS_DIALECT,
    [BLOCK_TOKENS] = KVG_AXIS_BLOCK_TOKENS, [SCALE] = KVG_AXIS_SCALE, [BACKEND] = KVG_AXIS_BACKEND,
};

static const char *const own_axes[] = {"layers", "quantise_k"};

kvg_axis config_generate_axis(size_t index)
{
    return index < AXES ? axes[index] : KVG_AXIS_COUNT;
}

bool kvg_generate_is(kvg_json group)
{
    kvg_json op;
    const char *name;
    return kvg_json_has(group, "op") && !kvg_json_get(group, "op", &op) && kvg_json_is_string(op) &&
           !kvg_json_string(op, &name) && strcmp(name, "generate") == 0;
}

/* --- what a group has once --- */

static const char *product_key(size_t index)
{
    return index < AXES ? kvg_axis_get(axes[index])->name : own_axes[index - AXES];
}

static kvg_status check_keys(kvg_json group)
{
    const char *keys[64] = {"op", "comment"};
    size_t count = config_key_names(CONFIG_GENERATE, keys, 2);
    for (size_t i = 0; i < PRODUCT; i++) keys[count++] = product_key(i);
    return kvg_json_check_keys(group, keys, count);
}

static kvg_status read_path(kvg_config *config, kvg_json group, const char *key, const char **out)
{
    kvg_json value;
    kvg_status s = kvg_json_get(group, key, &value);
    return s ? s : kvg_config_keep_path(config, value, out);
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
    snprintf(path, sizeof path, "%s/config.json", c->generate.model);
    kvg_status s = kvg_json_get(group, "model", &value);
    if (!s) s = kvg_json_locate(value, kvg_model_config_open(path, &model));
    if (!s) s = kvg_json_get(group, "window", &window);
    if (s) return s;
    if ((uint64_t)c->problem.tokens + c->generate.greedy > model.positions) {
        s = kvg_json_fail(window, "%u tokens and %u generated ones: the model has positions for %u",
                          c->problem.tokens, c->generate.greedy, model.positions);
    }
    if (!s && model.vocab < 256) {
        s = kvg_json_fail(value, "a text's bytes need 256 tokens: the model has %u", model.vocab);
    }
    c->problem.op = KVG_OP_DECODE;
    c->problem.profile = KVG_PROFILE_SIMT_FMA_V1;
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
    if (!s) s = config_read_keys(CONFIG_GENERATE, group, c);
    if (!s) s = read_limit(group, "max_loss", 64, &g->limits.loss);
    if (!s) s = read_limit(group, "max_kl", 64, &g->limits.kl);
    if (!s) s = read_limit(group, "min_top1", 1, &g->limits.top1);
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
static kvg_status count_values(kvg_json group, size_t index, size_t *count)
{
    kvg_json value;
    const char *key = product_key(index);
    *count = 0;
    if (!kvg_json_has(group, key)) return KVG_OK;
    if (index < AXES) {
        *count = config_list_count(group, axes[index]);
        return config_list_check(group, axes[index]);
    }
    kvg_status s = kvg_json_get(group, key, &value);
    *count = kvg_json_is_array(value) ? kvg_json_count(value) : 1;
    return s || *count ? s : kvg_json_fail(group, "\"%s\" is an empty list: the product has no case", key);
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

static kvg_status read_own(kvg_json group, size_t index, size_t at, kvg_generate_case *g)
{
    static const char *const rope[] = {"after_rope", "before_rope", NULL};
    unsigned chosen = 0;
    kvg_json value;
    kvg_status s = kvg_json_get(group, product_key(index), &value);
    if (s) return s;
    if (kvg_json_is_array(value)) value = kvg_json_at(value, at);
    s = index == LAYERS ? read_word(value, "choice of layers", kvg_quantised_layers_names, &chosen)
                        : read_word(value, "place", rope, &chosen);
    if (index == LAYERS) g->layers = (kvg_quantised_layers)chosen;
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

/* "dialect": "all": a case for each. */
static kvg_status add_dialects(kvg_config *config, kvg_json group, kvg_json value, const kvg_case *c)
{
    const kvg_format format = c->problem.storage[KVG_K].format;
    if (c->problem.storage[KVG_V].format != format) {
        return kvg_json_fail(group, "dialect \"all\" needs one format for K and V");
    }
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_reference_dialect_count(format) && !s; i++) {
        kvg_case one = *c;
        const char *name = kvg_reference_dialect(format, i)->name;
        one.problem.storage[KVG_K].dialect = one.problem.storage[KVG_V].dialect = name;
        if (config_all_has(value, name)) s = finish(config, group, &one);
    }
    return s;
}

/* A format that "all" stands for is left out where the model's head_dim and the type cannot have it. */
static kvg_status add_combination(kvg_config *config, kvg_json group, const size_t at[PRODUCT], const kvg_case *from)
{
    kvg_case c = *from;
    config_choice given[AXES] = {{0}}, *format = &given[FORMAT], *dialect = &given[DIALECT];
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < PRODUCT && !s; i++) {
        if (!kvg_json_has(group, product_key(i))) continue;
        if (i < AXES) given[i] = config_list_at(group, axes[i], at[i]);
        if (i == DIALECT && config_is_all(dialect->value)) continue;
        s = i < AXES ? config_list_read(axes[i], config, &given[i], &c) : read_own(group, i, at[i], &c.generate);
    }
    if (s || (format->word && kvg_problem_check_rows(&c.problem))) return s;
    if (dialect->has && config_is_all(dialect->value)) return add_dialects(config, group, dialect->value, &c);
    return finish(config, group, &c);
}

kvg_status kvg_generate_add(kvg_config *config, kvg_json group)
{
    size_t counts[PRODUCT], total = 1;
    kvg_case c = {
        .problem = {.layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16},
        .generate = {.given = true, .limits = {.loss = INFINITY, .kl = INFINITY}},
        .scale = {.convention = KVG_SCALE_P2},
        .backend = "reference",
        .seed = config->seed,
    };
    c.problem.storage[KVG_K].dialect = c.problem.storage[KVG_V].dialect = "canonical";
    kvg_status s = read_once(config, group, &c);
    if (!s && !kvg_json_has(group, "format")) s = kvg_json_fail(group, "\"format\" is required");
    for (size_t i = 0; i < PRODUCT && !s; i++) {
        s = count_values(group, i, &counts[i]);
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
