/* docs/spec/decode-contract.md: what tensor cores do in the walk of reference/attention/ref_profile.c, sections 4
 * and 7. */
#include <math.h>

#include "reference/attention/ref_profile.h"
#include "reference/attention/ref_profile_operand.h"
#include "reference/formats/ref_codec.h"

typedef struct tables {
    ref_holding k, v;
    ref_sum sum;
    uint16_t order[KVG_MAX_HEAD_DIM]; /* dims in the order of a score's sums */
} tables;

typedef struct tile {
    ref_operand k[KVG_MOST_TILE * KVG_MAX_HEAD_DIM]; /* by position, dims in the order of the sums */
    ref_operand v[KVG_MAX_HEAD_DIM * KVG_MOST_TILE]; /* by dim */
    float k_scale[KVG_MOST_TILE], v_scale[KVG_MOST_TILE];
} tile;

typedef struct query {
    ref_operand q[KVG_MAX_HEAD_DIM]; /* in the order of the sums */
} query;

static void open_tables(ref_profile_run *r)
{
    tables *t = r->tables;
    ref_holding_init(&r->kv, KVG_K, &t->k);
    ref_holding_init(&r->kv, KVG_V, &t->v);
    ref_score_order(&r->kv, t->order);
    const bool bytes = t->k.type == KVG_OPERAND_E4M3;
    t->sum = bytes ? ref_sum_of_e4m3(r->chip) : ref_sum_of(r->chip);
    r->offset = bytes ? REF_E4M3_OFFSET : 0;
    r->k_base = t->k.base;
    r->output_factor = t->v.factor;
    r->lazy = t->v.row_scaled ? 0 : (float)r->rules->rise;
}

static int read_query(const ref_profile_run *r, const void *q, void *out)
{
    const tables *t = r->tables;
    const uint32_t D = r->p->head_dim;
    ref_operand row[KVG_MAX_HEAD_DIM];
    int e;
    ref_query_operands(r->p->dtype, t->k.type, q, D, row, &e);
    for (uint32_t i = 0; i < D; i++) ((query *)out)->q[i] = row[t->order[i]];
    return e;
}

static void load(const ref_profile_run *r, void *into, uint32_t i, const ref_place *at)
{
    const tables *t = r->tables;
    const uint32_t D = r->p->head_dim;
    tile *d = into;
    ref_operand row[KVG_MAX_HEAD_DIM];
    if (!at) return;
    ref_holding_row(&t->k, at->sequence, at->kv_head, at->position, row, &d->k_scale[i]);
    for (uint32_t j = 0; j < D; j++) d->k[i * D + j] = row[t->order[j]];
    ref_holding_row(&t->v, at->sequence, at->kv_head, at->position, row, &d->v_scale[i]);
    for (uint32_t j = 0; j < r->dims; j++) d->v[j * r->tile + i] = row[j];
}

static void scores(const ref_profile_run *r, const void *from, const bool *seen, const void *q, float *s)
{
    const tables *t = r->tables;
    const tile *d = from;
    const uint32_t D = r->p->head_dim;
    for (uint32_t i = 0; i < r->tile; i++) {
        if (!seen[i]) continue;
        const ref_operand *k = d->k + i * D, *row = ((const query *)q)->q;
        const uint32_t first = r->rules->weights == KVG_WEIGHTS_BY_PAIR && i >= r->tile / 2 ? r->dims / 2 : 0;
        s[i] = ref_mma_dot(&t->sum, k + first, row + first, D - first, 0);
        if (first) s[i] = ref_mma_dot(&t->sum, k, row, first, s[i]);
        if (t->k.row_scaled) s[i] *= d->k_scale[i];
    }
}

/* l of KVG_WEIGHTS_BY_LANE: each lane's first weight joins what was before in one fma. */
static void add_by_lane(const ref_profile_run *r, const float *p, float w, float *l)
{
    for (uint32_t i = 0; i < r->tile; i++) {
        float *lane = &l[i / 2 % REF_LANES];
        *lane = i < 2 * REF_LANES && i % 2 == 0 ? fmaf(*lane, w, p[i]) : *lane + p[i];
    }
}

/* docs/spec/other-kernels.md section 5: neighbours, then the pairs of an eight, then the eights. Of four, those two
 * apart come first. */
static float sum_of_warps(const float *p, uint32_t positions)
{
    float sums[KVG_MOST_TILE / 2];
    for (uint32_t i = 0; i < positions / 2; i++) sums[i] = p[2 * i] + p[2 * i + 1];
    for (uint32_t count = positions / 2; count > 1;) { /* of fours as of pairs */
        const uint32_t step = count % 4 == 0 ? 4 : 2;
        for (uint32_t i = 0; i < count / step; i++) {
            const float *s = &sums[i * step];
            sums[i] = step == 4 ? ref_sum_of_four(s) : s[0] + s[1];
        }
        count /= step;
    }
    return sums[0];
}

/* l and the weights, as V would be that is 1. */
static float sum_as_values(const ref_profile_run *r, kvg_operand type, const ref_operand *weights, float l)
{
    ref_operand ones[KVG_MOST_TILE];
    const ref_operand one = ref_operand_round(type, 1);
    for (uint32_t i = 0; i < r->tile; i++) ones[i] = one;
    return ref_mma_dot(&((const tables *)r->tables)->sum, ones, weights, r->tile, l);
}

