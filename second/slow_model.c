#include "second/slow_model.h"

#include <string.h>

#include "second/slow_exp2.h"

static slow_number in(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return slow_f32_of(bits);
}

static float out(slow_number n)
{
    const uint32_t bits = (uint32_t)slow_encode(&slow_f32, n);
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static slow_number one(void)
{
    return slow_scaled(1, 0);
}

static slow_number negative(slow_number n)
{
    n.negative = !n.negative;
    return n;
}

/* --- sums --- */

static slow_number step(slow_number sum, float w, float x, slow_model_fault fault)
{
    if (fault != SLOW_MODEL_UNFUSED) return slow_f32_fma(in(w), in(x), sum);
    return slow_f32_add(sum, slow_f32_multiply(in(w), in(x)));
}

static slow_number sum_of(const float *w, const float *x, size_t first, size_t last, slow_model_fault fault)
{
    slow_number sum = slow_zero(false);
    for (size_t i = first; i < last; i++) {
        const size_t at = fault == SLOW_MODEL_BACKWARDS ? last - 1 - (i - first) : i;
        sum = step(sum, w[at], x[at], fault);
    }
    return sum;
}

static slow_number dot(const float *w, const float *x, size_t count, slow_model_fault fault)
{
    if (fault != SLOW_MODEL_HALVES) return sum_of(w, x, 0, count, fault);
    return slow_f32_add(sum_of(w, x, 0, count / 2, fault), sum_of(w, x, count / 2, count, fault));
}

float slow_model_dot(const float *w, const float *x, size_t count, slow_model_fault fault)
{
    return out(dot(w, x, count, fault));
}

/* --- the norm --- */

/* The f32 nearest to the root of v > 0, by bisection over the codes of positive floats: the exact square of a float has
 * 48 bits. The midpoint of two neighbours has 25, its square 50; a root is never such a midpoint. */
static slow_number root(slow_number v)
{
    uint32_t low = 1, high = 0x7F7FFFFF; /* the largest code whose square is at most v lies in low ... high - 1 */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        const slow_number x = slow_f32_of(middle);
        if (slow_compare(slow_multiply(x, x), v) <= 0) low = middle;
        else high = middle;
    }
    const slow_number between = slow_multiply(slow_add(slow_f32_of(low), slow_f32_of(low + 1)), slow_scaled(1, -1));
    return slow_f32_of(slow_compare(slow_multiply(between, between), v) < 0 ? low + 1 : low);
}

void slow_model_rms_norm(const float *x, const float *w, size_t count, float eps, float *y, slow_model_fault fault)
{
    const bool outside = fault == SLOW_MODEL_EPS_OUTSIDE;
    const slow_number mean = slow_f32_divide(dot(x, x, count, fault), slow_scaled((int64_t)count, 0));
    slow_number divisor = root(outside ? mean : slow_f32_add(mean, in(eps)));
    if (outside) divisor = slow_f32_add(divisor, in(eps));
    const slow_number r = slow_f32_divide(one(), divisor);
    for (size_t i = 0; i < count; i++) {
        slow_number z = slow_f32_multiply(in(w[i]), slow_f32_multiply(in(x[i]), r));
        if (fault == SLOW_MODEL_WEIGHT_FIRST) z = slow_f32_multiply(slow_f32_multiply(in(w[i]), in(x[i])), r);
        if (fault == SLOW_MODEL_ROUNDED_ROOT) z = slow_f32_multiply(in(w[i]), slow_f32_divide(in(x[i]), divisor));
        y[i] = out(z);
    }
}

/* --- SwiGLU --- */

static const uint32_t log2_e = 0x3FB8AA3B; /* 0x1.715476p+0 */

static slow_number sigmoid(slow_number z, slow_model_fault fault)
{
    slow_number magnitude = z;
    magnitude.negative = true;
    if (z.kind == SLOW_NAN) return slow_nan();
    const slow_number t = slow_exp2(slow_f32_multiply(magnitude, slow_f32_of(log2_e)), SLOW_DECODE_RIGHT);
    const slow_number upper = slow_f32_divide(one(), slow_f32_add(one(), t));
    if (!z.negative || slow_is_zero(z)) return upper;
    if (fault == SLOW_MODEL_ONE_SIGMOID) return slow_f32_subtract(one(), upper);
    return slow_f32_divide(t, slow_f32_add(one(), t));
}

float slow_model_sigmoid(float z, slow_model_fault fault)
{
    return out(sigmoid(in(z), fault));
}

static slow_number clamp(slow_number x, slow_number low, slow_number high)
{
    if (x.kind == SLOW_NAN) return x;
    if (slow_compare(x, high) > 0) return high;
    return slow_compare(x, low) < 0 ? low : x;
}

