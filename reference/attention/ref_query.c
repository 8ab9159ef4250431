#include "reference/attention/ref_query.h"

#include <math.h> /* INFINITY */

kvg_status ref_queries_place(const ref_table *table, const kvg_tensor *query_lengths, ref_query *out)
{
    const uint32_t queries = table->p->attention.queries;
    const int32_t *counts = query_lengths->data;
    uint64_t row = 0;
    for (uint32_t s = 0; s < table->p->paging.sequences; s++) {
        const int64_t length = table->lengths[s], count = counts[s];
        if (count < 0 || row + (uint64_t)count > queries) {
            return kvg_fail(KVG_ERR_INVALID, "query_lengths[%u] is %d: none may be below 0, and they must add up to %u",
                            s, counts[s], queries);
        }
        for (int64_t j = 0; j < count; j++) out[row++] = (ref_query){s, length - count + j};
    }
    if (row == queries) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "query_lengths add up to %llu, not to the %u rows of q", (unsigned long long)row,
                    queries);
}

kvg_status ref_sinks_read(const kvg_problem *p, const kvg_tensor *sinks, const float **out)
{
    const float *sink = p->attention.sinks ? sinks->data : NULL;
    *out = sink;
    for (uint32_t i = 0; sink && i < p->attention.query_heads; i++) {
        if (!(sink[i] < INFINITY))
            return kvg_fail(KVG_ERR_INVALID, "sinks[%u] is %a: use a number, or -Inf for none", i, (double)sink[i]);
    }
    return KVG_OK;
}

ref_range_of_keys ref_query_keys(const ref_table *table, const ref_query *q)
{
    const kvg_problem *p = table->p;
    const int64_t window = p->attention.window, length = table->lengths[q->sequence];
    ref_range_of_keys keys = {0, q->position < length ? q->position + 1 : length};
    if (window && q->position >= window) keys.first = q->position - window + 1;
    if (kvg_problem_blocks(p) == KVG_BLOCKS_RING && length - p->paging.block_tokens > keys.first)
        keys.first = length - p->paging.block_tokens; /* a ring may be billions of tokens old */
    return keys;
}
