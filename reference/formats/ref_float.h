/* What f16, bf16, e4m3 and e5m2 share: each element is one small float, at most a tensor scale stands beside them. */
#ifndef KVG_REFERENCE_FORMATS_REF_FLOAT_H
#define KVG_REFERENCE_FORMATS_REF_FLOAT_H

#include "reference/formats/ref_codec.h"

/* How the encoder takes g off. */
typedef enum ref_by_scale {
    REF_DIVIDES,
    REF_MULTIPLIES, /* by RN(1/g) */
    REF_DIVIDES_ON_SM90
} ref_by_scale;

typedef struct ref_float_dialect {
    kvg_dialect base;
    uint16_t (*of_f32)(float x);
    float (*to_f32)(uint16_t code);
    ref_packing packing;
    bool scaled;        /* a tensor scale g applies */
    ref_by_scale by_scale;
} ref_float_dialect;

ref_packing ref_float_packing(const ref_row *row);
void ref_float_scale(const ref_row *row, const float *x, uint8_t *scales, double *v);
uint16_t ref_float_encode(const ref_row *row, float x, double v);
void ref_float_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);
double ref_float_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y);
double ref_float_grid_value(const ref_row *row, uint16_t code);
ref_range ref_float_scale_range(const ref_row *row, double amax, bool has_nan);

/* The function pointers of a float codec; the format's file adds its table and its grid. */
#define REF_FLOAT_CODEC                                                                         \
    .packing = ref_float_packing, .scale = ref_float_scale, .encode = ref_float_encode,         \
    .decode = ref_float_decode, .exact = ref_float_exact, .grid_value = ref_float_grid_value,   \
    .scale_range = ref_float_scale_range

#endif
