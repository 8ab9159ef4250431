/* The end of a row: docs/spec/decode-contract.md section 9 and docs/spec/other-kernels.md sections 1.4, 1.5, 2.4, 2.5,
 * 3 and 5 to 8. */
#include <math.h>

#include "core/bits.h"
#include "reference/attention/ref_profile.h"
#include "reference/numbers/ref_special.h"
#include "reference/reference.h"

static const float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e43p-1f;
enum { MERGE_THREADS = 128, MERGE_DIMS = 8 }; /* of FlashInfer's kernel that merges pieces, and dims of a thread */

static void add_sink(const ref_profile_run *r, ref_node n, float sink)
{
    const float x = sink * LOG2_E, m = fmaxf(*n.m, x), w = r->exp2->of(*n.m - m);
    const float kept = *n.l * w;
    *n.l = kept + r->exp2->of(x - m);
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= w;
    *n.m = m;
}

/* The NaN of every type is 0x7F...F: rounding to 16 bits keeps it. */
static float one_nan(float x)
{
    return isnan(x) ? kvg_f32_of_bits(0x7FFFFFFF) : x;
}

static float lse_of(ref_node n)
{
    if (*n.l == 0) return -INFINITY;
    const float in_log2 = *n.m + (isnan(*n.l) ? *n.l : ref_log2(*n.l));
    return one_nan(in_log2 * LN_2);
}

static void store(const ref_profile_run *r, size_t row, uint32_t d, float y)
{
    const size_t width = kvg_dtype_bytes(r->p->dtype);
    const float kept = one_nan(y);
    kvg_reference_store(r->p->dtype, &kept, 1, r->out + (row * r->dims + d) * width);
}

static void end_divided(const ref_profile_run *r, size_t row, const float *sink, ref_node n)
{
    if (sink) add_sink(r, n, *sink);
    for (uint32_t d = 0; d < r->dims; d++) {
        const float scaled = n.o[d] * r->output_factor, quotient = scaled / *n.l;
        store(r, row, d, *n.l == 0 ? 0 : quotient + 0.0f); /* -0 + 0 is +0 */
    }
    r->lse[row] = lse_of(n);
}

/* l of all lanes */
static float sum_of_lanes(const ref_profile_run *r, ref_node n)
{
    return r->lanes == REF_LANES ? ref_sum_of_four(n.l) : *n.l;
}

/* What a split has found: outputs in the place of o, divided by l, and LSE. docs/spec/other-kernels.md section 1.4. */
static float finish_split(const ref_profile_run *r, const float *sink, ref_node n)
{
    const float c = r->score_factor;
    float l = sum_of_lanes(r, n);
    if (sink && *n.m != -INFINITY) l += r->exp2->of(fmaf(*sink, LOG2_E, -ref_profile_minus(r, *n.m)));
    const bool none = l == 0 || isnan(l);
    const float inverse = none ? 0 : ref_rcp_approx(l, true) * r->output_factor;
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= inverse;
    const float natural = c * LN_2, log_l = ref_lg2_approx(ldexpf(l, -(int)r->offset), true) * LN_2;
    return none ? -INFINITY : fmaf(*n.m, natural, log_l);
}

/* docs/spec/other-kernels.md section 1.5: outputs of splits with their LSE, into those of the first. */
static float combine_splits(const ref_profile_run *r, ref_node first, uint32_t splits, const float *lse)
{
    float top = -INFINITY, w[KVG_MOST_SPLITS], sums[KVG_MOST_SPLITS] = {0};
    for (uint32_t i = 0; i < splits; i++) top = fmaxf(top, lse[i]);
    for (uint32_t i = 0; i < splits; i++) {
        const float below = lse[i] - (top == -INFINITY ? 0 : top);
        sums[i] = w[i] = r->exp2->of(below * LOG2_E);
    }
    const float sum = ref_sum_of_tree(sums, KVG_MOST_SPLITS);
    const float inverse = sum == 0 || isnan(sum) ? 0 : ref_rcp_approx(sum, true);
    for (uint32_t d = 0; d < r->dims; d++) {
        float y = 0;
        for (uint32_t i = 0; i < splits; i++) {
            const float share = w[i] * inverse;
            if (share > 0) y = fmaf(share, ref_node_at(r, first.m, i).o[d], y);
        }
        first.o[d] = y;
    }
    return fmaf(ref_lg2_approx(sum, true), LN_2, top);
}

