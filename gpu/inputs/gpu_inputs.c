#include "gpu/inputs/gpu_inputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The numbers of an input; NULL where the problem has no such tensor. */
static const void *numbers(const kvg_problem *p, const kvg_tensor *in, kvg_role role, kvg_side side)
{
    const int index = kvg_roles_index(kvg_op_get(p->op)->inputs, role, side);
    return index >= 0 && in[index].bytes ? in[index].data : NULL;
}

/* The entries of a list of i32 lie in [0, end); end <= 0: they may be any from 0 on. */
static kvg_status check_range(const char *name, const int32_t *list, uint32_t count, int64_t end)
{
    for (uint32_t i = 0; list && i < count; i++) {
        if (list[i] >= 0 && (end <= 0 || list[i] < end)) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s[%u] is %d: give 0 to %lld", name, i, list[i],
                        end > 0 ? (long long)end - 1 : (long long)INT32_MAX);
    }
    return KVG_OK;
}

static int ascending(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* No two tokens may go to one place. */
static kvg_status check_distinct(const int64_t *slots, uint32_t count)
{
    int64_t *ordered = malloc(count * sizeof *ordered);
    if (!ordered) return kvg_fail(KVG_ERR_MEMORY, "no memory to compare %u slots", count);
    memcpy(ordered, slots, count * sizeof *ordered);
    qsort(ordered, count, sizeof *ordered, ascending);
    kvg_status s = KVG_OK;
    for (uint32_t i = 1; i < count && !s; i++) {
        if (ordered[i] < 0 || ordered[i] != ordered[i - 1]) continue;
        s = kvg_fail(KVG_ERR_INVALID, "two tokens have slot %lld", (long long)ordered[i]);
    }
    free(ordered);
    return s;
}

static kvg_status check_slots(const kvg_problem *p, const int64_t *slots)
{
    const int64_t places = (int64_t)p->paging.blocks * p->paging.block_tokens;
    for (uint32_t i = 0; slots && i < p->tokens; i++) {
        if (slots[i] < places) continue;
        return kvg_fail(KVG_ERR_INVALID, "slots[%u] is %lld: the pool ends at %lld", i, (long long)slots[i],
                        (long long)places);
    }
    return slots && p->op == KVG_OP_APPEND ? check_distinct(slots, p->tokens) : KVG_OK;
}

static kvg_status check_lengths(const kvg_problem *p, const int32_t *lengths)
{
    return check_range("lengths", lengths, p->paging.sequences, (int64_t)kvg_problem_longest(p) + 1);
}

static kvg_status check_queries(const kvg_problem *p, const int32_t *lengths)
{
    int64_t rows = 0;
    if (!lengths) return KVG_OK;
    kvg_status s = check_range("query_lengths", lengths, p->paging.sequences, 0);
    for (uint32_t i = 0; i < p->paging.sequences && !s; i++) rows += lengths[i];
    if (s || rows == p->attention.queries) return s;
    return kvg_fail(KVG_ERR_INVALID, "query_lengths give %lld rows of q, and there are %u", (long long)rows,
                    p->attention.queries);
}

static kvg_status check_floats(const kvg_problem *p, const kvg_tensor *in)
{
    const float *sinks = numbers(p, in, KVG_ROLE_SINKS, KVG_K);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const float *scale = numbers(p, in, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        if (!scale || (isfinite(*scale) && *scale > 0)) continue;
        return kvg_fail(KVG_ERR_INVALID, "%s is %a: give a finite number above 0",
                        kvg_tensor_name(KVG_ROLE_TENSOR_SCALE, (kvg_side)side), (double)*scale);
    }
    for (uint32_t i = 0; sinks && i < p->attention.query_heads; i++) {
        if (!isnan(sinks[i]) && sinks[i] != INFINITY) continue;
        return kvg_fail(KVG_ERR_INVALID, "sinks[%u] is %a: give a finite number or -Inf", i, (double)sinks[i]);
    }
    return KVG_OK;
}

kvg_status kvg_gpu_check_inputs(const kvg_problem *p, const kvg_tensor *in)
{
    kvg_status s = check_floats(p, in);
    if (!s) s = check_slots(p, numbers(p, in, KVG_ROLE_SLOTS, KVG_K));
    if (!s) {
        s = check_range("positions", numbers(p, in, KVG_ROLE_POSITIONS, KVG_K), p->tokens, p->rope.positions);
    }
    if (!s) s = check_lengths(p, numbers(p, in, KVG_ROLE_LENGTHS, KVG_K));
    return s ? s : check_queries(p, numbers(p, in, KVG_ROLE_QUERY_LENGTHS, KVG_K));
}
