#include "reference/formats/ref_affine.h"

#include <float.h>
#include <math.h>

#include "reference/numbers/ref_round.h"
#include "reference/numbers/ref_special.h"

kvg_dialect_number ref_affine_number(const void *dialect)
{
    return ((const ref_affine_dialect *)dialect)->rule;
}

ref_packing ref_affine_packing(const ref_row *row)
{
    return ((const ref_affine_dialect *)row->dialect)->packing;
}

/* The second parameter is a zero point, not the minimum. */
static bool has_zero_point(const ref_affine_dialect *dialect)
{
    return dialect->writer >= REF_WRITER_PYTORCH;
}

/* The writer adds 1/2 to a code and cuts off the fraction. */
static bool cuts_off(const ref_affine_dialect *dialect)
{
    return dialect->writer == REF_WRITER_PYTORCH || dialect->writer == REF_WRITER_SM90;
}

typedef struct extent {
    float min, max;
} extent;

/* NaN elements are skipped, or make a row NaN; -0 is smaller than +0, as in the hardware's minimum and maximum. */
static extent row_extent(const ref_row *row, const float *x)
{
    const ref_affine_writer writer = ((const ref_affine_dialect *)row->dialect)->writer;
    const bool propagates = writer == REF_WRITER_QUANTO || writer == REF_WRITER_HQQ;
    extent e = {INFINITY, -INFINITY};
    for (uint32_t i = 0; i < row->head_dim; i++) {
        if (isnan(x[i]) && propagates) return (extent){NAN, NAN};
        if (isnan(x[i])) continue;
        if (x[i] < e.min || (x[i] == e.min && signbit(x[i]))) e.min = x[i];
        if (x[i] > e.max || (x[i] == e.max && !signbit(x[i]))) e.max = x[i];
    }
    return e;
}

void ref_affine_write(kvg_dtype dtype, float value, uint8_t *bytes)
{
    ref_write_u16(bytes, dtype == KVG_DTYPE_F16 ? kvg_ref_f16_of_f64(value) : kvg_ref_bf16_of_f64(value));
}

static float read_param(kvg_dtype dtype, const uint8_t *bytes)
{
    uint16_t code = ref_read_u16(bytes);
    return dtype == KVG_DTYPE_F16 ? kvg_ref_f32_of_f16(code) : kvg_ref_f32_of_bf16(code);
}

/* [scale, zero point]. v is what is cut off. */
static void scale_from_zero(const ref_row *row, const float *x, extent e, uint8_t *scales, double *v)
{
    const ref_affine_dialect *dialect = row->dialect;
    const bool on_sm90 = dialect->writer == REF_WRITER_SM90;
    const float n = (float)dialect->levels, step = 1 / n;
    if (on_sm90 && e.max < e.min) e.min = e.max = NAN;
    const float range = e.max - e.min, below = 0 - e.min;
    const float s = on_sm90 ? range * step : range / n;
    const float z = on_sm90 ? ref_div_full(below, s, false) : -e.min / s;
    ref_affine_write(row->dtype, s, scales);
    ref_affine_write(row->dtype, z, scales + 2);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const float quotient = x[i] / s;
        const float shifted = on_sm90 ? ref_div_full_plus(x[i], s, z) : quotient + z;
        v[i] = shifted + 0.5f;
    }
}

/* [scale, zero point] of hqq. v is rounded to the nearest integer. */
static void scale_within_limits(const ref_row *row, const float *x, extent e, uint8_t *scales, double *v)
{
    const float n = (float)((const ref_affine_dialect *)row->dialect)->levels, range = e.max - e.min;
    const float of_range = 1 / range;
    float inverse = of_range * n;
    if (range <= 1e-4f) inverse = 1;
    if (inverse > 2e4f) inverse = 2e4f;
    const float z = 0 - e.min * inverse;
    ref_affine_write(row->dtype, 1 / inverse, scales);
    ref_affine_write(row->dtype, z, scales + 2);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const float steps = x[i] * inverse;
        v[i] = steps + z;
    }
}

