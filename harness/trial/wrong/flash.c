#include "harness/trial/wrong/flash.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "harness/trial/wrong/flash_rows.h"

static const float LOG2E = 1.44269504f, LN2 = 0.693147181f;
enum { MAX_TILE = 128 };

/* --- sums of products --- */

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
    bool finite = isfinite(c);
    for (uint32_t i = 0; i < n; i++) {
        const int e = exponent_of(a[i]) + exponent_of(b[i]);
        if (a[i] != 0 && b[i] != 0 && e > top) top = e;
        finite = finite && isfinite(a[i]) && isfinite(b[i]);
    }
    if (!finite) return NAN;
    if (top == -1000) return 0;
    const double unit = power(F - top);
    int64_t sum = (int64_t)(c * unit);
    for (uint32_t i = 0; i < n; i++) sum += (int64_t)((double)a[i] * b[i] * unit);
    if (sum == 0) return 0;
    int64_t step = 1;
    for (int keep = F < 23 ? F : 23; llabs(sum) / step >> (keep + 1);) step *= 2;
    return (float)((double)(sum / step * step) * power(top - F));
}

static float dot(const kvg_flash *f, float c, const float *a, const float *b, uint32_t n)
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

/* Products are rounded to T before they are added up. */
static float sum_of_rounded(kvg_dtype T, const float *a, const float *b, uint32_t n)
{
    float sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += kvg_flash_through(T, a[i] * b[i]);
    return sum;
}

/* --- one (query, head) --- */

typedef struct job {
    const kvg_problem *p;
    const kvg_flash *f;
    const kvg_flash_rows *rows;
    uint32_t row, head, sequence;
    int64_t position, length;
    float sink;                         /* natural; -Inf: none */
    float q[KVG_MAX_HEAD_DIM], q_scale; /* operands; what undoes their unit */
    float scale;                        /* of scores, without log2 e */
    float p_total, p_max;               /* P_NORMALISED: the sum of weights, and their maximum */
    float columns[KVG_MAX_HEAD_DIM][MAX_TILE];
    kvg_flash_set *met;
} job;

typedef struct state {
    float m, l, o[KVG_MAX_HEAD_DIM];
} state;

static bool is(const job *j, kvg_flash_defect defect)
{
    return kvg_flash_meets(j->f, defect, j->met);
}

static float per_unit(const job *j)
{
    return j->f->class.p_unit > 0 ? j->f->class.p_unit : 1;
}

static bool has_place(const job *j, int64_t k)
{
    return k >= 0 && k < j->length && j->rows->present[k];
}

static bool visible(const job *j, int64_t k)
{
    const int64_t window = j->p->attention.window, distance = j->position - k, beyond = distance - window;
    if (!has_place(j, k)) return false;
    if (distance <= 0 && (distance < 0 || is(j, KVG_FLASH_MASK_LESS)) && !is(j, KVG_FLASH_MASK_BY_CHUNK)) return false;
    if (!window || beyond < -1 || beyond > 0) return !window || beyond < 0;
    return beyond < is(j, KVG_FLASH_WINDOW_LONG) - is(j, KVG_FLASH_WINDOW_SHORT);
}

static float sum_of(const job *j, int64_t k)
{
    const uint32_t D = j->p->head_dim, skip = is(j, KVG_FLASH_HALF_DOT) ? D / 2 : 0;
    const float *x = j->rows->operands[KVG_K] + (size_t)k * D;
    return j->f->class.rounded_products ? sum_of_rounded(j->p->dtype, j->q + skip, x + skip, D - skip)
                                        : dot(j->f, 0, j->q + skip, x + skip, D - skip);
}

