/* A case as the config line that gives it back: docs/spec/golden-pack.md section 3, docs/guide/config.md section 3. */
#include "harness/pack/golden_parts.h"

static const char *const flags[] = {"false", "true"};

/* `"key": "name"`, or an object where K and V differ. */
static void add_sides(kvg_json_text *t, const char *key, const char *k, const char *v)
{
    if (strcmp(k, v) == 0) kvg_json_add(t, ", \"%s\": \"%s\"", key, k);
    else kvg_json_add(t, ", \"%s\": {\"k\": \"%s\", \"v\": \"%s\"}", key, k, v);
}

static void add_policy(kvg_json_text *t, const kvg_mode_request *r)
{
    kvg_json_add(t, ", \"policy\": {\"number\": %u, \"domain\": \"%s\"", r->policy, kvg_policy_domain_name(r->domain));
    if (r->sm) kvg_json_add(t, ", \"sm\": %u", r->sm);
    kvg_json_add(t, ", \"fp4_build\": %s, \"fp4_nv\": %s, \"on_unsupported\": \"%s\", \"gating\": \"%s\"",
                 flags[r->fp4_build], flags[r->fp4_nv_enabled], r->fall_back ? "fallback" : "fail",
                 r->design_gating ? "design" : "kvgold");
    kvg_json_add(t, ", \"prefix_cache\": %s, \"partial_kv\": %s, \"engine_kernels\": %s}", flags[r->prefix_cache],
                 flags[r->partial_kv], flags[r->engine_kernels]);
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

static void add_paging(kvg_json_text *t, const kvg_problem *p)
{
    const kvg_paging *g = &p->paging;
    kvg_json_add(t, ", \"block_tokens\": %u, \"blocks\": %u, \"layers\": %u, \"sequences\": %u", g->block_tokens,
                 g->blocks, g->layers, g->sequences);
    if (g->row_padding || g->data_padding || g->scale_padding) {
        kvg_json_add(t, ", \"padding\": {\"row\": %u, \"data\": %u, \"scales\": %u}", g->row_padding, g->data_padding,
                     g->scale_padding);
    }
    if (g->v_scale_swizzle) kvg_json_add(t, ", \"v_scale_swizzle\": true");
    if (g->shared_kv) kvg_json_add(t, ", \"shared_kv\": {\"v_dim\": %u, \"v_first\": %u}", g->v_dim, g->v_first);
    if (p->rope.dims) {
        kvg_json_add(t, ", \"rope\": {\"dims\": %u, \"pairing\": \"%s\", \"positions\": %u", p->rope.dims,
                     p->rope.pairing == KVG_PAIRING_HALVES ? "halves" : "adjacent", p->rope.positions);
        if (p->rope.scaling.kind) add_scaling(t, &p->rope.scaling);
        kvg_json_add(t, "}");
    }
    if (p->bias) kvg_json_add(t, ", \"bias\": true");
}

static const char *profile_name(const kvg_problem *p)
{
    return p->profile == KVG_PROFILE_NONE ? "exact" : kvg_profile_get(p->profile)->name;
}

static void add_attention(kvg_json_text *t, const kvg_case *c)
{
    const kvg_attention *a = &c->problem.attention;
    kvg_json_add(t, ", \"group\": %u, \"queries\": %u", a->query_heads / c->problem.kv_heads, c->queries);
    if (a->window) kvg_json_add(t, ", \"window\": %u", a->window);
    if (a->softcap > 0) kvg_json_add(t, ", \"softcap\": %.9g", (double)a->softcap);
    if (a->scale > 0) kvg_json_add(t, ", \"score_scale\": %.9g", (double)a->scale);
    if (a->sinks) kvg_json_add(t, ", \"sinks\": true");
    kvg_json_add(t, ", \"profile\": \"%s\"", profile_name(&c->problem));
    if (c->operands != KVG_OPERANDS_PLAIN) kvg_json_add(t, ", \"operands\": \"%s\"", kvg_operands_names[c->operands]);
}

static void add_rows(kvg_json_text *t, const kvg_case *c)
{
    const kvg_problem *p = &c->problem;
    const bool paged = kvg_layout_get(p->layout)->paged;
    if (c->policy.given) add_policy(t, &c->policy.request);
    else add_sides(t, "format", kvg_format_get(p->storage[KVG_K].format)->name,
                   kvg_format_get(p->storage[KVG_V].format)->name);
    add_sides(t, "dialect", p->storage[KVG_K].dialect, p->storage[KVG_V].dialect);
    kvg_json_add(t, ", \"layout\": \"%s\", \"dtype\": \"%s\", \"kv_heads\": %u, \"head_dim\": %u, \"tokens\": %u",
                 kvg_layout_get(p->layout)->name, kvg_dtype_name(p->dtype), p->kv_heads, p->head_dim, p->tokens);
    if (paged) add_paging(t, p);
    if (p->op == KVG_OP_DECODE) add_attention(t, c);
}

static void add_scale(kvg_json_text *t, const kvg_case_scale *scale)
{
    if (!scale->given) {
        kvg_json_add(t, ", \"scale\": \"P%d\"}", (int)scale->convention);
    } else {
        kvg_json_add(t, ", \"scale\": {\"k\": %.9g, \"v\": %.9g}}", (double)scale->value[KVG_K],
                     (double)scale->value[KVG_V]);
    }
}

kvg_status kvg_golden_case_text(const kvg_case *c, kvg_json_text *t)
{
    const kvg_problem *p = &c->problem;
    if (c->fill == KVG_FILL_CAPTURE) {
        return kvg_fail(KVG_ERR_INVALID, "%s: a golden pack follows from its manifest alone: no captures", c->id);
    }
    kvg_json_add(t, "{\"op\": \"%s\"", kvg_op_get(p->op)->name);
    if (p->op == KVG_OP_MMA) {
        kvg_json_add(t, ", \"profile\": \"%s\", \"dtype\": \"%s\", \"tokens\": %u", profile_name(p),
                     kvg_dtype_name(p->dtype), p->tokens);
    } else {
        add_rows(t, c);
    }
    kvg_json_add(t, ", \"fill\": \"%s\"", kvg_fill_names[c->fill]);
    if (p->op == KVG_OP_MMA) kvg_json_add(t, "}");
    else add_scale(t, &c->scale);
    return kvg_json_text_check(t);
}
