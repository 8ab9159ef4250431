/* docs/spec/numerics.md section 8, in the order of its steps. Each assignment to a float is one rounding. */
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_double_double.h"
#include "reference/numbers/ref_round.h"
#include "reference/rope_table.h"

static ref_dd log_of(float x)
{
    return ref_dd_log(ref_dd_of((double)x));
}

/* --- 8.2: base, range, attention factor --- */

/* theta t^(R/(R-2)), t = factor L/N - (factor - 1), L = max(length, N) */
static kvg_status dynamic_base(const kvg_rope *rope, float *base)
{
    const kvg_rope_scaling *s = &rope->scaling;
    const double n = (double)s->original_positions, length = s->length > s->original_positions ? (double)s->length : n;
    const ref_dd stretch = ref_dd_divide(ref_dd_of((double)s->factor * length), ref_dd_of(n)); /* 48 bits: exact */
    const ref_dd t = ref_dd_add(stretch, ref_dd_of(1 - (double)s->factor));
    const ref_dd exponent = ref_dd_divide(ref_dd_of(rope->dims), ref_dd_of(rope->dims - 2.0));
    const ref_dd power = ref_dd_exp(ref_dd_multiply(exponent, ref_dd_log(t)));
    *base = ref_dd_to_f32(ref_dd_multiply(ref_dd_of((double)s->theta), power));
    if (*base <= 0x1p80f) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "rope kind dynamic: length %g makes a base of %g, above 2^80: use a smaller "
                    "factor", (double)s->length, (double)*base);
}

/* The pair that makes `turns` turns over the original positions: R ln(N / (2 pi turns)) / (2 ln theta). */
static ref_dd pair_of(const kvg_rope *rope, float turns)
{
    static const ref_dd minus_ln_2pi = {-0x1.d67f1c864beb5p0, 0x1.65b5a1b7ff5dfp-54};
    const kvg_rope_scaling *s = &rope->scaling;
    const ref_dd ln_turns = log_of(turns), ln_theta = log_of(s->theta);
    ref_dd ln_ratio = ref_dd_add(log_of(s->original_positions), (ref_dd){-ln_turns.high, -ln_turns.low});
    ln_ratio = ref_dd_multiply(ref_dd_add(ln_ratio, minus_ln_2pi), ref_dd_of(rope->dims));
    return ref_dd_divide(ln_ratio, ref_dd_add(ln_theta, ln_theta));
}

/* The integer below x. */
static double floor_of(ref_dd x)
{
    const double nearest = ref_to_integer(x.high);
    return nearest > x.high || (nearest == x.high && x.low < 0) ? nearest - 1 : nearest;
}

static kvg_status yarn_range(const kvg_rope *rope, kvg_rope_numbers *out)
{
    const kvg_rope_scaling *s = &rope->scaling;
    ref_dd low = pair_of(rope, s->beta_fast), high = pair_of(rope, s->beta_slow);
    if (s->truncate) {
        low = ref_dd_of(floor_of(low));
        high = ref_dd_of(floor_of(high) + 1); /* no pair_of is an integer: pi is transcendental */
    }
    if (low.high < 0) low = ref_dd_of(0);
    if (high.high > rope->dims - 1) high = ref_dd_of(rope->dims - 1.0);
    const ref_dd width = ref_dd_add(high, (ref_dd){-low.high, -low.low});
    if (width.high < 0) {
        return kvg_fail(KVG_ERR_INVALID, "rope kind yarn: its range would go from pair %g to pair %g: check "
                        "original_positions %g and the betas", low.high, high.high, (double)s->original_positions);
    }
    out->low = ref_dd_to_f32(low);
    out->width = width.high == 0 ? 0.001f : ref_dd_to_f32(width);
    return KVG_OK;
}

/* 1 + scale ln(factor)/10 */
static ref_dd magnitude(const kvg_rope_scaling *s, double scale)
{
    const ref_dd tenth = ref_dd_divide(log_of(s->factor), ref_dd_of(10));
    return ref_dd_add(ref_dd_of(1), ref_dd_multiply(ref_dd_of(scale), tenth));
}

static float attention_factor(const kvg_rope_scaling *s)
{
    if (s->attention_factor != 0) return s->attention_factor;
    if (s->kind != KVG_ROPE_YARN) return 1;
    if (s->mscale == 0) return ref_dd_to_f32(magnitude(s, 1));
    return ref_dd_to_f32(ref_dd_divide(magnitude(s, (double)s->mscale), magnitude(s, (double)s->mscale_all_dim)));
}

