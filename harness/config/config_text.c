/* What a case says of its axes: to "exclude", and as the config line that gives it back (docs/spec/golden-pack.md
 * section 3). */
#include <stdio.h>
#include <string.h>

#include "harness/config/config_axes.h"

static const char *const flags[] = {"false", "true"};

/* --- for "exclude" --- */

static void policy_text(const kvg_case *c, char *out, size_t size)
{
    kvg_case_policy_text(&c->policy, out, size);
}

static void model_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%s", c->model ? c->model : "");
}

static void padding_text(const kvg_case *c, char *out, size_t size)
{
    const kvg_paging *g = &c->problem.paging;
    snprintf(out, size, "%s", flags[g->row_padding || g->data_padding || g->scale_padding]);
}

static void shared_kv_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%s", flags[c->problem.paging.shared_kv]);
}

static void layer_text(const kvg_case *c, char *out, size_t size)
{
    if (c->layer) snprintf(out, size, "%u", c->layer - 1);
    else snprintf(out, size, "seed");
}

static void rope_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%s", flags[c->problem.rope.dims != 0]);
}

static void invariant_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%s", flags[c->invariant != 0]);
}

static uint32_t group_of(const kvg_case *c)
{
    return c->problem.attention.query_heads / c->problem.kv_heads;
}

static void group_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%u", group_of(c));
}

static void queries_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%u%s", c->queries, c->even_queries ? " each" : "");
}

static void fill_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%s", kvg_fill_names[c->fill]);
}

static void scale_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, c->scale.given ? "given" : "P%d", (int)c->scale.convention);
}

static void backend_text(const kvg_case *c, char *out, size_t size)
{
    snprintf(out, size, "%s", c->backend);
}

/* Axes whose text does not follow from their kind of value. */
static void (*const own_texts[KVG_AXIS_COUNT])(const kvg_case *c, char *out, size_t size) = {
    [KVG_AXIS_POLICY] = policy_text, [KVG_AXIS_MODEL] = model_text, [KVG_AXIS_PADDING] = padding_text,
    [KVG_AXIS_SHARED_KV] = shared_kv_text, [KVG_AXIS_ROPE] = rope_text, [KVG_AXIS_GROUP] = group_text,
    [KVG_AXIS_QUERIES] = queries_text, [KVG_AXIS_FILL] = fill_text, [KVG_AXIS_SCALE] = scale_text,
    [KVG_AXIS_BACKEND] = backend_text, [KVG_AXIS_LAYER] = layer_text, [KVG_AXIS_INVARIANT] = invariant_text,
};

/* "nvfp4", or "e4m3+nvfp4" where K and V differ. */
static void sides_text(const config_words *words, const kvg_case *c, char *out, size_t size)
{
    const char *k = words->get(c, KVG_K), *v = words->get(c, KVG_V);
    const bool same = strcmp(k, v) == 0;
    snprintf(out, size, "%s%s%s", k, same ? "" : "+", same ? "" : v);
}

void config_axis_text(const kvg_case *c, kvg_axis which, char *out, size_t size)
{
    const kvg_value *value = &kvg_axis_get(which)->value;
    out[0] = 0;
    if (own_texts[which]) {
        own_texts[which](c, out, size);
        return;
    }
    switch (value->kind) {
    case KVG_VALUE_COUNT: snprintf(out, size, "%llu", (unsigned long long)kvg_value_number(value, c)); return;
    case KVG_VALUE_FACTOR:
    case KVG_VALUE_FLAG: snprintf(out, size, "%s", flags[!kvg_value_is_zero(value, c)]); return;
    case KVG_VALUE_CHOICE: snprintf(out, size, "%s", kvg_value_name(value, c)); return;
    case KVG_VALUE_WORD: snprintf(out, size, "%s", config_words_of(which)->get(c, KVG_K)); return;
    case KVG_VALUE_SIDES: sides_text(config_words_of(which), c, out, size); return;
    case KVG_VALUE_OWN: return;
    }
}

/* --- as a line of a config --- */

