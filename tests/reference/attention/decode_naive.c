#include "tests/reference/attention/decode_naive.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "reference/attention_profile.h"
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_exp2.h"
#include "reference/numbers/ref_round.h"
#include "reference/tensor_core/ref_mma.h"

static const float LOG2E = 0x1.715476p+0f, LN2 = 0x1.62e43p-1f;

typedef enum contract { MMA = 1, SIMT = 2, ALL = MMA | SIMT } contract;

static const struct defect_row {
    contract of;
    const char *name;
} defect_rows[] = {
    {ALL, "right"},
#define DECODE_DEFECT(ENUM, contract, section, what) {contract, #section " " what},
#include "tests/reference/attention/decode_defects.def"
#undef DECODE_DEFECT
};

const char *decode_defect_name(decode_defect defect)
{
    return defect_rows[defect].name;
}

static bool is_simt(kvg_profile profile)
{
    return profile == KVG_PROFILE_SIMT_FMA_V1;
}

bool decode_defect_is_of(decode_defect defect, kvg_profile profile)
{
    return defect_rows[defect].of & (is_simt(profile) ? SIMT : MMA);
}

/* One row (query, head) at work. */
typedef struct job {
    const world *w;
    const kvg_profile_info *chip;
    bool simt; /* docs/spec/simt-contract.md: no chip */
    decode_defect defect;
    uint32_t row, head, kv_head, sequence, D, Dv, tile, leaf;
    int64_t position, length, first; /* first: the first visible key */
    kvg_dtype k_type, v_type;
    int k_base, v_base;
    bool k_scaled, v_scaled; /* by row, outside the operands */
    float c, capped, f, g_k, lazy;
    float q[KVG_MAX_HEAD_DIM];
    ref_packing packing; /* of K */
    uint32_t order[KVG_MAX_HEAD_DIM];
} job;

typedef struct state {
    float m, l, o[KVG_MAX_HEAD_DIM];
} state;

static bool is(const job *j, decode_defect defect)
{
    return j->defect == defect;
}

static float exp2_of(const job *j, float x)
{
    if (is(j, DECODE_EXP2_EXACT)) return x <= -127 || isnan(x) ? 0 : exp2f(x);
    return ref_exp2(x);
}

/* --- operands: sections 2 to 4 --- */

static void holding_of(const world *w, kvg_side side, kvg_dtype *type, int *base, bool *scaled)
{
    const kvg_format f = w->p.storage[side].format;
    const bool affine = f == KVG_FORMAT_INT8 || f == KVG_FORMAT_INT4;
    *type = f == KVG_FORMAT_BF16 ? KVG_DTYPE_BF16 : affine ? w->p.dtype : KVG_DTYPE_F16;
    *base = f == KVG_FORMAT_NVFP4 ? 14 : f == KVG_FORMAT_MX16 || f == KVG_FORMAT_MXFP4 ? 5 : 0;
    *scaled = f == KVG_FORMAT_ROWINT4 || f == KVG_FORMAT_ROWFP4;
}

static uint16_t code_of(kvg_dtype type, double x)
{
    return type == KVG_DTYPE_F16 ? kvg_ref_f16_of_f64(x) : kvg_ref_bf16_of_f64(x);
}

static bool is_affine(const job *j, kvg_side side)
{
    return kvg_format_get(j->w->p.storage[side].format)->scales == KVG_SCALES_AFFINE;
}

static uint16_t truncated(kvg_dtype type, float x)
{
    uint16_t code = code_of(type, x);
    float back;
    kvg_reference_load(type, &code, 1, &back);
    return back > x ? code - 1 : code;
}

/* sum16 chained over n pairs of codes. */
static float sums(const job *j, kvg_dtype type, const uint16_t *a, const uint16_t *b, uint32_t n, float c)
{
    ref_operand left[KVG_MAX_HEAD_DIM], right[KVG_MAX_HEAD_DIM];
    ref_operand_decode(type, a, n, left);
    ref_operand_decode(type, b, n, right);
    return ref_mma_dot(j->chip, left, right, n, c);
}

