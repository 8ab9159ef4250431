/* Axis "policy": the storage of both sides as a policy number means it on a chip (docs/spec/modes.md). */
#include <string.h>

#include "harness/config/config_axes.h"

kvg_status kvg_axis_either(kvg_json object, const char *key, const char *const names[2], bool *second)
{
    kvg_json value;
    const char *name;
    if (!kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, &value);
    if (!s) s = kvg_json_string(value, &name);
    if (s) return s;
    *second = strcmp(name, names[1]) == 0;
    return *second || strcmp(name, names[0]) == 0 ? KVG_OK : kvg_json_fail_name(value, key, name, names, 2);
}

static kvg_status read_flag(kvg_json object, const char *key, bool *out)
{
    kvg_json value;
    if (!kvg_json_has(object, key)) return KVG_OK;
    kvg_status s = kvg_json_get(object, key, &value);
    return s ? s : kvg_json_bool(value, out);
}

static kvg_status read_domain(kvg_json object, kvg_policy_domain *out)
{
    kvg_json value;
    const char *name;
    if (!kvg_json_has(object, "domain")) return KVG_OK;
    kvg_status s = kvg_json_get(object, "domain", &value);
    if (!s) s = kvg_json_string(value, &name);
    return s ? s : kvg_json_locate(value, kvg_policy_domain_find(name, out));
}

static kvg_status read_numbers(kvg_json object, kvg_mode_request *r)
{
    kvg_json value;
    uint64_t number = 0, sm = 0;
    kvg_status s = kvg_json_get(object, "number", &value);
    if (!s) s = kvg_json_u64(value, 0, UINT32_MAX, &number);
    if (!s && kvg_json_has(object, "sm")) {
        s = kvg_json_get(object, "sm", &value);
        if (!s) s = kvg_json_u64(value, 1, 999, &sm);
    }
    r->policy = (uint32_t)number;
    r->sm = (uint32_t)sm;
    return s;
}

kvg_status kvg_policy_read(kvg_json value, kvg_case *c)
{
    static const char *const keys[] = {
        "number", "domain", "sm", "fp4_build", "fp4_nv", "on_unsupported", "gating", "prefix_cache", "partial_kv",
        "engine_kernels",
    };
    static const char *const actions[] = {"fail", "fallback"}, *const gatings[] = {"kvgold", "design"};
    kvg_mode_request *r = &c->policy.request;
    c->policy.given = true;
    *r = (kvg_mode_request){
        .domain = KVG_POLICY_TURBOMIND, .fp4_build = true, .fp4_nv_enabled = true, .has_flatten = true,
    };
    kvg_status s = kvg_json_check_keys(value, keys, sizeof keys / sizeof keys[0]);
    if (!s) s = read_numbers(value, r);
    if (!s) s = read_domain(value, &r->domain);
    if (!s) s = read_flag(value, "fp4_build", &r->fp4_build);
    if (!s) s = read_flag(value, "fp4_nv", &r->fp4_nv_enabled);
    if (!s) s = read_flag(value, "prefix_cache", &r->prefix_cache);
    if (!s) s = read_flag(value, "partial_kv", &r->partial_kv);
    if (!s) s = read_flag(value, "engine_kernels", &r->engine_kernels);
    if (!s) s = kvg_axis_either(value, "on_unsupported", actions, &r->fall_back);
    return s ? s : kvg_axis_either(value, "gating", gatings, &r->design_gating);
}

/* Layout rows has neither layers nor blocks: one of each says all that a mode needs. */
static void take_geometry(kvg_mode_request *r, const kvg_problem *p)
{
    r->dtype = p->dtype;
    r->kv_heads = p->kv_heads;
    r->head_dim = p->head_dim;
    r->shared_kv = p->paging.shared_kv;
    r->layers = kvg_layout_get(p->layout)->paged ? p->paging.layers : 1;
    r->block_tokens = kvg_layout_get(p->layout)->paged ? p->paging.block_tokens : 1;
}

static const char *feature(bool wanted, bool on, const char *reason)
{
    return !wanted ? "" : on ? "on" : reason;
}

kvg_status kvg_policy_apply(kvg_config *config, kvg_json value, kvg_case *c)
{
    kvg_case_policy *policy = &c->policy;
    kvg_mode_choice choice;
    take_geometry(&policy->request, &c->problem);
    kvg_status s = kvg_mode_select(&policy->request, &choice);
    if (!s && choice.shared_kv && kvg_layout_get(c->problem.layout)->shared && !c->problem.paging.shared_kv) {
        s = kvg_fail(KVG_ERR_INVALID, "K and V share one row at head_dim %u: give \"shared_kv\"", c->problem.head_dim);
    }
    if (s) return kvg_json_locate(value, s);
    policy->requested = choice.requested;
    policy->effective = choice.effective;
    policy->fell_back = choice.fell_back;
    policy->partial_kv = feature(policy->request.partial_kv, choice.partial_kv, choice.partial_kv_reason);
    policy->prefix_cache = feature(policy->request.prefix_cache, choice.prefix_cache, choice.prefix_cache_reason);
    policy->reason = "";
    c->problem.storage[KVG_K].format = c->problem.storage[KVG_V].format = choice.format;
    return choice.fell_back ? kvg_config_keep(config, choice.reason, &policy->reason) : KVG_OK;
}
