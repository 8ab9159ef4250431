#include "second/slow_leaf.h"

#include "second/slow_exp2.h"
#include "second/slow_mma.h"

enum { MOST_OF_TILE = 224 + KVG_MMA_K, FA3_BLOCK = 128 /* rows of a KV head and a sequence */ };
static const uint32_t EMPTY_M = 0xFF7FFFFF /* -0x1.fffffep+127 */;

static bool wrong(const slow_head *h, slow_decode_fault fault)
{
    return slow_planted(h->fault == fault);
}

/* --- section 7 --- */

/* A tile as one row has it. */
typedef struct tile {
    size_t size;
    int64_t key[MOST_OF_TILE]; /* -1: not seen */
    slow_number z[MOST_OF_TILE], p[MOST_OF_TILE];
} tile;

/* The key at a position, whoever sees it; negative: none. */
static int64_t stored_key(const slow_head *h, int64_t position)
{
    const int64_t n = position - h->stored->first;
    return n < (int64_t)h->stored->keys ? n : -1;
}

int64_t slow_seen_key(const slow_query *r, int64_t position)
{
    const slow_stored *s = r->head->stored;
    const int64_t n = stored_key(r->head, position);
    int64_t viewpoint = r->position;
    if (n < 0) return -1;
    /* One step behind its last key, the window shows one more. */
    if (wrong(r->head, SLOW_DECODE_WINDOW_WIDER) && position < viewpoint) viewpoint--;
    if (wrong(r->head, SLOW_DECODE_WINDOW_NARROWER) && position <= viewpoint) viewpoint++;
    return slow_sees(s, viewpoint, (size_t)n) ? n : -1;
}

static bool load_tile(const slow_query *r, int64_t first, tile *t)
{
    bool any = false;
    for (size_t i = 0; i < t->size; i++) {
        t->key[i] = slow_seen_key(r, first + (int64_t)i);
        t->z[i] = slow_infinity(true);
        if (t->key[i] >= 0) {
            t->z[i] = slow_score_of(r, (size_t)t->key[i]);
            any = true;
        } else if (wrong(r->head, SLOW_DECODE_CAP_HIDDEN) && slow_problem_of(r->head)->attention.softcap > 0) {
            t->z[i] = slow_capped_score(r, slow_infinity(true));
        }
    }
    return any;
}

static slow_number top_of(const slow_query *r, int64_t first, const tile *t)
{
    slow_number top = slow_infinity(true);
    for (size_t i = 0; i < t->size; i++) {
        const int64_t stored = stored_key(r->head, first + (int64_t)i);
        const bool shown = wrong(r->head, SLOW_DECODE_HIDDEN_IN_MAX) && t->key[i] < 0 && stored >= 0;
        const slow_number z = shown ? slow_score_of(r, (size_t)stored) : t->z[i];
        if (z.kind == SLOW_NAN) {
            if (!r->head->own || wrong(r->head, SLOW_DECODE_NAN_HIDDEN_BY_MAX)) continue;
            return z;
        }
        if (slow_compare(z, top) > 0) top = z;
    }
    return top;
}

/* The exponent of w is one fma, too, and w is formed at every tile. */
static bool follows_by_fma(const slow_head *h)
{
    return h->profile->contract->exponent == KVG_EXPONENT_FUSED_ALL;
}

/* w is formed at every tile from the exponent of FlashAttention-3, but 0 where nothing was seen. */
static bool follows_each(const slow_head *h)
{
    return h->profile->contract->exponent == KVG_EXPONENT_FUSED_EACH;
}

/* m as exponents have it under docs/spec/other-kernels.md section 4. */
static slow_number subtracted(const slow_query *r, slow_number m)
{
    const bool empty = slow_subtracts(r->head) && slow_is_lowest(m) && !wrong(r->head, SLOW_DECODE_NO_TOP_KEPT);
    return empty ? slow_f32_of(EMPTY_M) : m;
}

bool slow_weights_are_lifted(const slow_head *h)
{
    return h->operands[KVG_V].type == &slow_e4m3;
}

slow_number slow_minus_reference(const slow_query *r, slow_number m)
{
    const bool clamped = follows_by_fma(r->head) || follows_each(r->head);
    const bool kept = !wrong(r->head, SLOW_DECODE_NO_TOP_KEPT);
    const bool lifted = slow_weights_are_lifted(r->head) && !wrong(r->head, SLOW_DECODE_WEIGHTS_UNLIFTED);
    if (!clamped && slow_is_lowest(m) && kept) m = slow_zero(false);
    slow_number reference = slow_f32_multiply(m, r->c);
    if (lifted) reference = slow_f32_fma(m, r->c, slow_scaled(-SLOW_LIFT, 0));
    if (clamped && slow_is_lowest(reference) && kept) reference = slow_f32_of(EMPTY_M);
    reference.negative = !reference.negative;
    return reference;
}