static void load(const job *j, kvg_side side, int64_t position, double *x, float *row_scale)
{
    double factor;
    const bool k = side == KVG_K, scaled = k ? j->k_scaled : j->v_scaled;
    const double *y = world_row(j->w, side, j->sequence, j->kv_head, (uint32_t)position, &factor);
    const double base = is(j, DECODE_BASE_LOST) ? 1 : ldexp(1, -(k ? j->k_base : j->v_base));
    const bool in_v = is(j, DECODE_V_SCALE_IN_V) && !k && scaled;
    const bool by_row = !kvg_format_get(j->w->p.storage[side].format)->tensor_scale;
    const bool in_simt = j->simt && by_row && !is(j, DECODE_ROW_SCALE_OUTSIDE);
    const double inside = is(j, DECODE_SCALES_INSIDE) || in_v || in_simt ? factor : 1;
    *row_scale = (scaled || (by_row && j->simt)) && inside == 1 ? (float)factor : 1;
    for (uint32_t i = 0; i < (k ? j->D : j->Dv); i++) {
        x[i] = y[i] * inside * base;
        if (j->simt) x[i] = (float)x[i];
        if (is(j, DECODE_OPERANDS_IN_T) && is_affine(j, side)) x[i] = ref_round_to(j->w->p.dtype, y[i]);
    }
}

/* Section 4's text, place by place. */
static void set_order(job *j)
{
    const kvg_format_info *f = kvg_format_get(j->w->p.storage[KVG_K].format);
    static const uint32_t even[4] = {0, 4, 2, 6}, narrow[4] = {0, 2, 1, 3};
    uint32_t p0 = 0, at = 0;
    for (uint32_t W = f->element_bits == 4 ? 128 : f->element_bits == 8 ? 64 : 32; W >= 16; W /= 2) {
        for (; p0 + W <= j->D; p0 += W) {
            for (uint32_t s = 0; s < W; s++, at++) {
                const uint32_t t = s / 16, k = s % 16, lane = (k % 8) / 2, i = 2 * (k / 8) + k % 2;
                uint32_t place = p0 + (W / 4) * lane + 4 * t + i;
                if (f->element_bits == 4) {
                    place = p0 + (W / 4) * lane + (W == 16 ? narrow[i] : 8 * (t / 2) + t % 2 + even[i]);
                    place = (uint32_t)ref_nibble_element(j->packing, place, j->D);
                }
                j->order[at] = is(j, DECODE_DIMS_IN_ORDER) ? at : place;
            }
        }
    }
    for (uint32_t i = 0; is(j, DECODE_SUMS_BACKWARD) && i < j->D / 2; i++) {
        const uint32_t other = (j->D / 16 - 1 - i / 16) * 16 + i % 16, kept = j->order[i];
        if (other <= i) break;
        j->order[i] = j->order[other];
        j->order[other] = kept;
    }
}

static void set_query(job *j)
{
    const kvg_problem *p = &j->w->p;
    float amax = 0;
    int e = 0;
    for (uint32_t i = 0; i < j->D; i++) {
        j->q[i] = world_q(j->w, j->row, j->head, i);
        amax = fmaxf(amax, fabsf(j->q[i]));
    }
    if (p->dtype == KVG_DTYPE_BF16 && j->k_type == KVG_DTYPE_F16 && !j->simt && isnormal(amax)) e = ilogbf(amax);
    if (e > 126) e = 126;
    e += is(j, DECODE_Q_EXPONENT_UP) && e > 0;
    if (is(j, DECODE_Q_EXPONENT_LOST)) e = 0;
    for (uint32_t i = 0; i < j->D; i++) j->q[i] = ldexpf(j->q[i], -e);
    const float root = sqrtf((float)j->D);
    float scale = p->attention.scale > 0 ? p->attention.scale : 1 / root;
    if (is(j, DECODE_SCALE_ROOT_EXACT) && p->attention.scale == 0) scale = (float)(1 / sqrt(j->D));
    const float inner = scale * (is(j, DECODE_FACTOR_ORDER) ? j->g_k : LOG2E);
    const float with_g = inner * (is(j, DECODE_FACTOR_ORDER) ? LOG2E : j->g_k);
    j->c = ldexpf(with_g, (is(j, DECODE_BASE_LOST) ? 0 : j->k_base) + e);
    j->capped = 2 * j->c / p->attention.softcap;
}