/* The sink joins the first split. */
static void end_reciprocal(const ref_profile_run *r, size_t row, const float *sink, uint32_t splits, ref_node n)
{
    float lse[KVG_MOST_SPLITS];
    for (uint32_t i = 0; i < splits; i++) lse[i] = finish_split(r, i ? NULL : sink, ref_node_at(r, n.m, i));
    r->lse[row] = splits > 1 ? combine_splits(r, n, splits, lse) : lse[0];
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, n.o[d]);
}

/* --- FlashInfer --- */

/* From here on m is in log2 units. */
static void take_log2(const ref_profile_run *r, ref_node n)
{
    if (*n.m != -INFINITY) *n.m *= r->score_factor;
}

/* 2^(x - y), 0 for two that have seen nothing. */
static float weight_of(const ref_profile_run *r, float x, float y)
{
    return r->exp2->of(fmaxf(x - y, -INFINITY));
}

/* The parts of a split into the first of them. */
static void merge_parts(const ref_profile_run *r, ref_node first)
{
    float m = -INFINITY, l = 0;
    for (uint32_t i = 0; i < r->parts; i++) {
        const ref_node part = ref_node_at(r, first.m, i);
        take_log2(r, part);
        const float to = fmaxf(m, *part.m);
        l = fmaf(l, weight_of(r, m, to), *part.l * weight_of(r, *part.m, to));
        m = to;
    }
    for (uint32_t i = 0; i < r->parts; i++) {
        const ref_node part = ref_node_at(r, first.m, i);
        const float w = weight_of(r, *part.m, m);
        for (uint32_t d = 0; d < r->dims; d++) first.o[d] = i ? fmaf(part.o[d], w, first.o[d]) : part.o[d] * w;
    }
    *first.m = m;
    *first.l = l;
}

static void take_sink(const ref_profile_run *r, ref_node n, float sink)
{
    const float x = sink * LOG2_E, m = x > *n.m ? x : *n.m, w = weight_of(r, *n.m, m);
    *n.l = fmaf(*n.l, w, weight_of(r, x, m));
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= w;
    *n.m = m;
}

static float rounded(const ref_profile_run *r, float y)
{
    uint16_t code;
    kvg_reference_store(r->p->dtype, &y, 1, &code);
    kvg_reference_load(r->p->dtype, &code, 1, &y);
    return y;
}

/* n becomes outputs, as T where they are merged later, with m their LSE in log2 units and l 1. */
static void close_node(const ref_profile_run *r, ref_node n, bool seen, bool merged_later)
{
    const float inverse = seen ? ref_rcp_approx(*n.l, true) : 0;
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] = merged_later ? rounded(r, n.o[d] * inverse) : n.o[d] * inverse;
    *n.m += ref_lg2_approx(*n.l, true);
    *n.l = 1;
}

/* Every `step`-th of the nodes `from` to `end` - 1 behind `all` joins the state `to`, which may be one of them. */
static void join_nodes(const ref_profile_run *r, ref_node all, uint32_t from, uint32_t end, uint32_t step, ref_node to)
{
    float m = -INFINITY, l = 0, o[KVG_MAX_HEAD_DIM] = {0};
    for (uint32_t i = from; i < end; i += step) {
        const ref_node n = ref_node_at(r, all.m, i);
        const float top = fmaxf(m, *n.m), old = weight_of(r, m, top), new = weight_of(r, *n.m, top);
        l = fmaf(l, old, *n.l * new);
        for (uint32_t d = 0; d < r->dims; d++) o[d] = fmaf(o[d], old, n.o[d] * new);
        m = top;
    }
    *to.m = m;
    *to.l = l;
    for (uint32_t d = 0; d < r->dims; d++) to.o[d] = o[d];
}

/* docs/spec/other-kernels.md section 2.5: outputs of pieces with their LSE, into those of the first. */
static void join_pieces(const ref_profile_run *r, ref_node first, uint32_t pieces)
{
    const uint32_t groups = MERGE_THREADS * MERGE_DIMS / r->dims, filled = groups < pieces ? groups : pieces;
    for (uint32_t i = 0; i < filled; i++) {
        const ref_node group = ref_node_at(r, first.m, (size_t)i * r->parts);
        join_nodes(r, first, i * r->parts, pieces * r->parts, groups * r->parts, group);
        close_node(r, group, *group.l > 0, true);
    }
    join_nodes(r, first, 0, filled * r->parts, r->parts, first);
    close_node(r, first, *first.l > 0, false);
}

/* The parts of a piece into the first of them, with m in log2 units. */
static void end_piece(const ref_profile_run *r, ref_node n)
{
    const bool states = r->rules->end == KVG_END_STATES;
    if (states && r->parts > 1) join_nodes(r, n, 0, r->parts, 1, n);
    else if (!states && r->parts > 1) merge_parts(r, n);
    else if (!states) take_log2(r, n);
}

