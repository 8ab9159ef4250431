/* Groups of op generate: a model over a text, through a cache of each format (docs/guide/config.md section 15). */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "model/checkpoint/model_config.h"
#include "model/generate/defect_planted.h"
#include "model/generate/generate_case.h"
#include "support/json_schema.h"

const char *const kvg_quantised_layers_names[] = {"all", "sliding", "full", NULL};
const char *const kvg_quantised_k_names[] = {"after_rope", "before_rope", NULL};

/* Axes that are a product, as those of other groups are. */
enum { LAYOUT, DTYPE, FORMAT, DIALECT, BLOCK_TOKENS, SCALE, BACKEND, AXES, LAYERS = AXES, ROPE, PRODUCT };
static const kvg_axis axes[AXES] = {
    [LAYOUT] = KVG_AXIS_LAYOUT, [DTYPE] = KVG_AXIS_DTYPE, [FORMAT] = KVG_AXIS_FORMAT, [DIALECT] = KVG_AXIS_DIALECT,
    [BLOCK_TOKENS] = KVG_AXIS_BLOCK_TOKENS, [SCALE] = KVG_AXIS_SCALE, [BACKEND] = KVG_AXIS_BACKEND,
};

static const char *const own_axes[] = {"layers", "quantise_k"};

/* --- keys that a group has once --- */

#define COUNT(member, from, to) .value = {.kind = KVG_VALUE_COUNT, KVG_MEMBER_OF(kvg_generate_case, member), \
                                          .least = from, .most = to}
#define PATH KVG_JSON({"$ref": "#/$defs/name"})
#define LIMIT_BITS KVG_JSON({"type": "number", "minimum": 0, "maximum": 64})

static const config_key key_rows[] = {
    {.name = "model", .schema = PATH, .values = "a folder", .fallback = "required",
     .meaning = "Folder of a checkpoint, from the config's folder."},
    {.name = "text", .schema = PATH, .values = "a file", .fallback = "required",
     .meaning = "A file: its bytes are the tokens."},
    {.name = "calibration", .schema = PATH, .values = "a file", .fallback = "",
     .meaning = "Another text, which tensor scales are taken from."},
    {.name = "window", COUNT(window, 2, 1 << 20), .fallback = "required", .meaning = "Tokens of a window."},
    {.name = "max_loss", .schema = LIMIT_BITS, .values = "0 to 64", .fallback = "",
     .meaning = "Bits per token more than with an unquantised cache, at most."},
    {.name = "max_kl", .schema = LIMIT_BITS, .values = "0 to 64", .fallback = "",
     .meaning = "Mean KL divergence in bits, at most."},
    {.name = "min_top1", .schema = KVG_JSON({"type": "number", "minimum": 0, "maximum": 1}), .values = "0 to 1",
     .fallback = "", .meaning = "Share of rows with the same most likely token, at least."},
    {.name = "budget", COUNT(budget, 1, 1ull << 53), .fallback = "",
     .meaning = "Bytes that requests are counted into."},
    {.name = "defects", .schema = KVG_JSON({"type": "array", "maxItems": 16, "items": {"type": "string"}}),
     .values = "at most 16 of `kvgold list defects`", .fallback = "",
     .meaning = "Planted in bit_windows, each alone; each must fail. \":k\" or \":v\" behind one is one side."},
    {.name = "windows", COUNT(windows, 1, 1 << 20), .fallback = "",
     .meaning = "The first so many windows. Without it all of the text."},
    {.name = "stride", COUNT(stride, 1, 1 << 20), .fallback = "",
     .meaning = "Tokens from one window's start to the next one's. Without it the window's."},
    {.name = "chunk", COUNT(chunk, 1, 1 << 16), .fallback = "64", .meaning = "Rows of a prompt in a step."},
    {.name = "batch", COUNT(batch, 1, 1 << 12), .fallback = "4", .meaning = "Requests that run at once."},
    {.name = "greedy", COUNT(greedy, 0, 1 << 16), .fallback = "0", .meaning = "Tokens generated after each window."},
    {.name = "bit_windows", COUNT(bit_windows, 0, 1 << 20), .fallback = "0",
     .meaning = "Windows compared bit for bit with the reference."},
    {.name = "calibration_tokens", COUNT(calibration_tokens, 1, 1 << 20), .fallback = "512",
     .meaning = "How much of the calibration text is read."},
};

