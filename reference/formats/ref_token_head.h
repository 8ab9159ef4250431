/* What int8_token_head and fp8_token_head share: one f32 scale per row. docs/spec/formats.md section 12. */
#ifndef KVG_REFERENCE_FORMATS_REF_TOKEN_HEAD_H
#define KVG_REFERENCE_FORMATS_REF_TOKEN_HEAD_H

#include "reference/formats/ref_codec.h"

typedef struct ref_token_head_dialect {
    kvg_dialect base;
    float most; /* scale = max(RN(amax / most), 1e-6f) */
    uint16_t (*encode)(double v); /* v is x times the reciprocal of the scale, exactly */
    float (*value)(uint16_t code);
    bool on_sm90; /* with the division of sm_90 */
} ref_token_head_dialect;

ref_packing ref_token_head_packing(const ref_row *row);
void ref_token_head_scale(const ref_row *row, const float *x, uint8_t *scales, double *v);
uint16_t ref_token_head_encode(const ref_row *row, float x, double v);
void ref_token_head_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);
double ref_token_head_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y);
double ref_token_head_grid_value(const ref_row *row, uint16_t code);
ref_range ref_token_head_range(const ref_row *row, double amax, bool has_nan);

/* The function pointers of such a codec; the format's file adds its table and its grid. */
#define REF_TOKEN_HEAD_CODEC                                                                                   \
    .packing = ref_token_head_packing, .scale = ref_token_head_scale, .encode = ref_token_head_encode,         \
    .decode = ref_token_head_decode, .exact = ref_token_head_exact, .grid_value = ref_token_head_grid_value,   \
    .scale_range = ref_token_head_range

#endif