/* w: what a raised m leaves of the sums. */
static slow_number shrinking(const slow_query *r, slow_number m, slow_number top)
{
    const slow_head *h = r->head;
    const bool lost = top.kind == SLOW_NAN || (top.kind == SLOW_INF && !top.negative);
    if (h->own && lost) return slow_nan();
    if (follows_each(h) && slow_is_lowest(m) && !wrong(h, SLOW_DECODE_NO_TOP_KEPT)) return slow_zero(false);
    const slow_number x = slow_f32_subtract(m, subtracted(r, top));
    if (h->own || slow_subtracts(h)) return slow_exp2_of(h, x);
    const bool fused = follows_by_fma(h) != wrong(h, SLOW_DECODE_SHRINKING_OTHER);
    return slow_exp2_of(h, fused ? slow_f32_fma(m, r->c, slow_minus_reference(r, top)) : slow_f32_multiply(x, r->c));
}

/* The sums follow m as the first position of a tile joins them. */
static bool follows_late(const slow_head *h)
{
    return h->profile->contract->weights == KVG_WEIGHTS_JOINED;
}

/* Returns w. Lanes take it with their first weight, and what follows late does with the first position. */
static slow_number rescale(const slow_query *r, slow_number top, slow_state *s)
{
    const slow_number w = shrinking(r, s->m, top);
    s->m = top;
    if (follows_late(r->head)) return w;
    s->l = slow_f32_multiply(s->l, w);
    for (size_t d = 0; d < r->head->stored->request->v_dim; d++) s->o[d] = slow_f32_multiply(s->o[d], w);
    return w;
}

/* w is formed at every tile. */
static bool follows_at_each_tile(const slow_head *h)
{
    return follows_by_fma(h) || follows_each(h) || slow_subtracts(h);
}

static bool must_rescale(const slow_query *r, slow_number top, slow_number m)
{
    const kvg_contract_info *contract = r->head->profile->contract;
    slow_number lag = slow_f32_subtract(top, m);
    if (follows_at_each_tile(r->head)) return true;
    if (lag.kind == SLOW_NAN) return r->head->own; /* of two equal infinities none is larger */
    if (!r->head->own) lag = slow_multiply(lag, r->c);
    if (wrong(r->head, SLOW_DECODE_RESCALE_ALWAYS)) return slow_compare(lag, slow_zero(false)) > 0;
    const bool row_scales = slow_has_row_scale(r->head->stored->request->sides[KVG_V].codec->format);
    const bool at_once = row_scales && r->head->one_by_one == wrong(r->head, SLOW_DECODE_RESCALE_BY_FORMAT);
    const int rise = wrong(r->head, SLOW_DECODE_RESCALE_LAZILY) ? 8 : (int)contract->rise;
    const int limit = (at_once ? 0 : rise) + (wrong(r->head, SLOW_DECODE_RESCALE_LATE) ? 1 : 0);
    const int order = slow_compare(lag, limit ? slow_scaled(limit, 0) : slow_zero(false));
    return order > 0 || (order == 0 && wrong(r->head, SLOW_DECODE_RESCALE_AT_LIMIT));
}

/* Whether this row's m would make any head of the group rescale. */
static bool group_must_rescale(const slow_query *r, int64_t first, size_t size, slow_number m)
{
    const slow_stored *stored = r->head->stored;
    const size_t query = stored->first_query + (size_t)(r->position - slow_position(stored, 0));
    slow_query other = *r;
    tile t = {.size = size};
    for (size_t g = 0; g < stored->request->group; g++) {
        other.query_head = stored->kv_head * stored->request->group + g;
        slow_query_load(&other, query);
        if (load_tile(&other, first, &t) && must_rescale(&other, top_of(&other, first, &t), m)) return true;
    }
    return false;
}

/* p, with the scale of V's row where it is not part of the operands. */
static slow_number scaled_weight(const slow_query *r, const tile *t, size_t i, slow_number p)
{
    const slow_operands *v = &r->head->operands[KVG_V];
    if (t->key[i] < 0 || !v->has_row_scale) return p;
    return slow_f32_multiply(p, slow_row_scale(v, &r->head->stored->rows[KVG_V][t->key[i]]));
}

