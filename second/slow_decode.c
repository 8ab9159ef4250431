#include "second/slow_decode.h"

#include <stdlib.h>
#include <string.h>

#include "second/slow_attention.h"
#include "second/slow_exp2.h"
#include "second/slow_leaf.h"
#include "second/slow_special.h"

static const uint32_t LOG2_E = 0x3FB8AA3B /* 0x1.715476p+0 */, LN_2 = 0x3F317218 /* 0x1.62e43p-1 */;

static bool wrong(const slow_head *h, slow_decode_fault fault)
{
    return slow_planted(h->fault == fault);
}

/* max(a, b); a NaN is left out */
static slow_number larger(slow_number a, slow_number b)
{
    if (a.kind == SLOW_NAN || b.kind == SLOW_NAN) return a.kind == SLOW_NAN ? b : a;
    return slow_compare(a, b) >= 0 ? a : b;
}

/* 2^(a - b). Of two that are -Inf the difference is -Inf. */
static slow_number weight_between(const slow_head *h, slow_number a, slow_number b)
{
    return slow_exp2_of(h, slow_is_lowest(a) ? a : slow_f32_subtract(a, b));
}

/* --- section 9, the sink; docs/spec/other-kernels.md section 1.4, step 2, and section 2.4, step 3 --- */

static void add_sink(const slow_query *r, slow_state *s)
{
    const slow_head *h = r->head;
    const bool by_kv_head = wrong(h, SLOW_DECODE_SINK_OF_KV_HEAD);
    const slow_number sink = slow_sink(h->stored->request, by_kv_head ? h->stored->kv_head : r->query_head);
    if (h->profile->contract->end == KVG_END_RECIPROCAL) {
        const slow_number factor = wrong(h, SLOW_DECODE_SINK_NO_LOG2) ? slow_scaled(1, 0) : slow_f32_of(LOG2_E);
        const slow_number minus = slow_minus_reference(r, s->m);
        const slow_number exponent = slow_multiply_add(h, SLOW_DECODE_SINK_UNFUSED, sink, factor, minus);
        if (!s->absent) s->l = slow_f32_add(s->l, slow_exp2_of(h, exponent));
        return;
    }
    const slow_number x = wrong(h, SLOW_DECODE_SINK_NO_LOG2) ? sink : slow_f32_multiply(sink, slow_f32_of(LOG2_E));
    const slow_number m = larger(s->m, x);
    const slow_number w = weight_between(h, s->m, m), weight = weight_between(h, x, m);
    const bool fused = (h->profile->contract->end == KVG_END_PARTS) != wrong(h, SLOW_DECODE_SINK_OTHER);
    s->l = fused ? slow_f32_fma(s->l, w, weight) : slow_f32_add(slow_f32_multiply(s->l, w), weight);
    for (size_t d = 0; d < h->stored->request->v_dim; d++) s->o[d] = slow_f32_multiply(s->o[d], w);
    s->m = m;
}

/* --- section 8 --- */

/* a = merge(a, b), a of the smaller positions */
static void merge(const slow_head *h, slow_state *a, const slow_state *b)
{
    if (b->absent) return;
    if (a->absent) {
        *a = *b;
        return;
    }
    const slow_number m = larger(a->m, b->m);
    const slow_number w_a = slow_exp2_of(h, slow_f32_subtract(a->m, m));
    const slow_number w_b = slow_exp2_of(h, slow_f32_subtract(b->m, m));
    for (size_t d = 0; d <= h->stored->request->v_dim; d++) {
        slow_number *of_a = d ? &a->o[d - 1] : &a->l;
        const slow_number of_b = d ? b->o[d - 1] : b->l;
        if (wrong(h, SLOW_DECODE_MERGE_OTHER_SIDE)) {
            *of_a = slow_f32_fma(*of_a, w_a, slow_f32_multiply(of_b, w_b));
        } else if (wrong(h, SLOW_DECODE_MERGE_UNFUSED)) {
            *of_a = slow_f32_add(slow_f32_multiply(of_b, w_b), slow_f32_multiply(*of_a, w_a));
        } else {
            *of_a = slow_f32_fma(of_b, w_b, slow_f32_multiply(*of_a, w_a));
        }
    }
    a->m = m;
}