/* Those of keys k to k + 3, side by side, because an f32 sum waits for the one before. */
static void sums_of_four(const job *j, int64_t k, float *sums)
{
    const uint32_t D = j->p->head_dim;
    const float *x = j->rows->operands[KVG_K] + (size_t)k * D;
    float a = 0, b = 0, c = 0, d = 0;
    for (uint32_t i = is(j, KVG_FLASH_HALF_DOT) ? D / 2 : 0; i < D; i++) {
        a += j->q[i] * x[i];
        b += j->q[i] * x[D + i];
        c += j->q[i] * x[2 * D + i];
        d += j->q[i] * x[3 * D + i];
    }
    sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
}

/* Of the keys of a tile that are visible. */
static void sum_tile(const job *j, int64_t first, uint32_t n, float *sums)
{
    const bool plain = j->f->class.fraction_bits == 0 && !j->f->class.rounded_products;
    for (uint32_t i = 0; i < n;) {
        if (plain && i + 4 <= n && visible(j, first + i) && visible(j, first + i + 3)) {
            sums_of_four(j, first + i, sums + i);
            i += 4;
            continue;
        }
        sums[i] = visible(j, first + i) ? sum_of(j, first + i) : 0;
        i++;
    }
}

/* Base-2 score of a key from its sum of products; *seen: it counts. */
static float score(const job *j, int64_t k, float sum, bool *seen)
{
    const float given = j->p->attention.softcap, cap = given > 0 && is(j, KVG_FLASH_CAP_IGNORED) ? 0 : given;
    const float log2e = is(j, KVG_FLASH_NO_LOG2E) ? 1 : LOG2E;
    *seen = visible(j, k);
    if (k >= j->length && is(j, KVG_FLASH_TAIL_UNMASKED)) {
        *seen = true; /* a slot that nobody wrote, as zeros */
        return 0;
    }
    if (!*seen && cap > 0 && has_place(j, k) && is(j, KVG_FLASH_CAP_AFTER_MASK)) {
        *seen = true;
        return -cap * LOG2E;
    }
    if (!*seen) return 0;
    const float s = sum * (j->q_scale * j->rows->factors[KVG_K][k]);
    return cap > 0 ? cap * tanhf(s * j->scale / cap) * log2e : s * j->scale * log2e;
}

static void start(const job *j, state *s)
{
    memset(s, 0, sizeof *s);
    s->m = is(j, KVG_FLASH_P_NORMALISED) ? j->p_max : -INFINITY;
}

static float weight(const job *j, float s, float m)
{
    return m == -INFINITY && !is(j, KVG_FLASH_INF_MINUS_INF) ? 0 : exp2f(s - m);
}

/* The tile's products of P and V enter the accumulators of every dim. */
static void add_values(job *j, state *s, const float *p, int64_t first, const bool *seen, uint32_t n)
{
    const uint32_t Dv = j->rows->dim[KVG_V];
    const bool fused = j->f->class.fraction_bits > 0;
    float rounded[MAX_TILE];
    for (uint32_t i = 0; i < n; i++) {
        const int64_t k = first + i;
        const bool loaded = (seen[i] && k < j->length) || (k >= j->length && is(j, KVG_FLASH_TAIL_VALUES_LOADED));
        const float *x = j->rows->operands[KVG_V] + (size_t)k * Dv;
        const float factor = loaded ? j->rows->factors[KVG_V][k] : 1;
        rounded[i] = kvg_flash_operand(j->f->class.p, p[i] * factor / per_unit(j));
        if (!fused) for (uint32_t c = 0; c < Dv; c++) s->o[c] += rounded[i] * (loaded ? x[c] : 0);
        else for (uint32_t c = 0; c < Dv; c++) j->columns[c][i] = loaded ? x[c] : 0;
    }
    for (uint32_t i = 0; i < n; i++) s->l += j->f->class.rounded_sum ? rounded[i] * per_unit(j) : p[i];
    for (uint32_t c = 0; fused && c < Dv; c++) s->o[c] = dot(j->f, s->o[c], rounded, j->columns[c], n);
}

