/* docs/spec/simt-contract.md and docs/spec/other-kernels.md section 4: f32 fused multiply-adds in the walk of
 * reference/attention/ref_profile.c. */
#include <math.h>

#include "reference/attention/ref_profile.h"
#include "reference/attention/ref_profile_operand.h"
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_chains.h"
#include "reference/numbers/ref_special.h"

enum { TILE = KVG_ATTENTION_TILE, MOST_EXPONENT = 125 };

typedef struct tables {
    ref_row row[2]; /* by side, as stored but for the tensor scale, which stays outside */
} tables;

/* Operands of one side that follow from a code and, in formats of 4 bits, a scale byte: as they are met. */
enum { TABLE_VALUES = 4096 };
typedef struct looked_up {
    bool known[256];           /* by scale byte; without scales: byte 0 */
    float value[TABLE_VALUES]; /* of a byte's codes, 16 or 256 */
} looked_up;

typedef struct tile {
    float k[KVG_MAX_HEAD_DIM][TILE], v[TILE][KVG_MAX_HEAD_DIM];
    looked_up tables[2]; /* by side */
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
    r->lazy = (float)r->rules->rise;
}

/* With a tensor scale of 1 every dialect of a format that has one gives the same numbers, exact in binary64, and the
 * only factor left is a row's. */
static void row_operands(const ref_side *stored, const ref_row *row, const uint16_t *codes, const uint8_t *scales,
                           float *out)
{
    double y[KVG_MAX_HEAD_DIM];
    if (stored->codec->operands) {
        stored->codec->operands(row, codes, scales, out);
        return;
    }
    const double scale = stored->codec->exact(row, codes, scales, y);
    for (uint32_t i = 0; i < row->head_dim; i++) out[i] = (float)(y[i] * scale);
}

/* The operands of all codes beside a scale byte. */
static const float *look_up(const ref_side *stored, const ref_row *row, uint32_t codes, uint8_t scale, looked_up *t)
{
    float *values = t->value + (size_t)scale * codes;
    if (!t->known[scale]) {
        ref_row all = *row;
        uint16_t each[256];
        all.head_dim = codes;
        for (uint32_t i = 0; i < codes; i++) each[i] = (uint16_t)i;
        row_operands(stored, &all, each, &scale, values);
        t->known[scale] = true;
    }
    return values;
}

/* Few codes, beside one byte of scale or none: the answers fit a table. */
static bool has_table(const kvg_format_info *f)
{
    const uint32_t scales = f->block_scale_bytes == 1 ? 256 : 1;
    return f->block_scale_bytes <= 1 && !f->row_param_bytes && scales << f->element_bits <= TABLE_VALUES;
}

/* The operands of a row, all of K's where V is a part of it. */
static void read_operands(const ref_profile_run *r, kvg_side side, const ref_place *at, looked_up *t, float *out)
{
    const ref_side *stored = &r->kv.side[side];
    const ref_row *row = &((const tables *)r->tables)->row[side];
    const kvg_format_info *format = kvg_format_get(stored->codec->format);
    const uint32_t D = row->head_dim, block = format->block ? format->block : D;
    uint16_t codes[KVG_MAX_HEAD_DIM];
    uint8_t scales[KVG_MAX_HEAD_DIM];
    ref_kv_codes(&r->kv, side, at->sequence, at->kv_head, at->position, codes, scales);
    if (!has_table(format)) {
        row_operands(stored, row, codes, scales, out);
        return;
    }
    for (uint32_t i = 0; i < D; i += block) {
        const uint8_t scale = format->block ? scales[i / block] : 0;
        const float *values = look_up(stored, row, 1u << format->element_bits, scale, t);
        for (uint32_t j = i; j < i + block; j++) out[j] = values[codes[j]];
    }
}

static int read_query(const ref_profile_run *r, const void *q, void *query)
{
    kvg_reference_load(r->p->dtype, q, r->p->head_dim, query);
    return 0;
}

static void load(const ref_profile_run *r, void *into, uint32_t i, const ref_place *at)
{
    tile *d = into;
    float k[KVG_MAX_HEAD_DIM];
    if (!at) return;
    read_operands(r, KVG_K, at, &d->tables[KVG_K], k);
    for (uint32_t j = 0; j < r->p->head_dim; j++) d->k[j][i] = k[j];
    read_operands(r, KVG_V, at, &d->tables[KVG_V], d->v[i]);
}