static const config_keys keys = {key_rows, sizeof key_rows / sizeof key_rows[0]};

static const char *product_key(size_t index)
{
    return index < AXES ? kvg_axis_get(axes[index])->name : own_axes[index - AXES];
}

static kvg_status check_keys(kvg_json group)
{
    const char *names[64] = {"op", "comment"};
    size_t count = kvg_config_key_names(keys, names, 2);
    for (size_t i = 0; i < PRODUCT; i++) names[count++] = product_key(i);
    return kvg_json_check_keys(group, names, count);
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
static kvg_status read_model(kvg_json group, const kvg_generate_case *g, kvg_case *c)
{
    char path[PATH_MAX];
    kvg_model_config model;
    kvg_json value, window;
    snprintf(path, sizeof path, "%s/config.json", g->model);
    kvg_status s = kvg_json_get(group, "model", &value);
    if (!s) s = kvg_json_locate(value, kvg_model_config_open(path, &model));
    if (!s) s = kvg_json_get(group, "window", &window);
    if (s) return s;
    if ((uint64_t)g->window + g->greedy > model.positions) {
        s = kvg_json_fail(window, "%u tokens and %u generated ones: the model has positions for %u",
                          g->window, g->greedy, model.positions);
    }
    if (!s && model.vocab < 256) {
        s = kvg_json_fail(value, "a text's bytes need 256 tokens: the model has %u", model.vocab);
    }
    c->problem.op = KVG_OP_DECODE;
    c->problem.tokens = g->window;
    c->problem.profile = KVG_PROFILE_SIMT_FMA_V1;
    c->problem.kv_heads = model.kv_heads;
    c->problem.head_dim = model.head_dim;
    c->problem.paging = (kvg_paging){.layers = model.layers, .block_tokens = 16, .sequences = 1};
    c->problem.attention = (kvg_attention){.query_heads = model.query_heads, .queries = 1, .sinks = model.sinks};
    return s;
}

static kvg_status read_once(kvg_config *config, kvg_json group, kvg_generate_case *g, kvg_case *c)
{
    kvg_status s = check_keys(group);
    if (!s) s = kvg_json_check_notes(group);
    if (!s) s = read_path(config, group, "model", &g->model);
    if (!s) s = read_path(config, group, "text", &g->text);
    if (!s && kvg_json_has(group, "calibration")) s = read_path(config, group, "calibration", &g->calibration);
    if (!s) s = kvg_config_read_keys(keys, group, g);
    if (!s) s = read_limit(group, "max_loss", 64, &g->limits.loss);
    if (!s) s = read_limit(group, "max_kl", 64, &g->limits.kl);
    if (!s) s = read_limit(group, "min_top1", 1, &g->limits.top1);
    if (!s) s = read_defects(group, g);
    if (!s) s = read_model(group, g, c);
    if (!g->stride) g->stride = g->window;
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
        *count = kvg_config_list_count(group, axes[index]);
        return kvg_config_list_check(group, axes[index]);
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
    unsigned chosen = 0;
    kvg_json value;
    kvg_status s = kvg_json_get(group, product_key(index), &value);
    if (s) return s;
    if (kvg_json_is_array(value)) value = kvg_json_at(value, at);
    s = index == LAYERS ? read_word(value, "choice of layers", kvg_quantised_layers_names, &chosen)
                        : read_word(value, "place", kvg_quantised_k_names, &chosen);
    if (index == LAYERS) g->layers = (kvg_quantised_layers)chosen;
    else g->before_rope = chosen;
    return s;
}

/* What cannot be run is refused here, not found out later. */
static kvg_status check_case(const kvg_case *c, const kvg_generate_case *g)
{
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

static kvg_status finish(kvg_config *config, kvg_json group, const kvg_generate_case *g, kvg_case *c)
{
    const kvg_layout_info *layout = kvg_layout_get(c->problem.layout);
    c->problem.paging.blocks = (g->window + g->greedy) / c->problem.paging.block_tokens + 1;
    kvg_status s = check_case(c, g);
    if (!s && !layout->paged) s = kvg_fail(KVG_ERR_INVALID, "op generate needs a paged layout, not %s", layout->name);
    if (!s) s = kvg_problem_check(&c->problem);
    if (!s) s = kvg_config_keep_bytes(config, g, sizeof *g, &c->guest_case);
    if (!s) s = kvg_case_name(c);
    return s ? kvg_json_locate(group, s) : kvg_config_append(config, c);
}

/* "dialect": "all": a case for each. */
static kvg_status add_dialects(kvg_config *config, kvg_json group, kvg_json value, const kvg_generate_case *g,
                               const kvg_case *c)
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
        if (kvg_config_all_has(value, name)) s = finish(config, group, g, &one);
    }
    return s;
}

