#include "harness/config/config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "harness/data/fill.h"

/* One value of each axis; `has` is false where the default applies. */
typedef struct choice {
    bool has;
    kvg_json value;
} choice;

/* --- exclusion: the text of an axis as configs write it --- */

/* "nvfp4", or "e4m3+nvfp4" where K and V differ. */
static void both_sides(const char *k, const char *v, char *out, size_t size)
{
    const bool same = strcmp(k, v) == 0;
    snprintf(out, size, "%s%s%s", k, same ? "" : "+", same ? "" : v);
}

static void yes_no(uint64_t value, char *out, size_t size)
{
    snprintf(out, size, "%s", value ? "true" : "false");
}

static void axis_text(const kvg_case *c, const choice *choices, axis which, char *out, size_t size)
{
    const kvg_problem *p = &c->problem;
    const char *name = "";
    const bool stored = p->storage[KVG_K].format != KVG_FORMAT_NONE; /* false: a policy that was refused */
    out[0] = 0;
    if (!stored && (which == AXIS_FORMAT || which == AXIS_DIALECT)) return;
    switch (which) {
    case AXIS_OP: snprintf(out, size, "%s", kvg_op_get(p->op)->name); return;
    case AXIS_FORMAT:
        both_sides(kvg_format_get(p->storage[KVG_K].format)->name, kvg_format_get(p->storage[KVG_V].format)->name, out,
                   size);
        return;
    case AXIS_POLICY: kvg_case_policy_text(&c->policy, out, size); return;
    case AXIS_DIALECT: both_sides(p->storage[KVG_K].dialect, p->storage[KVG_V].dialect, out, size); return;
    case AXIS_LAYOUT: snprintf(out, size, "%s", kvg_layout_get(p->layout)->name); return;
    case AXIS_DTYPE: snprintf(out, size, "%s", kvg_dtype_name(p->dtype)); return;
    case AXIS_MODEL:
        if (choices[AXIS_MODEL].has && kvg_json_string(choices[AXIS_MODEL].value, &name)) name = "";
        snprintf(out, size, "%s", name);
        return;
    case AXIS_KV_HEADS: snprintf(out, size, "%u", p->kv_heads); return;
    case AXIS_HEAD_DIM: snprintf(out, size, "%u", p->head_dim); return;
    case AXIS_TOKENS: snprintf(out, size, "%u", p->tokens); return;
    case AXIS_BLOCK_TOKENS: snprintf(out, size, "%u", p->paging.block_tokens); return;
    case AXIS_BLOCKS: snprintf(out, size, "%u", p->paging.blocks); return;
    case AXIS_LAYERS: snprintf(out, size, "%u", p->paging.layers); return;
    case AXIS_SEQUENCES: snprintf(out, size, "%u", p->paging.sequences); return;
    case AXIS_PADDING:
        yes_no(p->paging.row_padding | p->paging.data_padding | p->paging.scale_padding, out, size);
        return;
    case AXIS_SWIZZLE: yes_no(p->paging.v_scale_swizzle, out, size); return;
    case AXIS_SHARED_KV: yes_no(p->paging.shared_kv, out, size); return;
    case AXIS_ROPE: yes_no(p->rope.dims, out, size); return;
    case AXIS_BIAS: yes_no(p->bias, out, size); return;
    case AXIS_GROUP: snprintf(out, size, "%u", p->attention.query_heads / p->kv_heads); return;
    case AXIS_QUERIES: snprintf(out, size, "%u%s", c->queries, c->even_queries ? " each" : ""); return;
    case AXIS_WINDOW: snprintf(out, size, "%u", p->attention.window); return;
    case AXIS_SOFTCAP: yes_no(p->attention.softcap > 0, out, size); return;
    case AXIS_SCORE_SCALE: yes_no(p->attention.scale > 0, out, size); return;
    case AXIS_SINKS: yes_no(p->attention.sinks, out, size); return;
    case AXIS_PROFILE:
        snprintf(out, size, "%s", p->profile == KVG_PROFILE_NONE ? "exact" : kvg_profile_get(p->profile)->name);
        return;
    case AXIS_RELATIONS: yes_no(c->relations, out, size); return;
    case AXIS_OPERANDS: snprintf(out, size, "%s", kvg_operands_names[c->operands]); return;
    case AXIS_FILL: snprintf(out, size, "%s", kvg_fill_names[c->fill]); return;
    case AXIS_SCALE: snprintf(out, size, c->scale.given ? "given" : "P%d", (int)c->scale.convention); return;
    case AXIS_BACKEND: snprintf(out, size, "%s", c->backend); return;
    case AXIS_COUNT: break;
    }
}

