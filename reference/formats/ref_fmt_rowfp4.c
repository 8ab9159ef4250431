/* rowfp4: docs/spec/formats.md section 6. */
#include <math.h>

#include "reference/formats/ref_e2m1.h"
#include "reference/formats/ref_row_scale.h"

typedef struct rowfp4_dialect {
    ref_row_scale_dialect base;
    bool linear; /* Metal Marlin's Python: half steps, offset 8, not E2M1 */
} rowfp4_dialect;

static const rowfp4_dialect dialects[] = {
    {{{"canonical", "E2M1, amax / 6", KVG_DIALECT_BITS}, 6.0f, 0.0f, 1.0f}, false},
    {{{"marlin-linear", "Metal Marlin Python: round(2x / scale) + 8", KVG_DIALECT_BITS}, 6.0f, 1e-8f, 2.0f}, true},
};

static const ref_e2m1_rules rules = {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 7};

static bool is_linear(const ref_row *row)
{
    return ((const rowfp4_dialect *)row->dialect)->linear;
}

static uint16_t encode(const ref_row *row, float x, double v)
{
    if (!is_linear(row)) return ref_e2m1_encode(&rules, x, v);
    if (isnan(v)) return 8;
    return (uint16_t)(ref_to_integer(ref_max(-8, ref_min(7, v))) + 8);
}

static double grid_value(const ref_row *row, uint16_t code)
{
    return is_linear(row) ? code - 8 : kvg_ref_f32_of_e2m1((uint8_t)code);
}

static const ref_grid *grid_of(const ref_row *row)
{
    static const ref_grid e2m1 = {.codes = 16, .low = -6, .high = 6, .relative = 0.25, .absolute = 0.25};
    static const ref_grid linear = {.codes = 16, .low = -8, .high = 7, .absolute = 0.5};
    return is_linear(row) ? &linear : &e2m1;
}

static void decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const float scale = ref_row_scale_read(scales);
    const float unit = is_linear(row) ? 0.5f : 1.0f;
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = (float)grid_value(row, codes[i]) * unit * scale;
}

static double exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    const double unit = is_linear(row) ? 0.5 : 1.0;
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = grid_value(row, codes[i]) * unit;
    return ref_row_scale_read(scales);
}

const ref_codec ref_fmt_rowfp4 = {
    .format = KVG_FORMAT_ROWFP4,
    REF_DIALECTS(dialects),
    .grid_of = grid_of,
    .packing = ref_row_scale_packing,
    .scale = ref_row_scale_scale,
    .encode = encode,
    .decode = decode,
    .exact = exact,
    .grid_value = grid_value,
    .scale_range = ref_row_scale_range,
};