kvg_status kvg_reference_rope_numbers(const kvg_rope *rope, kvg_rope_numbers *out)
{
    const kvg_rope_kind kind = rope->scaling.kind;
    if (kind == KVG_ROPE_TABLE || rope->dims == 0) {
        return kvg_fail(KVG_ERR_INVALID, "a rope table follows from a kind of core/rope_kinds.def and from dims "
                        "above 0");
    }
    kvg_status s = kvg_rope_check(rope, KVG_MAX_HEAD_DIM);
    if (s) return s;
    *out = (kvg_rope_numbers){.base = rope->scaling.theta, .attention_factor = attention_factor(&rope->scaling)};
    if (kind == KVG_ROPE_DYNAMIC) return dynamic_base(rope, &out->base);
    return kind == KVG_ROPE_YARN ? yarn_range(rope, out) : KVG_OK;
}

/* --- 8.3: frequencies --- */

/* By wavelengths: short ones stay, long ones are divided by factor, between them both are mixed. */
static float llama3(const kvg_rope_scaling *s, float f)
{
    const float two_pi = 0x1.921fb6p2f;
    const float wavelength = two_pi / f, divided = f / s->factor;
    const float shortest = s->original_positions / s->high_freq_factor;
    const float longest = s->original_positions / s->low_freq_factor;
    if (wavelength < shortest) return f;
    if (wavelength > longest) return divided;
    const float turns = s->original_positions / wavelength, above = turns - s->low_freq_factor;
    const float range = s->high_freq_factor - s->low_freq_factor, smooth = above / range, rest = 1 - smooth;
    const float slow = rest * f, slow_divided = slow / s->factor, fast = smooth * f;
    return slow_divided + fast;
}

/* Pairs before the range stay, those behind it are divided by factor, between them both are mixed. */
static float yarn(const kvg_rope_scaling *s, const kvg_rope_numbers *n, float power, uint32_t pair)
{
    const float stretched = s->factor * power, interpolated = 1 / stretched, kept = 1 / power;
    const float from_low = (float)pair - n->low, slope = from_low / n->width;
    const float ramp = slope < 0 ? 0 : slope > 1 ? 1 : slope;
    const float keep = 1 - ramp, give = 1 - keep; /* as engines compute it: not ramp, where 1 - ramp is rounded */
    const float slow = interpolated * give, fast = kept * keep;
    return slow + fast;
}

kvg_status kvg_reference_rope_frequencies(const kvg_rope *rope, float *frequencies)
{
    const kvg_rope_scaling *scaling = &rope->scaling;
    kvg_rope_numbers n;
    kvg_status s = kvg_reference_rope_numbers(rope, &n);
    if (s) return s;
    const ref_dd ln_base = log_of(n.base);
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        const float exponent = (float)(2 * i) / (float)rope->dims;
        const float power = ref_dd_to_f32(ref_dd_exp(ref_dd_multiply(ref_dd_of((double)exponent), ln_base)));
        const float f = 1 / power;
        switch (scaling->kind) {
        case KVG_ROPE_LINEAR: frequencies[i] = f / scaling->factor; break;
        case KVG_ROPE_LLAMA3: frequencies[i] = llama3(scaling, f); break;
        case KVG_ROPE_YARN: frequencies[i] = yarn(scaling, &n, power, i); break;
        default: frequencies[i] = f;
        }
    }
    return KVG_OK;
}

/* --- 8.4: the table --- */

static float entry(const kvg_rope_scaling *s, float factor, float turn)
{
    const float product = turn * factor;
    uint32_t code;
    float typed = product;
    if (s->entries) kvg_reference_store(s->entries, &product, 1, &code);
    if (s->entries) kvg_reference_load(s->entries, &code, 1, &typed);
    return typed;
}

kvg_status kvg_reference_rope_rows(const kvg_rope *rope, const float *frequencies, uint32_t first, uint32_t count,
                                   float *cos_sin)
{
    const size_t pairs = rope->dims / 2;
    kvg_rope_numbers n;
    kvg_status s = kvg_reference_rope_numbers(rope, &n);
    if (s) return s;
#pragma omp parallel for schedule(static)
    for (uint32_t row = 0; row < count; row++) {
        for (size_t i = 0; i < pairs; i++) {
            const float angle = (float)(first + row) * frequencies[i];
            float *to = cos_sin + 2 * (row * pairs + i);
            float cos, sin;
            ref_cos_sin(angle, &cos, &sin);
            to[0] = entry(&rope->scaling, n.attention_factor, cos);
            to[1] = entry(&rope->scaling, n.attention_factor, sin);
        }
    }
    return KVG_OK;
}

kvg_status kvg_reference_rope_table(const kvg_rope *rope, float *cos_sin)
{
    float frequencies[KVG_MAX_HEAD_DIM / 2];
    kvg_status s = kvg_reference_rope_frequencies(rope, frequencies);
    return s ? s : kvg_reference_rope_rows(rope, frequencies, 0, rope->positions, cos_sin);
}
