#include "reference/formats/ref_mx.h"

#include <math.h>

#include "core/bits.h"
#include "reference/numbers/ref_elementary.h"

/*                                    split  below  low high  most  least */
const ref_mx_rule ref_mx_ceil6 = {1.5, false, -2, -1, 6.0, 3.0};
const ref_mx_rule ref_mx_floor = {2.0, true, -2, -1, 8.0, 4.0};
const ref_mx_rule ref_mx_even = {1.75, true, -2, -1, 7.0, 3.5};
const ref_mx_rule ref_mx_trunc6 = {1.5, true, -3, -2, 12.0, 6.0};

/* The exponent that the rule gives for a finite amax > 0, before clamping. amax is an f32, so its double is normal. */
static int rule_exponent(const ref_mx_rule *rule, double amax)
{
    uint64_t bits = kvg_bits_of_f64(amax);
    int k = (int)(bits >> 52) - 1023;
    double m = kvg_f64_of_bits((bits & 0xFFFFFFFFFFFFFull) | 1023ull << 52);
    bool low = rule->below ? m < rule->split : m <= rule->split;
    return k + (low ? rule->low : rule->high);
}

/* ceil(RN_T(log2(t))), t = RN_T(amax / 6) but at least RN_T(1e-10); -Inf for t = 0, which f16 may have. The logarithm
 * is within 2^-50 of itself. Only the midpoint next to a whole number can change the result, and no logarithm of a
 * number of T is nearer to one than 2^-32 of itself, but for whole ones. */
static double logarithm_exponent(kvg_dtype T, float amax)
{
    const double sixth = ref_round_to(T, amax / 6.0f), least = ref_round_to(T, 1e-10f), ln2 = 0x1.62e42fefa39efp-1;
    const double t = sixth < least ? least : sixth, log = ref_round_to(T, ref_log(t) / ln2);
    const double whole = (double)(int)(log > -1000 ? log : 0);
    return t == 0 ? -INFINITY : whole < log ? whole + 1 : whole;
}

/* Gives the byte, and in `factor` 2^e, by which the elements are divided. */
static uint8_t scale_byte(const ref_mx_dialect *dialect, kvg_dtype T, float amax, bool has_nan, double *factor)
{
    const bool special = isinf(amax) || has_nan, as_zero = amax == 0 || (dialect->special == REF_MX_AS_ZERO && special);
    double e;
    *factor = NAN;
    if (dialect->special == REF_MX_CONVERTED && special) return has_nan ? 0 : 255;
    if (dialect->kind == REF_MX_LOGARITHM) e = logarithm_exponent(T, amax);
    else if (as_zero) e = dialect->zero_byte - 127;
    else e = isinf(amax) ? 127 : rule_exponent(dialect->rule, amax);
    if (!as_zero && dialect->kind != REF_MX_LOGARITHM && e < dialect->least_exponent) e = dialect->least_exponent;
    const uint8_t byte = (uint8_t)(e < -127 ? 0 : e > 127 ? 254 : e + 127);
    *factor = isinf(e) ? 0 : (double)kvg_ref_f32_of_e8m0(byte);
    return byte;
}

void ref_mx_scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const ref_mx_dialect *dialect = row->dialect;
    const uint32_t block = dialect->block;
    for (uint32_t start = 0; start < row->head_dim; start += block) {
        bool has_nan;
        double factor;
        const float amax = ref_amax(x + start, block, &has_nan);
        const uint8_t byte = scale_byte(dialect, row->dtype, amax, has_nan, &factor);
        *scales++ = byte;
        if (byte == 0 && dialect->kind == REF_MX_FLUSHED) factor = INFINITY;
        for (uint32_t i = start; i < start + block; i++) v[i] = (double)x[i] / factor; /* by a power of two: exact */
    }
}

void ref_mx_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const uint32_t block = ((const ref_mx_dialect *)row->dialect)->block;
    for (uint32_t i = 0; i < row->head_dim; i++) {
        y[i] = kvg_ref_f32_of_e2m1((uint8_t)codes[i]) * kvg_ref_f32_of_e8m0(scales[i / block]);
    }
}

double ref_mx_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    const uint32_t block = ((const ref_mx_dialect *)row->dialect)->block;
    for (uint32_t start = 0; start < row->head_dim; start += block) {
        const double d = kvg_ref_f32_of_e8m0(scales[start / block]);
        for (uint32_t i = start; i < start + block; i++) y[i] = (double)kvg_ref_f32_of_e2m1((uint8_t)codes[i]) * d;
    }
    return 1;
}

ref_range ref_mx_scale_range(const ref_row *row, double amax, bool has_nan)
{
    const ref_mx_dialect *dialect = row->dialect;
    const double smallest = 0x1p-127, largest = 0x1p127;
    if (has_nan && dialect->special != REF_MX_SKIPPED) return (ref_range){0, INFINITY};
    double high = ref_max(amax / dialect->rule->least, kvg_ref_f32_of_e8m0((uint8_t)(dialect->least_exponent + 127)));
    double low = amax / dialect->rule->most;
    if (low < smallest && dialect->kind == REF_MX_FLUSHED) low = 0;
    /* t may be 0, or have lost a third of itself; its logarithm may be rounded down */
    if (dialect->kind == REF_MX_LOGARITHM) low = amax < 0x1p-20 ? 0 : low / 1.5;
    return (ref_range){ref_min(low, largest), ref_max(smallest, ref_min(high, largest))};
}