static void walk_tile(job *j, state *s, int64_t first, uint32_t n)
{
    float sums[MAX_TILE], scores[MAX_TILE], p[MAX_TILE], m = s->m;
    bool seen[MAX_TILE], any = false;
    sum_tile(j, first, n, sums);
    for (uint32_t i = 0; i < n; i++) {
        scores[i] = score(j, first + i, sums[i], &seen[i]);
        if (seen[i] && scores[i] > m) m = scores[i];
        any = any || seen[i];
    }
    if (any && m < -5e4f && is(j, KVG_FLASH_START_AT_MINUS_5E4)) m = -5e4f;
    const float alpha = s->m == m && (isfinite(m) || !is(j, KVG_FLASH_INF_MINUS_INF)) ? 1 : weight(j, s->m, m);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = seen[i] ? weight(j, scores[i], m) : 0;
        if (is(j, KVG_FLASH_P_NORMALISED)) p[i] /= j->p_total;
    }
    s->l *= alpha;
    for (uint32_t c = 0; c < j->rows->dim[KVG_V] && !is(j, KVG_FLASH_NO_RESCALE); c++) s->o[c] *= alpha;
    s->m = m;
    add_values(j, s, p, first, seen, n);
}

static void add_sink(const job *j, state *s)
{
    if (j->sink == -INFINITY || is(j, KVG_FLASH_SINK_LOST)) return;
    const float sink = j->sink * LOG2E * (is(j, KVG_FLASH_SINK_SCALED) ? j->scale : 1);
    const float m = sink > s->m ? sink : s->m, alpha = weight(j, s->m, m);
    s->l = s->l * alpha + weight(j, sink, m);
    for (uint32_t c = 0; c < j->rows->dim[KVG_V]; c++) s->o[c] *= alpha;
    s->m = m;
}

static void merge(const job *j, state *into, const state *s)
{
    const float m = s->m > into->m ? s->m : into->m;
    const float base = is(j, KVG_FLASH_MERGE_NATURAL) ? LN2 : 1;
    float a = weight(j, into->m * base, m * base), b = weight(j, s->m * base, m * base);
    if (is(j, KVG_FLASH_NO_MERGE_RESCALE)) a = b = 1;
    for (uint32_t c = 0; c < j->rows->dim[KVG_V]; c++) into->o[c] = into->o[c] * a + s->o[c] * b;
    into->l = (s->l > 0 && is(j, KVG_FLASH_NO_MERGE_SUM) ? 0 : into->l * a) + s->l * b;
    into->m = m;
}

static float lse_of(const job *j, const state *s)
{
    if (s->l == 0) return is(j, KVG_FLASH_LSE_OF_EMPTY_0) ? 0 : -INFINITY;
    if (is(j, KVG_FLASH_P_NORMALISED)) return (j->p_max + log2f(j->p_total)) * LN2;
    const float total = exp2f(s->m) * s->l;
    const bool in_range = total >= FLT_MIN && total <= FLT_MAX;
    if (!in_range && is(j, KVG_FLASH_LSE_OVERFLOWS)) return total > 1 ? INFINITY : -INFINITY;
    const float base2 = (is(j, KVG_FLASH_LSE_WITHOUT_MAX) ? 0 : s->m) + log2f(s->l);
    return is(j, KVG_FLASH_LSE_BASE_2) ? base2 : base2 * LN2;
}

static void walk_splits(job *j, state *all, float *lse)
{
    const kvg_flash *f = j->f;
    const int64_t end = j->rows->count;
    const int64_t tiles = end / f->tile + (end % f->tile && !is(j, KVG_FLASH_LAST_TILE_LOST));
    state last;
    start(j, &last);
    start(j, all);
    for (uint32_t split = 0; split < f->splits; split++) {
        state s;
        start(j, &s);
        const int64_t from = tiles * split / f->splits, to = tiles * (split + 1) / f->splits;
        for (int64_t i = from; i < to; i++) {
            const int64_t first = (f->backward ? to - 1 - (i - from) : i) * f->tile;
            walk_tile(j, &s, first, (uint32_t)(end - first < f->tile ? end - first : f->tile));
        }
        if (s.l == 0 && is(j, KVG_FLASH_UNWRITTEN_SPLIT)) s.m = s.l = s.o[0] = NAN; /* poisoned scratch */
        if (is(j, KVG_FLASH_SINK_PER_SPLIT)) add_sink(j, &s);
        merge(j, all, &s);
        if (s.l > 0) *lse = lse_of(j, &s);
        if (s.l > 0) last = s;
    }
    if (is(j, KVG_FLASH_SPLIT_WINS)) *all = last;
}

