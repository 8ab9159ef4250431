/* The inputs of op decode, sequence by sequence and head by head: docs/spec/attention.md sections 1 and 2. */
#ifndef KVG_SECOND_SLOW_REQUEST_H
#define KVG_SECOND_SLOW_REQUEST_H

#include "second/slow_cache.h"
#include "second/slow_side.h"

typedef struct slow_request {
    const kvg_problem *problem;
    slow_cache cache;
    slow_side sides[2]; /* V's is K's where they share a row */
    const int32_t *table, *lengths, *query_lengths;
    const uint8_t *q, *sinks;
    size_t v_first, v_dim; /* the elements of V's row that are V */
    size_t group;          /* G: query heads of a KV head */
} slow_request;

/* Checks everything that can be refused; nothing has been written then. */
kvg_status slow_request_open(const kvg_problem *problem, const kvg_tensor *in, slow_request *out) KVG_CHECKED;

/* What one KV head of one sequence has stored, and who asks for it. Key `n` is the position first + n. */
typedef struct slow_stored {
    const slow_request *request;
    size_t kv_head;
    int64_t length, first;
    size_t keys;
    bool *placed;             /* the key has a place in the cache */
    slow_row_bytes *rows[2];  /* of the keys that have; V's are K's where they share a row */
    size_t first_query, queries; /* rows of q */
} slow_stored;

/* Calls `visit` for every sequence and KV head. */
typedef kvg_status slow_stored_fn(const slow_stored *stored, void *context);
kvg_status slow_request_visit(const slow_request *request, slow_stored_fn *visit, void *context) KVG_CHECKED;

/* The position of query j of the sequence; it may be negative. */
int64_t slow_position(const slow_stored *stored, size_t query);

/* Whether the query at that position sees key n. */
bool slow_sees(const slow_stored *stored, int64_t position, size_t key);

/* q of one row, and its sink's logit (-Inf without sinks). */
void slow_load_q(const slow_request *request, size_t query, size_t query_head, slow_number *q);
slow_number slow_sink(const slow_request *request, size_t query_head);

#endif