static void add_policy(kvg_json_text *t, const char *name, const kvg_case *c)
{
    const kvg_mode_request *r = &c->policy.request;
    if (!c->policy.given) return;
    kvg_json_add(t, ", \"%s\": {\"number\": %u, \"domain\": \"%s\"", name, r->policy,
                 kvg_policy_domain_name(r->domain));
    if (r->sm) kvg_json_add(t, ", \"sm\": %u", r->sm);
    kvg_json_add(t, ", \"fp4_build\": %s, \"fp4_nv\": %s, \"on_unsupported\": \"%s\", \"gating\": \"%s\"",
                 flags[r->fp4_build], flags[r->fp4_nv_enabled], r->fall_back ? "fallback" : "fail",
                 r->design_gating ? "design" : "kvgold");
    kvg_json_add(t, ", \"prefix_cache\": %s, \"partial_kv\": %s, \"engine_kernels\": %s}", flags[r->prefix_cache],
                 flags[r->partial_kv], flags[r->engine_kernels]);
}

static void add_padding(kvg_json_text *t, const char *name, const kvg_case *c)
{
    const kvg_paging *g = &c->problem.paging;
    if (!g->row_padding && !g->data_padding && !g->scale_padding) return;
    kvg_json_add(t, ", \"%s\": {\"row\": %u, \"data\": %u, \"scales\": %u}", name, g->row_padding, g->data_padding,
                 g->scale_padding);
}

static void add_layout(kvg_json_text *t, const char *name, const kvg_case *c)
{
    const kvg_layout_text *text = c->problem.text;
    kvg_json_add(t, ", \"%s\": ", name);
    if (text) kvg_json_add(t, "{\"name\": \"%s\", \"text\": \"%s\"}", text->name, text->text);
    else kvg_json_add(t, "\"%s\"", kvg_problem_layout_name(&c->problem));
}

static void add_shared_kv(kvg_json_text *t, const char *name, const kvg_case *c)
{
    const kvg_paging *g = &c->problem.paging;
    if (g->shared_kv) kvg_json_add(t, ", \"%s\": {\"v_dim\": %u, \"v_first\": %u}", name, g->v_dim, g->v_first);
}

static void add_scaling(kvg_json_text *t, const kvg_rope_scaling *scaling)
{
    size_t count;
    const kvg_rope_parameter *parameters = kvg_rope_parameter_table(&count);
    kvg_json_add(t, ", \"scaling\": {\"kind\": \"%s\"", kvg_rope_kind_name(scaling->kind));
    for (size_t i = 0; i < count; i++) {
        const float value = kvg_rope_parameter_get(scaling, &parameters[i]);
        if (value != 0) kvg_json_add(t, ", \"%s\": %.9g", parameters[i].name, (double)value);
    }
    if (scaling->kind == KVG_ROPE_YARN) kvg_json_add(t, ", \"truncate\": %s", flags[scaling->truncate]);
    if (scaling->entries) kvg_json_add(t, ", \"entries\": \"%s\"", kvg_dtype_name(scaling->entries));
    kvg_json_add(t, "}");
}

static void add_rope(kvg_json_text *t, const char *name, const kvg_case *c)
{
    const kvg_rope *r = &c->problem.rope;
    if (!r->dims) return;
    kvg_json_add(t, ", \"%s\": {\"dims\": %u, \"pairing\": \"%s\", \"positions\": %u", name, r->dims,
                 r->pairing == KVG_PAIRING_HALVES ? "halves" : "adjacent", r->positions);
    if (r->scaling.kind) add_scaling(t, &r->scaling);
    kvg_json_add(t, "}");
}

static void add_group(kvg_json_text *t, const char *name, const kvg_case *c)
{
    kvg_json_add(t, ", \"%s\": %u", name, group_of(c));
}

static void add_queries(kvg_json_text *t, const char *name, const kvg_case *c)
{
    if (c->even_queries) kvg_json_add(t, ", \"%s\": \"%u each\"", name, c->queries);
    else kvg_json_add(t, ", \"%s\": %u", name, c->queries);
}

static void add_fill(kvg_json_text *t, const char *name, const kvg_case *c)
{
    kvg_json_add(t, ", \"%s\": \"%s\"", name, kvg_fill_names[c->fill]);
}

static void add_scale(kvg_json_text *t, const char *name, const kvg_case *c)
{
    if (!c->scale.given) kvg_json_add(t, ", \"%s\": \"P%d\"", name, (int)c->scale.convention);
    else kvg_json_add(t, ", \"%s\": {\"k\": %.9g, \"v\": %.9g}", name, (double)c->scale.value[KVG_K],
                      (double)c->scale.value[KVG_V]);
}