/* --- section 5 --- */

static bool is_held(const job *j, int64_t k)
{
    return k >= 0 && k < j->length && world_has_place(j->w, j->sequence, (uint32_t)k);
}

static bool visible(const job *j, int64_t k)
{
    const int64_t w = j->w->p.attention.window, seen = w + is(j, DECODE_WINDOW_LONG) - is(j, DECODE_WINDOW_SHORT);
    return k <= j->position && (w == 0 || j->position - k < seen) && is_held(j, k);
}

static float capped(const job *j, float s)
{
    const float cap = j->w->p.attention.softcap, u = s * j->capped, t = exp2_of(j, -fabsf(u));
    const float top = 1 - t, bottom = 1 + t, scaled_cap = cap * LOG2E;
    float ratio = top / bottom;
    if (is(j, DECODE_CAP_BY_TANH)) ratio = tanhf(fabsf(u) / 2 / LOG2E);
    float z = ratio * scaled_cap;
    if (is(j, DECODE_CAP_LATE_FACTOR)) {
        z = ratio * cap;
        z *= LOG2E;
    }
    return copysignf(z, s);
}

/* docs/spec/simt-contract.md section 2, over x and q. */
static float fma_chain(const job *j, const double *x)
{
    float sums[4] = {0};
    for (uint32_t n = 0; n < j->D; n++) {
        const uint32_t i = is(j, DECODE_DIMS_BACKWARD) ? j->D - 1 - n : is(j, DECODE_DIMS_AS_STORED) ? j->order[n] : n;
        float *s = &sums[is(j, DECODE_DOT_IN_LANES) ? n % 4 : 0];
        const float product = j->q[i] * (float)x[i];
        *s = is(j, DECODE_DOT_UNFUSED) ? *s + product : fmaf(j->q[i], (float)x[i], *s);
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]); /* zeros but for DOT_IN_LANES */
}

/* *dot: S', for EXPONENT_BY_FMA. */
static float score(const job *j, int64_t k, float *dot)
{
    const bool sees = visible(j, k);
    const float cap = j->w->p.attention.softcap;
    *dot = -INFINITY;
    if (!sees && is(j, DECODE_MASK_BEFORE_CAP) && cap > 0 && k < j->length) return -(cap * LOG2E);
    if (!sees) return -INFINITY;
    double x[KVG_MAX_HEAD_DIM];
    uint16_t a[KVG_MAX_HEAD_DIM], b[KVG_MAX_HEAD_DIM];
    float r;
    load(j, KVG_K, k, x, &r);
    for (uint32_t i = 0; i < j->D && !j->simt; i++) {
        a[i] = code_of(j->k_type, x[j->order[i]]);
        b[i] = code_of(j->k_type, j->q[j->order[i]]);
    }
    float s = j->simt ? fma_chain(j, x) : sums(j, j->k_type, a, b, j->D, 0);
    if (is(j, DECODE_PLAIN_DOT)) {
        s = 0;
        for (uint32_t i = 0; i < j->D; i++) s = fmaf((float)x[j->order[i]], j->q[j->order[i]], s);
    }
    if (j->k_scaled && is(j, DECODE_SCALE_TWICE) && cap == 0) {
        const float factor = r * j->c;
        return s * factor;
    }
    if (j->k_scaled || is(j, DECODE_ROW_SCALE_OUTSIDE)) s *= r;
    *dot = s;
    return cap > 0 ? capped(j, s) : s * j->c;
}