/* [scale, min]. v is rounded to the nearest integer. Differences, products and quotients of two T values are formed in
 * double: 53 bits are more than twice T's 11 and two, so rounding the double to T gives the correctly rounded result.
 */
static void scale_from_min(const ref_row *row, const float *x, extent e, uint8_t *scales, double *v)
{
    const ref_affine_dialect *dialect = row->dialect;
    const kvg_dtype T = row->dtype;
    const bool quanto = dialect->writer == REF_WRITER_QUANTO;
    const float n = (float)dialect->levels, step = 1.0f / n;
    const float range = quanto ? ref_round_to(T, (double)e.max - (double)e.min) : e.max - e.min;
    const float scale = ref_round_to(T, quanto ? range / n : range * step);
    const float inverse = ref_round_to(T, 1.0 / (double)scale);
    ref_affine_write(T, scale, scales);
    ref_affine_write(T, quanto && e.min == 0 ? 0 : e.min, scales + 2);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const double above = ref_round_to(T, (double)x[i] - (double)e.min);
        v[i] = ref_round_to(T, quanto ? above / (double)scale : above * (double)inverse);
    }
}

void ref_affine_scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const extent e = row_extent(row, x);
    switch (((const ref_affine_dialect *)row->dialect)->writer) {
    case REF_WRITER_RECIPROCAL:
    case REF_WRITER_QUANTO: scale_from_min(row, x, e, scales, v); break;
    case REF_WRITER_PYTORCH:
    case REF_WRITER_SM90: scale_from_zero(row, x, e, scales, v); break;
    case REF_WRITER_HQQ: scale_within_limits(row, x, e, scales, v); break;
    }
}

uint16_t ref_affine_encode(const ref_row *row, float x, double v)
{
    (void)x;
    const ref_affine_dialect *dialect = row->dialect;
    const double n = dialect->levels;
    if (!(v > 0)) return 0; /* NaN too */
    if (v >= n) return (uint16_t)dialect->levels;
    return (uint16_t)(cuts_off(dialect) ? v : ref_to_integer(v));
}

void ref_affine_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const ref_affine_dialect *dialect = row->dialect;
    const kvg_dtype T = row->dtype;
    const float scale = read_param(T, scales), second = read_param(T, scales + 2);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const double product = (double)codes[i] * (double)scale;
        float zeroed, zero;
        switch (dialect->rule) {
        case KVG_NUMBER_FUSED: y[i] = ref_round_sum(T, product, second); break;
        case KVG_NUMBER_TWICE: y[i] = ref_round_sum(T, ref_round_to(T, product), second); break;
        case KVG_NUMBER_FROM_ZERO:
            zeroed = (float)codes[i] - second;
            y[i] = zeroed * scale;
            break;
        case KVG_NUMBER_LESS_ZERO:
            zero = ref_round_to(T, (double)scale * (double)second);
            y[i] = T == KVG_DTYPE_F16 ? ref_round_sum(T, product, -zero) : fmaf(codes[i], scale, -zero);
            break;
        case KVG_NUMBER_FROM_ZERO_IN_T:
            zeroed = ref_round_to(T, (double)codes[i] - (double)second);
            y[i] = zeroed * scale;
            break;
        }
    }
}

void ref_affine_operands(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const ref_affine_dialect *dialect = row->dialect;
    const float scale = read_param(row->dtype, scales), second = read_param(row->dtype, scales + 2);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const float code = codes[i];
        switch (dialect->rule) {
        case KVG_NUMBER_FUSED: y[i] = fmaf(code, scale, second); break;
        case KVG_NUMBER_TWICE: y[i] = ref_round_to(row->dtype, (double)code * scale) + second; break;
        case KVG_NUMBER_FROM_ZERO:
            y[i] = code - second;
            y[i] *= scale;
            break;
        case KVG_NUMBER_LESS_ZERO: y[i] = fmaf(code, scale, -ref_round_to(row->dtype, (double)scale * second)); break;
        case KVG_NUMBER_FROM_ZERO_IN_T: y[i] = ref_round_to(row->dtype, (double)code - second) * scale; break;
        }
    }
}