/* Axes that are not written as their kind of value is. */
static void (*const own_lines[KVG_AXIS_COUNT])(kvg_json_text *t, const char *name, const kvg_case *c) = {
    [KVG_AXIS_POLICY] = add_policy, [KVG_AXIS_PADDING] = add_padding, [KVG_AXIS_SHARED_KV] = add_shared_kv,
    [KVG_AXIS_ROPE] = add_rope,     [KVG_AXIS_GROUP] = add_group,     [KVG_AXIS_FILL] = add_fill,
    [KVG_AXIS_SCALE] = add_scale,   [KVG_AXIS_LAYOUT] = add_layout,   [KVG_AXIS_QUERIES] = add_queries,
};

/* `"key": "name"`, or an object where K and V differ. */
static void add_sides(kvg_json_text *t, const char *name, const char *k, const char *v)
{
    if (strcmp(k, v) == 0) kvg_json_add(t, ", \"%s\": \"%s\"", name, k);
    else kvg_json_add(t, ", \"%s\": {\"k\": \"%s\", \"v\": \"%s\"}", name, k, v);
}

static void add_value(kvg_json_text *t, const kvg_axis_info *axis, const config_words *words, const kvg_case *c)
{
    const kvg_value *value = &axis->value;
    const char *name = axis->name;
    switch (value->kind) {
    case KVG_VALUE_COUNT:
        if (kvg_value_is_zero(value, c)) return;
        kvg_json_add(t, ", \"%s\": %llu", name, (unsigned long long)kvg_value_number(value, c));
        return;
    case KVG_VALUE_FACTOR:
        if (kvg_value_is_zero(value, c)) return;
        kvg_json_add(t, ", \"%s\": %.9g", name, (double)kvg_value_factor(value, c));
        return;
    case KVG_VALUE_FLAG:
        if (!kvg_value_is_zero(value, c)) kvg_json_add(t, ", \"%s\": true", name);
        return;
    case KVG_VALUE_CHOICE:
        if (!kvg_value_is_zero(value, c)) kvg_json_add(t, ", \"%s\": \"%s\"", name, kvg_value_name(value, c));
        return;
    case KVG_VALUE_WORD: kvg_json_add(t, ", \"%s\": \"%s\"", name, words->get(c, KVG_K)); return;
    case KVG_VALUE_SIDES: add_sides(t, name, words->get(c, KVG_K), words->get(c, KVG_V)); return;
    case KVG_VALUE_OWN: return;
    }
}

static void add_axis(kvg_json_text *t, kvg_axis which, const kvg_case *c)
{
    const kvg_axis_info *axis = kvg_axis_get(which);
    if (which == KVG_AXIS_FORMAT && c->policy.given) return; /* the policy says it */
    if (!axis->text || !kvg_scope_holds(axis->scope, &c->problem)) return;
    if (own_lines[which]) own_lines[which](t, axis->name, c);
    else add_value(t, axis, config_words_of(which), c);
}

kvg_status kvg_config_line(const kvg_case *c, kvg_json_text *t)
{
    /* All that the tiles of op mma follow from. */
    static const kvg_axis tiles[] = {KVG_AXIS_PROFILE, KVG_AXIS_DTYPE, KVG_AXIS_TOKENS, KVG_AXIS_FILL};
    if (c->fill == KVG_FILL_CAPTURE) {
        return kvg_fail(KVG_ERR_INVALID, "%s: a golden pack follows from its manifest alone: no captures", c->id);
    }
    if (c->far_blocks) {
        return kvg_fail(KVG_ERR_INVALID, "%s: a golden pack has whole pools: leave out far_blocks", c->id);
    }
    if (c->layer) {
        return kvg_fail(KVG_ERR_INVALID, "%s: the manifest of a golden pack says the layer: leave the axis out", c->id);
    }
    kvg_json_add(t, "{\"op\": \"%s\"", kvg_op_get(c->problem.op)->name);
    if (c->problem.op == KVG_OP_MMA) {
        for (size_t i = 0; i < sizeof tiles / sizeof tiles[0]; i++) add_axis(t, tiles[i], c);
    } else {
        for (int a = KVG_AXIS_OP + 1; a < KVG_AXIS_COUNT; a++) add_axis(t, (kvg_axis)a, c);
    }
    kvg_json_add(t, "}");
    return kvg_json_text_check(t);
}