/* The nearest number of a type, or the next one toward zero if that is what is wrong. */
static uint16_t code_of_weight(const slow_query *r, slow_number p)
{
    const slow_layout *type = r->head->operands[KVG_V].type;
    if (wrong(r->head, SLOW_DECODE_WEIGHTS_BY_BF16)) p = slow_round(&slow_bf16, p);
    const uint16_t code = (uint16_t)slow_operand_code(type, p);
    if (!wrong(r->head, SLOW_DECODE_WEIGHTS_TRUNCATED) || p.kind != SLOW_FINITE) return code;
    return slow_compare_magnitudes(slow_decode(type, code), p) > 0 ? code - 1 : code;
}

/* P' of a position: 0 where the row sees nothing. */
static uint16_t weight_of(const slow_query *r, const tile *t, size_t i)
{
    const slow_layout *type = r->head->operands[KVG_V].type;
    const slow_number p = wrong(r->head, SLOW_DECODE_WEIGHTS_TWICE) ? slow_round(type, t->p[i]) : t->p[i];
    if (t->key[i] < 0 && !r->head->own) return 0;
    return code_of_weight(r, scaled_weight(r, t, i, p));
}

/* The row of V at a position of the tile, or NULL: +0 everywhere. */
static const uint32_t *values_at(const slow_query *r, const tile *t, int64_t first, size_t i)
{
    const slow_head *h = r->head;
    const bool shown = !h->own != wrong(h, SLOW_DECODE_UNSEEN_VALUES);
    const int64_t position = first + (int64_t)i, window = slow_problem_of(h)->attention.window;
    const bool others = h->own || window == 0 || position > slow_position(h->stored, 0) - window; /* see it */
    const int64_t key = shown && others ? stored_key(h, position) : t->key[i];
    return key < 0 ? NULL : h->v + (size_t)key * h->stored->request->v_dim;
}

/* l takes the weights of a fused sum: P, which are rounded, as if the values were 1. */
static void add_rounded_weights(const slow_head *h, const tile *t, size_t half, const uint16_t *p, slow_state *s)
{
    const slow_layout *type = h->operands[KVG_V].type;
    uint16_t ones[SLOW_MOST_TERMS];
    for (size_t k = 0; k < slow_sum_terms(h, type); k++) {
        ones[k] = (uint16_t)slow_operand_code(type, slow_scaled(1, 0));
        if (wrong(h, SLOW_DECODE_WEIGHTS_UNROUNDED)) s->l = slow_f32_add(s->l, t->p[(half + k) % t->size]);
    }
    if (!wrong(h, SLOW_DECODE_WEIGHTS_UNROUNDED)) s->l = slow_sum(h, type, ones, p, s->l);
}

/* o takes the positions of a fused sum, from `half` on, and l if it sums weights like values. */
static void add_half(const slow_query *r, const tile *t, int64_t first, size_t half, slow_state *s)
{
    const slow_head *h = r->head;
    const slow_layout *type = h->operands[KVG_V].type;
    const size_t terms = slow_sum_terms(h, type);
    uint16_t p[SLOW_MOST_TERMS], scaled[SLOW_MOST_TERMS], v[SLOW_MOST_TERMS];
    const uint32_t *values[SLOW_MOST_TERMS];
    if (wrong(h, SLOW_DECODE_POSITIONS_SHIFTED)) {
        for (size_t i = 0; i < t->size && t->key[i] < 0; i++) half++;
    }
    for (size_t k = 0; k < terms; k++) {
        const size_t i = (half + k) % t->size;
        p[k] = code_of_weight(r, t->p[i]);
        scaled[k] = weight_of(r, t, i);
        values[k] = values_at(r, t, first, i);
    }
    if (h->profile->contract->weights == KVG_WEIGHTS_AS_VALUES) {
        add_rounded_weights(h, t, half, wrong(h, SLOW_DECODE_WEIGHTS_SCALED) ? scaled : p, s);
    }
    for (size_t d = 0; d < h->stored->request->v_dim; d++) {
        for (size_t k = 0; k < terms; k++) v[k] = (uint16_t)(values[k] ? values[k][d] : 0);
        s->o[d] = slow_sum(h, type, v, scaled, s->o[d]);
    }
}

/* docs/spec/decode-contract.md and docs/spec/other-kernels.md: 16 positions after 16 positions, or 32 after 32. */
static void add_halves(const slow_query *r, const tile *t, int64_t first, slow_state *s)
{
    const bool swapped = wrong(r->head, SLOW_DECODE_HALVES_SWAPPED);
    const size_t terms = slow_sum_terms(r->head, r->head->operands[KVG_V].type);
    for (size_t half = 0; half < t->size; half += terms) {
        add_half(r, t, first, swapped ? t->size - terms - half : half, s);
    }
}