/* --- section 7 --- */

static void rescale(const job *j, state *s, float top)
{
    const float w = isnan(top) || top == INFINITY ? NAN : exp2_of(j, s->m - top);
    s->l *= w;
    for (uint32_t d = 0; d < j->Dv; d++) s->o[d] *= w;
    s->m = top;
}

static float top_of(const float *z, uint32_t n)
{
    float top = -INFINITY;
    for (uint32_t i = 0; i < n; i++) top = isnan(z[i]) || isnan(top) ? NAN : fmaxf(top, z[i]);
    return top;
}

/* The largest score of a tile for any head of the group. */
static float top_of_group(const job *j, int64_t start)
{
    const uint32_t group = j->w->p.attention.query_heads / j->w->p.kv_heads;
    float top = -INFINITY, dot, z[64];
    for (uint32_t g = 0; g < group; g++) {
        job other = *j;
        other.head = j->kv_head * group + g;
        set_query(&other);
        for (uint32_t i = 0; i < j->tile; i++) z[i] = score(&other, start + i, &dot);
        top = fmaxf(top, top_of(z, j->tile));
    }
    return top;
}

/* A tile: scores, weights, and what V holds of it. */
typedef struct tile {
    int64_t first;
    float z[64], p[64], scales[64];
    double v[64][KVG_MAX_HEAD_DIM];
} tile;

/* docs/spec/decode-contract.md section 7, steps 3 and 4. */
static void add_by_sums(const job *j, const tile *t, state *s)
{
    uint16_t P[64], P_scaled[64];
    const uint16_t one = code_of(j->v_type, 1);
    for (uint32_t i = 0; i < j->tile; i++) {
        P[i] = is(j, DECODE_P_TRUNCATED) ? truncated(j->v_type, t->p[i]) : code_of(j->v_type, t->p[i]);
        P_scaled[i] = j->v_scaled ? code_of(j->v_type, t->p[i] * t->scales[i]) : P[i];
    }
    const bool shifted = is(j, DECODE_POSITIONS_FROM_WINDOW) && j->first > t->first;
    const uint32_t shift = shifted ? (uint32_t)(j->first - t->first) : 0;
    for (uint32_t half = 0; half < j->tile && shift < j->tile; half += 16) {
        const uint32_t from = is(j, DECODE_HALVES_SWAPPED) ? j->tile - 16 - half : half;
        uint32_t at[16];
        for (uint32_t i = 0; i < 16; i++) at[i] = (from + i + shift) % j->tile;
        for (uint32_t d = 0; d <= j->Dv; d++) {
            uint16_t a[16], b[16];
            for (uint32_t i = 0; i < 16; i++) {
                a[i] = d == j->Dv ? one : code_of(j->v_type, t->v[at[i]][d]);
                b[i] = d < j->Dv || is(j, DECODE_SUM_WITH_SCALE) ? P_scaled[at[i]] : P[at[i]];
            }
            float *sum = d < j->Dv ? &s->o[d] : &s->l;
            if (d == j->Dv && is(j, DECODE_SUM_UNROUNDED)) {
                for (uint32_t i = 0; i < 16; i++) s->l += t->p[at[i]];
            } else {
                *sum = sums(j, j->v_type, a, b, 16, *sum);
            }
        }
    }
}

/* docs/spec/simt-contract.md section 3, step 3. */
static void add_by_fma(const job *j, const tile *t, state *s)
{
    float sum = 0;
    for (uint32_t n = 0; n < j->tile; n++) {
        const uint32_t i = is(j, DECODE_POSITIONS_BACKWARD) ? j->tile - 1 - n : n;
        const int64_t k = t->first + i;
        const bool joins = is(j, DECODE_HIDDEN_JOIN) && is_held(j, k);
        const float p = is(j, DECODE_P_IN_T) ? ref_round_to(j->w->p.dtype, t->p[i]) : t->p[i];
        if (!visible(j, k) && !joins && t->z[i] == -INFINITY) continue;
        if (p == 0 && is(j, DECODE_WEIGHTLESS_SKIPPED)) continue;
        if (is(j, DECODE_SUM_BY_TILE)) sum += p;
        else s->l += p;
        const float scaled = is(j, DECODE_ROW_SCALE_OUTSIDE) ? p * t->scales[i] : p;
        for (uint32_t d = 0; d < j->Dv; d++) {
            const float v = (float)t->v[i][d], product = scaled * v;
            s->o[d] = is(j, DECODE_VALUES_UNFUSED) ? s->o[d] + product : fmaf(scaled, v, s->o[d]);
        }
    }
    s->l += sum;
}