static void load_query(job *j, const kvg_tensor *q)
{
    const kvg_arithmetic *class = &j->f->class;
    const uint32_t D = j->p->head_dim;
    const size_t at = ((size_t)j->row * j->p->attention.query_heads + j->head) * D;
    float amax = 0, unit = 1;
    kvg_reference_load(q->dtype, (const uint8_t *)q->data + at * kvg_dtype_bytes(q->dtype), D, j->q);
    for (uint32_t i = 0; i < D; i++) amax = fabsf(j->q[i]) > amax ? fabsf(j->q[i]) : amax;
    if (amax > 0 && class->q == KVG_OPERAND_E4M3) unit = class->q_unit > 0 ? class->q_unit : amax / 448;
    if (amax > 0 && class->q == KVG_OPERAND_F16 && j->p->dtype != KVG_DTYPE_F16) unit = exp2f(floorf(log2f(amax)));
    for (uint32_t i = 0; i < D; i++) j->q[i] = kvg_flash_operand(class->q, j->q[i] / unit);
    j->q_scale = unit;
}

/* The largest score and the sum of weights, in a pass of their own. */
static void normalise_first(job *j)
{
    j->p_max = j->sink * LOG2E;
    for (int pass = 0; pass < 2; pass++) {
        j->p_total = weight(j, j->sink * LOG2E, j->p_max);
        for (int64_t k = 0; k < j->length; k++) {
            bool seen;
            const float s = score(j, k, visible(j, k) ? sum_of(j, k) : 0, &seen);
            if (seen && pass == 0 && s > j->p_max) j->p_max = s;
            if (seen && pass == 1) j->p_total += exp2f(s - j->p_max);
        }
    }
}

/* out and *lse; false: the kernel does not write them. */
static bool run_job(job *j, const kvg_tensor *q, float *out, float *lse)
{
    const uint32_t Dv = j->rows->dim[KVG_V];
    const uint32_t D = j->p->head_dim, scaled_dim = Dv != D && is(j, KVG_FLASH_SCALE_OF_V_DIM) ? Dv : D;
    if (j->sequence > 0 && is(j, KVG_FLASH_FIRST_SEQUENCE_ONLY)) return false;
    j->scale = j->p->attention.scale > 0 ? j->p->attention.scale : 1 / sqrtf((float)scaled_dim);
    load_query(j, q);
    if (is(j, KVG_FLASH_P_NORMALISED)) normalise_first(j);

    state s;
    float split_lse = -INFINITY, ignored;
    walk_splits(j, &s, &split_lse);
    const float before = s.l;
    if (before == 0 && is(j, KVG_FLASH_EMPTY_NOT_WRITTEN)) return false;
    if (!is(j, KVG_FLASH_SINK_PER_SPLIT)) add_sink(j, &s);
    *lse = is(j, KVG_FLASH_LSE_OF_SPLIT) ? split_lse : lse_of(j, &s);
    if (is(j, KVG_FLASH_SINK_IN_LSE_ALONE) && before > 0) walk_splits(j, &s, &ignored);
    if (is(j, KVG_FLASH_SUM_TWICE)) s.l *= 2;
    for (uint32_t c = 0; c < Dv; c++) {
        const float mean = s.l == 0 || is(j, KVG_FLASH_P_NORMALISED) ? s.o[c] : s.o[c] / s.l;
        out[c] = mean * j->rows->outside * per_unit(j);
    }
    return true;
}

