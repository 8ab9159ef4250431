/* docs/spec/other-kernels.md section 6.1: products of T and of f32 that 128 threads add up in rounds, in the walk of
 * reference/attention/ref_profile.c. */
#include "reference/attention/ref_profile.h"
#include "reference/attention/ref_profile_operand.h"
#include "reference/formats/ref_codec.h"

enum { TILE = 64, DIMS = 8, WARPS = 4, WARP = 32, FEWEST_DIMS = 16 }; /* DIMS: of a thread */

typedef struct tile {
    float k[TILE][KVG_MAX_HEAD_DIM], v[TILE][KVG_MAX_HEAD_DIM];
} tile;

static void open_rounds(ref_profile_run *r)
{
    r->k_base = 0;
    r->output_factor = 1;
    r->lazy = 0;
}

static int read_query(const ref_profile_run *r, const void *q, void *query)
{
    kvg_reference_load(r->p->dtype, q, r->p->head_dim, query);
    return 0;
}

static void load(const ref_profile_run *r, void *into, uint32_t i, const ref_place *at)
{
    tile *d = into;
    uint16_t codes[KVG_MAX_HEAD_DIM];
    uint8_t scales[KVG_MAX_HEAD_DIM];
    if (!at) return;
    ref_kv_codes(&r->kv, KVG_K, at->sequence, at->kv_head, at->position, codes, scales);
    kvg_reference_load(r->p->dtype, codes, r->p->head_dim, d->k[i]);
    ref_kv_codes(&r->kv, KVG_V, at->sequence, at->kv_head, at->position, codes, scales);
    kvg_reference_load(r->p->dtype, codes, r->p->head_dim, d->v[i]);
}

/* Threads that share a position: rows are padded with zeros to a power of two. */
static uint32_t threads_of(uint32_t head_dim)
{
    uint32_t padded = FEWEST_DIMS;
    while (padded < head_dim) padded *= 2;
    return padded / DIMS;
}

static float score(const ref_profile_run *r, const float *q, const float *k)
{
    const uint32_t D = r->p->head_dim, threads = threads_of(D);
    float sums[WARP] = {0};
    for (uint32_t d = 0; d < D; d++) {
        const float product = ref_round_to(r->p->dtype, q[d] * k[d]);
        sums[d / DIMS] = d % DIMS ? sums[d / DIMS] + product : product;
    }
    return ref_sum_of_tree(sums, threads);
}

static void scores(const ref_profile_run *r, const void *from, const bool *seen, const void *query, float *s)
{
    for (uint32_t i = 0; i < TILE; i++) s[i] = seen[i] ? score(r, query, ((const tile *)from)->k[i]) : 0;
}

/* A tile's sum of p, or of p times v where v is not NULL. A warp has `wide` positions in each round. */
static float sum_of_rounds(const float *p, const float *v, uint32_t wide)
{
    const uint32_t rounds = TILE / (WARPS * wide), paired = rounds == 1 && v ? wide / 2 : wide;
    float warps[WARPS], x[WARP];
    for (uint32_t w = 0; w < WARPS; w++) {
        for (uint32_t i = 0; i < paired; i++) {
            const uint32_t first = w * wide + i, step = rounds == 1 ? paired : WARPS * wide; /* from one to the next */
            if (v) {
                x[i] = p[first + step] * v[first + step];
                x[i] = fmaf(p[first], v[first], x[i]);
                for (uint32_t n = 2; n < rounds; n++) x[i] = fmaf(p[first + n * step], v[first + n * step], x[i]);
            } else {
                x[i] = p[first];
                for (uint32_t n = 1; n < rounds; n++) x[i] += p[first + n * step];
            }
        }
        warps[w] = ref_sum_of_tree(x, paired);
    }
    return ref_sum_of_tree(warps, WARPS);
}

static void add(const ref_profile_run *r, const void *from, const bool *read, const float *p, float w, ref_node n)
{
    const tile *t = from;
    const uint32_t wide = WARP / threads_of(r->p->head_dim);
    float v[TILE];
    *n.l = fmaf(*n.l, w, sum_of_rounds(p, NULL, wide));
    for (uint32_t d = 0; d < r->dims; d++) {
        for (uint32_t i = 0; i < TILE; i++) v[i] = read[i] ? t->v[i][d] : 0;
        n.o[d] = fmaf(n.o[d], w, sum_of_rounds(p, v, wide));
    }
}

static void classify(const kvg_problem *p, kvg_arithmetic *out)
{
    const ref_exp2_rule *exp2 = ref_exp2_rule_of(kvg_profile_get(p->profile)->contract->exp2);
    *out = (kvg_arithmetic){
        .q = KVG_OPERAND_F32, .k = KVG_OPERAND_F32, .p = KVG_OPERAND_F32, .v = KVG_OPERAND_F32,
        .folded = true,
        .rows_inside = true,
        .rounded_products = true,
        .tile = TILE,
        .exp2_error = exp2->error,
        .tanh_error = exp2->tanh_error,
    };
}

const ref_contract ref_contract_rounds = {
    .check = ref_stored_check,
    .classify = classify,
    .table_bytes = 1,
    .query_bytes = KVG_MAX_HEAD_DIM * sizeof(float),
    .tile_bytes = sizeof(tile),
    .open = open_rounds,
    .read_query = read_query,
    .load = load,
    .scores = scores,
    .add = add,
};
