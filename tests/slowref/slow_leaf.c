#include "tests/slowref/slow_leaf.h"

#include "tests/slowref/slow_decode.h"
#include "tests/slowref/slow_exp2.h"
#include "tests/slowref/slow_mma.h"
#include "tests/slowref/slow_operand.h"

enum { SUM = KVG_MMA_K, MOST_OF_TILE = 64 };
static const uint32_t LOG2_E = 0x3FB8AA3B /* 0x1.715476p+0 */, EMPTY_M = 0xFF7FFFFF /* -0x1.fffffep+127 */;

static bool wrong(const slow_head *h, slow_decode_fault fault)
{
    return slow_decode_wrong(h->faults, fault);
}

static const kvg_problem *problem_of(const slow_head *h)
{
    return h->stored->request->problem;
}

/* sum16 */
static slow_number sum16(const slow_head *h, kvg_dtype type, const uint16_t *a, const uint16_t *b, slow_number c)
{
    return slow_f32_of(slow_mma_output(h->profile, type, 0, a, b, (uint32_t)slow_encode(&slow_f32, c)));
}

/* --- section 3 --- */

/* RN(sqrt(D)): the integer square root of D * 2^50, with a last bit for what is below it. */
static slow_number root_of(uint32_t dim)
{
    const uint64_t square = (uint64_t)dim << 50;
    uint64_t root = 0;
    for (uint64_t bit = (uint64_t)1 << 31; bit; bit >>= 1) {
        if ((root | bit) * (root | bit) <= square) root |= bit;
    }
    return slow_scaled((int64_t)(2 * root + (root * root != square)), -26);
}

slow_number slow_score_scale(const slow_head *h)
{
    const kvg_problem *p = problem_of(h);
    const slow_side *k = &h->stored->request->sides[KVG_K];
    const int base = slow_operand_base(k->codec->format, h->faults);
    slow_number scale;
    slow_load(KVG_DTYPE_F32, (const uint8_t *)&p->attention.scale, 1, &scale);
    if (slow_is_zero(scale)) {
        const slow_number root = root_of(p->head_dim);
        scale = slow_f32_divide(slow_scaled(1, 0), wrong(h, SLOW_DECODE_SCALE_ONCE) ? root : slow_rn(root));
    }
    if (wrong(h, SLOW_DECODE_SCALE_G_FIRST)) {
        scale = slow_f32_multiply(slow_f32_multiply(scale, k->row.g), slow_f32_of(LOG2_E));
    } else {
        scale = slow_f32_multiply(slow_f32_multiply(scale, slow_f32_of(LOG2_E)), k->row.g);
    }
    return slow_f32_multiply(scale, slow_scaled(1, base));
}

/* The exponent of the power of two that q of type bf16 is divided by to become f16. */
static int exponent_of_q(const slow_head *h, const slow_number *q)
{
    const size_t dim = problem_of(h)->head_dim;
    for (size_t d = 0; d < dim; d++) {
        if (q[d].kind != SLOW_FINITE) return 0;
    }
    const slow_number amax = slow_amax(q, dim);
    if (slow_is_zero(amax) || wrong(h, SLOW_DECODE_Q_UNSCALED)) return 0;
    int e = amax.exponent + 63 - __builtin_clzll(amax.significand);
    if (e < -126 && !wrong(h, SLOW_DECODE_Q_SUBNORMAL_SCALED)) return 0;
    if (wrong(h, SLOW_DECODE_Q_EXPONENT_UP)) e++;
    return e > 126 ? 126 : e;
}

void slow_query_load(slow_query *r, size_t query)
{
    const slow_head *h = r->head;
    const kvg_problem *p = problem_of(h);
    slow_number q[KVG_MAX_HEAD_DIM], two = slow_scaled(2, 0), cap;
    slow_load_q(h->stored->request, query, r->query_head, q);
    const int e = p->dtype == KVG_DTYPE_BF16 && h->type[KVG_K] == KVG_DTYPE_F16 ? exponent_of_q(h, q) : 0;
    for (size_t d = 0; d < p->head_dim; d++) {
        const slow_number scaled = e ? slow_f32_multiply(q[d], slow_scaled(1, -e)) : q[d];
        r->q[d] = (uint16_t)slow_encode(slow_layout_of(h->type[KVG_K]), scaled);
    }
    r->c = slow_f32_multiply(h->scale, slow_scaled(1, e));
    slow_load(KVG_DTYPE_F32, (const uint8_t *)&p->attention.softcap, 1, &cap);
    r->capped_c = wrong(h, SLOW_DECODE_CAP_RATIO_FIRST) ? slow_f32_multiply(r->c, slow_f32_divide(two, cap))
                                                        : slow_f32_divide(slow_f32_multiply(two, r->c), cap);
}

/* --- sections 4 and 5 --- */

static slow_number dot_of(const slow_query *r, size_t key)
{
    const slow_head *h = r->head;
    const size_t dim = problem_of(h)->head_dim;
    slow_number s = slow_zero(false);
    for (size_t first = 0; first < dim; first += SUM) {
        uint16_t a[SUM], b[SUM];
        for (size_t k = 0; k < SUM; k++) {
            a[k] = h->k[key * dim + h->dims[first + k]];
            b[k] = r->q[h->dims[first + k]];
        }
        s = sum16(h, h->type[KVG_K], a, b, s);
    }
    return s;
}

