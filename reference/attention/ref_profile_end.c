/* The end of a row: docs/spec/decode-contract.md section 9 and docs/spec/other-kernels.md sections 1.4 and 1.5. */
#include <math.h>

#include "core/bits.h"
#include "reference/attention/ref_profile.h"
#include "reference/numbers/ref_special.h"
#include "reference/reference.h"

static const float LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e43p-1f;

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

/* What a split has found: outputs in the place of o, divided by l, and LSE. docs/spec/other-kernels.md section 1.4. */
static float finish_split(const ref_profile_run *r, const float *sink, ref_node n)
{
    const float c = r->score_factor, even = n.l[0] + n.l[2], odd = n.l[1] + n.l[3];
    float l = even + odd;
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
    for (uint32_t half = KVG_MOST_SPLITS / 2; half; half /= 2) {
        for (uint32_t i = 0; i < half; i++) sums[i] += sums[i + half];
    }
    const float inverse = sums[0] == 0 || isnan(sums[0]) ? 0 : ref_rcp_approx(sums[0], true);
    for (uint32_t d = 0; d < r->dims; d++) {
        float y = 0;
        for (uint32_t i = 0; i < splits; i++) {
            const float share = w[i] * inverse;
            if (share > 0) y = fmaf(share, ref_node_at(r, first.m, i).o[d], y);
        }
        first.o[d] = y;
    }
    return fmaf(ref_lg2_approx(sums[0], true), LN_2, top);
}

/* The sink joins the first split. */
static void end_reciprocal(const ref_profile_run *r, size_t row, const float *sink, uint32_t splits, ref_node n)
{
    float lse[KVG_MOST_SPLITS];
    for (uint32_t i = 0; i < splits; i++) lse[i] = finish_split(r, i ? NULL : sink, ref_node_at(r, n.m, i));
    r->lse[row] = splits > 1 ? combine_splits(r, n, splits, lse) : lse[0];
    for (uint32_t d = 0; d < r->dims; d++) store(r, row, d, n.o[d]);
}

/* From the root, or from the splits, of a row to what is asked for. */
void ref_profile_end(const ref_profile_run *r, size_t row, uint32_t splits, ref_node n)
{
    const float *sink = r->sinks ? &r->sinks[row % r->p->attention.query_heads] : NULL;
    if (r->rules->end == KVG_END_DIVIDED) end_divided(r, row, sink, n);
    else end_reciprocal(r, row, sink, splits, n);
}
