#include "second/slow_request.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const void *input(const kvg_problem *problem, const kvg_tensor *in, kvg_role role)
{
    return slow_tensor(in, kvg_op_get(problem->op)->inputs, role, KVG_K)->data;
}

static kvg_status check_query_lengths(const kvg_problem *p, const int32_t *query_lengths)
{
    int64_t rows = 0;
    for (uint32_t i = 0; i < p->paging.sequences; i++) {
        if (query_lengths[i] < 0) {
            return kvg_fail(KVG_ERR_INVALID, "query length %" PRId32 " of sequence %u: use 0 or more", query_lengths[i],
                            i);
        }
        rows += query_lengths[i];
    }
    if (rows == p->attention.queries) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "query lengths add up to %" PRId64 ", but q has %u rows", rows,
                    p->attention.queries);
}

static kvg_status check_sinks(const slow_request *r)
{
    for (uint32_t h = 0; r->problem->attention.sinks && h < r->problem->attention.query_heads; h++) {
        const slow_number sink = slow_sink(r, h);
        if (sink.kind == SLOW_FINITE || (sink.kind == SLOW_INF && sink.negative)) continue;
        return kvg_fail(KVG_ERR_INVALID, "the sink of query head %u is NaN or +Inf: use a number, or -Inf for none", h);
    }
    return KVG_OK;
}

kvg_status slow_request_open(const kvg_problem *problem, const kvg_tensor *in, slow_request *r)
{
    kvg_status status = kvg_problem_check(problem);
    if (status) return status;
    *r = (slow_request){
        .problem = problem,
        .cache = slow_cache_of(problem, in, kvg_op_get(problem->op)->inputs),
        .table = input(problem, in, KVG_ROLE_BLOCK_TABLE),
        .lengths = input(problem, in, KVG_ROLE_LENGTHS),
        .query_lengths = input(problem, in, KVG_ROLE_QUERY_LENGTHS),
        .q = input(problem, in, KVG_ROLE_Q),
        .sinks = input(problem, in, KVG_ROLE_SINKS),
        .v_dim = problem->head_dim,
        .group = problem->attention.query_heads / problem->kv_heads,
    };
    for (int side = 0; side < kvg_problem_sides(problem) && !status; side++) {
        status = slow_side_open(problem, side, in, &r->sides[side]);
    }
    if (problem->paging.shared_kv) {
        r->sides[KVG_V] = r->sides[KVG_K];
        r->v_first = problem->paging.v_first;
        r->v_dim = problem->paging.v_dim;
    }
    if (!status) status = slow_cache_check_lengths(problem, r->lengths);
    if (!status) status = check_query_lengths(problem, r->query_lengths);
    return status ? status : check_sinks(r);
}

/* Rows are read only where the cache has them. */
static void read_keys(slow_stored *s, const int32_t *table)
{
    const slow_request *r = s->request;
    for (size_t n = 0; n < s->keys; n++) {
        const int64_t slot = slow_cache_slot(r->problem, table, (int32_t)s->length, (uint32_t)s->first + (uint32_t)n);
        s->placed[n] = slot >= 0;
        for (int side = 0; side < kvg_problem_sides(r->problem) && slot >= 0; side++) {
            slow_cache_read(&r->cache, side, (uint64_t)slot, s->kv_head, &s->rows[side][n]);
        }
    }
}

static kvg_status visit_head(slow_stored *s, const int32_t *table, slow_stored_fn *visit, void *context)
{
    const bool shared = s->request->problem->paging.shared_kv;
    slow_row_bytes *rows = calloc(2 * s->keys + 1, sizeof *rows);
    s->placed = calloc(s->keys + 1, sizeof *s->placed);
    s->rows[KVG_K] = rows;
    s->rows[KVG_V] = shared ? rows : rows + s->keys;
    kvg_status status = KVG_OK;
    if (!rows || !s->placed) {
        status = kvg_fail(KVG_ERR_MEMORY, "no memory for the rows of %zu keys", s->keys);
    } else {
        read_keys(s, table);
        status = visit(s, context);
    }
    free(rows);
    free(s->placed);
    return status;
}

kvg_status slow_request_visit(const slow_request *r, slow_stored_fn *visit, void *context)
{
    const kvg_problem *p = r->problem;
    kvg_status status = KVG_OK;
    size_t first_query = 0;
    for (uint32_t i = 0; i < p->paging.sequences && !status; i++) {
        const int32_t *table = r->table + i * slow_cache_columns(p);
        const int64_t length = r->lengths[i], capacity = p->paging.block_tokens;
        const bool overwritten = kvg_problem_blocks(p) == KVG_BLOCKS_RING && length > capacity;
        const int64_t first = overwritten ? length - capacity : 0;
        for (uint32_t head = 0; head < p->kv_heads && !status; head++) {
            slow_stored stored = {.request = r, .kv_head = head, .length = length, .first = first,
                                  .keys = (size_t)(length - first), .first_query = first_query,
                                  .queries = (size_t)r->query_lengths[i]};
            status = visit_head(&stored, table, visit, context);
        }
        first_query += (size_t)r->query_lengths[i];
    }
    return status;
}

int64_t slow_position(const slow_stored *s, size_t query)
{
    return s->length - (int64_t)s->queries + (int64_t)query;
}

bool slow_sees(const slow_stored *s, int64_t position, size_t n)
{
    const int64_t window = s->request->problem->attention.window, key = s->first + (int64_t)n;
    return key <= position && (window == 0 || position - key < window) && s->placed[n];
}

void slow_load_q(const slow_request *r, size_t query, size_t query_head, slow_number *q)
{
    const kvg_problem *p = r->problem;
    const size_t row = query * p->attention.query_heads + query_head, width = kvg_dtype_bytes(p->dtype);
    slow_load(p->dtype, r->q + row * p->head_dim * width, p->head_dim, q);
}

slow_number slow_sink(const slow_request *r, size_t query_head)
{
    slow_number sink = slow_infinity(true);
    if (r->problem->attention.sinks) slow_load(KVG_DTYPE_F32, r->sinks + query_head * sizeof(float), 1, &sink);
    return sink;
}