/* Node `index` of a level; leaves outside low ... high hold nothing that the row sees. */
static void run_node(const slow_query *r, int level, int64_t index, int64_t low, int64_t high, slow_state *s)
{
    const int64_t first = index << level, last = ((index + 1) << level) - 1;
    if (last < low || first > high) {
        slow_state_clear(r->head, s);
    } else if (level == 0) {
        slow_leaf_run(r, index, s);
        const bool joins = index == r->sink_leaf || wrong(r->head, SLOW_DECODE_SINK_PER_LEAF);
        if (joins && !s->absent) add_sink(r, s);
    } else {
        slow_state right;
        run_node(r, level - 1, 2 * index, low, high, s);
        run_node(r, level - 1, 2 * index + 1, low, high, &right);
        merge(r->head, s, &right);
    }
}

/* The first position that the row sees, or the one after the last key. */
static int64_t first_seen(const slow_query *r)
{
    const slow_stored *stored = r->head->stored;
    int64_t at = stored->first;
    while (at < stored->first + (int64_t)stored->keys && slow_seen_key(r, at) < 0) at++;
    return at;
}

static void run_tree(slow_query *r, slow_state *s)
{
    const slow_stored *stored = r->head->stored;
    const int64_t last_key = stored->first + (int64_t)stored->keys - 1, size = slow_leaf_size(r->head);
    slow_state_clear(r->head, s);
    if (stored->keys == 0) return;
    if (wrong(r->head, SLOW_DECODE_LEAVES_FROM_WINDOW)) r->origin = first_seen(r);
    if (wrong(r->head, SLOW_DECODE_TREE_FROM_WINDOW)) r->origin = first_seen(r) / size * size;
    const bool early = wrong(r->head, SLOW_DECODE_SINK_BEFORE_MERGE) || wrong(r->head, SLOW_DECODE_SINK_PER_LEAF);
    r->sink_leaf = early ? first_seen(r) / size : -1;
    const int64_t low = r->origin > stored->first ? 0 : (stored->first - r->origin) / size;
    const int64_t high = (last_key - r->origin) / size;
    int level = 0;
    while (high >> level) level++;
    if (!wrong(r->head, SLOW_DECODE_LEFT_FOLD)) {
        run_node(r, level, 0, low, high, s);
        return;
    }
    for (int64_t leaf = low; leaf <= high; leaf++) {
        slow_state next;
        slow_leaf_run(r, leaf, &next);
        merge(r->head, s, &next);
    }
}

/* --- docs/spec/other-kernels.md sections 2.2 and 2.4, steps 1 and 2, and section 4 --- */

enum { MOST_PARTS = 16 };

/* a f + b g, one product rounded: that of b, unless that is what is wrong */
static slow_number joined(const slow_head *h, slow_number a, slow_number f, slow_number b, slow_number g)
{
    if (wrong(h, SLOW_DECODE_MERGE_OTHER_SIDE)) return slow_f32_fma(b, g, slow_f32_multiply(a, f));
    return slow_multiply_add(h, SLOW_DECODE_MERGE_UNFUSED, a, f, slow_f32_multiply(b, g));
}

static void merge_parts(const slow_head *h, const slow_state *parts, slow_state *s)
{
    const uint32_t count = h->tiling.parts;
    *s = parts[0];
    if (count == 1) return;
    const bool at_once = h->profile->contract->end == KVG_END_STATES; /* o, too */
    slow_state_clear(h, s);
    for (uint32_t i = 0; i < count; i++) {
        const slow_state *next = &parts[wrong(h, SLOW_DECODE_PARTS_REVERSED) ? count - 1 - i : i];
        const slow_number m = larger(s->m, next->m);
        const slow_number f = weight_between(h, s->m, m), g = weight_between(h, next->m, m);
        s->l = joined(h, s->l, f, next->l, g);
        for (size_t d = 0; at_once && d < h->stored->request->v_dim; d++) {
            s->o[d] = joined(h, s->o[d], f, next->o[d], g);
        }
        s->m = m;
        s->absent = s->absent && next->absent;
    }
    for (uint32_t i = 0; !at_once && i < count; i++) {
        const slow_state *next = &parts[wrong(h, SLOW_DECODE_PARTS_REVERSED) ? count - 1 - i : i];
        const slow_number w = weight_between(h, next->m, s->m);
        for (size_t d = 0; d < h->stored->request->v_dim; d++) {
            s->o[d] = i == 0 ? slow_f32_multiply(next->o[d], w)
                             : slow_multiply_add(h, SLOW_DECODE_MERGE_UNFUSED, next->o[d], w, s->o[d]);
        }
    }
}

