/* docs/simt-contract.md: f32 fused multiply-adds in the walk of reference/ref_profile.c. */
#include <math.h> /* fmaf: correctly rounded in every C library */

#include "reference/ref_affine.h"
#include "reference/ref_profile.h"

enum { TILE = REF_PROFILE_TILE, MOST_EXPONENT = 125 };

typedef struct tables {
    ref_row row[2]; /* by side, as stored but for the tensor scale, which stays outside */
} tables;

typedef struct tile {
    float k[TILE][KVG_MAX_HEAD_DIM], v[TILE][KVG_MAX_HEAD_DIM];
} tile;

/* --- section 1 --- */

/* What kvg_problem_check accepts has operands. */
static kvg_status check(const kvg_problem *p)
{
    (void)p;
    return KVG_OK;
}

static void open_tables(ref_profile_run *r)
{
    tables *t = r->tables;
    for (int side = KVG_K; side <= KVG_V; side++) {
        t->row[side] = r->kv.side[side].row;
        t->row[side].tensor_scale = 1;
    }
    r->k_base = 0;
    r->output_factor = r->kv.side[KVG_V].row.tensor_scale;
    r->lazy = 8;
}

/* The operands of a row, all of K's where V is a part of it. With a tensor scale of 1 every dialect of a format that
 * has one gives the same numbers, exact in binary64, and the only factor left is a row's. */
static void read_operands(const ref_profile_run *r, kvg_side side, const ref_place *at, float *out)
{
    const ref_side *stored = &r->kv.side[side];
    const ref_row *row = &((const tables *)r->tables)->row[side];
    uint16_t codes[KVG_MAX_HEAD_DIM];
    uint8_t scales[KVG_MAX_HEAD_DIM];
    double y[KVG_MAX_HEAD_DIM];
    ref_kv_codes(&r->kv, side, at->sequence, at->kv_head, at->position, codes, scales);
    if (kvg_format_get(stored->codec->format)->row_param_bytes == 4) {
        ref_affine_operands(row, codes, scales, out);
        return;
    }
    const double scale = stored->codec->exact(row, codes, scales, y);
    for (uint32_t i = 0; i < row->head_dim; i++) out[i] = (float)(y[i] * scale);
}

static int read_query(const ref_profile_run *r, const void *q, void *query)
{
    kvg_reference_load(r->p->dtype, q, r->p->head_dim, query);
    return 0;
}

static void load(const ref_profile_run *r, void *into, uint32_t i, const ref_place *at)
{
    tile *d = into;
    if (!at) return;
    read_operands(r, KVG_K, at, d->k[i]);
    read_operands(r, KVG_V, at, d->v[i]);
}

/* --- section 2 --- */

static float score(const ref_profile_run *r, const void *from, uint32_t i, const void *query)
{
    const float *k = ((const tile *)from)->k[i], *q = query;
    float s = 0;
    for (uint32_t d = 0; d < r->p->head_dim; d++) s = fmaf(q[d], k[d], s);
    return s;
}

/* --- section 3 --- */

static void add(const ref_profile_run *r, const void *from, const bool *seen, const float *p, ref_node n)
{
    const uint32_t first = r->p->paging.shared_kv ? r->p->paging.v_first : 0;
    for (uint32_t i = 0; i < TILE; i++) {
        if (!seen[i]) continue;
        const float *v = ((const tile *)from)->v[i] + first;
        *n.l += p[i];
        for (uint32_t d = 0; d < r->dims; d++) n.o[d] = fmaf(p[i], v[d], n.o[d]);
    }
}

/* --- section 6 --- */

static void classify(const kvg_problem *p, kvg_arithmetic *out)
{
    (void)p;
    *out = (kvg_arithmetic){
        .q = KVG_OPERAND_F32, .k = KVG_OPERAND_F32, .p = KVG_OPERAND_F32, .v = KVG_OPERAND_F32,
        .folded = true,
        .rows_inside = true,
        .tile = REF_PROFILE_TILE,
        .span = REF_PROFILE_LEAF,
        .exp2_error = 0x1p-18f, /* 3.40e-6 */
        .tanh_error = 0x1p-19f, /* half of that, and three roundings */
        .most_exponent = MOST_EXPONENT,
    };
}

const ref_contract ref_contract_simt = {
    .check = check,
    .classify = classify,
    .table_bytes = sizeof(tables),
    .query_bytes = KVG_MAX_HEAD_DIM * sizeof(float),
    .tile_bytes = sizeof(tile),
    .open = open_tables,
    .read_query = read_query,
    .load = load,
    .score = score,
    .add = add,
};