static void walk_tile(const job *j, int64_t start, state *s)
{
    static tile t; /* tests are one thread */
    float dots[64];
    t.first = start;
    for (uint32_t i = 0; i < j->tile; i++) {
        const int64_t k = start + i;
        t.z[i] = score(j, k, &dots[i]);
        memset(t.v[i], 0, sizeof t.v[i]);
        t.scales[i] = 0;
        if (visible(j, k) || (is(j, DECODE_HIDDEN_JOIN) && is_held(j, k))) load(j, KVG_V, k, t.v[i], &t.scales[i]);
    }
    const float top = top_of(t.z, j->tile);
    if (is(j, DECODE_LAZY_BY_GROUP) && top_of_group(j, start) - s->m > j->lazy && top > -INFINITY) rescale(j, s, top);
    const float rise = top - s->m;
    if (!(rise <= j->lazy) || (is(j, DECODE_LAZY_AT_LIMIT) && rise == j->lazy)) rescale(j, s, top);
    for (uint32_t i = 0; i < j->tile; i++) {
        float x = t.z[i] - s->m;
        if (is(j, DECODE_EXPONENT_BY_FMA) && j->w->p.attention.softcap == 0) x = fmaf(dots[i], j->c, -s->m);
        t.p[i] = exp2_of(j, x);
    }
    if (j->simt) add_by_fma(j, &t, s);
    else add_by_sums(j, &t, s);
}

static void start(const job *j, state *s)
{
    memset(s, 0, sizeof *s);
    s->m = is(j, DECODE_START_AT_0) ? 0 : -FLT_MAX;
}

/* --- sections 8 and 9 --- */

static void add_sink(const job *j, state *s)
{
    const kvg_problem *p = &j->w->p;
    const int at = kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, KVG_ROLE_SINKS, KVG_K);
    if (!p->attention.sinks) return;
    const float x = ((const float *)j->w->in[at].data)[j->head] * LOG2E;
    const float m = fmaxf(s->m, x), w = exp2_of(j, s->m - m), kept = s->l * w;
    s->l = kept + exp2_of(j, x - m);
    for (uint32_t d = 0; d < j->Dv; d++) s->o[d] *= w;
    s->m = m;
}

static float merged(const job *j, float a, float w_a, float b, float w_b)
{
    if (is(j, DECODE_MERGE_UNFUSED)) return a * w_a + b * w_b;
    return is(j, DECODE_MERGE_SWAPPED) ? fmaf(a, w_a, b * w_b) : fmaf(b, w_b, a * w_a);
}

static void merge(const job *j, state *a, const state *b)
{
    const float m = fmaxf(a->m, b->m), w_a = exp2_of(j, a->m - m), w_b = exp2_of(j, b->m - m);
    a->l = merged(j, a->l, w_a, b->l, w_b);
    for (uint32_t d = 0; d < j->Dv; d++) a->o[d] = merged(j, a->o[d], w_a, b->o[d], w_b);
    a->m = m;
}