static bool value_is(kvg_json value, const char *text)
{
    const char *string;
    uint64_t number;
    char digits[24] = "";
    if (kvg_json_is_array(value)) {
        for (size_t i = 0; i < kvg_json_count(value); i++) {
            if (value_is(kvg_json_at(value, i), text)) return true;
        }
        return false;
    }
    if (kvg_json_is_number(value) && kvg_json_u64(value, 0, 1ull << 53, &number) == KVG_OK) {
        snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
        return strcmp(digits, text) == 0;
    }
    bool flag;
    if (kvg_json_bool(value, &flag) == KVG_OK) return strcmp(flag ? "true" : "false", text) == 0;
    return kvg_json_string(value, &string) == KVG_OK && strcmp(string, text) == 0;
}

/* Every key of the exclude object matches the case. */
static bool excluded_by(kvg_json exclude, const kvg_case *c, const choice *choices)
{
    for (size_t i = 0; i < kvg_json_count(exclude); i++) {
        const kvg_json member = kvg_json_at(exclude, i);
        for (int a = 0; a < AXIS_COUNT; a++) {
            char text[KVG_POLICY_TEXT_SIZE];
            if (strcmp(kvg_json_key(member), kvg_axis_names[a]) != 0) continue;
            axis_text(c, choices, (axis)a, text, sizeof text);
            if (!value_is(member, text)) return false;
        }
    }
    return true;
}

/* --- groups --- */

typedef struct group {
    kvg_json object;
    kvg_json exclude;
    bool *exclude_used;
    size_t exclude_count;
} group;

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

/* An object of the group's `exclude` matches the case; the first that does has done its duty. */
static bool is_excluded(group *g, const kvg_case *c, const choice *choices)
{
    for (size_t i = 0; i < g->exclude_count; i++) {
        if (!excluded_by(kvg_json_at(g->exclude, i), c, choices)) continue;
        g->exclude_used[i] = true;
        return true;
    }
    return false;
}

static kvg_status finish_case(kvg_config *config, group *g, const choice *choices, kvg_case *c)
{
    if (is_excluded(g, c, choices)) return KVG_OK;
    c->seed = config->seed;
    kvg_status s = kvg_problem_check(&c->problem);
    if (!s) s = kvg_attention_check_profile(&c->problem);
    if (!s) s = kvg_case_name(c);
    if (!s) s = kvg_fill_check(c);
    if (!s) s = kvg_axis_check_blocks(&c->problem);
    if (s) return kvg_json_locate(g->object, s);
    return kvg_config_append(config, c);
}

/* Reads one combination; "dialect": "all" becomes a case per dialect of the format. A policy needs type and geometry
 * first, a dialect the format that the policy chose. */
