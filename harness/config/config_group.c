/* Groups of cases: the product of their axes, less what they exclude. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "harness/trial/question/decode_probes.h"
#include "harness/trial/question/fill.h"
#include "reference/attention_profile.h"

typedef struct group {
    kvg_json object;
    kvg_json exclude;
    bool *exclude_used;
    size_t exclude_count;
    size_t left_out; /* combinations of a product whose format or layout "all" names in vain */
} group;

/* --- exclusion --- */

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
static bool excluded_by(kvg_json exclude, const kvg_case *c)
{
    for (size_t i = 0; i < kvg_json_count(exclude); i++) {
        const kvg_json member = kvg_json_at(exclude, i);
        for (int a = 0; a < KVG_AXIS_COUNT; a++) {
            char text[KVG_POLICY_TEXT_SIZE];
            if (strcmp(kvg_json_key(member), kvg_axis_get((kvg_axis)a)->name) != 0) continue;
            config_axis_text(c, (kvg_axis)a, text, sizeof text);
            if (!value_is(member, text)) return false;
        }
    }
    return true;
}

/* An object of the group's `exclude` matches the case; the first that does has done its duty. */
static bool is_excluded(group *g, const kvg_case *c)
{
    for (size_t i = 0; i < g->exclude_count; i++) {
        if (!excluded_by(kvg_json_at(g->exclude, i), c)) continue;
        g->exclude_used[i] = true;
        return true;
    }
    return false;
}

/* --- one combination --- */

static kvg_status finish_case(kvg_config *config, group *g, kvg_case *c)
{
    if (is_excluded(g, c)) return KVG_OK;
    c->seed = config->seed;
    kvg_status s = kvg_problem_check(&c->problem);
    if (!s) s = kvg_attention_check_profile(&c->problem);
    if (!s) s = kvg_case_name(c);
    if (!s) s = kvg_fill_check(c);
    if (!s) s = kvg_probe_check(c);
    if (!s) s = kvg_axis_check_blocks(c);
    if (!s) s = kvg_problem_lay_out(&c->problem); /* once: whoever asks where a row lies finds it here */
    if (s) return kvg_json_locate(g->object, s);
    return kvg_config_append(config, c);
}

/* "dialect": "all" becomes a case per dialect of the format. */
static kvg_status add_dialects(kvg_config *config, group *g, kvg_json value, const kvg_case *c)
{
    const kvg_format format = c->problem.storage[KVG_K].format;
    if (c->problem.storage[KVG_V].format != format) return kvg_json_fail(value, "\"all\" needs one format for K and V");
    kvg_status s = KVG_OK;
    for (size_t i = 0; i < kvg_reference_dialect_count(format) && !s; i++) {
        kvg_case one = *c;
        const char *name = kvg_reference_dialect(format, i)->name;
        one.problem.storage[KVG_K].dialect = one.problem.storage[KVG_V].dialect = name;
        if (kvg_config_all_has(value, name)) s = finish_case(config, g, &one);
    }
    return s;
}

/* The case has another op than decode, and the value is not what every case of that op has. */
static bool says_something(const kvg_axis_info *axis, const kvg_case *c)
{
    if (axis->value.kind != KVG_VALUE_FLAG) return !kvg_value_is_zero(&axis->value, c);
    return kvg_value_number(&axis->value, c) != (strcmp(axis->fallback, "true") == 0);
}

static kvg_status fail_decode(void)
{
    char names[256] = "";
    const char *last = NULL;
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        const kvg_axis_info *axis = kvg_axis_get((kvg_axis)a);
        if (axis->scope != KVG_SCOPE_DECODE) continue;
        const size_t used = strlen(names);
        if (last) snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", last);
        last = axis->name;
    }
    return kvg_fail(KVG_ERR_INVALID, "%s and %s are for op decode only: give op decode a group of its own", names,
                    last);
}