/* Each part has so many tiles, of the block that the row is in. */
static void run_parts(slow_query *r, int64_t begin, int64_t tiles, slow_state *s)
{
    const slow_head *h = r->head;
    const int64_t size = h->tiling.tile, count = h->tiling.parts;
    const bool neighbours = wrong(h, SLOW_DECODE_PARTS_OF_NEIGHBOURS);
    const int64_t apart = neighbours ? tiles * size : size, step = neighbours ? size : count * size;
    slow_state parts[MOST_PARTS];
    int64_t i = 0;
    do {
        slow_tiles_run(r, begin + i * apart, step, tiles, &parts[i]);
        const bool in_log2 = h->profile->contract->end == KVG_END_PARTS && !slow_is_lowest(parts[i].m);
        if (in_log2) parts[i].m = slow_f32_multiply(parts[i].m, r->c);
    } while (++i < count);
    if (wrong(h, SLOW_DECODE_SINK_BEFORE_MERGE)) {
        r->sink_leaf = 0;
        add_sink(r, &parts[0]);
    }
    merge_parts(h, parts, s);
}

/* Row `row` of the KV head and the sequence, in a block that is walked as a whole. */
static void run_block(slow_query *r, int64_t row, slow_state *s)
{
    const slow_head *h = r->head;
    const slow_stored *stored = h->stored;
    const bool of_query = h->tiling.of_head == KVG_BLOCK_OF_QUERY;
    const int64_t group = (int64_t)stored->request->group, window = stored->request->problem->attention.window;
    const int64_t rows = wrong(h, SLOW_DECODE_BLOCK_OF_ONE) ? 1 : h->tiling.rows, of_token = of_query ? 1 : group;
    const int64_t block = (of_query ? row / group : row) / rows;
    const int64_t first_query = slow_position(stored, 0), positions = (int64_t)h->tiling.tile * h->tiling.parts;
    int64_t begin = first_query + block * rows / of_token - window + 1;
    int64_t end = first_query + ((block + 1) * rows + of_token - 1) / of_token;
    const bool from_zero = h->profile->contract->end == KVG_END_STATES || wrong(h, SLOW_DECODE_BLOCK_FROM_ZERO);
    if (window == 0 || begin < 0 || from_zero) begin = 0;
    if (of_query) begin -= begin % h->tiling.tile;
    if ((of_query || from_zero) && wrong(h, SLOW_DECODE_LEAVES_FROM_WINDOW)) begin = first_seen(r);
    if (end > stored->length || wrong(h, SLOW_DECODE_BLOCK_TO_THE_END)) end = stored->length;
    run_parts(r, begin, end > begin ? (end - begin + positions - 1) / positions : 0, s);
}

/* --- docs/spec/other-kernels.md section 1.4, steps 3 and 4, section 2.4, step 4, and section 3 --- */

/* m is in log2 units when a row ends: section 2.4, step 4. */
static bool ends_in_log2(const slow_head *h)
{
    return h->profile->contract->end == KVG_END_PARTS || h->profile->contract->end == KVG_END_STATES;
}

static bool ends_empty(const slow_head *h, const slow_state *s)
{
    if (ends_in_log2(h)) return slow_is_lowest(s->m);
    return s->l.kind == SLOW_NAN || slow_is_zero(s->l);
}