static kvg_status add_combination(kvg_config *config, group *g, const choice *choices)
{
    kvg_case c = {
        .problem = {.layout = KVG_LAYOUT_ROWS, .dtype = KVG_DTYPE_BF16, .tokens = 64},
        .scale = {.convention = KVG_SCALE_P2},
        .relations = true,
        .backend = "reference",
    };
    c.problem.storage[KVG_K].dialect = c.problem.storage[KVG_V].dialect = "canonical";
    const char *dialect = "";
    const bool all = choices[AXIS_DIALECT].has && kvg_json_is_string(choices[AXIS_DIALECT].value) &&
                     kvg_json_string(choices[AXIS_DIALECT].value, &dialect) == KVG_OK && strcmp(dialect, "all") == 0;
    for (int a = 0; a < AXIS_COUNT; a++) {
        if (!choices[a].has || a == AXIS_DIALECT) continue;
        kvg_status s = kvg_axis_read((axis)a, config, choices[a].value, &c);
        if (s) return s;
    }
    kvg_axis_defaults(&c.problem);
    kvg_status status = kvg_attention_defaults(&c);
    if (status) return kvg_json_locate(g->object, status);
    if (c.policy.given && kvg_policy_apply(config, choices[AXIS_POLICY].value, &c)) {
        if (is_excluded(g, &c, choices)) return KVG_OK;
        return kvg_policy_apply(config, choices[AXIS_POLICY].value, &c); /* for its text */
    }
    if (!all) {
        kvg_status s = KVG_OK;
        if (choices[AXIS_DIALECT].has) s = kvg_axis_read(AXIS_DIALECT, config, choices[AXIS_DIALECT].value, &c);
        return s ? s : finish_case(config, g, choices, &c);
    }
    const kvg_format format = c.problem.storage[KVG_K].format;
    if (c.problem.storage[KVG_V].format != format) {
        return kvg_json_fail(choices[AXIS_DIALECT].value, "\"all\" needs one format for K and V");
    }
    for (size_t i = 0; i < kvg_reference_dialect_count(format); i++) {
        kvg_case one = c;
        one.problem.storage[KVG_K].dialect = one.problem.storage[KVG_V].dialect =
            kvg_reference_dialect(format, i)->name;
        kvg_status s = finish_case(config, g, choices, &one);
        if (s) return s;
    }
    return KVG_OK;
}

/* The values of an axis in an object: a scalar is a list of one. */
static size_t axis_values(kvg_json object, axis a)
{
    kvg_json value;
    if (!kvg_json_has(object, kvg_axis_names[a]) || kvg_json_get(object, kvg_axis_names[a], &value)) return 0;
    return kvg_json_is_array(value) ? kvg_json_count(value) : 1;
}

static kvg_json axis_value(kvg_json object, axis a, size_t index)
{
    kvg_json value = object;
    if (kvg_json_get(object, kvg_axis_names[a], &value)) return object;
    return kvg_json_is_array(value) ? kvg_json_at(value, index) : value;
}

static bool gives(kvg_json object, axis a)
{
    return kvg_json_has(object, kvg_axis_names[a]);
}

/* The object gives what stands for this axis: a model for kv_heads and head_dim, a policy for a format, or the other
 * way round. */
static bool replaces(kvg_json object, axis a)
{
    switch (a) {
    case AXIS_MODEL: return gives(object, AXIS_KV_HEADS) || gives(object, AXIS_HEAD_DIM);
    case AXIS_KV_HEADS:
    case AXIS_HEAD_DIM: return gives(object, AXIS_MODEL);
    case AXIS_FORMAT: return gives(object, AXIS_POLICY);
    case AXIS_POLICY: return gives(object, AXIS_FORMAT);
    default: return false;
    }
}

/* Op mma has no K and V, so nothing to store and no shape to choose. */
static bool has_rows(const choice *choices)
{
    const char *op = "";
    return !choices[AXIS_OP].has || kvg_json_string(choices[AXIS_OP].value, &op) || strcmp(op, "mma") != 0;
}

static kvg_status check_tiles(kvg_json object, const choice *choices)
{
    static const axis shape[] = {AXIS_FORMAT, AXIS_POLICY, AXIS_DIALECT, AXIS_MODEL, AXIS_KV_HEADS, AXIS_HEAD_DIM};
    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        if (!choices[shape[i]].has) continue;
        return kvg_json_fail(object, "op mma has no \"%s\": its tiles follow from \"dtype\" and \"tokens\"",
                             kvg_axis_names[shape[i]]);
    }
    if (choices[AXIS_PROFILE].has && choices[AXIS_FILL].has) return KVG_OK;
    return kvg_json_fail(object, "op mma: \"profile\" and \"fill\" are required");
}