/* The scope of op decode's axes; kvg_problem_check knows what other scopes refuse. */
static kvg_status check_decode(const config_choice *given, const kvg_case *c)
{
    if (c->problem.op == KVG_OP_DECODE) return KVG_OK;
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        const kvg_axis_info *axis = kvg_axis_get((kvg_axis)a);
        if (axis->scope == KVG_SCOPE_DECODE && given[a].has && says_something(axis, c)) return fail_decode();
    }
    return KVG_OK;
}

/* Every axis but the dialect, in the order of the table: a scope is known before its axes are read. */
static kvg_status read_axes(kvg_config *config, const config_choice *given, kvg_case *c)
{
    kvg_status s = KVG_OK;
    for (int a = 0; a < KVG_AXIS_COUNT && !s; a++) {
        if (a == KVG_AXIS_DIALECT) continue;
        s = given[a].has ? kvg_config_list_read((kvg_axis)a, config, &given[a], c) : kvg_axis_default((kvg_axis)a, c);
    }
    return s;
}

/* The layout has a place for such rows: their formats, one row for K and V, the tokens of a block. */
static bool has_place(const kvg_problem *p)
{
    kvg_problem q = *p;
    const bool one_row = p->paging.shared_kv && p->kv_heads == 1;
    return (one_row || kvg_layout_get(p->layout)->shared != KVG_SHARED_ALWAYS) && kvg_problem_lay_out(&q) == KVG_OK;
}

/* A policy needs type and geometry first, a dialect the format that the policy chose. */
static kvg_status add_combination(kvg_config *config, group *g, const config_choice *given)
{
    kvg_case c = {.scale = {.convention = KVG_SCALE_P2}, .backend = kvg_axis_get(KVG_AXIS_BACKEND)->fallback};
    const config_choice *dialect = &given[KVG_AXIS_DIALECT], *policy = &given[KVG_AXIS_POLICY];
    c.problem.storage[KVG_K].dialect = c.problem.storage[KVG_V].dialect = kvg_axis_get(KVG_AXIS_DIALECT)->fallback;
    kvg_status s = read_axes(config, given, &c);
    if (s) return s;
    kvg_axis_derive(&c);
    s = check_decode(given, &c);
    if (!s) s = kvg_attention_derive(&c);
    if (s) return kvg_json_locate(g->object, s);
    /* A format that "all" stands for is left out where no row of the case's head_dim and type can have it, and where
     * the contract of the case's profile has no operands for it; a layout, where it has no place for the rows. */
    const bool no_format = given[KVG_AXIS_FORMAT].word &&
                           (kvg_problem_check_rows(&c.problem) || !kvg_problem_has_operands(&c.problem));
    if (no_format || (given[KVG_AXIS_LAYOUT].word && !has_place(&c.problem))) {
        g->left_out++;
        return KVG_OK;
    }
    if (c.policy.given && kvg_policy_apply(config, policy->value, &c)) {
        return is_excluded(g, &c) ? KVG_OK : kvg_policy_apply(config, policy->value, &c); /* for its text */
    }
    if (dialect->has && kvg_config_is_all(dialect->value)) return add_dialects(config, g, dialect->value, &c);
    if (dialect->has) s = kvg_axis_read(KVG_AXIS_DIALECT, config, dialect->value, &c);
    return s ? s : finish_case(config, g, &c);
}

/* --- products --- */

static bool gives(kvg_json object, kvg_axis a)
{
    return kvg_json_has(object, kvg_axis_get(a)->name);
}

/* The object gives what stands for this axis: a model for kv_heads and head_dim, a policy for a format, or the other
 * way round. */
static bool replaces(kvg_json object, kvg_axis a)
{
    static const kvg_axis either[][2] = {
        {KVG_AXIS_MODEL, KVG_AXIS_KV_HEADS}, {KVG_AXIS_MODEL, KVG_AXIS_HEAD_DIM}, {KVG_AXIS_FORMAT, KVG_AXIS_POLICY},
    };
    for (size_t i = 0; i < sizeof either / sizeof either[0]; i++) {
        if (a == either[i][0] && gives(object, either[i][1])) return true;
        if (a == either[i][1] && gives(object, either[i][0])) return true;
    }
    return false;
}

