#include "reference/formats/ref_mx.h"

#include <math.h>

#include "core/bits.h"

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

static uint8_t scale_byte(const ref_mx_dialect *dialect, float amax, bool has_nan)
{
    bool special = isinf(amax) || has_nan;
    if (amax == 0 || (dialect->special_is_zero && special)) return dialect->zero_byte;
    if (isinf(amax)) return 254;
    int e = rule_exponent(dialect->rule, amax);
    if (e < dialect->least_exponent) e = dialect->least_exponent;
    return (uint8_t)(e < -127 ? 0 : e > 127 ? 254 : e + 127);
}

void ref_mx_scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const ref_mx_dialect *dialect = row->dialect;
    const uint32_t block = dialect->block;
    for (uint32_t start = 0; start < row->head_dim; start += block) {
        bool has_nan;
        float amax = ref_amax(x + start, block, &has_nan);
        uint8_t byte = scale_byte(dialect, amax, has_nan);
        *scales++ = byte;
        /* 2^(127 - byte) is exact in double, and so is its product with an f32. */
        double factor = 1.0 / (double)kvg_ref_f32_of_e8m0(byte);
        if (byte == 0 && dialect->byte0_is_zero) factor = 0;
        for (uint32_t i = start; i < start + block; i++) v[i] = (double)x[i] * factor;
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
    for (uint32_t i = 0; i < row->head_dim; i++) {
        y[i] = (double)kvg_ref_f32_of_e2m1((uint8_t)codes[i]) * kvg_ref_f32_of_e8m0(scales[i / block]);
    }
    return 1;
}

ref_range ref_mx_scale_range(const ref_row *row, double amax, bool has_nan)
{
    const ref_mx_dialect *dialect = row->dialect;
    const double smallest = 0x1p-127, largest = 0x1p127;
    if (has_nan && dialect->special_is_zero) return (ref_range){0, INFINITY};
    double high = ref_max(amax / dialect->rule->least, kvg_ref_f32_of_e8m0((uint8_t)(dialect->least_exponent + 127)));
    double low = amax / dialect->rule->most;
    if (low < smallest && dialect->byte0_is_zero) low = 0;
    return (ref_range){ref_min(low, largest), ref_max(smallest, ref_min(high, largest))};
}