/* A format that "all" stands for is left out where the model's head_dim and the type cannot have it. */
static kvg_status add_combination(kvg_config *config, kvg_json group, const size_t at[PRODUCT],
                                  const kvg_generate_case *once, const kvg_case *from)
{
    kvg_case c = *from;
    kvg_generate_case g = *once;
    config_choice given[AXES] = {{0}}, *format = &given[FORMAT], *dialect = &given[DIALECT];
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < PRODUCT && !s; i++) {
        if (!kvg_json_has(group, product_key(i))) continue;
        if (i < AXES) given[i] = kvg_config_list_at(group, axes[i], at[i]);
        if (i == DIALECT && kvg_config_is_all(dialect->value)) continue;
        s = i < AXES ? kvg_config_list_read(axes[i], config, &given[i], &c) : read_own(group, i, at[i], &g);
    }
    if (s || (format->word && kvg_problem_check_rows(&c.problem))) return s;
    if (dialect->has && kvg_config_is_all(dialect->value)) return add_dialects(config, group, dialect->value, &g, &c);
    return finish(config, group, &g, &c);
}

kvg_status kvg_generate_add(const kvg_guest *guest, kvg_config *config, kvg_json group)
{
    size_t counts[PRODUCT], total = 1;
    kvg_generate_case g = {.limits = {.loss = INFINITY, .kl = INFINITY}};
    kvg_case c = {
        .guest = guest,
        .problem = {.layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16},
        .scale = {.convention = KVG_SCALE_P2},
        .backend = "reference",
        .seed = config->seed,
    };
    c.problem.storage[KVG_K].dialect = c.problem.storage[KVG_V].dialect = "canonical";
    kvg_status s = read_once(config, group, &g, &c);
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
        s = add_combination(config, group, at, &g, &c);
    }
    return s;
}

/* --- what the schema and the page say --- */

void kvg_generate_schema(kvg_json_text *t)
{
    static const char of_generate[] = KVG_JSON(
        "type": "object",
        "description": "A model reads a text through a cache of each format (docs/guide/config.md section 15).");
    static const char first[] = KVG_JSON(
        "op": {"const": "generate"}, "comment": {"type": "string", "description": "For people."});
    static const char more[] = KVG_JSON(
        "layers": {"description": "Layers that are quantised; the others keep the model type.", "default": "all",
                   "anyOf": [{"$ref": "#/$defs/quantised_layers"},
                             {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/quantised_layers"}}]},
        "quantise_k": {"description": "Where K is quantised.", "default": "after_rope",
                       "anyOf": [{"$ref": "#/$defs/quantise_k"},
                                 {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/quantise_k"}}]});
    kvg_json_add(t, "\"generate\": {%s, \"required\": [\"op\"", of_generate);
    kvg_config_schema_required(t, keys);
    kvg_json_add(t, ", \"format\"], \"additionalProperties\": false, \"properties\": {%s, ", first);
    kvg_config_schema_keys(t, keys);
    for (size_t i = 0; i < AXES; i++) kvg_config_schema_axis(t, axes[i]);
    kvg_json_add(t, "%s}}, \"quantised_layers\": ", more);
    kvg_json_add_enum(t, NULL, kvg_quantised_layers_names);
    kvg_json_add(t, ", \"quantise_k\": ");
    kvg_json_add_enum(t, NULL, kvg_quantised_k_names);
    kvg_json_add(t, ", ");
}

void kvg_generate_page(kvg_json_text *t)
{
    kvg_config_page_keys(t, "A group of op generate", keys);
}