static slow_number output_by_reciprocal(const slow_head *h, slow_number o, const slow_state *s)
{
    const bool empty = ends_empty(h, s);
    slow_number r = empty ? slow_zero(false) : slow_rcp_approx(s->l, true, SLOW_SPECIAL_FAULTS);
    if (wrong(h, SLOW_DECODE_RECIPROCAL_ROUNDED) && !empty) r = slow_f32_divide(slow_scaled(1, 0), s->l);
    if (wrong(h, SLOW_DECODE_OUT_DIVIDED) && !empty) return slow_f32_divide(o, s->l);
    const slow_layout *type = slow_layout_of(h->stored->request->problem->dtype);
    const slow_number g = h->operands[KVG_V].g;
    const bool late = ends_in_log2(h);
    if (!late) r = slow_f32_multiply(r, g);
    slow_number y = slow_f32_multiply(o, r);
    if (late && !wrong(h, SLOW_DECODE_OUT_ROUNDED_ONCE)) y = slow_round(type, y);
    if (late) y = slow_f32_multiply(y, g);
    return wrong(h, SLOW_DECODE_OUT_PLUS_ZERO) ? slow_f32_add(y, slow_zero(false)) : y;
}

static slow_number lse_of_lg2(const slow_query *r, const slow_state *s)
{
    const slow_head *h = r->head;
    const kvg_end_kind end = h->profile->contract->end;
    const slow_number ln2 = slow_f32_of(LN_2);
    const bool nan = s->l.kind == SLOW_NAN, zero = slow_is_zero(s->l);
    if (nan && (end == KVG_END_RECIPROCAL) == wrong(h, SLOW_DECODE_LSE_NAN)) return s->l;
    if (nan || (zero && end == KVG_END_RECIPROCAL)) return slow_infinity(true);
    const bool polynomial = wrong(h, SLOW_DECODE_LSE_POLYNOMIAL) && s->l.kind == SLOW_FINITE && !zero;
    const int lift = slow_weights_are_lifted(h) && !wrong(h, SLOW_DECODE_LSE_LIFTED) ? SLOW_LIFT : 0;
    const slow_number l = slow_f32_multiply(s->l, slow_scaled(1, -lift));
    const slow_number log2 = polynomial ? slow_log2(l, SLOW_DECODE_RIGHT)
                                        : slow_lg2_approx(l, true, SLOW_SPECIAL_FAULTS);
    if (end == KVG_END_RECIPROCAL) {
        return slow_multiply_add(h, SLOW_DECODE_LSE_UNFUSED, s->m, slow_f32_multiply(r->c, ln2),
                                 slow_f32_multiply(log2, ln2));
    }
    if (wrong(h, SLOW_DECODE_LSE_FUSED)) return slow_f32_fma(s->m, ln2, slow_f32_multiply(log2, ln2));
    const slow_number sum = ends_in_log2(h) ? slow_f32_add(s->m, log2)
                                            : slow_multiply_add(h, SLOW_DECODE_LSE_UNFUSED, s->m, r->c, log2);
    return slow_f32_multiply(sum, ln2);
}

/* --- section 9 --- */

static slow_number output_of(const slow_head *h, slow_number o, const slow_state *s)
{
    const slow_number l = s->l;
    if (!h->own) return output_by_reciprocal(h, o, s);
    if (slow_is_zero(l)) return slow_zero(false);
    slow_number y = slow_f32_divide(slow_f32_multiply(o, h->out_factor), l);
    if (wrong(h, SLOW_DECODE_OUT_RECIPROCAL)) {
        y = slow_f32_multiply(slow_f32_multiply(o, h->out_factor), slow_f32_divide(slow_scaled(1, 0), l));
    }
    if (wrong(h, SLOW_DECODE_OUT_FACTOR_LAST)) y = slow_f32_multiply(slow_f32_divide(o, l), h->out_factor);
    return wrong(h, SLOW_DECODE_OUT_MINUS_ZERO) ? y : slow_f32_add(y, slow_zero(false));
}

static slow_number lse_of(const slow_query *r, const slow_state *s)
{
    const slow_head *h = r->head;
    if (!h->own) return lse_of_lg2(r, s);
    if (slow_is_zero(s->l)) return slow_infinity(true);
    if (s->l.kind == SLOW_NAN) return s->l;
    const slow_number log2 = slow_log2(s->l, h->fault), ln2 = slow_f32_of(LN_2);
    if (wrong(h, SLOW_DECODE_LSE_SEPARATE)) {
        return slow_f32_add(slow_f32_multiply(s->m, ln2), slow_f32_multiply(log2, ln2));
    }
    return slow_f32_multiply(slow_f32_add(s->m, log2), ln2);
}

