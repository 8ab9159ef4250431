/* What rowint4 and rowfp4 share: one f16 scale per row. docs/spec/formats.md section 6. */
#ifndef KVG_REFERENCE_FORMATS_REF_ROW_SCALE_H
#define KVG_REFERENCE_FORMATS_REF_ROW_SCALE_H

#include "reference/formats/ref_codec.h"

typedef struct ref_row_scale_dialect {
    kvg_dialect base;
    float divisor;    /* scale = RN_f16(RN(amax / divisor)), saturated to 65504 */
    float least_amax; /* amax is raised to this */
    float multiple;   /* v = RN(RN(x / scale) * multiple) */
} ref_row_scale_dialect;

ref_packing ref_row_scale_packing(const ref_row *row);

/* Writes the scale and v; where the scale is 0, v is a zero of x's sign (NaN stays NaN). */
void ref_row_scale_scale(const ref_row *row, const float *x, uint8_t *scales, double *v);
float ref_row_scale_read(const uint8_t *scales);
ref_range ref_row_scale_range(const ref_row *row, double amax, bool has_nan);

#endif
