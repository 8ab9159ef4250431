#include "tests/attention/flash.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "reference/ref_round.h"

static const float LOG2E = 1.44269504f, LN2 = 0.693147181f;

const char *flash_defect_name(flash_defect defect)
{
    static const char *const names[] = {
        "right",
#define FLASH_DEFECT(ENUM, what) what,
#include "tests/attention/flash_defects.def"
#undef FLASH_DEFECT
    };
    return names[defect];
}

static float operand(kvg_operand type, float x)
{
    switch (type) {
    case KVG_OPERAND_F16: return kvg_ref_f32_of_f16(kvg_ref_f16_of_f32(x));
    case KVG_OPERAND_BF16: return kvg_ref_f32_of_bf16(kvg_ref_bf16_of_f32(x));
    case KVG_OPERAND_E4M3: return kvg_ref_f32_of_e4m3(kvg_ref_e4m3_of_f32(x));
    case KVG_OPERAND_F32: break;
    }
    return x;
}

/* The exponent of a number as the tensor core sees it; subnormals have that of the smallest normal. */
static int exponent_of(float x)
{
    const int e = (int)(kvg_bits_of_f32(x) >> 23 & 0xFF);
    return e ? e - 127 : -126;
}

static double power(int e)
{
    return kvg_f64_of_bits((uint64_t)(e + 1023) << 52);
}

/* c + sum of n products in one fused sum: terms truncated to F bits below the largest exponent, the result to f32. */
static float fused(float c, const float *a, const float *b, uint32_t n, int F)
{
    int top = c == 0 ? -1000 : exponent_of(c);
    for (uint32_t i = 0; i < n; i++) {
        const int e = exponent_of(a[i]) + exponent_of(b[i]);
        if (a[i] != 0 && b[i] != 0 && e > top) top = e;
    }
    if (top == -1000) return 0;
    const double unit = power(F - top);
    int64_t sum = (int64_t)(c * unit);
    for (uint32_t i = 0; i < n; i++) sum += (int64_t)((double)a[i] * b[i] * unit);
    if (sum == 0) return 0;
    int64_t step = 1;
    for (int keep = F < 23 ? F : 23; llabs(sum) / step >> (keep + 1); ) step *= 2;
    return (float)((double)(sum / step * step) * power(top - F));
}

static float dot(const flash *f, float c, const float *a, const float *b, uint32_t n)
{
    if (f->class.fraction_bits == 0) {
        for (uint32_t i = 0; i < n; i++) c += a[i] * b[i];
        return c;
    }
    const uint32_t step = f->class.fraction_bits == 24 ? 8 : 16;
    for (uint32_t i = 0; i < n; i += step) {
        c = fused(c, a + i, b + i, n - i < step ? n - i : step, (int)f->class.fraction_bits);
    }
    return c;
}

/* One (query, head) at work. */
typedef struct job {
    const world *w;
    const flash *f;
    uint32_t row, head, sequence, kv_head;
    int64_t position, length;
    float q[KVG_MAX_HEAD_DIM], q_scale; /* operands; what undoes their unit */
    float scale;                        /* softmax scale times log2 e */
    float p_total;                      /* P_NORMALISED: the sum of weights, and their maximum */
    float p_max;
} job;

typedef struct state {
    float m, l, o[KVG_MAX_HEAD_DIM];
} state;

static bool is(const job *j, flash_defect defect)
{
    return j->f->defect == defect;
}

static bool row_scaled(const world *w, kvg_side side)
{
    const kvg_format f = w->p.storage[side].format;
    return f == KVG_FORMAT_ROWINT4 || f == KVG_FORMAT_ROWFP4;
}