/* Ops that store nothing, and what they need instead of a format. */
static const struct {
    kvg_op op;
    const char *why;
    kvg_axis needed[4]; /* ended by KVG_AXIS_COUNT */
} unstored[] = {
    {KVG_OP_MMA, "its tiles follow from \"dtype\" and \"tokens\"", {KVG_AXIS_PROFILE, KVG_AXIS_FILL, KVG_AXIS_COUNT}},
    {KVG_OP_MERGE, "its parts are in the model type",
     {KVG_AXIS_KV_HEADS, KVG_AXIS_HEAD_DIM, KVG_AXIS_FILL, KVG_AXIS_COUNT}},
};
enum { UNSTORED = sizeof unstored / sizeof unstored[0] };

/* The row of an op; UNSTORED: it stores K and V. */
static size_t find_unstored(const config_choice *op)
{
    const char *name = op->word;
    size_t row = 0;
    if (!op->has || (!name && kvg_json_string(op->value, &name))) return UNSTORED;
    while (row < UNSTORED && strcmp(name, kvg_op_get(unstored[row].op)->name) != 0) row++;
    return row;
}

static kvg_status check_unstored(kvg_json object, const config_choice *given, size_t row)
{
    const kvg_problem p = {.op = unstored[row].op, .layout = KVG_LAYOUT_ROWS};
    const char *op = kvg_op_get(p.op)->name;
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        const kvg_axis_info *axis = kvg_axis_get((kvg_axis)a);
        const bool of_storage = axis->scope == KVG_SCOPE_STORED || axis->scope == KVG_SCOPE_SHAPED;
        if (!of_storage || !given[a].has || kvg_scope_holds(axis->scope, &p)) continue;
        return kvg_json_fail(object, "op %s has no \"%s\": %s", op, axis->name, unstored[row].why);
    }
    for (const kvg_axis *a = unstored[row].needed; *a != KVG_AXIS_COUNT; a++) {
        if (!given[*a].has) return kvg_json_fail(object, "op %s: \"%s\" is required", op, kvg_axis_get(*a)->name);
    }
    return KVG_OK;
}

/* What every combination must have. */
static kvg_status check_choices(kvg_json object, const config_choice *given)
{
    const size_t row = find_unstored(&given[KVG_AXIS_OP]);
    if (row < UNSTORED) return check_unstored(object, given, row);
    const bool stored = given[KVG_AXIS_FORMAT].has || given[KVG_AXIS_POLICY].has;
    if (!given[KVG_AXIS_OP].has || !stored || !given[KVG_AXIS_FILL].has) {
        return kvg_json_fail(object, "\"op\", \"format\" (or \"policy\") and \"fill\" are required");
    }
    if (!given[KVG_AXIS_MODEL].has && !(given[KVG_AXIS_KV_HEADS].has && given[KVG_AXIS_HEAD_DIM].has)) {
        return kvg_json_fail(object, "give \"model\", or \"kv_heads\" and \"head_dim\"");
    }
    return KVG_OK;
}

/* How many values each axis has in the object, and how many combinations there are. */
static kvg_status count_values(kvg_json object, size_t counts[KVG_AXIS_COUNT], size_t *total)
{
    *total = 1;
    for (int a = 0; a < KVG_AXIS_COUNT; a++) {
        kvg_status s = kvg_config_list_check(object, (kvg_axis)a);
        if (s) return s;
        counts[a] = kvg_config_list_count(object, (kvg_axis)a);
        if (counts[a]) *total *= counts[a];
        if (*total > KVG_CONFIG_MAX_CASES)
            return kvg_json_fail(object, "more than %d combinations", KVG_CONFIG_MAX_CASES);
    }
    return KVG_OK;
}