static slow_number capped(const slow_query *r, slow_number s)
{
    const slow_number one = slow_scaled(1, 0);
    slow_number u = slow_f32_multiply(s, r->capped_c), cap;
    if (u.kind == SLOW_NAN) return u;
    slow_load(KVG_DTYPE_F32, (const uint8_t *)&problem_of(r->head)->attention.softcap, 1, &cap);
    if (!wrong(r->head, SLOW_DECODE_CAP_NO_LOG2)) cap = slow_f32_multiply(cap, slow_f32_of(LOG2_E));
    u.negative = true;
    const slow_number t = slow_exp2(u, r->head->faults);
    slow_number z = slow_f32_multiply(slow_f32_divide(slow_f32_subtract(one, t), slow_f32_add(one, t)), cap);
    z.negative = s.negative;
    return z;
}

/* The score of a visible key before its scales: RN(S * r) or S. */
static slow_number scaled_dot(const slow_query *r, size_t key)
{
    const slow_stored *stored = r->head->stored;
    const slow_number s = dot_of(r, key);
    if (!slow_has_row_scale(stored->request->sides[KVG_K].codec->format)) return s;
    return slow_f32_multiply(s, slow_row_scale(&stored->rows[KVG_K][key]));
}

static slow_number score_of(const slow_query *r, size_t key)
{
    const slow_stored *stored = r->head->stored;
    if (stored->request->problem->attention.softcap > 0) return capped(r, scaled_dot(r, key));
    if (wrong(r->head, SLOW_DECODE_ROW_SCALE_WITH_C) &&
        slow_has_row_scale(stored->request->sides[KVG_K].codec->format)) {
        return slow_f32_multiply(dot_of(r, key), slow_f32_multiply(slow_row_scale(&stored->rows[KVG_K][key]), r->c));
    }
    return slow_f32_multiply(scaled_dot(r, key), r->c);
}

/* --- section 7 --- */

/* A tile as one row has it. */
typedef struct tile {
    size_t size;
    int64_t key[MOST_OF_TILE]; /* -1: not seen */
    slow_number z[MOST_OF_TILE], p[MOST_OF_TILE];
} tile;

int64_t slow_seen_key(const slow_query *r, int64_t position)
{
    const slow_stored *s = r->head->stored;
    const int64_t n = position - s->first;
    int64_t viewpoint = r->position;
    if (n < 0 || n >= (int64_t)s->keys) return -1;
    /* One step behind its last key, the window shows one more. */
    if (wrong(r->head, SLOW_DECODE_WINDOW_WIDER) && position < viewpoint) viewpoint--;
    return slow_sees(s, viewpoint, (size_t)n) ? n : -1;
}

static bool load_tile(const slow_query *r, int64_t first, tile *t)
{
    bool any = false;
    for (size_t i = 0; i < t->size; i++) {
        t->key[i] = slow_seen_key(r, first + (int64_t)i);
        t->z[i] = slow_infinity(true);
        if (t->key[i] >= 0) {
            t->z[i] = score_of(r, (size_t)t->key[i]);
            any = true;
        } else if (wrong(r->head, SLOW_DECODE_CAP_HIDDEN) && problem_of(r->head)->attention.softcap > 0) {
            t->z[i] = capped(r, slow_infinity(true));
        }
    }
    return any;
}

static slow_number top_of(const slow_query *r, const tile *t)
{
    slow_number top = slow_infinity(true);
    for (size_t i = 0; i < t->size; i++) {
        if (t->z[i].kind == SLOW_NAN) {
            if (wrong(r->head, SLOW_DECODE_NAN_HIDDEN_BY_MAX)) continue;
            return t->z[i];
        }
        if (slow_compare(t->z[i], top) > 0) top = t->z[i];
    }
    return top;
}

static void rescale(const slow_query *r, slow_number top, slow_state *s)
{
    const bool lost = top.kind == SLOW_NAN || (top.kind == SLOW_INF && !top.negative);
    const slow_number w = lost ? slow_nan() : slow_exp2(slow_f32_subtract(s->m, top), r->head->faults);
    s->l = slow_f32_multiply(s->l, w);
    for (size_t d = 0; d < r->head->stored->request->v_dim; d++) s->o[d] = slow_f32_multiply(s->o[d], w);
    s->m = top;
}

static bool must_rescale(const slow_query *r, slow_number top, slow_number m)
{
    const slow_number lag = slow_f32_subtract(top, m);
    if (lag.kind == SLOW_NAN) return true;
    if (wrong(r->head, SLOW_DECODE_RESCALE_ALWAYS)) return slow_compare(lag, slow_zero(false)) > 0;
    const bool row_scales = slow_has_row_scale(r->head->stored->request->sides[KVG_V].codec->format);
    const int limit = (row_scales ? 0 : 8) + (wrong(r->head, SLOW_DECODE_RESCALE_LATE) ? 1 : 0);
    const int order = slow_compare(lag, limit ? slow_scaled(limit, 0) : slow_zero(false));
    return order > 0 || (order == 0 && wrong(r->head, SLOW_DECODE_RESCALE_AT_LIMIT));
}