/* What every combination must have. */
static kvg_status check_choices(kvg_json object, const choice *choices)
{
    if (!has_rows(choices)) return check_tiles(object, choices);
    const bool stored = choices[AXIS_FORMAT].has || choices[AXIS_POLICY].has;
    if (!choices[AXIS_OP].has || !stored || !choices[AXIS_FILL].has) {
        return kvg_json_fail(object, "\"op\", \"format\" (or \"policy\") and \"fill\" are required");
    }
    if (!choices[AXIS_MODEL].has && !(choices[AXIS_KV_HEADS].has && choices[AXIS_HEAD_DIM].has)) {
        return kvg_json_fail(object, "give \"model\", or \"kv_heads\" and \"head_dim\"");
    }
    return KVG_OK;
}

/* Every combination of the values that `object` gives; axes it lacks come from `fallback`'s first value. */
static kvg_status add_product(kvg_config *config, group *g, kvg_json object, kvg_json fallback)
{
    size_t counts[AXIS_COUNT], total = 1;
    if (gives(object, AXIS_MODEL) && replaces(object, AXIS_MODEL))
        return kvg_json_fail(object, "give \"model\", or \"kv_heads\" and \"head_dim\", not both");
    if (gives(object, AXIS_FORMAT) && gives(object, AXIS_POLICY))
        return kvg_json_fail(object, "give \"format\" or \"policy\", not both");
    for (int a = 0; a < AXIS_COUNT; a++) {
        counts[a] = axis_values(object, (axis)a);
        if (kvg_json_has(object, kvg_axis_names[a]) && counts[a] == 0) {
            return kvg_json_fail(object, "\"%s\" is an empty list: the product has no case", kvg_axis_names[a]);
        }
        if (counts[a]) total *= counts[a];
        if (total > KVG_CONFIG_MAX_CASES)
            return kvg_json_fail(object, "more than %d combinations", KVG_CONFIG_MAX_CASES);
    }
    for (size_t i = 0; i < total; i++) {
        choice choices[AXIS_COUNT] = {0};
        size_t rest = i;
        for (int a = AXIS_COUNT - 1; a >= 0; a--) {
            if (counts[a]) {
                choices[a] = (choice){true, axis_value(object, (axis)a, rest % counts[a])};
                rest /= counts[a];
            } else if (axis_values(fallback, (axis)a) && !replaces(object, (axis)a)) {
                choices[a] = (choice){true, axis_value(fallback, (axis)a, 0)};
            }
        }
        kvg_status s = check_choices(object, choices);
        if (!s) s = add_combination(config, g, choices);
        if (s) return s;
    }
    return KVG_OK;
}

static kvg_status check_axis_objects(kvg_json list)
{
    if (!kvg_json_is_array(list)) return kvg_json_fail(list, "expected a list of objects");
    for (size_t i = 0; i < kvg_json_count(list); i++) {
        const kvg_json object = kvg_json_at(list, i);
        kvg_status s = kvg_json_check_keys(object, kvg_axis_names, AXIS_COUNT);
        if (!s && kvg_json_count(object) == 0) s = kvg_json_fail(object, "an empty object means nothing here");
        if (s) return s;
    }
    return KVG_OK;
}

kvg_status kvg_axis_comment(kvg_json object)
{
    kvg_json value;
    const char *text;
    if (!kvg_json_has(object, "comment")) return KVG_OK;
    kvg_status s = kvg_json_get(object, "comment", &value);
    return s ? s : kvg_json_string(value, &text);
}

