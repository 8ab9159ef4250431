/* The rows of q of op decode: whose they are, where they stand, which keys they can see (docs/spec/attention.md
 * sections 1 and 2). */
#ifndef KVG_REFERENCE_ATTENTION_REF_QUERY_H
#define KVG_REFERENCE_ATTENTION_REF_QUERY_H

#include "reference/layout/ref_table.h"

typedef struct ref_query {
    uint32_t sequence;
    int64_t position; /* below 0: sees nothing */
} ref_query;

/* Positions from `first` to `end` - 1: a query sees those of them that have a slot. */
typedef struct ref_range_of_keys {
    int64_t first, end;
} ref_range_of_keys;

/* Places the problem's `queries` rows of q. KVG_ERR_INVALID where query_lengths do not add up to them. */
kvg_status ref_queries_place(const ref_table *table, const kvg_tensor *query_lengths, ref_query *out) KVG_CHECKED;

/* One sink per query head, NULL without sinks. KVG_ERR_INVALID for NaN and +Inf. */
kvg_status ref_sinks_read(const kvg_problem *p, const kvg_tensor *sinks, const float **out) KVG_CHECKED;

ref_range_of_keys ref_query_keys(const ref_table *table, const ref_query *query);

/* A row is computed for a query head: kvg_attention_answer. */
static inline bool ref_is_wanted(const bool *wanted, const kvg_problem *p, size_t row, uint32_t query_head)
{
    return !wanted || wanted[row * p->attention.query_heads + query_head];
}

#endif