/* --- the whole problem --- */

typedef struct work {
    const kvg_problem *p;
    const kvg_flash *how;
    const kvg_tensor *q;
    const float *sinks; /* NULL: none */
    kvg_tensor *out, *lse;
} work;

/* The `index`-th query head that reads a KV head. */
static uint32_t query_head(const work *w, uint32_t kv_head, uint32_t index)
{
    const bool interleaved = kvg_flash_has(w->how, KVG_FLASH_GROUP_INTERLEAVED);
    return interleaved ? index * w->p->kv_heads + kv_head
                       : kv_head * (w->p->attention.query_heads / w->p->kv_heads) + index;
}

/* The answer for a query head is wanted, whatever KV head the kernel reads for it. */
static bool is_wanted(const work *w, uint32_t row, uint32_t head)
{
    return !w->how->wanted || w->how->wanted[(size_t)row * w->p->attention.query_heads + head];
}

static bool any_wanted(const work *w, uint32_t kv_head, uint32_t first, uint32_t count)
{
    const uint32_t group = w->p->attention.query_heads / w->p->kv_heads;
    for (uint32_t i = 0; i < count * group; i++) {
        if (is_wanted(w, first + i / group, query_head(w, kv_head, i % group))) return true;
    }
    return false;
}

/* The query rows first .. first + count of a sequence under one KV head, and what they met. */
static bool run_rows(const work *w, const kvg_flash_rows *rows, uint32_t sequence, uint32_t kv_head, uint32_t first,
                     uint32_t count, kvg_flash_set *met)
{
    const uint32_t heads = w->p->attention.query_heads, group = heads / w->p->kv_heads, Dv = rows->dim[KVG_V];
    const bool earlier = rows->length != count && !kvg_flash_meets(w->how, KVG_FLASH_POSITION_FROM_0, met);
    kvg_flash_set all = (kvg_flash_set)1 << KVG_FLASH_GROUP_INTERLEAVED; /* query_head asks for it */
    bool failed = false;
#pragma omp parallel for schedule(dynamic) reduction(|| : failed) reduction(| : all)
    for (uint32_t i = 0; i < count * group; i++) {
        if (!is_wanted(w, first + i / group, query_head(w, kv_head, i % group))) continue;
        job *j = malloc(sizeof *j);
        if (!j) {
            failed = true;
            continue;
        }
        j->p = w->p;
        j->f = w->how;
        j->rows = rows;
        j->row = first + i / group;
        j->head = query_head(w, kv_head, i % group);
        j->sequence = sequence;
        j->length = rows->length;
        j->position = (earlier ? rows->length - count : 0) + i / group;
        j->met = &all;
        j->sink = w->sinks ? w->sinks[j->head] : -INFINITY;
        const size_t at = (size_t)j->row * heads + j->head;
        float out[KVG_MAX_HEAD_DIM];
        if (run_job(j, w->q, out, (float *)w->lse->data + at))
            kvg_reference_store(w->p->dtype, out, Dv,
                                (uint8_t *)w->out->data + at * Dv * kvg_dtype_bytes(w->p->dtype));
        free(j);
    }
    *met |= all;
    return !failed;
}

void kvg_flash_init(const kvg_problem *p, kvg_flash_defect defect, kvg_flash *out)
{
    *out = (kvg_flash){.tile = 4, .splits = 5, .defect = defect};
    kvg_arithmetic *class = &out->class;
    kvg_arithmetic_init(p, class);
    class->fraction_bits = 0;
    class->q = class->k = class->p = class->v = KVG_OPERAND_F32;
    class->k_unit = class->v_unit = 0;
    if (defect == KVG_FLASH_P_NORMALISED) class->p = KVG_OPERAND_E4M3;
}

