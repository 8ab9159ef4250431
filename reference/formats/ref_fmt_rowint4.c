/* rowint4: docs/spec/formats.md section 6. */
#include <math.h>

#include "reference/formats/ref_row_scale.h"
#include "reference/numbers/ref_round.h"

static const ref_row_scale_dialect dialects[] = {
    {{"canonical", "Metal Marlin: amax / 7, nibble q + 8", KVG_DIALECT_BITS}, 7.0f, 0.0f, 1.0f},
};

static uint16_t encode(const ref_row *row, float x, double v)
{
    (void)row, (void)x;
    if (isnan(v)) return 8;
    return (uint16_t)(ref_to_integer(ref_max(-7, ref_min(7, v))) + 8);
}

static double grid_value(const ref_row *row, uint16_t code)
{
    (void)row;
    return code - 8;
}

static void decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y)
{
    const float scale = ref_row_scale_read(scales);
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = (float)(codes[i] - 8) * scale;
}

static double exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y)
{
    for (uint32_t i = 0; i < row->head_dim; i++) y[i] = codes[i] - 8;
    return ref_row_scale_read(scales);
}

const ref_codec ref_fmt_rowint4 = {
    .format = KVG_FORMAT_ROWINT4,
    REF_DIALECTS(dialects),
    .grid = {.codes = 16, .low = -7, .high = 7, .absolute = 0.5},
    .packing = ref_row_scale_packing,
    .scale = ref_row_scale_scale,
    .encode = encode,
    .decode = decode,
    .exact = exact,
    .grid_value = grid_value,
    .scale_range = ref_row_scale_range,
};