/* --- the op --- */

static void run_row(const slow_head *h, size_t query, size_t query_head, kvg_tensor *out)
{
    const slow_request *request = h->stored->request;
    const kvg_problem *p = request->problem;
    const size_t index = (h->stored->first_query + query) * p->attention.query_heads + query_head;
    slow_query r = {.head = h, .position = slow_position(h->stored, query), .query_head = query_head,
                    .sink_leaf = -1};
    slow_state s;
    slow_query_load(&r, h->stored->first_query + query);
    if (h->tiling.rows) {
        run_block(&r, (int64_t)(query * request->group + query_head % request->group), &s);
    } else {
        run_tree(&r, &s);
    }
    if (!h->own && r.position < 0) slow_state_clear(h, &s); /* a row that sees no key */
    slow_number lse = lse_of(&r, &s);
    if (p->attention.sinks && (r.sink_leaf < 0 || s.absent)) add_sink(&r, &s);
    if (!wrong(h, SLOW_DECODE_LSE_WITHOUT_SINK)) lse = lse_of(&r, &s);
    for (size_t d = 0; d < request->v_dim; d++) s.o[d] = output_of(h, s.o[d], &s);
    slow_store(p->dtype, s.o, request->v_dim,
               (uint8_t *)out[0].data + index * request->v_dim * kvg_dtype_bytes(p->dtype));
    slow_store(KVG_DTYPE_F32, &lse, 1, (uint8_t *)out[1].data + index * sizeof(float));
}

static void load_operands(slow_head *h)
{
    const slow_request *r = h->stored->request;
    const size_t dim = r->problem->head_dim;
    uint32_t codes[KVG_MAX_HEAD_DIM];
    for (int side = KVG_K; side <= KVG_V; side++) {
        h->operands[side] = slow_operands_of(&r->sides[side], h->profile, h->fault);
        const bool inside = wrong(h, side == KVG_K ? SLOW_DECODE_K_SCALE_INSIDE : SLOW_DECODE_V_SCALE_INSIDE);
        if (inside) h->operands[side].has_row_scale = false;
    }
    for (size_t n = 0; n < h->stored->keys; n++) {
        slow_operands_load(&h->operands[KVG_K], &h->stored->rows[KVG_K][n], h->k + n * dim);
        slow_operands_load(&h->operands[KVG_V], &h->stored->rows[KVG_V][n], codes);
        memcpy(h->v + n * r->v_dim, codes + r->v_first, r->v_dim * sizeof *codes);
    }
    for (size_t i = 0; i < dim; i++) h->dims[i] = slow_dim_of_product(&h->operands[KVG_K], h->one_by_one, i);
    h->scale = slow_score_scale(h);
    h->out_factor = slow_f32_multiply(h->operands[KVG_V].g, slow_scaled(1, h->operands[KVG_V].base));
}

/* docs/spec/simt-contract.md is the contract where there is no tensor core. */
static bool is_simt(const kvg_problem *problem)
{
    return !kvg_profile_is_chip(kvg_profile_get(problem->profile));
}

/* --- what other kernels refuse --- */

static kvg_tiling tiling_of_call(const kvg_problem *p, const kvg_call_shape *call)
{
    const uint32_t bits = kvg_format_get(p->storage[KVG_K].format)->element_bits;
    return kvg_profile_tiling(p->profile, bits, p->head_dim, call);
}