static void add(const ref_profile_run *r, const void *from, const bool *read, const float *p, float w, ref_node n)
{
    const tables *t = r->tables;
    const tile *d = from;
    const ref_operand zero = {0, REF_OPERAND_ZERO};
    ref_operand weights[KVG_MOST_TILE], scaled[KVG_MOST_TILE], v[KVG_MOST_TILE];
    const bool by_tile = r->rules->weights == KVG_WEIGHTS_BY_TILE && w != 1;
    const float of_tile = by_tile ? ref_round_to(r->p->dtype, w) : 1;
    for (uint32_t i = 0; i < r->tile; i++) {
        const float scale = t->v.row_scaled && read[i] ? d->v_scale[i] : 1;
        weights[i] = scaled[i] = ref_operand_round(t->v.type, p[i]);
        if (t->v.row_scaled) scaled[i] = ref_operand_round(t->v.type, p[i] * scale);
        if (by_tile) scaled[i] = ref_operand_round(t->v.type, ref_round_to(r->p->dtype, p[i]) * of_tile);
    }
    switch (r->rules->weights) {
    case KVG_WEIGHTS_BY_LANE: add_by_lane(r, p, w, n.l); break;
    case KVG_WEIGHTS_BY_WARP: *n.l = fmaf(*n.l, w, sum_of_warps(p, r->tile)); break;
    case KVG_WEIGHTS_BY_TILE: *n.l += sum_as_values(r, t->v.type, weights, 0) * w; break;
    case KVG_WEIGHTS_AS_VALUES:
    case KVG_WEIGHTS_BY_PAIR: /* add_pair */
    case KVG_WEIGHTS_BY_ROUND:
    case KVG_WEIGHTS_IN_ORDER:
    case KVG_WEIGHTS_JOINED: *n.l = sum_as_values(r, t->v.type, weights, *n.l); break;
    }
    for (uint32_t j = 0; j < r->dims; j++) {
        for (uint32_t i = 0; i < r->tile; i++) v[i] = read[i] ? d->v[j * r->tile + i] : zero;
        n.o[j] = ref_mma_dot(&t->sum, v, scaled, r->tile, n.o[j]);
    }
}

/* l of one half of a pair by lanes: neighbours are added first. */
static void sum_of_half(const float *p, uint32_t positions, float *lanes)
{
    for (uint32_t j = 0; j < REF_LANES; j++) lanes[j] = 0;
    for (uint32_t i = 0; i < positions; i += 2) lanes[i / 2 % REF_LANES] += p[i] + p[i + 1];
}

/* docs/spec/other-kernels.md section 7: both halves look at the maximum, and the two halves of an output follow it in
 * ways of their own. m is in log2 units. */
static void add_pair(const ref_profile_run *r, const void *from, const bool *read, float *z, float c, ref_node n)
{
    const tables *t = r->tables;
    const tile *d = from;
    const ref_operand zero = {0, REF_OPERAND_ZERO};
    const uint32_t half = r->tile / 2;
    ref_operand p[KVG_MOST_TILE], later[KVG_MOST_TILE], v[KVG_MOST_TILE];
    float w[2], lanes[2][REF_LANES], m = *n.m;
    for (uint32_t h = 0; h < 2; h++) {
        float top = -INFINITY;
        for (uint32_t i = h * half; i < (h + 1) * half; i++) top = fmaxf(top, z[i]);
        const float to = fmaxf(m, top * c);
        w[h] = r->exp2->of(m - to);
        for (uint32_t i = h * half; i < (h + 1) * half; i++) z[i] = fmaf(z[i], c, -to);
        m = to;
    }
    r->exp2->of_all(z, r->tile);
    const float both = w[1] * w[0];
    for (uint32_t h = 0; h < 2; h++) sum_of_half(z + h * half, half, lanes[h]);
    for (uint32_t j = 0; j < REF_LANES; j++) {
        n.l[j] = fmaf(n.l[j], w[0], lanes[0][j]);
        n.l[j] *= w[1];
        n.l[REF_LANES + j] = fmaf(n.l[REF_LANES + j], both, lanes[1][j]);
    }
    for (uint32_t i = 0; i < r->tile; i++) p[i] = ref_operand_round(t->v.type, z[i]);
    for (uint32_t i = 0; i < half; i++) later[i] = ref_operand_round(t->v.type, z[i] * w[1]);
    for (uint32_t j = 0; j < r->dims; j++) {
        for (uint32_t i = 0; i < r->tile; i++) v[i] = read[i] ? d->v[j * r->tile + i] : zero;
        const bool in_order = j < r->dims / 2;
        float o = in_order ? ref_mma_dot(&t->sum, v, p, half, n.o[j] * w[0]) * w[1] : n.o[j] * both;
        o = ref_mma_dot(&t->sum, v + half, p + half, half, o);
        n.o[j] = in_order ? o : ref_mma_dot(&t->sum, v, later, half, o);
    }
    *n.m = m;
}

const ref_contract ref_contract_mma = {
    .check = ref_holding_check,
    .classify = ref_holding_class,
    .table_bytes = sizeof(tables),
    .query_bytes = sizeof(query),
    .tile_bytes = sizeof(tile),
    .open = open_tables,
    .read_query = read_query,
    .load = load,
    .scores = scores,
    .add = add,
    .add_pair = add_pair,
};