/* A row as operands, and the factor that is applied outside. */
static float load_row(const job *j, kvg_side side, int64_t k, float *x)
{
    const world *w = j->w;
    const kvg_operand type = side == KVG_K ? j->f->class.k : j->f->class.v;
    const uint32_t n = side == KVG_K ? w->p.head_dim : world_v_dim(w);
    double factor;
    const uint32_t shift = is(j, FLASH_V_IS_ALL_OF_K) && side == KVG_V ? w->p.head_dim - n : 0;
    const kvg_side from = shift ? KVG_K : side;
    const double *y = world_row(w, from, j->sequence, j->kv_head, (uint32_t)k, &factor) + shift;
    if (is(j, side == KVG_K ? FLASH_K_SCALE_LOST : FLASH_V_SCALE_LOST)) factor = 1;
    for (uint32_t i = 0; i < n; i++)
        x[i] = operand(type, j->f->class.folded ? (float)y[i] : (float)y[i] * (float)factor);
    return j->f->class.folded ? (float)factor : 1;
}

static bool visible(const job *j, int64_t k)
{
    const int64_t window = j->w->p.attention.window, distance = j->position - k;
    if (k < 0 || k >= j->length || !world_has_place(j->w, j->sequence, (uint32_t)k)) return false;
    if (is(j, FLASH_MASK_LESS) ? distance <= 0 : is(j, FLASH_MASK_BY_CHUNK) ? false : distance < 0) return false;
    return !window || distance < window + is(j, FLASH_WINDOW_LONG) - is(j, FLASH_WINDOW_SHORT);
}

/* Base-2 score of a key; *seen: it counts. */
static float score(const job *j, int64_t k, bool *seen)
{
    const kvg_attention *a = &j->w->p.attention;
    const uint32_t D = j->w->p.head_dim, skip = is(j, FLASH_HALF_DOT) ? D / 2 : 0;
    const float cap = is(j, FLASH_CAP_IGNORED) ? 0 : a->softcap;
    float x[KVG_MAX_HEAD_DIM];
    *seen = visible(j, k);
    if (is(j, FLASH_TAIL_UNMASKED) && k >= j->length) {
        *seen = true; /* a slot that nobody wrote, as zeros */
        return 0;
    }
    if (!*seen && is(j, FLASH_CAP_AFTER_MASK) && cap > 0 && k < j->length &&
        world_has_place(j->w, j->sequence, (uint32_t)k)) {
        *seen = true;
        return -cap * LOG2E;
    }
    if (!*seen) return 0;
    const float factor = load_row(j, KVG_K, k, x);
    const float s = dot(j->f, 0, j->q + skip, x + skip, D - skip) * (j->q_scale * factor);
    if (cap > 0) return cap * tanhf(s * j->scale / cap) * (is(j, FLASH_NO_LOG2E) ? 1 : LOG2E);
    return s * j->scale * (is(j, FLASH_NO_LOG2E) ? 1 : LOG2E);
}

static void start(const job *j, state *s)
{
    memset(s, 0, sizeof *s);
    s->m = is(j, FLASH_START_AT_MINUS_5E4) ? -5e4f : is(j, FLASH_P_NORMALISED) ? j->p_max : -INFINITY;
}

static float weight(float s, float m)
{
    return m == -INFINITY ? 0 : exp2f(s - m);
}

/* The tile's products of P and V enter the accumulators of every dim. */
static void add_values(const job *j, state *s, const float *p, const int64_t *keys, const bool *seen, uint32_t n)
{
    static float columns[KVG_MAX_HEAD_DIM][128];
    const uint32_t Dv = world_v_dim(j->w);
    const float unit = j->f->class.p_unit > 0 ? j->f->class.p_unit : 1;
    float rounded[128], x[KVG_MAX_HEAD_DIM];
    for (uint32_t i = 0; i < n; i++) {
        float factor = 1;
        memset(x, 0, sizeof x);
        if (seen[i] && keys[i] < j->length) factor = load_row(j, KVG_V, keys[i], x);
        rounded[i] = operand(j->f->class.p, p[i] * (row_scaled(j->w, KVG_V) ? factor : 1) / unit);
        for (uint32_t c = 0; c < Dv; c++) columns[c][i] = x[c];
    }
    for (uint32_t i = 0; i < n; i++) s->l += j->f->class.rounded_sum ? rounded[i] * unit : p[i];
    for (uint32_t c = 0; c < Dv; c++) s->o[c] = dot(j->f, s->o[c], rounded, columns[c], n);
}