static kvg_status check_other_kernel(const kvg_problem *p)
{
    const char *name = kvg_profile_get(p->profile)->name;
    const kvg_format own = kvg_format_of_dtype(p->dtype);
    const kvg_contract_info *contract = kvg_profile_get(p->profile)->contract;
    const kvg_end_kind end = contract->end;
    if (!kvg_profile_gives_lse(kvg_profile_get(p->profile))) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "the second reference does not compute %s", name);
    }
    if (contract->cap == KVG_CAP_NONE && p->attention.softcap > 0) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no softcap", name);
    }
    if (contract->sinks == KVG_SINKS_NONE && p->attention.sinks) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no sinks", name);
    }
    if (p->paging.shared_kv) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no K and V that share a row", name);
    const bool takes_e4m3 = p->dtype == KVG_DTYPE_BF16 && (end == KVG_END_RECIPROCAL || end == KVG_END_PARTS);
    const kvg_format format = p->storage[KVG_K].format;
    if (format == KVG_FORMAT_E4M3 && takes_e4m3 && p->storage[KVG_V].format == format) {
        const uint32_t terms = kvg_profile_get(p->profile)->chip->sum_terms_8;
        if (end == KVG_END_RECIPROCAL && p->head_dim % terms != 0) {
            return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has sums of %u products of e4m3: not for head_dim %u", name,
                            terms, p->head_dim);
        }
    } else if (format != own || p->storage[KVG_V].format != own) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s does not take K and V in these formats under model type %s",
                        name, kvg_dtype_name(p->dtype));
    }
    const uint32_t group = p->attention.query_heads / p->kv_heads;
    const kvg_tiling tiling = tiling_of_call(p, &(kvg_call_shape){.mean_rows = end == KVG_END_STATES ? group : 0});
    if (end == KVG_END_STATES && group != 1 && group != 2 && group != 4 && group != 8) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no groups of %u query heads", name, group);
    }
    if (tiling.tile) return KVG_OK;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has no tile for head_dim %u", name, p->head_dim);
}

static kvg_status check_narrow_sinks(const slow_request *r)
{
    if (kvg_profile_get(r->problem->profile)->contract->end != KVG_END_RECIPROCAL) return KVG_OK;
    for (uint32_t h = 0; r->problem->attention.sinks && h < r->problem->attention.query_heads; h++) {
        const slow_number sink = slow_sink(r, h);
        if (slow_compare(sink, slow_round(&slow_bf16, sink)) == 0) continue;
        return kvg_fail(KVG_ERR_INVALID, "the sink of query head %u is no bf16 number, which %s needs", h,
                        kvg_profile_get(r->problem->profile)->name);
    }
    return KVG_OK;
}

/* Section 4 has one query token per sequence. */
static kvg_status check_one_token(const slow_request *r)
{
    if (kvg_profile_get(r->problem->profile)->contract->end != KVG_END_STATES) return KVG_OK;
    for (uint32_t i = 0; i < r->problem->paging.sequences; i++) {
        if (r->query_lengths[i] <= 1) continue;
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s takes one query token per sequence: sequence %u has %d",
                        kvg_profile_get(r->problem->profile)->name, i, (int)r->query_lengths[i]);
    }
    return KVG_OK;
}

/* --- the call --- */

/* What the tiles follow from, unless that is wrong. */
static kvg_call_shape shape_of(const slow_request *r, slow_decode_fault fault)
{
    const kvg_problem *p = r->problem;
    kvg_call_shape call = {.one_token = true, .window = p->attention.window};
    uint32_t rows = p->attention.queries * (uint32_t)r->group;
    for (uint32_t i = 0; i < p->paging.sequences; i++) call.one_token = call.one_token && r->query_lengths[i] <= 1;
    if (slow_planted(fault == SLOW_DECODE_TILE_OF_ONE_TOKEN)) call.one_token = true;
    if (slow_planted(fault == SLOW_DECODE_TILE_OF_SEVERAL)) call.one_token = false;
    if (slow_planted(fault == SLOW_DECODE_TILE_WITHOUT_WINDOW)) call.window = 0;
    if (slow_planted(fault == SLOW_DECODE_MEAN_OF_TOKENS)) rows = p->attention.queries;
    if (slow_planted(fault == SLOW_DECODE_MEAN_ROUNDED_UP)) rows += p->paging.sequences - 1;
    call.mean_rows = rows / p->paging.sequences;
    if (kvg_profile_get(p->profile)->contract->end == KVG_END_STATES) call.mean_rows = (uint32_t)r->group;
    return call;
}

