/* One row of op decode up to its leaves: docs/spec/decode-contract.md sections 3 to 7, docs/spec/simt-contract.md
 * sections 2 and 3, docs/spec/other-kernels.md sections 1.1 to 1.3, 2.1 and 2.3. The columns of
 * core/profiles.def say which rule a contract has. */
#ifndef KVG_SECOND_SLOW_LEAF_H
#define KVG_SECOND_SLOW_LEAF_H

#include "second/slow_operand.h"
#include "second/slow_request.h"

/* What one KV head of one sequence needs for its rows: operands of all keys, and the numbers of section 3. */
typedef struct slow_head {
    const slow_stored *stored;
    const kvg_profile_info *profile;
    const kvg_chip_info *chip; /* whose fused sums */
    bool simt; /* the profile is of docs/spec/simt-contract.md */
    bool own;  /* the contract is not that of docs/spec/other-kernels.md */
    kvg_tiling tiling;
    slow_decode_fault fault;
    slow_operands operands[2];
    uint32_t *k, *v;   /* [keys][D], [keys][Dv], codes in X */
    size_t *dims;      /* [D]: those of product 0, of product 1, ... */
    slow_number scale; /* of the scores, times log2 e, g of K and its base: c without q's power of two */
    slow_number out_factor; /* f */
} slow_head;

/* One row: what section 5 needs to make scores. */
typedef struct slow_query {
    const slow_head *head;
    int64_t position;
    size_t query_head;
    uint32_t q[KVG_MAX_HEAD_DIM]; /* codes in X */
    slow_number c, capped_c; /* c and c' */
    int64_t origin;          /* where tiles and leaves count from */
    int64_t sink_leaf;       /* -1: the sink joins the root */
} slow_query;

/* The state of section 1. Weights that are summed in lanes get to l when the leaf ends. */
enum { SLOW_LANES = 4 };
typedef struct slow_state {
    slow_number m, l, lanes[SLOW_LANES], o[KVG_MAX_HEAD_DIM];
    bool absent; /* nothing visible */
} slow_state;

/* Section 3: c without q's power of two; then q and c of row `query` of the request. */
slow_number slow_score_scale(const slow_head *h);
void slow_query_load(slow_query *r, size_t query);

/* The key at a position if the row sees it, else -1. */
int64_t slow_seen_key(const slow_query *r, int64_t position);

/* 2^x as the contract forms it. */
slow_number slow_exp2_of(const slow_head *h, slow_number x);

/* fma(a, b, c), or with two roundings if that is what is wrong. */
slow_number slow_multiply_add(const slow_head *h, slow_decode_fault unfused, slow_number a, slow_number b,
                              slow_number c);

bool slow_is_lowest(slow_number x); /* -Inf */

/* -RN(m c). An m of -Inf, of a row whose scores are all -Inf, is read as 0. Where w is formed at every tile, a product
 * of -Inf is read as the least number. */
slow_number slow_minus_reference(const slow_query *r, slow_number m);

/* EMPTY; positions of a leaf, all that are stored if the row is one leaf; the state after leaf `index`, and after
 * some tiles, of which one begins every `step` positions from `first` on. */
void slow_state_clear(const slow_head *h, slow_state *s);
int64_t slow_leaf_size(const slow_head *h);
void slow_leaf_run(const slow_query *r, int64_t index, slow_state *s);
void slow_tiles_run(const slow_query *r, int64_t first, int64_t step, int64_t tiles, slow_state *s);

#endif
