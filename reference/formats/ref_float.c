#include "reference/formats/ref_float.h"

#include "reference/numbers/ref_special.h"

ref_packing ref_float_packing(const ref_row *row)
{
    return ((const ref_float_dialect *)row->dialect)->packing;
}

void ref_float_scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    (void)scales;
    const ref_float_dialect *dialect = row->dialect;
    const float g = row->tensor_scale, reciprocal = 1.0f / g;
    for (uint32_t i = 0; i < row->head_dim; i++) {
        v[i] = x[i];
        if (!dialect->scaled) continue;
        switch (dialect->by_scale) {
        case REF_DIVIDES: v[i] = x[i] / g; break;
        case REF_MULTIPLIES: v[i] = x[i] * reciprocal; break;
        case REF_DIVIDES_ON_SM90: v[i] = ref_div_full(x[i], g, false); break;
        }
    }
}

uint16_t ref_float_encode(const ref_row *row, float x, double v)
{
    const ref_float_dialect *dialect = row->dialect;
    return dialect->of_f32(dialect->scaled ? (float)v : x); /* v is an f32; unscaled, a NaN keeps x's payload */
}

void ref_float_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    (void)scales;
    const ref_float_dialect *dialect = row->dialect;
    for (uint32_t i = 0; i < row->head_dim; i++) {
        float value = dialect->to_f32(codes[i]);
        y[i] = dialect->scaled ? value * row->tensor_scale : value;
    }
}

double ref_float_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    (void)scales;
    const ref_float_dialect *dialect = row->dialect;
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = dialect->to_f32(codes[i]);
    return dialect->scaled ? row->tensor_scale : 1;
}

double ref_float_grid_value(const ref_row *row, uint16_t code)
{
    return ((const ref_float_dialect *)row->dialect)->to_f32(code);
}

ref_range ref_float_scale_range(const ref_row *row, double amax, bool has_nan)
{
    (void)amax, (void)has_nan;
    return (ref_range){row->tensor_scale, row->tensor_scale};
}
