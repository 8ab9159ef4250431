/* What follows from the axes of op decode: its rows of queries, and whose arithmetic it is judged by. */
#include "harness/config/config_axes.h"
#include "reference/attention_profile.h"

kvg_status kvg_attention_derive(kvg_case *c)
{
    kvg_attention *a = &c->problem.attention;
    const kvg_profile_info *profile = kvg_profile_get(c->problem.profile); /* NULL: none */
    if (c->problem.op != KVG_OP_DECODE) return KVG_OK;
    if (profile && c->operands != KVG_OPERANDS_PLAIN) {
        return kvg_fail(KVG_ERR_INVALID, "profile %s has operands of its own: leave out operands", profile->name);
    }
    if (profile && c->answers == KVG_ANSWERS_ALL && !kvg_profile_gives_lse(profile)) {
        return kvg_fail(KVG_ERR_INVALID, "%s gives no LSE: use \"answers\": \"out\"", profile->name);
    }
    a->query_heads = (a->query_heads ? a->query_heads : 1) * c->problem.kv_heads;
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
