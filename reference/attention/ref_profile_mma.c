/* docs/spec/decode-contract.md: what tensor cores do in the walk of reference/attention/ref_profile.c, sections 4
 * and 7. */
#include <math.h>

#include "reference/attention/ref_profile.h"
#include "reference/attention/ref_profile_operand.h"

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
        s[i] = ref_mma_dot(&t->sum, d->k + i * D, ((const query *)q)->q, D, 0);
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

static void add_as_values(const ref_profile_run *r, kvg_operand type, const ref_operand *weights, float *l)
{
    ref_operand ones[KVG_MOST_TILE];
    const ref_operand one = ref_operand_round(type, 1);
    for (uint32_t i = 0; i < r->tile; i++) ones[i] = one;
    *l = ref_mma_dot(&((const tables *)r->tables)->sum, ones, weights, r->tile, *l);
}

static void add(const ref_profile_run *r, const void *from, const bool *read, const float *p, float w, ref_node n)
{
    const tables *t = r->tables;
    const tile *d = from;
    const ref_operand zero = {0, REF_OPERAND_ZERO};
    ref_operand weights[KVG_MOST_TILE], scaled[KVG_MOST_TILE], v[KVG_MOST_TILE];
    for (uint32_t i = 0; i < r->tile; i++) {
        const float scale = t->v.row_scaled && read[i] ? d->v_scale[i] : 1;
        weights[i] = ref_operand_round(t->v.type, p[i]);
        scaled[i] = t->v.row_scaled ? ref_operand_round(t->v.type, p[i] * scale) : weights[i];
    }
    if (r->rules->weights == KVG_WEIGHTS_BY_LANE) add_by_lane(r, p, w, n.l);
    else if (r->rules->weights == KVG_WEIGHTS_BY_WARP) *n.l = fmaf(*n.l, w, sum_of_warps(p, r->tile));
    else add_as_values(r, t->v.type, weights, n.l);
    for (uint32_t j = 0; j < r->dims; j++) {
        for (uint32_t i = 0; i < r->tile; i++) v[i] = read[i] ? d->v[j * r->tile + i] : zero;
        n.o[j] = ref_mma_dot(&t->sum, v, scaled, r->tile, n.o[j]);
    }
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
};
