#include "reference/formats/ref_row_scale.h"

#include <math.h>

#include "reference/numbers/ref_round.h"

static const double LARGEST_SCALE = 65504.0; /* f16 */

ref_packing ref_row_scale_packing(const ref_row *row)
{
    (void)row;
    return REF_PACK_ODD_EVEN;
}

void ref_row_scale_scale(const ref_row *row, const float *x, uint8_t *scales, double *v)
{
    const ref_row_scale_dialect *dialect = row->dialect;
    bool has_nan;
    float amax = ref_amax(x, row->head_dim, &has_nan);
    if (amax < dialect->least_amax) amax = dialect->least_amax;
    uint16_t code = kvg_ref_f16_of_f32(amax / dialect->divisor);
    if (code > 0x7BFF) code = 0x7BFF; /* Inf saturates */
    ref_write_u16(scales, code);
    const float scale = kvg_ref_f32_of_f16(code);
    for (uint32_t i = 0; i < row->head_dim; i++) {
        float ratio = scale == 0 && !isnan(x[i]) ? copysignf(0.0f, x[i]) : x[i] / scale;
        v[i] = ratio * dialect->multiple;
    }
}

float ref_row_scale_read(const uint8_t *scales)
{
    return kvg_ref_f32_of_f16(ref_read_u16(scales));
}

ref_range ref_row_scale_range(const ref_row *row, double amax, bool has_nan)
{
    (void)has_nan;
    const ref_row_scale_dialect *dialect = row->dialect;
    double exact = ref_max(amax, dialect->least_amax) / dialect->divisor;
    double slack = exact * (0x1p-11 + 0x1p-23) + 0x1p-25; /* RN, then half an ulp of f16, or half its smallest step */
    ref_range d = {ref_min(ref_max(exact - slack, 0), LARGEST_SCALE), ref_min(exact + slack, LARGEST_SCALE)};
    /* v counts in units of scale / multiple */
    return (ref_range){d.low / dialect->multiple, d.high / dialect->multiple};
}