bool kvg_flash_depends_on_tiles(kvg_flash_defect defect)
{
    switch (defect) {
    case KVG_FLASH_LAST_TILE_LOST:
    case KVG_FLASH_SINK_PER_SPLIT:
    case KVG_FLASH_NO_RESCALE:
    case KVG_FLASH_LSE_OF_SPLIT:
    case KVG_FLASH_SPLIT_WINS:
    case KVG_FLASH_NO_MERGE_RESCALE:
    case KVG_FLASH_NO_MERGE_SUM:
    case KVG_FLASH_MERGE_NATURAL: return true;
    default: return false;
    }
}

bool kvg_flash_only_rounds(kvg_flash_defect defect)
{
    return defect == KVG_FLASH_P_NORMALISED;
}

/* The rows of a sequence and KV head: those that are kept, or `once`, which are kept if they are right and there is
 * room. */
static kvg_status find_rows(const work *w, const kvg_tensor *in, uint32_t sequence, uint32_t kv_head, int64_t earlier,
                            kvg_flash_rows *once, const kvg_flash_rows **out)
{
    kvg_flash_kept *kept = kvg_flash_rows_are_right(w->how) ? w->how->kept : NULL;
    kvg_flash_rows *of_part = kept ? &kept->rows[(size_t)sequence * w->p->kv_heads + kv_head] : NULL;
    *out = once;
    if (of_part && of_part->length >= 0) {
        *out = of_part;
        return KVG_OK;
    }
    const kvg_status s = kvg_flash_rows_load(w->p, in, w->how, sequence, kv_head, earlier, once);
    const int64_t numbers = once->count * (once->dim[KVG_K] + once->dim[KVG_V]);
    if (s || !of_part || numbers > kept->room) return s;
    kept->room -= numbers;
    *of_part = *once;
    *once = (kvg_flash_rows){0};
    *out = of_part;
    return KVG_OK;
}

kvg_status kvg_flash_run(const kvg_problem *p, const kvg_tensor *in, const kvg_flash *how, kvg_tensor *out)
{
    const kvg_op_info *op = kvg_op_get(KVG_OP_DECODE);
    const int32_t *lengths = in[kvg_roles_index(op->inputs, KVG_ROLE_LENGTHS, KVG_K)].data;
    const int32_t *query_lengths = in[kvg_roles_index(op->inputs, KVG_ROLE_QUERY_LENGTHS, KVG_K)].data;
    const kvg_tensor *sinks = &in[kvg_roles_index(op->inputs, KVG_ROLE_SINKS, KVG_K)];
    const work w = {
        .p = p,
        .how = how,
        .q = &in[kvg_roles_index(op->inputs, KVG_ROLE_Q, KVG_K)],
        .sinks = p->attention.sinks ? sinks->data : NULL,
        .out = &out[kvg_roles_index(op->outputs, KVG_ROLE_OUT, KVG_K)],
        .lse = &out[kvg_roles_index(op->outputs, KVG_ROLE_LSE, KVG_K)],
    };
    uint32_t first = 0;
    kvg_status s = KVG_OK;
    for (uint32_t sequence = 0; sequence < p->paging.sequences && !s; sequence++) {
        const uint32_t count = (uint32_t)query_lengths[sequence];
        for (uint32_t kv_head = 0; kv_head < p->kv_heads && count && !s; kv_head++) {
            if (!any_wanted(&w, kv_head, first, count)) continue;
            kvg_flash_rows once = {0};
            const kvg_flash_rows *rows;
            s = find_rows(&w, in, sequence, kv_head, (int64_t)lengths[sequence] - count, &once, &rows);
            kvg_flash_set met = s ? 0 : rows->met;
            if (!s && !run_rows(&w, rows, sequence, kv_head, first, count, &met))
                s = kvg_fail(KVG_ERR_MEMORY, "no memory for a query head");
            if (how->kept && how->defect == KVG_FLASH_RIGHT)
                how->kept->met[(size_t)sequence * p->kv_heads + kv_head] |= met;
            kvg_flash_rows_free(&once);
        }
        first += count;
    }
    return s;
}