static kvg_status add_group(kvg_config *config, kvg_json object)
{
    const char *keys[AXIS_COUNT + 3];
    memcpy(keys, kvg_axis_names, sizeof kvg_axis_names);
    keys[AXIS_COUNT] = "include";
    keys[AXIS_COUNT + 1] = "exclude";
    keys[AXIS_COUNT + 2] = "comment";
    kvg_status s = kvg_json_check_keys(object, keys, AXIS_COUNT + 3);
    if (!s) s = kvg_axis_comment(object);
    if (s) return s;
    group g = {.object = object};
    if (kvg_json_has(object, "exclude")) {
        s = kvg_json_get(object, "exclude", &g.exclude);
        if (!s) s = check_axis_objects(g.exclude);
        if (s) return s;
        g.exclude_count = kvg_json_count(g.exclude);
        g.exclude_used = calloc(g.exclude_count + 1, sizeof *g.exclude_used);
        if (!g.exclude_used) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu excludes", g.exclude_count);
    }
    s = add_product(config, &g, object, object);
    if (!s && kvg_json_has(object, "include")) {
        kvg_json include = object;
        s = kvg_json_get(object, "include", &include);
        if (!s) s = check_axis_objects(include);
        for (size_t i = 0; !s && i < kvg_json_count(include); i++) {
            s = add_product(config, &g, kvg_json_at(include, i), object);
        }
    }
    for (size_t i = 0; !s && i < g.exclude_count; i++) {
        if (!g.exclude_used[i])
            s = kvg_json_fail(kvg_json_at(g.exclude, i), "excludes no case: remove it or correct it");
    }
    free(g.exclude_used);
    return s;
}

/* --- the whole file --- */

static int by_id(const void *a, const void *b)
{
    const kvg_case *x = *(const kvg_case *const *)a, *y = *(const kvg_case *const *)b;
    const int order = strcmp(x->id, y->id);
    return order ? order : (x > y) - (x < y);
}

/* Combinations that differ only in an axis the format does not have (a tensor scale, say) are one case: the first
 * stays. */
static kvg_status drop_duplicates(kvg_config *config)
{
    const size_t n = config->case_count;
    const kvg_case **sorted = malloc((n + 1) * sizeof *sorted);
    bool *drop = calloc(n + 1, sizeof *drop);
    if (!sorted || !drop) {
        free(sorted);
        free(drop);
        return kvg_fail(KVG_ERR_MEMORY, "cannot sort %zu cases", n);
    }
    for (size_t i = 0; i < n; i++) sorted[i] = &config->cases[i];
    qsort(sorted, n, sizeof *sorted, by_id);
    kvg_status s = KVG_OK;
    for (size_t i = 1; i < n; i++) {
        const kvg_case *a = sorted[i - 1], *b = sorted[i];
        if (strcmp(a->id, b->id) != 0) continue;
        drop[b - config->cases] = true;
        if (a->fill == KVG_FILL_CAPTURE && strcmp(a->capture_file, b->capture_file) != 0) {
            s = kvg_fail(KVG_ERR_INVALID, "%s: %s and %s both have the tensors of case %s: rename one's", config->path,
                         a->capture_file, b->capture_file, a->id);
        }
    }
    config->case_count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!drop[i]) config->cases[config->case_count++] = config->cases[i];
    }
    free(sorted);
    free(drop);
    return s;
}

static kvg_status read_limits(kvg_config *config, kvg_json root)
{
    static const char *const keys[] = {"slow_seconds", "hang_seconds"};
    kvg_json limits, value;
    config->slow_seconds = 10;
    config->hang_seconds = 60;
    if (!kvg_json_has(root, "limits")) return KVG_OK;
    kvg_status s = kvg_json_get(root, "limits", &limits);
    if (!s) s = kvg_json_check_keys(limits, keys, 2);
    if (!s && kvg_json_has(limits, keys[0])) {
        s = kvg_json_get(limits, keys[0], &value);
        if (!s) s = kvg_json_double(value, &config->slow_seconds);
    }
    if (!s && kvg_json_has(limits, keys[1])) {
        s = kvg_json_get(limits, keys[1], &value);
        if (!s) s = kvg_json_double(value, &config->hang_seconds);
    }
    if (!s &&
        !(config->slow_seconds > 0 && config->hang_seconds >= config->slow_seconds && config->hang_seconds < 1e6)) {
        s = kvg_json_fail(limits, "0 < slow_seconds <= hang_seconds is required");
    }
    return s;
}