static void end_parts(const ref_profile_run *r, size_t row, const float *sink, uint32_t pieces, ref_node first)
{
    for (uint32_t i = 0; i < pieces; i++) {
        const ref_node n = ref_node_at(r, first.m, (size_t)i * r->parts);
        end_piece(r, n);
        if (sink && i == 0) take_sink(r, n, *sink);
        close_node(r, n, *n.m != -INFINITY, pieces > 1);
    }
    if (pieces > 1) join_pieces(r, first, pieces);
    r->lse[row] = one_nan(*first.m * LN_2);
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, rounded(r, first.o[d]) * r->output_factor);
}

static void end_log2(const ref_profile_run *r, size_t row, ref_node n)
{
    const float l = sum_of_lanes(r, n);
    const float inverse = l > 0 ? ref_rcp_approx(l, true) : 0;
    const float in_log2 = fmaf(*n.m, r->score_factor, ref_lg2_approx(l, true));
    r->lse[row] = one_nan(in_log2 * LN_2);
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, n.o[d] * inverse);
}

/* --- FlashMLA --- */

/* Of each part: outputs in the place of o, and lg2 l in the place of l, NaN if l is 0 or NaN. */
static void finish_part(const ref_profile_run *r, ref_node n)
{
    const float even = (n.l[0] + n.l[1]) + (n.l[2] + n.l[3]), odd = (n.l[4] + n.l[5]) + (n.l[6] + n.l[7]);
    const float l = even + odd;
    const bool none = l == 0 || isnan(l);
    const float inverse = ref_rcp_approx(none ? 1 : l, true);
    for (uint32_t d = 0; d < r->dims; d++) n.o[d] *= inverse;
    *n.l = none ? NAN : ref_lg2_approx(l, true);
}

/* Parts into the first one; their LSE in log2 units. */
static float join_parts(const ref_profile_run *r, uint32_t parts, ref_node first)
{
    float top = -INFINITY, sums[KVG_MOST_SPLITS] = {0};
    for (uint32_t i = 0; i < parts; i++) {
        const ref_node n = ref_node_at(r, first.m, i);
        *n.m = isnan(*n.l) ? -INFINITY : *n.l + *n.m;
        top = fmaxf(top, *n.m);
    }
    if (top == -INFINITY) top = 0;
    for (uint32_t i = 0; i < parts; i++)
        sums[i % KVG_MOST_SPLITS] += r->exp2->of(*ref_node_at(r, first.m, i).m - top);
    const float sum = ref_sum_of_tree(sums, KVG_MOST_SPLITS);
    const float lse = sum == 0 ? INFINITY : ref_lg2_approx(sum, true) + top;
    for (uint32_t i = 0; i < parts; i++) {
        const ref_node n = ref_node_at(r, first.m, i);
        const float w = r->exp2->of(*n.m - lse);
        for (uint32_t d = 0; d < r->dims; d++) first.o[d] = fmaf(w, n.o[d], i ? first.o[d] : 0);
    }
    return lse;
}

static void end_pairs(const ref_profile_run *r, size_t row, uint32_t parts, ref_node first)
{
    for (uint32_t i = 0; i < parts; i++) finish_part(r, ref_node_at(r, first.m, i));
    if (parts > 1) r->lse[row] = join_parts(r, parts, first) * LN_2;
    else r->lse[row] = isnan(*first.l) ? INFINITY : fmaf(*first.l, LN_2, *first.m * LN_2);
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, first.o[d]);
}

/* --- vLLM's Triton kernel --- */

static void end_quotient(const ref_profile_run *r, size_t row, ref_node n)
{
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, ref_div_full(n.o[d], *n.l, false));
}

/* l of all segments: segment i meets i + 8 first, or i - 8 in the half of the threads that has the others. */
static float sum_of_segments(const ref_profile_run *r, ref_node first, const float *share, uint32_t half)
{
    enum { HALF = KVG_SEGMENTS / 2 };
    float sums[HALF];
    for (uint32_t i = 0; i < HALF; i++) {
        const uint32_t own = i + half * HALF, other = i + (1 - half) * HALF;
        sums[i] = fmaf(*ref_node_at(r, first.m, own).l, share[own], *ref_node_at(r, first.m, other).l * share[other]);
    }
    return ref_sum_of_tree(sums, HALF);
}

