/* The axes that only op decode has: its queries, its scores, whose arithmetic it is judged by. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "harness/config/config_axes.h"
#include "reference/attention_profile.h"

enum { MOST_QUERIES = 16384 };

kvg_status kvg_attention_read_group(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_axis_number(value, 128, &c->problem.attention.query_heads); /* times kv_heads in the end */
}

kvg_status kvg_attention_read_queries(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    const char *text;
    char rest;
    if (kvg_json_is_string(value)) { /* "8 each" */
        kvg_status s = kvg_json_string(value, &text);
        if (s) return s;
        c->even_queries = sscanf(text, "%u each%c", &c->queries, &rest) == 1 && strstr(text, " each");
        if (c->even_queries && c->queries >= 1 && c->queries <= MOST_QUERIES) return KVG_OK;
        return kvg_json_fail(value, "is '%s': give a number, or one with 'each': \"8 each\"", text);
    }
    c->even_queries = false;
    return kvg_axis_number(value, MOST_QUERIES, &c->queries);
}

kvg_status kvg_attention_read_window(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    uint64_t keys = 0;
    kvg_status s = kvg_json_u64(value, 0, 1 << 20, &keys);
    c->problem.attention.window = (uint32_t)keys;
    return s;
}

static kvg_status read_factor(kvg_json value, float *out)
{
    double x = 0;
    kvg_status s = kvg_json_double(value, &x);
    *out = (float)x;
    if (s || x == 0 || (*out > 0 && *out <= FLT_MAX)) return s;
    return kvg_json_fail(value, "expected an f32 above 0, or 0 for none");
}

kvg_status kvg_attention_read_softcap(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return read_factor(value, &c->problem.attention.softcap);
}

kvg_status kvg_attention_read_score_scale(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return read_factor(value, &c->problem.attention.scale);
}

kvg_status kvg_attention_read_sinks(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_json_bool(value, &c->problem.attention.sinks);
}

kvg_status kvg_attention_read_relations(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    return kvg_json_bool(value, &c->relations);
}

/* "exact", or a name of core/profiles.def. */
kvg_status kvg_attention_read_profile(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    const char *name;
    kvg_status s = kvg_json_string(value, &name);
    if (s || strcmp(name, "exact") == 0) return s;
    return kvg_json_locate(value, kvg_profile_find(name, &c->problem.profile));
}

kvg_status kvg_attention_read_operands(kvg_config *config, kvg_json value, kvg_case *c)
{
    (void)config;
    const char *name;
    size_t count = 0;
    kvg_status s = kvg_json_string(value, &name);
    for (; !s && kvg_operands_names[count]; count++) {
        if (strcmp(kvg_operands_names[count], name) != 0) continue;
        c->operands = (kvg_operands)count;
        return KVG_OK;
    }
    return s ? s : kvg_json_fail_name(value, "operands", name, kvg_operands_names, count);
}

kvg_status kvg_attention_defaults(kvg_case *c)
{
    kvg_attention *a = &c->problem.attention;
    if (c->problem.op != KVG_OP_DECODE) {
        const bool given = a->query_heads || c->queries || a->window || a->softcap > 0 || a->scale > 0 || a->sinks ||
                           c->operands != KVG_OPERANDS_PLAIN || !c->relations;
        if (!given) return KVG_OK;
        return kvg_fail(KVG_ERR_INVALID, "group, queries, window, softcap, score_scale, sinks, operands and relations "
                        "are for op decode only");
    }
    if (c->operands != KVG_OPERANDS_PLAIN && c->problem.profile != KVG_PROFILE_NONE) {
        return kvg_fail(KVG_ERR_INVALID, "profile %s has operands of its own: leave out operands",
                        kvg_profile_get(c->problem.profile)->name);
    }
    a->query_heads = (a->query_heads ? a->query_heads : 1) * c->problem.kv_heads;
    if (!c->queries) c->queries = 1;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < c->problem.paging.sequences; i++) sum += kvg_case_queries(c, i);
    a->queries = (uint32_t)(sum ? sum : c->queries); /* layout rows, to be refused, has no sequences */
    return KVG_OK;
}

kvg_status kvg_attention_check_profile(const kvg_problem *p)
{
    kvg_arithmetic class;
    if (p->op != KVG_OP_DECODE || p->profile == KVG_PROFILE_NONE) return KVG_OK;
    return kvg_arithmetic_of_profile(p, &class) ? KVG_ERR_INVALID : KVG_OK;
}