static kvg_status read_config(kvg_config *config, const uint64_t *seed)
{
    static const char *const keys[] = {"kvgold", "name", "comment", "seed", "limits", "cases"};
    const kvg_json root = kvg_json_root(config->data->doc);
    kvg_json value;
    uint64_t version;
    if (kvg_json_has(root, "scenarios") || kvg_json_has(root, "traces") || kvg_json_has(root, "bench")) {
        return kvg_json_fail(root, "this is a config of `kvgold pool`: one of `kvgold check` has \"cases\"");
    }
    kvg_status s = kvg_json_check_keys(root, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = kvg_axis_comment(root);
    if (!s) s = kvg_json_get(root, "kvgold", &value);
    if (!s) s = kvg_json_u64(value, 1, 1, &version);
    if (!s) s = kvg_json_get(root, "name", &value);
    if (!s) s = kvg_json_string(value, &config->name);
    if (!s) s = kvg_json_get(root, "seed", &value);
    if (!s) s = kvg_json_hex64(value, &config->seed);
    if (!s && seed) config->seed = *seed;
    if (!s) s = read_limits(config, root);
    if (!s) s = kvg_json_get(root, "cases", &value);
    if (!s && !kvg_json_is_array(value)) s = kvg_json_fail(value, "expected a list of case groups");
    for (size_t i = 0; !s && i < kvg_json_count(value); i++) {
        const kvg_json object = kvg_json_at(value, i);
        s = kvg_generate_is(object) ? kvg_generate_add(config, object) : add_group(config, object);
    }
    if (!s) s = drop_duplicates(config);
    if (!s && config->case_count == 0) s = kvg_json_fail(root, "selects no case: an empty run proves nothing");
    return s;
}

static kvg_status config_init(const char *name, const char *folder, kvg_config *out)
{
    *out = (kvg_config){0};
    out->data = calloc(1, sizeof *out->data);
    if (!out->data) return kvg_fail(KVG_ERR_MEMORY, "cannot hold a config");
    kvg_status s = kvg_config_keep(out, folder, &out->data->folder);
    return s ? s : kvg_config_keep(out, name, &out->path);
}

static kvg_status finish(kvg_config *out, kvg_status s, const uint64_t *seed)
{
    if (!s) s = read_config(out, seed);
    if (s) kvg_config_close(out);
    return s;
}

kvg_status kvg_config_parse(const char *name, const char *text, size_t size, const char *folder, kvg_config *out)
{
    kvg_status s = config_init(name, folder, out);
    if (!s) s = kvg_json_parse(name, text, size, &out->data->doc);
    return finish(out, s, NULL);
}

kvg_status kvg_config_open(const char *path, const uint64_t *seed, kvg_config *out)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    kvg_status s = config_init(path, folder, out);
    if (!s) s = kvg_json_open(path, &out->data->doc);
    return finish(out, s, seed);
}

kvg_status kvg_config_use_backend(kvg_config *config, const char *backend)
{
    if (!*backend) return kvg_fail(KVG_ERR_INVALID, "a backend needs a name: reference, defect:<id> or a plug-in");
    for (size_t i = 0; i < config->case_count; i++) {
        config->cases[i].backend = backend;
        kvg_status s = kvg_case_name(&config->cases[i]);
        if (s) return s;
    }
    return drop_duplicates(config);
}

kvg_status kvg_config_ops_alone(const kvg_config *config)
{
    for (size_t i = 0; i < config->case_count; i++) {
        if (!config->cases[i].generate.given) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s: cases of op generate are for `kvgold check` alone", config->path);
    }
    return KVG_OK;
}

kvg_status kvg_config_open_ops(const char *path, const uint64_t *seed, kvg_config *out)
{
    kvg_status s = kvg_config_open(path, seed, out);
    if (s) return s;
    s = kvg_config_ops_alone(out);
    if (s) kvg_config_close(out);
    return s;
}

void kvg_config_close(kvg_config *config)
{
    struct kvg_config_data *d = config->data;
    if (d) {
        for (size_t i = 0; i < d->string_count; i++) free(d->strings[i]);
        free(d->strings);
        kvg_json_close(d->doc);
    }
    free(d);
    free(config->cases);
    *config = (kvg_config){0};
}