float slow_model_swiglu(float gate, float up, float limit, slow_model_fault fault)
{
    slow_number g = in(gate), u = in(up);
    if (limit == 0) {
        if (fault == SLOW_MODEL_UP_FIRST) return out(slow_f32_multiply(slow_f32_multiply(u, g), sigmoid(g, fault)));
        return out(slow_f32_multiply(slow_f32_multiply(g, sigmoid(g, fault)), u));
    }
    const slow_number top = in(limit);
    if (fault != SLOW_MODEL_NO_CLAMP) {
        g = clamp(g, slow_infinity(true), top);
        u = clamp(u, negative(top), top);
    }
    /* 1.702 and 1.7 in f32 */
    const slow_number alpha = slow_f32_of(fault == SLOW_MODEL_ALPHA_1_7 ? 0x3FD9999A : 0x3FD9DB23);
    const slow_number s = sigmoid(slow_f32_multiply(alpha, g), fault), above = slow_f32_add(u, one());
    if (fault == SLOW_MODEL_UP_FIRST) return out(slow_f32_multiply(slow_f32_multiply(above, g), s));
    return out(slow_f32_multiply(above, slow_f32_multiply(g, s)));
}

/* --- the router --- */

/* How many logits come before logit i: the place of i in the order. */
static uint32_t place_of(const float *logits, uint32_t count, uint32_t i, slow_model_fault fault)
{
    uint32_t place = 0;
    for (uint32_t k = 0; k < count; k++) {
        const slow_number a = in(logits[k]), b = in(logits[i]);
        int order = a.kind == SLOW_NAN ? b.kind != SLOW_NAN : b.kind == SLOW_NAN ? -1 : slow_compare(a, b);
        if (slow_is_zero(a) && slow_is_zero(b)) order = 0;
        if (order > 0 || (order == 0 && (fault == SLOW_MODEL_LATER_TIE ? k > i : k < i))) place++;
    }
    return place;
}

void slow_model_route(const float *logits, uint32_t count, uint32_t chosen, uint32_t *experts, float *weights,
                      slow_model_fault fault)
{
    uint32_t order[64];
    slow_number parts[64], sum = slow_zero(false);
    const uint32_t summed = fault == SLOW_MODEL_ALL_SOFTMAX ? count : chosen;
    for (uint32_t i = 0; i < count; i++) order[place_of(logits, count, i, fault)] = i;
    for (uint32_t j = 0; j < summed; j++) {
        const slow_number below = slow_f32_subtract(in(logits[order[j]]), in(logits[order[0]]));
        parts[j] = slow_exp2(slow_f32_multiply(below, slow_f32_of(log2_e)), SLOW_DECODE_RIGHT);
        if (below.kind == SLOW_NAN) parts[j] = slow_nan();
        sum = slow_f32_add(sum, parts[j]);
    }
    for (uint32_t j = 0; j < chosen; j++) {
        experts[j] = order[j];
        weights[j] = out(slow_f32_divide(parts[j], sum));
    }
}

/* --- sampling --- */

/* The weight of a logit that is `below` the largest. */
static slow_number weight_of(slow_number below, slow_number temperature)
{
    const slow_number x = slow_f32_multiply(slow_f32_divide(below, temperature), slow_f32_of(log2_e));
    return slow_exp2(x, SLOW_DECODE_RIGHT);
}

/* The last of the shortest prefix whose weights reach the share of them all. */
static uint32_t last_kept(const slow_number *w, uint32_t count, float top_p, slow_model_fault fault)
{
    slow_number sum = slow_zero(false), all = slow_zero(false);
    uint32_t last = 0;
    for (uint32_t j = 0; j < count; j++) all = slow_f32_add(all, w[j]);
    const bool of_one = fault == SLOW_MODEL_SHARE_OF_ONE;
    const slow_number enough = of_one ? in(top_p) : slow_f32_multiply(in(top_p), all);
    for (; last < count; last++) {
        sum = slow_f32_add(sum, of_one ? slow_f32_divide(w[last], all) : w[last]);
        if (slow_compare(sum, enough) >= 0) break;
    }
    if (last == count) last--;
    return fault == SLOW_MODEL_SHARE_SHORT && last > 0 ? last - 1 : last;
}

uint32_t slow_model_sample(const float *logits, uint32_t count, float temperature, float top_p, float u,
                           slow_model_fault fault)
{
    uint32_t order[64];
    slow_number w[64], plain[64], sums[64], sum = slow_zero(false);
    for (uint32_t i = 0; i < count; i++) order[place_of(logits, count, i, SLOW_MODEL_RIGHT)] = i;
    if (temperature == 0) return order[0];
    for (uint32_t j = 0; j < count; j++) {
        const slow_number below = slow_f32_subtract(in(logits[order[j]]), in(logits[order[0]]));
        w[j] = weight_of(below, in(temperature));
        plain[j] = weight_of(below, one());
    }
    /* Different logits may have one weight: then the lower id comes first. */
    for (uint32_t j = 1; j < count; j++) {
        for (uint32_t k = j; k > 0 && slow_compare(w[k], w[k - 1]) == 0 && order[k] < order[k - 1]; k--) {
            const uint32_t id = order[k];
            order[k] = order[k - 1];
            order[k - 1] = id;
        }
    }
    const uint32_t last = last_kept(fault == SLOW_MODEL_SHARE_FIRST ? plain : w, count, top_p, fault);
    for (uint32_t j = 0; j < count; j++) sum = sums[j] = slow_f32_add(sum, w[j]);
    const slow_number drawn = slow_f32_multiply(in(u), sums[fault == SLOW_MODEL_DRAW_OF_ALL ? count - 1 : last]);
    for (uint32_t j = 0; j < last; j++) {
        if (slow_compare(sums[j], drawn) > 0) return order[j];
    }
    return order[last];
}