/* Dim d of all segments: chains of every `chains`-th one, whose first product joins the second one's. */
static float values_of_segments(const ref_profile_run *r, ref_node first, const float *share, uint32_t chains,
                                uint32_t d)
{
    float z[KVG_SEGMENTS / 2];
    for (uint32_t c = 0; c < chains; c++) {
        z[c] = ref_node_at(r, first.m, c + chains).o[d] * share[c + chains];
        for (uint32_t i = c; i < KVG_SEGMENTS; i += i == c ? 2 * chains : chains)
            z[c] = fmaf(ref_node_at(r, first.m, i).o[d], share[i], z[c]);
    }
    for (uint32_t i = 0; chains == 8 && i < 4; i++) z[i] = z[2 * i] + z[2 * i + 1];
    return chains == 2 ? z[0] + z[1] : ref_sum_of_four(z);
}

static void end_segments(const ref_profile_run *r, size_t row, ref_node first)
{
    float top = -INFINITY, share[KVG_SEGMENTS] = {0}, sums[2];
    const uint32_t chains = r->dims <= 64 ? 8 : r->dims <= 128 ? 4 : 2;
    for (uint32_t i = 0; i < KVG_SEGMENTS; i++) {
        const ref_node n = ref_node_at(r, first.m, i);
        if (*n.l > 0) top = fmaxf(top, *n.m);
    }
    for (uint32_t i = 0; i < KVG_SEGMENTS; i++) {
        const ref_node n = ref_node_at(r, first.m, i);
        if (*n.l > 0 && *n.m != -INFINITY) share[i] = r->exp2->of(*n.m - top);
    }
    for (uint32_t half = 0; half < 2; half++) sums[half] = sum_of_segments(r, first, share, half);
    for (uint32_t d = 0; d < r->dims; d++) {
        const float values = values_of_segments(r, first, share, chains, d), sum = sums[d / 32 % 2];
        store(r, row, d, sum == 0 ? 0 : ref_div_full(values, sum, false));
    }
}

/* --- SGLang's Triton kernel --- */

/* ln x of CUDA's device library: x = 2^e (1 + f) with 1 + f in [2/3, 4/3), and a polynomial in f. */
static float natural_log(float x)
{
    static const float p[] = {-0x1.0aa04ep-3f, 0x1.2073ecp-3f, -0x1.f19b98p-4f, 0x1.1e52aap-3f, -0x1.55b172p-3f,
                              0x1.99da16p-3f, -0x1.fffe44p-3f, 0x1.5554fp-2f, -0.5f};
    const bool small = x < 0x1p-126f;
    const uint32_t bits = kvg_bits_of_f32(small ? x * 0x1p23f : x), two_thirds = 0x3F2AAAAB;
    if (x == 0) return -INFINITY;
    if (!(x > 0 && x < INFINITY)) return x;
    const uint32_t exponent = (bits - two_thirds) & 0xFF800000;
    const float e = fmaf((float)(int32_t)exponent, 0x1p-23f, small ? -23 : 0), f = kvg_f32_of_bits(bits - exponent) - 1;
    float y = p[0];
    for (size_t i = 1; i < sizeof p / sizeof p[0]; i++) y = fmaf(y, f, p[i]);
    const float square = f * y;
    return fmaf(e, LN_2, fmaf(square, f, f));
}

/* The pieces one after the other, each with its outputs and its LSE in natural units. */
static void end_natural(const ref_profile_run *r, size_t row, const float *sink, uint32_t pieces, ref_node first)
{
    float m = -INFINITY, l = 0, o[KVG_MAX_HEAD_DIM] = {0};
    for (uint32_t i = 0; i < pieces; i++) {
        const ref_node n = ref_node_at(r, first.m, i);
        if (*n.l == 0) continue; /* has no position */
        const float lse = *n.m + natural_log(*n.l), top = fmaxf(lse, m);
        const float old = r->exp2->of(m - top), new = r->exp2->of(lse - top);
        l = fmaf(l, old, new);
        for (uint32_t d = 0; d < r->dims; d++) o[d] = fmaf(o[d], old, new * ref_div_full(n.o[d], *n.l, false));
        m = top;
    }
    if (sink) l += r->exp2->of(*sink - m);
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, l == 0 ? 0 : ref_div_full(o[d], l, false));
}

/* --- XQA --- */

static float e_to(const ref_profile_run *r, float x)
{
    return r->exp2->of(x * LOG2_E);
}

/* Outputs of groups are added as numbers of T. */
static float add_typed(const ref_profile_run *r, float a, float b)
{
    return r->parts == 1 ? b : rounded(r, a + b);
}

