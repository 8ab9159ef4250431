/* The scores of one row of op decode: docs/spec/decode-contract.md sections 3 to 6, docs/spec/simt-contract.md section
 * 2, docs/spec/other-kernels.md sections 1.1, 2.1 and 4. The columns of core/profiles.def say which rule a contract
 * has. */
#ifndef KVG_SECOND_SLOW_SCORE_H
#define KVG_SECOND_SLOW_SCORE_H

#include "second/slow_operand.h"
#include "second/slow_request.h"

/* What one KV head of one sequence needs for its rows: operands of all keys, and the numbers of section 3. */
typedef struct slow_head {
    const slow_stored *stored;
    const kvg_profile_info *profile;
    const kvg_chip_info *chip; /* whose fused sums */
    bool one_by_one; /* products are added one by one, in f32 */
    bool own;        /* the contract is not that of docs/spec/other-kernels.md */
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

static inline const kvg_problem *slow_problem_of(const slow_head *h)
{
    return h->stored->request->problem;
}

/* Section 3: c without q's power of two; then q and c of row `query` of the request. */
slow_number slow_score_scale(const slow_head *h);
void slow_query_load(slow_query *r, size_t query);

/* 2^x as the contract forms it. */
slow_number slow_exp2_of(const slow_head *h, slow_number x);

/* fma(a, b, c), or with two roundings if that is what is wrong. */
slow_number slow_multiply_add(const slow_head *h, slow_decode_fault unfused, slow_number a, slow_number b,
                              slow_number c);

bool slow_is_lowest(slow_number x); /* -Inf */

/* A fused sum of operands in X, such as sum16, and how many products it has. */
slow_number slow_sum(const slow_head *h, const slow_layout *type, const uint16_t *a, const uint16_t *b, slow_number c);
size_t slow_sum_terms(const slow_head *h, const slow_layout *type);

/* docs/spec/other-kernels.md section 4: a score is multiplied by c before m is subtracted. */
bool slow_subtracts(const slow_head *h);

/* The score of a visible key before its scales: RN(S * r) or S. Then z with a softcap, of any S. Then z of the key, or
 * S where c joins in the exponent. */
slow_number slow_scaled_dot(const slow_query *r, size_t key);
slow_number slow_capped_score(const slow_query *r, slow_number s);
slow_number slow_score_of(const slow_query *r, size_t key);

#endif