/* docs/spec/other-kernels.md section 1.3, step 4. */
static void add_to_lanes(const slow_query *r, const tile *t, slow_number w, slow_state *s)
{
    const slow_head *h = r->head;
    const slow_layout *type = h->operands[KVG_V].type;
    bool joined[SLOW_LANES] = {false};
    for (size_t i = 0; i < t->size; i++) {
        size_t lane = i % (2 * SLOW_LANES) / 2;
        if (wrong(h, SLOW_DECODE_ONE_LANE)) lane = 0;
        if (wrong(h, SLOW_DECODE_LANES_OF_ONE)) lane = i % SLOW_LANES;
        slow_number *l = &s->lanes[lane];
        slow_number p = t->p[i];
        if (wrong(h, SLOW_DECODE_WEIGHTS_ROUNDED)) p = slow_decode(type, slow_operand_code(type, p));
        *l = joined[lane] ? slow_f32_add(*l, p) : slow_multiply_add(h, SLOW_DECODE_FIRST_UNFUSED, *l, w, p);
        joined[lane] = true;
    }
}

/* docs/spec/other-kernels.md section 1.4, step 1. */
static slow_number sum_of_lanes(const slow_head *h, const slow_number *l)
{
    const bool in_order = wrong(h, SLOW_DECODE_LANES_IN_ORDER);
    const slow_number even = slow_f32_add(l[0], l[in_order ? 1 : 2]), odd = slow_f32_add(l[in_order ? 2 : 1], l[3]);
    return slow_f32_add(even, odd);
}

/* o takes p v of a position, after w where the sums follow late. */
static slow_number with_value(const slow_head *h, slow_number o, const slow_number *w, slow_number p, slow_number v)
{
    if (!w) return slow_multiply_add(h, SLOW_DECODE_VALUES_UNFUSED, p, v, o);
    if (wrong(h, SLOW_DECODE_FIRST_VALUE_FUSED)) return slow_f32_fma(p, v, slow_f32_multiply(o, *w));
    return slow_multiply_add(h, SLOW_DECODE_VALUES_UNFUSED, o, *w, slow_f32_multiply(p, v));
}

/* docs/spec/simt-contract.md section 3, step 3, and docs/spec/other-kernels.md section 4: position by position. */
static void add_positions(const slow_query *r, const tile *t, int64_t first, slow_number w, slow_state *s)
{
    const slow_head *h = r->head;
    const slow_layout *narrow = slow_layout_of(slow_problem_of(h)->dtype);
    const size_t together = wrong(h, SLOW_DECODE_L_BY_PAIRS) ? 2 : wrong(h, SLOW_DECODE_L_BY_TILE) ? t->size : 1;
    slow_number weights = slow_zero(false); /* that l has not taken yet */
    for (size_t n = 0; n < t->size; n++) {
        const size_t i = wrong(h, SLOW_DECODE_POSITIONS_REVERSED) ? t->size - 1 - n : n;
        const uint32_t *v = values_at(r, t, first, i);
        const slow_number *late = n == 0 && follows_late(h) ? &w : NULL;
        slow_number p = t->p[i];
        if (wrong(h, SLOW_DECODE_WEIGHTS_IN_T)) p = slow_round(narrow, p);
        weights = slow_f32_add(weights, p); /* p is +0 where the row sees nothing */
        if ((n + 1) % together == 0) {
            s->l = late ? slow_multiply_add(h, SLOW_DECODE_FIRST_UNFUSED, s->l, w, weights)
                        : slow_f32_add(s->l, weights);
            weights = slow_zero(false);
        }
        if (wrong(h, SLOW_DECODE_WEIGHTS_NARROW_IN_O)) p = slow_round(narrow, p);
        p = scaled_weight(r, t, i, p);
        if (wrong(h, SLOW_DECODE_WEIGHTLESS_SKIPPED) && slow_is_zero(p)) continue;
        if (h->own && !v) continue;
        for (size_t d = 0; d < h->stored->request->v_dim; d++) {
            s->o[d] = with_value(h, s->o[d], late, p, v ? slow_f32_of(v[d]) : slow_zero(false));
        }
    }
}