/* The groups of a split into the first of them: m and l as the first group finds them, and outputs as T. Each group
 * looks at the others in turn, from the one behind it on. */
static void join_groups(const ref_profile_run *r, const float *sink, ref_node first)
{
    float m[KVG_RUN], l[KVG_RUN], first_m = 0, first_l = 0, sums[KVG_MAX_HEAD_DIM] = {0};
    for (uint32_t i = 0; i < r->parts; i++) {
        m[i] = *ref_node_at(r, first.m, i).m;
        l[i] = *ref_node_at(r, first.m, i).l;
    }
    for (uint32_t own = 0; own < r->parts; own++) {
        float *o = ref_node_at(r, first.m, own).o, top = m[own], sum = l[own];
        for (uint32_t i = 1; i < r->parts; i++) {
            const uint32_t other = (own + i) % r->parts;
            const float to = fmaxf(top, m[other]), w = e_to(r, top - to), of_other = e_to(r, m[other] - to);
            for (uint32_t d = 0; d < r->dims; d++) o[d] *= w;
            sum = fmaf(sum, w, l[other] * of_other);
            top = to;
        }
        if (own == 0) first_m = top, first_l = sum;
        if (sink) sum += e_to(r, *sink - top);
        const float inverse = sum == 0 ? 0 : 1 / sum;
        for (uint32_t d = 0; d < r->dims; d++) sums[d] = add_typed(r, sums[d], rounded(r, o[d] * inverse));
    }
    *first.m = first_m;
    *first.l = first_l;
    for (uint32_t d = 0; d < r->dims; d++) first.o[d] = sums[d];
}

/* Group j of the last block adds up splits j, j + parts, ... */
static void join_turns(const ref_profile_run *r, const float *sink, uint32_t splits, ref_node first)
{
    float top = *first.m, total = 0, o[KVG_RUN][KVG_MAX_HEAD_DIM] = {{0}};
    for (uint32_t i = 1; i < splits; i++) top = fmaxf(top, *ref_node_at(r, first.m, (size_t)i * r->parts).m);
    for (uint32_t group = 0; group < r->parts; group++) {
        float sum = 0;
        for (uint32_t i = group; i < splits; i += r->parts) {
            const ref_node n = ref_node_at(r, first.m, (size_t)i * r->parts);
            const float w = *n.l * e_to(r, *n.m - top);
            sum += w;
            for (uint32_t d = 0; d < r->dims; d++) o[group][d] = fmaf(n.o[d], w, o[group][d]);
        }
        total += sum;
    }
    if (sink) total += e_to(r, *sink - top);
    const float inverse = total == 0 ? 0 : 1 / total;
    for (uint32_t d = 0; d < r->dims; d++) {
        float y = 0;
        for (uint32_t group = 0; group < r->parts; group++) y = add_typed(r, y, rounded(r, o[group][d] * inverse));
        first.o[d] = y;
    }
}

static void end_typed(const ref_profile_run *r, size_t row, const float *sink, uint32_t splits, ref_node first)
{
    for (uint32_t i = 0; i < splits; i++)
        join_groups(r, splits == 1 ? sink : NULL, ref_node_at(r, first.m, (size_t)i * r->parts));
    if (splits > 1) join_turns(r, sink, splits, first);
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, first.o[d]);
}

void ref_profile_end(const ref_profile_run *r, size_t row, uint32_t splits, ref_node n)
{
    const float *sink = r->sinks ? &r->sinks[row % r->p->attention.query_heads] : NULL;
    switch (r->rules->end) {
    case KVG_END_DIVIDED: end_divided(r, row, sink, n); break;
    case KVG_END_RECIPROCAL: end_reciprocal(r, row, sink, splits, n); break;
    case KVG_END_PARTS:
    case KVG_END_STATES: end_parts(r, row, sink, splits, n); break;
    case KVG_END_LOG2: end_log2(r, row, n); break;
    case KVG_END_PAIRS: end_pairs(r, row, splits, n); break;
    case KVG_END_QUOTIENT: end_quotient(r, row, n); break;
    case KVG_END_SEGMENTS: /* a row that sees no key has one node */
        if (splits == 1) end_quotient(r, row, n);
        else end_segments(r, row, n);
        break;
    case KVG_END_NATURAL: end_natural(r, row, sink, splits, n); break;
    case KVG_END_TYPED: end_typed(r, row, sink, splits, n); break;
    }
    if (!kvg_profile_gives_lse(kvg_profile_get(r->p->profile))) r->lse[row] = one_nan(NAN);
}