static void walk_tile(const job *j, state *s, int64_t first, uint32_t n)
{
    float scores[128], p[128], m = s->m;
    int64_t keys[128];
    bool seen[128];
    for (uint32_t i = 0; i < n; i++) {
        keys[i] = first + i;
        scores[i] = score(j, first + i, &seen[i]);
        if (seen[i] && scores[i] > m) m = scores[i];
    }
    const float alpha = s->m == m ? 1 : weight(s->m, m);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = seen[i] ? weight(scores[i], m) : 0;
        if (is(j, FLASH_P_NORMALISED)) p[i] /= j->p_total;
    }
    s->l *= alpha;
    for (uint32_t c = 0; c < world_v_dim(j->w) && !is(j, FLASH_NO_RESCALE); c++) s->o[c] *= alpha;
    s->m = m;
    add_values(j, s, p, keys, seen, n);
}

static void add_sink(const job *j, state *s)
{
    const float *sinks = j->w->in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, KVG_ROLE_SINKS, KVG_K)].data;
    if (!j->w->p.attention.sinks || is(j, FLASH_SINK_LOST)) return;
    const float sink = sinks[j->head] * LOG2E * (is(j, FLASH_SINK_SCALED) ? j->scale : 1);
    const float m = sink > s->m ? sink : s->m, alpha = weight(s->m, m);
    s->l = s->l * alpha + weight(sink, m);
    for (uint32_t c = 0; c < world_v_dim(j->w); c++) s->o[c] *= alpha;
    s->m = m;
}

static void merge(const job *j, state *into, const state *s)
{
    const float m = s->m > into->m ? s->m : into->m;
    float a = weight(into->m, m), b = weight(s->m, m);
    if (is(j, FLASH_NO_MERGE_RESCALE)) a = b = 1;
    for (uint32_t c = 0; c < world_v_dim(j->w); c++) into->o[c] = into->o[c] * a + s->o[c] * b;
    into->l = into->l * a + s->l * b;
    into->m = m;
}

static float lse_of(const job *j, const state *s)
{
    if (s->l == 0) return -INFINITY;
    if (is(j, FLASH_P_NORMALISED)) return (j->p_max + log2f(j->p_total)) * LN2;
    const float base2 = (is(j, FLASH_LSE_WITHOUT_MAX) ? 0 : s->m) + log2f(s->l);
    return is(j, FLASH_LSE_BASE_2) ? base2 : base2 * LN2;
}

static void walk_splits(const job *j, state *all, float *lse)
{
    const flash *f = j->f;
    const int64_t B = j->w->p.paging.block_tokens, pages = (j->length + B - 1) / B;
    const int64_t end = is(j, FLASH_TAIL_UNMASKED) ? pages * B : j->length;
    const int64_t tiles = is(j, FLASH_LAST_TILE_LOST) ? end / f->tile : (end + f->tile - 1) / f->tile;
    start(j, all);
    for (uint32_t split = 0; split < f->splits; split++) {
        state s;
        start(j, &s);
        const int64_t from = tiles * split / f->splits, to = tiles * (split + 1) / f->splits;
        for (int64_t i = from; i < to; i++) {
            const int64_t first = (f->backward ? to - 1 - (i - from) : i) * f->tile;
            walk_tile(j, &s, first, (uint32_t)(end - first < f->tile ? end - first : f->tile));
        }
        if (is(j, FLASH_SINK_PER_SPLIT)) add_sink(j, &s);
        merge(j, all, &s);
        if (s.l > 0) *lse = lse_of(j, &s);
    }
}

static void load_query(job *j)
{
    const kvg_arithmetic *class = &j->f->class;
    const uint32_t D = j->w->p.head_dim;
    float amax = 0, unit = 1;
    for (uint32_t i = 0; i < D; i++) {
        j->q[i] = world_q(j->w, j->row, j->head, i);
        amax = fabsf(j->q[i]) > amax ? fabsf(j->q[i]) : amax;
    }
    if (amax > 0 && class->q == KVG_OPERAND_E4M3) unit = class->q_unit > 0 ? class->q_unit : amax / 448;
    if (amax > 0 && class->q == KVG_OPERAND_F16 && j->w->p.dtype != KVG_DTYPE_F16) unit = exp2f(floorf(log2f(amax)));
    for (uint32_t i = 0; i < D; i++) j->q[i] = operand(class->q, j->q[i] / unit);
    j->q_scale = unit;
}