/* P' of a position: 0 where the row sees nothing. */
static uint16_t weight_of(const slow_query *r, const tile *t, size_t i)
{
    const slow_stored *stored = r->head->stored;
    const slow_layout *type = slow_layout_of(r->head->type[KVG_V]);
    slow_number p = t->p[i];
    if (t->key[i] >= 0 && slow_has_row_scale(stored->request->sides[KVG_V].codec->format)) {
        if (wrong(r->head, SLOW_DECODE_WEIGHTS_TWICE)) p = slow_round(type, p);
        p = slow_f32_multiply(p, slow_row_scale(&stored->rows[KVG_V][t->key[i]]));
    }
    return (uint16_t)slow_encode(type, p);
}

/* The row of V at a position of the tile, or NULL: +0 everywhere. */
static const uint16_t *values_at(const slow_query *r, const tile *t, int64_t first, size_t i)
{
    const slow_head *h = r->head;
    int64_t key = t->key[i];
    const int64_t there = first + (int64_t)i - h->stored->first;
    if (wrong(h, SLOW_DECODE_UNSEEN_VALUES) && there >= 0 && there < (int64_t)h->stored->keys) key = there;
    return key < 0 ? NULL : h->v + (size_t)key * h->stored->request->v_dim;
}

/* l and o take 16 positions of the tile, from `half` on. */
static void add_half(const slow_query *r, const tile *t, int64_t first, size_t half, slow_state *s)
{
    const slow_head *h = r->head;
    const slow_layout *type = slow_layout_of(h->type[KVG_V]);
    uint16_t ones[SUM], p[SUM], scaled[SUM], v[SUM];
    const uint16_t *values[SUM];
    for (size_t k = 0; k < SUM; k++) {
        ones[k] = (uint16_t)slow_encode(type, slow_scaled(1, 0));
        p[k] = (uint16_t)slow_encode(type, t->p[half + k]);
        scaled[k] = weight_of(r, t, half + k);
        values[k] = values_at(r, t, first, half + k);
        if (wrong(h, SLOW_DECODE_WEIGHTS_UNROUNDED)) s->l = slow_f32_add(s->l, t->p[half + k]);
    }
    if (!wrong(h, SLOW_DECODE_WEIGHTS_UNROUNDED)) {
        s->l = sum16(h, h->type[KVG_V], ones, wrong(h, SLOW_DECODE_WEIGHTS_SCALED) ? scaled : p, s->l);
    }
    for (size_t d = 0; d < h->stored->request->v_dim; d++) {
        for (size_t k = 0; k < SUM; k++) v[k] = values[k] ? values[k][d] : 0;
        s->o[d] = sum16(h, h->type[KVG_V], v, scaled, s->o[d]);
    }
}

static void add_tile(const slow_query *r, int64_t first, size_t size, slow_state *s)
{
    tile t = {.size = size};
    if (!load_tile(r, first, &t)) return;
    const slow_number top = top_of(r, &t);
    const bool start = s->absent && wrong(r->head, SLOW_DECODE_FIRST_NOT_RESCALED);
    if (start) s->m = slow_zero(false);
    s->absent = false;
    if (must_rescale(r, top, s->m)) rescale(r, top, s);
    for (size_t i = 0; i < size; i++) {
        slow_number x = slow_f32_subtract(t.z[i], s->m), minus_m = s->m;
        if (wrong(r->head, SLOW_DECODE_EXPONENT_FUSED) && t.key[i] >= 0) {
            minus_m.negative = !minus_m.negative;
            x = slow_f32_fma(scaled_dot(r, (size_t)t.key[i]), r->c, minus_m);
        }
        t.p[i] = slow_exp2(x, r->head->faults);
    }
    const bool swapped = wrong(r->head, SLOW_DECODE_HALVES_SWAPPED);
    for (size_t half = 0; half < size; half += SUM) {
        add_half(r, &t, first, swapped && size > SUM ? half ^ SUM : half, s);
    }
}

void slow_state_clear(slow_state *s)
{
    s->m = slow_f32_of(EMPTY_M);
    s->l = slow_zero(false);
    for (size_t d = 0; d < KVG_MAX_HEAD_DIM; d++) s->o[d] = slow_zero(false);
    s->absent = true;
}

int64_t slow_leaf_size(const slow_head *h)
{
    return wrong(h, SLOW_DECODE_LEAF_128) ? 128 : 256;
}

void slow_leaf_run(const slow_query *r, int64_t index, slow_state *s)
{
    const slow_head *h = r->head;
    const int64_t size = wrong(h, SLOW_DECODE_TILE_64) ? 64 : wrong(h, SLOW_DECODE_TILE_16) ? 16 : 32;
    const int64_t first = r->origin + index * slow_leaf_size(h), end = first + slow_leaf_size(h);
    slow_state_clear(s);
    for (int64_t at = first; at < end; at += size) add_tile(r, at, (size_t)size, s);
}