/* Tiles are those of the call, unless that is what is wrong. */
static kvg_tiling tiling_of(const slow_request *r, slow_decode_fault fault)
{
    const kvg_call_shape call = shape_of(r, fault);
    kvg_tiling tiling = tiling_of_call(r->problem, &call);
    if (slow_planted(fault == SLOW_DECODE_TILE_64)) tiling.tile = 64;
    if (slow_planted(fault == SLOW_DECODE_TILE_16)) tiling.tile = 16;
    if (slow_planted(fault == SLOW_DECODE_TILE_SMALLER)) tiling.tile -= KVG_MMA_K;
    if (slow_planted(fault == SLOW_DECODE_TILE_LARGER)) tiling.tile += KVG_MMA_K;
    if (slow_planted(fault == SLOW_DECODE_ONE_PART)) tiling.parts = 1;
    return tiling;
}

/* What a visit of every KV head is given. */
typedef struct job {
    kvg_tensor *out;
    slow_decode_fault fault;
} job;

static kvg_status run_head(const slow_stored *stored, void *context)
{
    const job *j = context;
    const slow_request *r = stored->request;
    const kvg_problem *p = r->problem;
    const kvg_profile_info *profile = kvg_profile_get(p->profile);
    slow_head h = {.stored = stored, .profile = profile, .chip = profile->chip, .own = kvg_profile_is_own(profile),
                   .one_by_one = slow_one_by_one(profile->contract), .tiling = tiling_of(r, j->fault),
                   .fault = j->fault,
                   .k = malloc((stored->keys + 1) * p->head_dim * sizeof *h.k),
                   .v = malloc((stored->keys + 1) * r->v_dim * sizeof *h.v),
                   .dims = malloc(p->head_dim * sizeof *h.dims)};
    kvg_status status = KVG_OK;
    if (wrong(&h, SLOW_DECODE_OTHER_CHIP)) {
        const bool hopper = h.chip->sm == 90;
        h.chip = kvg_profile_get(hopper ? KVG_PROFILE_SM89_MMA16816_V1 : KVG_PROFILE_SM90_MMA16816_V1)->chip;
    }
    if (!h.k || !h.v || !h.dims) {
        status = kvg_fail(KVG_ERR_MEMORY, "no memory for the operands of %zu keys", stored->keys);
    } else {
        load_operands(&h);
        const bool interleaved = wrong(&h, SLOW_DECODE_HEADS_INTERLEAVED);
#pragma omp parallel for schedule(dynamic)
        for (size_t i = 0; i < stored->queries * r->group; i++) {
            const size_t g = i % r->group;
            run_row(&h, i / r->group, interleaved ? g * p->kv_heads + stored->kv_head : stored->kv_head * r->group + g,
                    j->out);
        }
    }
    free(h.k);
    free(h.v);
    free(h.dims);
    return status;
}

static kvg_status decode(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, slow_decode_fault fault)
{
    slow_request request;
    kvg_status status = kvg_problem_check(problem);
    const bool own = kvg_profile_is_own(kvg_profile_get(problem->profile));
    const bool fits = problem->dtype != KVG_DTYPE_F32 && problem->head_dim % KVG_MMA_K == 0;
    if (!status && !fits && !is_simt(problem)) {
        status = kvg_fail(KVG_ERR_UNIMPLEMENTED, "a tensor core has operands for f16 and bf16 and rows of whole sums: "
                          "not for model type %s and head_dim %u", kvg_dtype_name(problem->dtype), problem->head_dim);
    }
    for (int side = KVG_K; side <= KVG_V && !status && !is_simt(problem); side++) {
        const kvg_format format = problem->storage[side].format;
        if (slow_has_operands(format)) continue;
        status = kvg_fail(KVG_ERR_UNIMPLEMENTED, "a tensor core has no operands for format %s",
                          kvg_format_get(format)->name);
    }
    if (!status && !own) status = check_other_kernel(problem);
    if (!status) status = slow_request_open(problem, in, &request);
    if (!status) status = check_narrow_sinks(&request);
    if (!status) status = check_one_token(&request);
    job j = {out, fault};
    return status ? status : slow_request_visit(&request, run_head, &j);
}

kvg_status slow_decode_op(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    if (problem->profile == KVG_PROFILE_NONE) return slow_attention(problem, in, out, 0);
    return decode(problem, in, out, SLOW_DECODE_RIGHT);
}

#ifdef SLOW_FAULTS
kvg_status slow_decode_faulty(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out,
                              slow_decode_fault fault)
{
    return decode(problem, in, out, fault);
}
#endif