/* --- section 2 --- */

/* Chains of 32 positions side by side, those of places that the row does not see among them. */
static void scores(const ref_profile_run *r, const void *from, const bool *seen, const void *query, float *s)
{
    (void)seen;
    for (uint32_t i = 0; i < TILE; i++) s[i] = 0;
    ref_chains(((const tile *)from)->k[0], TILE, query, r->p->head_dim, TILE, s);
}

/* --- section 3 --- */

static void add(const ref_profile_run *r, const void *from, const bool *read, const float *p, float w, ref_node n)
{
    (void)w;
    const uint32_t first = r->p->paging.shared_kv ? r->p->paging.v_first : 0;
    for (uint32_t i = 0, end; i < TILE; i = end + 1) { /* runs of positions that are read */
        for (end = i; end < TILE && read[end]; end++) *n.l += p[end];
        ref_chains(((const tile *)from)->v[i] + first, KVG_MAX_HEAD_DIM, p + i, end - i, r->dims, n.o);
    }
}

/* --- section 6 --- */

static void classify(const kvg_problem *p, kvg_arithmetic *out)
{
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    const ref_exp2_rule *exp2 = ref_exp2_rule_of(profile->contract->exp2);
    *out = (kvg_arithmetic){
        .q = KVG_OPERAND_F32, .k = KVG_OPERAND_F32, .p = KVG_OPERAND_F32, .v = KVG_OPERAND_F32,
        .folded = true,
        .rows_inside = true,
        .tile = profile->contract->tile,
        .span = profile->contract->leaf,
        .exp2_error = exp2->error,
        .tanh_error = exp2->tanh_error,
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
    .scores = scores,
    .add = add,
};

/* --- docs/spec/other-kernels.md section 4 --- */

enum { LOADED_BYTES = 16, WARP = 32 }; /* what a thread loads of a row of 16-bit codes; threads */

/* The sum of a score by threads: neighbouring dims in order, then the threads two by two, the farthest first. */
static float sum_of_threads(const tile *d, uint32_t i, const float *q, uint32_t D)
{
    float sums[WARP];
    const uint32_t least = LOADED_BYTES / 2, dims = D / WARP > least ? D / WARP : least, threads = D / dims;
    for (uint32_t t = 0; t < threads; t++) {
        sums[t] = 0;
        for (uint32_t j = t * dims; j < (t + 1) * dims; j++) sums[t] = fmaf(q[j], d->k[j][i], sums[t]);
    }
    return ref_sum_of_tree(sums, threads);
}

static void scores_of_threads(const ref_profile_run *r, const void *from, const bool *seen, const void *query, float *s)
{
    for (uint32_t i = 0; i < r->tile; i++) s[i] = seen[i] ? sum_of_threads(from, i, query, r->p->head_dim) : 0;
}

/* What was before is multiplied by w as the first position joins it. */
static void add_joined(const ref_profile_run *r, const void *from, const bool *read, const float *p, float w,
                       ref_node n)
{
    const tile *t = from;
    for (uint32_t i = 0; i < r->tile; i++) {
        *n.l = i ? *n.l + p[i] : fmaf(*n.l, w, p[i]);
        for (uint32_t d = 0; d < r->dims; d++) {
            const float v = read[i] ? t->v[i][d] : 0;
            n.o[d] = i ? fmaf(p[i], v, n.o[d]) : fmaf(n.o[d], w, p[i] * v);
        }
    }
}

static void classify_threads(const kvg_problem *p, kvg_arithmetic *out)
{
    const kvg_tiling tiling = kvg_problem_tiling(p, &(kvg_call_shape){.one_token = true});
    classify(p, out);
    out->tile = 2;
    out->parts = tiling.parts;
    out->tanh_error = REF_TANH_APPROX_ERROR;
}

const ref_contract ref_contract_threads = {
    .check = ref_stored_check,
    .classify = classify_threads,
    .table_bytes = sizeof(tables),
    .query_bytes = KVG_MAX_HEAD_DIM * sizeof(float),
    .tile_bytes = sizeof(tile),
    .open = open_tables,
    .read_query = read_query,
    .load = load,
    .scores = scores_of_threads,
    .add = add_joined,
};
