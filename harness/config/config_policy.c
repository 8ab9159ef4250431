/* Axis "policy": the storage of both sides as a policy number means it on a chip (docs/spec/modes.md). */
#include "harness/config/config_axes.h"

static const char *feature(bool wanted, bool on, const char *reason)
{
    return !wanted ? "" : on ? "on" : reason;
}

kvg_status kvg_policy_apply(kvg_config *config, kvg_json value, kvg_case *c)
{
    kvg_case_policy *policy = &c->policy;
    const kvg_problem *p = &c->problem;
    kvg_mode_request *r = &policy->request;
    kvg_mode_choice choice;
    r->dtype = p->dtype;
    r->kv_heads = p->kv_heads;
    r->head_dim = p->head_dim;
    r->shared_kv = p->paging.shared_kv;
    /* Layout rows has neither layers nor blocks: one of each says all that a mode needs. */
    r->layers = kvg_layout_get(p->layout)->paged ? p->paging.layers : 1;
    r->block_tokens = kvg_layout_get(p->layout)->paged ? p->paging.block_tokens : 1;
    kvg_status s = kvg_mode_select(r, &choice);
    if (!s && choice.shared_kv && kvg_layout_get(p->layout)->shared && !p->paging.shared_kv) {
        s = kvg_fail(KVG_ERR_INVALID, "K and V share one row at head_dim %u: give \"shared_kv\"", p->head_dim);
    }
    if (s) return kvg_json_locate(value, s);
    policy->requested = choice.requested;
    policy->effective = choice.effective;
    policy->fell_back = choice.fell_back;
    policy->partial_kv = feature(r->partial_kv, choice.partial_kv, choice.partial_kv_reason);
    policy->prefix_cache = feature(r->prefix_cache, choice.prefix_cache, choice.prefix_cache_reason);
    policy->reason = "";
    c->problem.storage[KVG_K].format = c->problem.storage[KVG_V].format = choice.format;
    return choice.fell_back ? kvg_config_keep(config, choice.reason, &policy->reason) : KVG_OK;
}