/* The exponent of a position's weight. */
static slow_number exponent_of(const slow_query *r, const tile *t, size_t i, slow_number m)
{
    const slow_head *h = r->head;
    if (!h->own && !slow_subtracts(h)) {
        return slow_multiply_add(h, SLOW_DECODE_EXPONENT_UNFUSED, t->z[i], r->c, slow_minus_reference(r, m));
    }
    if (wrong(h, SLOW_DECODE_EXPONENT_FUSED) && t->key[i] >= 0) {
        m.negative = !m.negative;
        return slow_f32_fma(slow_scaled_dot(r, (size_t)t->key[i]), r->c, m);
    }
    return slow_f32_subtract(t->z[i], subtracted(r, m));
}

/* docs/spec/other-kernels.md sections 1.3 and 2.2: a row walks tiles, too, that only others of its block see. */
static bool walks_unseen_tile(const slow_head *h, int64_t first, size_t size)
{
    const int64_t window = slow_problem_of(h)->attention.window;
    if (h->own || wrong(h, SLOW_DECODE_UNSEEN_TILE_SKIPPED)) return false;
    if (h->tiling.rows > 0) return true;
    const bool others = h->stored->queries * h->stored->request->group <= FA3_BLOCK;
    return others && (window == 0 || first + (int64_t)size > slow_position(h->stored, 0) - window + 1);
}

static void add_tile(const slow_query *r, int64_t first, size_t size, slow_state *s)
{
    tile t = {.size = size};
    slow_number w = slow_scaled(1, 0);
    const bool seen = load_tile(r, first, &t);
    if (!seen && !walks_unseen_tile(r->head, first, size)) return;
    slow_number top = top_of(r, first, &t);
    const bool start = s->absent && wrong(r->head, SLOW_DECODE_FIRST_NOT_RESCALED);
    if (start) s->m = slow_zero(false);
    if (seen) s->absent = false;
    if (follows_at_each_tile(r->head) && slow_compare(s->m, top) > 0) top = s->m;
    if (must_rescale(r, top, s->m)) {
        w = rescale(r, top, s);
    } else if (wrong(r->head, SLOW_DECODE_RESCALE_BY_GROUP) && slow_compare(top, s->m) > 0) {
        if (group_must_rescale(r, first, size, s->m)) w = rescale(r, top, s);
    }
    for (size_t i = 0; i < size; i++) t.p[i] = slow_exp2_of(r->head, exponent_of(r, &t, i, s->m));
    if (r->head->profile->contract->weights == KVG_WEIGHTS_BY_LANE) add_to_lanes(r, &t, w, s);
    if (r->head->one_by_one) {
        add_positions(r, &t, first, w, s);
    } else {
        add_halves(r, &t, first, s);
    }
}

void slow_state_clear(const slow_head *h, slow_state *s)
{
    s->m = h->own ? slow_f32_of(EMPTY_M) : slow_infinity(true);
    s->l = slow_zero(false);
    for (size_t j = 0; j < SLOW_LANES; j++) s->lanes[j] = slow_zero(false);
    for (size_t d = 0; d < KVG_MAX_HEAD_DIM; d++) s->o[d] = slow_zero(false);
    s->absent = true;
}

int64_t slow_leaf_size(const slow_head *h)
{
    const int64_t size = h->profile->contract->leaf, end = h->stored->first + (int64_t)h->stored->keys;
    if (size == 0) return (end + h->tiling.tile - 1) / h->tiling.tile * h->tiling.tile;
    return wrong(h, SLOW_DECODE_LEAF_HALVED) ? size / 2 : wrong(h, SLOW_DECODE_LEAF_DOUBLED) ? size * 2 : size;
}

void slow_tiles_run(const slow_query *r, int64_t first, int64_t step, int64_t tiles, slow_state *s)
{
    const slow_head *h = r->head;
    const int64_t unstored = h->stored->first > first ? (h->stored->first - first) / step : 0; /* tiles without keys */
    const bool last_down = h->profile->contract->order == KVG_TILES_LAST_DOWN;
    const bool down = last_down != wrong(h, SLOW_DECODE_TILES_TURNED);
    slow_state_clear(h, s);
    for (int64_t i = unstored; i < tiles; i++) {
        add_tile(r, first + (down ? tiles - 1 - (i - unstored) : i) * step, h->tiling.tile, s);
    }
    if (h->profile->contract->weights == KVG_WEIGHTS_BY_LANE) s->l = sum_of_lanes(h, s->lanes);
}

void slow_leaf_run(const slow_query *r, int64_t index, slow_state *s)
{
    const int64_t size = slow_leaf_size(r->head), step = r->head->tiling.tile;
    slow_tiles_run(r, r->origin + index * size, step, size / step, s);
}