/* A product of a code and a T value is exact in double; a sum is rounded once, and so is the last product. */
double ref_affine_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    const ref_affine_dialect *dialect = row->dialect;
    const double scale = read_param(row->dtype, scales), second = read_param(row->dtype, scales + 2);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        const double product = codes[i] * scale;
        switch (dialect->rule) {
        case KVG_NUMBER_FUSED: y[i] = product + second; break;
        case KVG_NUMBER_TWICE: y[i] = ref_round_to(row->dtype, product) + second; break;
        case KVG_NUMBER_FROM_ZERO: y[i] = (codes[i] - second) * scale; break;
        case KVG_NUMBER_LESS_ZERO: y[i] = product - ref_round_to(row->dtype, scale * second); break;
        case KVG_NUMBER_FROM_ZERO_IN_T: y[i] = (double)ref_round_to(row->dtype, codes[i] - second) * scale; break;
        }
    }
    return 1;
}

double ref_affine_grid_value(const ref_row *row, uint16_t code)
{
    /* The PyTorch rule truncates v = q + 0.5 + ...: its codes sit in the middle of unit steps. */
    return code + (cuts_off(row->dialect) ? 0.5 : 0.0);
}

/* The step of hqq: rows of up to 1e-4 have one of 1. */
static double limited(double range, uint32_t levels)
{
    return range <= (double)1e-4f ? 1 : ref_max(range / levels, 1 / 2e4);
}

/* docs/spec/numerics.md section 2.3. h: half an ulp of T, relative. */
void ref_affine_bound(const ref_row *row, const float *x, double *bound)
{
    const ref_affine_dialect *dialect = row->dialect;
    const extent e = row_extent(row, x);
    const double h = ref_half_ulp(row->dtype), tiny = 2 * ref_half_step(row->dtype);
    const double range = (double)e.max - (double)e.min;
    const double scale = dialect->writer == REF_WRITER_HQQ ? limited(range, dialect->levels) : range / dialect->levels;
    const bool zero_point = has_zero_point(dialect);
    const double offset = zero_point ? fabs((double)e.min) : 0;
    /* An infinite or empty row has no finite scale. x - min and q * scale are numbers of T, without a zero point;
     * scale * zero, of relative error 3h, is a number of T where it is subtracted. */
    const double widest = !zero_point                         ? ref_largest(row->dtype) / (1 + 2 * h)
                          : dialect->writer == REF_WRITER_HQQ ? 0x1p126
                                                              : FLT_MAX;
    const double zeroed = dialect->rule == KVG_NUMBER_LESS_ZERO ? offset * (1 + 4 * h) : 0;
    const bool promised = range <= widest && zeroed <= ref_largest(row->dtype) &&
                          (!zero_point || (scale >= ref_smallest_normal(row->dtype) &&
                                           offset / scale <= ref_largest(row->dtype)));
    for (uint32_t i = 0; i < row->head_dim; i++) {
        if (!promised || !isfinite(x[i])) {
            bound[i] = INFINITY;
            continue;
        }
        const double magnitude = fabs((double)x[i]);
        double error;
        if (scale < ref_smallest_normal(row->dtype)) {
            error = range + dialect->levels * tiny; /* scale or its reciprocal left the normal range */
        } else if (dialect->writer == REF_WRITER_HQQ && scale == 1 && range < 1) {
            error = range; /* all codes are 0, which stands for the minimum */
        } else if (zero_point) {
            const double rounded = dialect->rule == KVG_NUMBER_FROM_ZERO_IN_T ? 3 * h : 2 * h;
            error = 0.5 * scale * (1 + 2 * h) + rounded * (offset + magnitude) + 0x1p-21 * (range + offset + magnitude);
        } else {
            error = 0.5 * scale * (1 + 2 * h) + 5 * h * ((double)x[i] - (double)e.min);
        }
        double value = magnitude + error; /* the decoded value is at most this, before its own roundings */
        bound[i] = value > ref_largest(row->dtype) ? INFINITY : error + 2.1 * h * (value + range) + tiny;
    }
}