config_choice config_group_choice(kvg_json object, kvg_json fallback, kvg_axis a, size_t index)
{
    if (gives(object, a)) return kvg_config_list_at(object, a, index);
    if (gives(fallback, a) && !replaces(object, a)) return kvg_config_list_at(fallback, a, 0);
    return (config_choice){.value = object};
}

kvg_status config_group_case(kvg_config *config, kvg_json object, const config_choice given[KVG_AXIS_COUNT],
                             kvg_case *out)
{
    group g = {.object = object};
    const size_t before = config->case_count;
    kvg_status s = check_choices(object, given);
    if (!s) s = add_combination(config, &g, given);
    if (!s && config->case_count == before) s = kvg_json_fail(object, "a format that \"all\" stands for does not fit");
    if (!s) *out = config->cases[before];
    config->case_count = before;
    return s;
}

/* Every combination of the values that `object` gives; axes it lacks come from `fallback`'s first value. */
static kvg_status add_product(kvg_config *config, group *g, kvg_json object, kvg_json fallback)
{
    size_t counts[KVG_AXIS_COUNT], total;
    if (gives(object, KVG_AXIS_MODEL) && replaces(object, KVG_AXIS_MODEL))
        return kvg_json_fail(object, "give \"model\", or \"kv_heads\" and \"head_dim\", not both");
    if (gives(object, KVG_AXIS_FORMAT) && gives(object, KVG_AXIS_POLICY))
        return kvg_json_fail(object, "give \"format\" or \"policy\", not both");
    kvg_status s = count_values(object, counts, &total);
    g->left_out = 0;
    for (size_t i = 0; i < total && !s; i++) {
        config_choice given[KVG_AXIS_COUNT] = {{0}};
        size_t rest = i;
        for (int a = KVG_AXIS_COUNT - 1; a >= 0; a--) {
            given[a] = config_group_choice(object, fallback, (kvg_axis)a, counts[a] ? rest % counts[a] : 0);
            if (counts[a]) rest /= counts[a];
        }
        s = check_choices(object, given);
        if (!s) s = add_combination(config, g, given);
    }
    if (!s && g->left_out == total) s = kvg_json_fail(object, "nothing of \"all\" fits head_dim, dtype and geometry");
    return s;
}

/* --- groups --- */

static kvg_status read_exclude(kvg_json object, group *g)
{
    if (!kvg_json_has(object, "exclude")) return KVG_OK;
    kvg_status s = kvg_json_get(object, "exclude", &g->exclude);
    if (!s) s = config_check_axis_objects(g->exclude);
    if (s) return s;
    g->exclude_count = kvg_json_count(g->exclude);
    g->exclude_used = calloc(g->exclude_count + 1, sizeof *g->exclude_used);
    return g->exclude_used ? KVG_OK : kvg_fail(KVG_ERR_MEMORY, "cannot hold %zu excludes", g->exclude_count);
}

typedef struct included {
    kvg_config *config;
    group *g;
} included;

static kvg_status add_included(void *context, kvg_json object)
{
    const included *in = context;
    return add_product(in->config, in->g, object, in->g->object);
}

kvg_status config_group_add(kvg_config *config, kvg_json object)
{
    static const char *const more[] = {"include", "exclude", "covers", "comment"};
    enum { MORE = sizeof more / sizeof more[0] };
    const char *names[KVG_AXIS_COUNT + MORE];
    group g = {.object = object};
    kvg_status s = kvg_json_check_keys(object, names, config_axis_names(names, more, MORE));
    if (!s) s = kvg_json_check_notes(object);
    if (!s) s = read_exclude(object, &g);
    if (!s) s = add_product(config, &g, object, object);
    if (!s) s = config_each_row(config, object, add_included, &(included){config, &g});
    for (size_t i = 0; !s && i < g.exclude_count; i++) {
        if (!g.exclude_used[i])
            s = kvg_json_fail(kvg_json_at(g.exclude, i), "excludes no case: remove it or correct it");
    }
    free(g.exclude_used);
    return s;
}
