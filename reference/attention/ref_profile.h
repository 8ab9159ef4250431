/* What the decode contracts share (reference/attention/ref_profile.c: everything from a score on) and what one of
 * them is asked for: its operands, its scores, how a tile joins the sums. */
#ifndef KVG_REFERENCE_ATTENTION_REF_PROFILE_H
#define KVG_REFERENCE_ATTENTION_REF_PROFILE_H

#include <float.h>
#include <math.h> /* INFINITY */

#include "core/profile.h"
#include "reference/attention/ref_kv.h"
#include "reference/attention/ref_query.h"
#include "reference/attention_spec.h"
#include "reference/numbers/ref_exp2.h"

enum { REF_LANES = 4, REF_LANES_OF_PAIR = 8 };

/* State of a row: reference point, sums of weights (one for each lane), weighted sums, reference points that later
 * tiles start from. An array of them is a run of floats. */
typedef struct ref_node {
    float *m, *l, *o, *hints;
} ref_node;

typedef struct ref_profile_run {
    const kvg_problem *p;
    const kvg_chip_info *chip;
    const kvg_contract_info *rules;
    const struct ref_contract *contract;
    const ref_exp2_rule *exp2;
    ref_kv kv;
    uint32_t dims;   /* elements of an output */
    uint32_t tile;   /* positions between two looks at the maximum */
    uint32_t parts;  /* nodes of a leaf: tile n belongs to node n mod parts */
    uint32_t block;  /* rows of a KV head that are walked as a whole; 0: each by itself */
    uint32_t padded; /* rows of such a block that the kernel computes, `block` or more */
    kvg_block_rows of_head;
    uint32_t lanes;  /* sums of weights */
    uint32_t hints;  /* of a node with KVG_WEIGHTS_BY_TILE: one for each of its tiles of a run; else 0 */
    uint32_t splits; /* pieces that a row without leaves is cut into, at most */
    uint32_t piece;  /* positions of each; 0: equal numbers of tiles */
    double scale;    /* of the scores, in binary64; 0: the problem's */
    void *tables;  /* the contract's, for the whole problem */

    /* Set by the contract's `open`: */
    int k_base;           /* K's operands are 2^-base of its numbers */
    float output_factor;  /* f */
    float offset;         /* weights are 2^offset of what they would be */
    float lazy;           /* how far scores may rise above the reference point before the row is rescaled */

    /* The walk's: */
    const uint8_t *q;
    const int32_t *query_lengths; /* by sequence */
    const float *sinks;           /* NULL: none */
    const bool *wanted;           /* NULL: all rows */
    uint8_t *out;
    float *lse;
    ref_query *queries;
    uint32_t group;      /* query heads of a KV head */
    float score_factor;  /* c but for 2^e */
    float before_tanh;   /* factor of a score whose tanh the kernel takes; 0: of none */
    float *nodes;        /* of the batch at work: [tokens][Hq][leaves] */
} ref_profile_run;

/* A position that has a slot. */
typedef struct ref_place {
    uint32_t sequence, kv_head, position;
} ref_place;

typedef struct ref_contract {
    kvg_status (*check)(const kvg_problem *p); /* KVG_ERR_UNIMPLEMENTED: it has no operands for the problem */
    void (*classify)(const kvg_problem *p, kvg_arithmetic *out); /* its class in attention.v1; p is checked */

    size_t table_bytes, query_bytes, tile_bytes; /* of tables, query and tile below */
    void (*open)(ref_profile_run *r);

    /* A row of q, D elements of T, as the contract keeps it; e of section 3. */
    int (*read_query)(const ref_profile_run *r, const void *q, void *query);
    /* Position i of a tile: K's and V's operands; NULL: it has no place, and nobody sees it. Tiles are 0 at first. */
    void (*load)(const ref_profile_run *r, void *tile, uint32_t i, const ref_place *at);
    /* S' of the positions of a tile that a row sees; what the others are does not matter. */
    void (*scores)(const ref_profile_run *r, const void *tile, const bool *seen, const void *query, float *s);
    /* The positions of a tile join l and o with weights p, which are +0 for those that the row does not see. `read`:
     * whose V is not replaced by 0, those that are seen among them. w: the factor of what BY_LANE had summed before, or
     * BY_TILE that of the tile itself. */
    void (*add)(const ref_profile_run *r, const void *tile, const bool *read, const float *p, float w, ref_node n);
    /* With BY_PAIR: scores z and their factor c, instead of weights, which take the place of z. Else NULL. */
    void (*add_pair)(const ref_profile_run *r, const void *tile, const bool *read, float *z, float c, ref_node n);
} ref_contract;

static inline size_t ref_node_floats(const ref_profile_run *r)
{
    return 1 + r->lanes + r->dims + r->hints;
}

static inline ref_node ref_node_at(const ref_profile_run *r, float *nodes, size_t index)
{
    float *at = nodes + index * ref_node_floats(r);
    return (ref_node){at, at + 1, at + 1 + r->lanes, at + 1 + r->lanes + r->dims};
}

/* Neighbouring threads add up what they have: those two apart first. */
static inline float ref_sum_of_four(const float *x)
{
    const float even = x[0] + x[2], odd = x[1] + x[3];
    return even + odd;
}

/* The same of a power of two of them, in their place: those half as far apart as there are come first. */
static inline float ref_sum_of_tree(float *x, uint32_t count)
{
    for (uint32_t half = count / 2; half; half /= 2) {
        for (uint32_t i = 0; i < half; i++) x[i] += x[i + half];
    }
    return x[0];
}

/* The exponent of a weight is formed in one operation. */
static inline bool ref_profile_fuses(const ref_profile_run *r)
{
    const kvg_exponent_kind exponent = r->rules->exponent;
    return exponent == KVG_EXPONENT_FUSED || exponent == KVG_EXPONENT_FUSED_EACH || exponent == KVG_EXPONENT_FUSED_ALL;
}

/* The factor by which sums follow m is formed at every tile. */
static inline bool ref_profile_rescales_all(const ref_profile_run *r)
{
    const kvg_exponent_kind exponent = r->rules->exponent;
    return exponent == KVG_EXPONENT_SUBTRACTED_ALL || exponent == KVG_EXPONENT_FUSED_EACH ||
           exponent == KVG_EXPONENT_FUSED_ALL;
}

/* What a fused exponent subtracts: m in log2 units, and less by the offset. Of a row that has seen nothing it is 0, or
 * the least number. */
static inline float ref_profile_minus(const ref_profile_run *r, float m)
{
    if (r->rules->end != KVG_END_RECIPROCAL) return fmaxf(m * r->score_factor, -FLT_MAX);
    return fmaf(m == -INFINITY ? 0 : m, r->score_factor, -r->offset);
}

/* From the root, or from the splits and their parts, of a row to what is asked for; they lie behind n. */
void ref_profile_end(const ref_profile_run *r, size_t row, uint32_t splits, ref_node n);

/* docs/spec/decode-contract.md, on the chip of the profile; docs/spec/simt-contract.md; docs/spec/other-kernels.md
 * sections 4 and 6.1. */
extern const ref_contract ref_contract_mma, ref_contract_simt, ref_contract_threads, ref_contract_rounds;

#endif