/* The largest score and the sum of weights, in a pass of their own. */
static void normalise_first(job *j)
{
    const float *sinks = j->w->in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, KVG_ROLE_SINKS, KVG_K)].data;
    const float sink = j->w->p.attention.sinks ? sinks[j->head] * LOG2E : -INFINITY;
    j->p_max = sink;
    for (int pass = 0; pass < 2; pass++) {
        j->p_total = weight(sink, j->p_max);
        for (int64_t k = 0; k < j->length; k++) {
            bool seen;
            const float s = score(j, k, &seen);
            if (seen && pass == 0 && s > j->p_max) j->p_max = s;
            if (seen && pass == 1) j->p_total += exp2f(s - j->p_max);
        }
    }
}

static void run_job(job *j, double *out, double *lse)
{
    const world *w = j->w;
    const uint32_t group = w->p.attention.query_heads / w->p.kv_heads, Dv = world_v_dim(w);
    const uint32_t scaled_dim = is(j, FLASH_SCALE_OF_V_DIM) ? Dv : w->p.head_dim;
    world_query(w, j->row, &j->sequence, &j->position);
    if (is(j, FLASH_POSITION_FROM_0))
        j->position = j->position - (w->plan.lengths[j->sequence] - w->plan.queries[j->sequence]);
    j->length = w->plan.lengths[j->sequence];
    j->kv_head = is(j, FLASH_GROUP_INTERLEAVED) ? j->head % w->p.kv_heads : j->head / group;
    if (is(j, FLASH_OTHER_SEQUENCE)) j->sequence = (j->sequence + 1) % w->p.paging.sequences;
    j->scale = w->p.attention.scale > 0 ? w->p.attention.scale : 1 / sqrtf((float)scaled_dim);
    load_query(j);
    if (is(j, FLASH_P_NORMALISED)) normalise_first(j);

    state s;
    float split_lse = -INFINITY, answer[KVG_MAX_HEAD_DIM], final_lse;
    walk_splits(j, &s, &split_lse);
    const float before = s.l;
    if (!is(j, FLASH_SINK_PER_SPLIT)) add_sink(j, &s);
    final_lse = is(j, FLASH_LSE_OF_SPLIT) ? split_lse : lse_of(j, &s);
    if (is(j, FLASH_SINK_RAISES_OUT) && before > 0) walk_splits(j, &s, &split_lse);
    if (is(j, FLASH_SUM_TWICE)) s.l *= 2;
    if (is(j, FLASH_EMPTY_NOT_WRITTEN) && s.l == 0) s.l = NAN;
    double factor = 1;
    if (j->f->class.folded && !row_scaled(w, KVG_V) && !is(j, FLASH_V_SCALE_LOST))
        world_row(w, KVG_V, j->sequence, 0, 0, &factor);
    for (uint32_t c = 0; c < Dv; c++) {
        answer[c] = s.l == 0 || is(j, FLASH_P_NORMALISED) ? s.o[c] : s.o[c] / s.l;
        answer[c] *= (float)factor * (j->f->class.p_unit > 0 ? j->f->class.p_unit : 1);
    }
    for (uint32_t c = 0; c < Dv; c++) {
        float rounded = answer[c];
        uint8_t bytes[4];
        kvg_reference_store(w->p.dtype, &answer[c], 1, bytes);
        kvg_reference_load(w->p.dtype, bytes, 1, &rounded);
        out[c] = rounded;
    }
    *lse = final_lse;
}

void flash_attention(const world *w, const flash *how, kvg_attention_answer *answer)
{
    const uint32_t heads = w->p.attention.query_heads, Dv = world_v_dim(w);
    for (size_t i = 0; i < w->rows; i++) {
        job *j = calloc(1, sizeof *j);
        j->w = w;
        j->f = how;
        j->row = (uint32_t)(i / heads);
        j->head = (uint32_t)(i % heads);
        run_job(j, answer->out + i * Dv, &answer->lse[i]);
        free(j);
    }
}