/* False if the row sees nothing in the leaf: then it is absent. */
static bool walk_leaf(const job *j, int64_t index, state *s)
{
    const int64_t shift = is(j, DECODE_TILES_FROM_WINDOW) || is(j, DECODE_TREE_FROM_WINDOW) ? j->first : 0;
    const int64_t from = index * j->leaf + (is(j, DECODE_TREE_FROM_WINDOW) ? shift / j->leaf * j->leaf : shift);
    bool any = false;
    start(j, s);
    if (is(j, DECODE_SINK_PER_LEAF)) add_sink(j, s);
    if (is(j, DECODE_SINK_FIRST) && index == 0) add_sink(j, s);
    for (int64_t k = from; k < from + j->leaf && k < j->length; k += j->tile) {
        bool some = false;
        for (int64_t i = k; i < k + j->tile; i++) some |= visible(j, i);
        if (some || is(j, DECODE_MASK_BEFORE_CAP)) walk_tile(j, k, s);
        any |= some;
    }
    return any;
}

/* Node `index` of a level; false: absent. */
static bool walk_node(const job *j, uint32_t level, int64_t index, state *s)
{
    if (index * ((int64_t)j->leaf << level) >= j->length) return false;
    if (level == 0) return walk_leaf(j, index, s);
    state *right = malloc(sizeof *right);
    assert_non_null(right);
    const bool has_left = walk_node(j, level - 1, 2 * index, s);
    const bool has_right = walk_node(j, level - 1, 2 * index + 1, right);
    if (has_left && has_right) merge(j, s, right);
    else if (has_right) *s = *right;
    free(right);
    return has_left || has_right;
}

static void walk_fold(const job *j, state *s)
{
    static state next; /* tests are one thread */
    bool any = false;
    for (int64_t i = 0; i * j->leaf < j->length; i++) {
        if (!walk_leaf(j, i, &next)) continue;
        if (any) merge(j, s, &next);
        else *s = next;
        any = true;
    }
    if (!any) start(j, s);
}

static void run_job(job *j, float *out, float *lse)
{
    state s;
    uint32_t level = 0;
    while (((int64_t)j->leaf << level) < j->length) level++;
    if (is(j, DECODE_FOLD)) walk_fold(j, &s);
    else if (!walk_node(j, level, 0, &s)) start(j, &s);
    if (!is(j, DECODE_SINK_PER_LEAF) && !(is(j, DECODE_SINK_FIRST) && s.l > 0)) add_sink(j, &s);
    for (uint32_t d = 0; d < j->Dv; d++) {
        const float scaled = s.o[d] * j->f;
        float y = scaled / s.l;
        if (is(j, DECODE_RECIPROCAL)) {
            const float reciprocal = 1 / s.l;
            y = scaled * reciprocal;
        }
        if (is(j, DECODE_FACTOR_LAST)) {
            y = s.o[d] / s.l;
            y *= j->f;
        }
        if (s.l == 0) y = 0;
        y += 0.0f;
        out[d] = ref_round_to(j->w->p.dtype, y);
    }
    const float log2_l = is(j, DECODE_LOG2_EXACT) ? log2f(s.l) : s.l == 0 || isnan(s.l) ? s.l : ref_log2(s.l);
    const float in_log2 = s.m + log2_l;
    *lse = s.l == 0 ? -INFINITY : in_log2 * LN2;
    if (is(j, DECODE_LSE_BY_LN) && s.l != 0) *lse = s.m * LN2 + log2_l * LN2;
}

static void set_up(job *j, const world *w, decode_defect defect)
{
    const kvg_problem *p = &w->p;
    const bool other = defect == DECODE_OTHER_CHIP, sm90 = p->profile == KVG_PROFILE_SM90_MMA16816_V1;
    *j = (job){.w = w, .defect = defect, .D = p->head_dim, .Dv = world_v_dim(w), .tile = 32, .leaf = 256, .lazy = 8};
    j->simt = is_simt(p->profile);
    j->chip = kvg_profile_get(!other ? p->profile : sm90 ? KVG_PROFILE_SM89_MMA16816_V1 : KVG_PROFILE_SM90_MMA16816_V1);
    holding_of(w, KVG_K, &j->k_type, &j->k_base, &j->k_scaled);
    holding_of(w, KVG_V, &j->v_type, &j->v_base, &j->v_scaled);
    if (is(j, DECODE_EAGER_ROW_SCALES) && j->v_scaled) j->lazy = 0;
    if (j->simt) {
        j->k_base = j->v_base = 0;
        j->k_scaled = j->v_scaled = false;
    }
    double g_k = 1, g_v = 1;
    if (kvg_format_get(p->storage[KVG_K].format)->tensor_scale) world_row(w, KVG_K, 0, 0, 0, &g_k);
    if (kvg_format_get(p->storage[KVG_V].format)->tensor_scale) world_row(w, KVG_V, 0, 0, 0, &g_v);
    if (is(j, DECODE_SCALES_INSIDE)) g_k = g_v = 1;
    j->g_k = (float)g_k;
    j->f = ldexpf((float)g_v, is(j, DECODE_BASE_LOST) ? 0 : j->v_base);
    if (is(j, DECODE_TILE_HALF)) j->tile = 16;
    if (is(j, DECODE_TILE_DOUBLE)) j->tile = 64;
    if (is(j, DECODE_LEAF_HALF)) j->leaf = 128;
    if (is(j, DECODE_LEAF_DOUBLE)) j->leaf = 512;
    if (is(j, DECODE_ONE_LEAF)) j->leaf = 1 << 20;
    if (j->v_scaled) j->lazy = 0;
    if (is(j, DECODE_LAZY_ROW_SCALES)) j->lazy = 8;
    if (is(j, DECODE_EAGER)) j->lazy = 0;
    if (is(j, DECODE_LAZY_LESS)) j->lazy = 4;
    const int at = kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, KVG_ROLE_TENSOR_SCALE, KVG_K);
    ref_side stored;
    if (ref_side_init(p, KVG_K, &w->in[at], &stored)) fail_msg("%s", kvg_error_text());
    j->packing = stored.packing;
    set_order(j);
}

void decode_naive(const world *w, decode_defect defect, decode_answer *answer)
{
    const uint32_t heads = w->p.attention.query_heads;
    job *j = malloc(sizeof *j);
    assert_non_null(j);
    set_up(j, w, defect);
    for (size_t i = 0; i < w->rows; i++) {
        j->row = (uint32_t)(i / heads);
        j->head = (uint32_t)(i % heads);
        j->kv_head = j->head / (heads / w->p.kv_heads);
        world_query(w, j->row, &j->sequence, &j->position);
        j->length = w->plan.lengths[j->sequence];
        for (j->first = 0; j->first < j->length && !visible(j, j->first); j->first++) {}
        set_query(j);
        run_job(j, answer->out + i * j->Dv, &answer->lse[i]);
    }
    free(j);
}

/* --- answers --- */

decode_answer decode_open(const world *w)
{
    const decode_answer a = {calloc(w->outputs, sizeof *a.out), calloc(w->rows, sizeof *a.lse)};
    assert_true(a.out && a.lse);
    return a;
}

void decode_close(decode_answer *a)
{
    free(a->out);
    free(a->lse);
}

void decode_profile(const world *w, decode_answer *answer)
{
    void *numbers = malloc(w->outputs * sizeof(float)); /* of T, which may be f32 */
    assert_non_null(numbers);
    kvg_tensor out[2] = {{.data = numbers}, {.data = answer->lse}};
    if (kvg_attention_profile(&w->p, w->in, out)) fail_msg("profile: %s", kvg_error_text());
    kvg_reference_load(w->p.dtype, numbers, w->outputs, answer->out);
    free(numbers);
}

static size_t differences(const float *a, const float *b, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        const bool nan = isnan(a[i]) && isnan(b[i]);
        count += kvg_bits_of_f32(a[i]) != kvg_bits_of_f32(b[i]) && !nan;
    }
    return count;
}

size_t decode_differences(const world *w, const decode_answer *a, const decode_answer *b)
{
    return differences(a->out, b->out, w->outputs) + differences(a->lse, b->lse, w->rows);
}
