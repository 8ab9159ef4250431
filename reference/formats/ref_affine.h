/* What int8 and int4 share: two parameters per row. docs/spec/formats.md section 5. */
#ifndef KVG_REFERENCE_FORMATS_REF_AFFINE_H
#define KVG_REFERENCE_FORMATS_REF_AFFINE_H

#include "reference/formats/ref_codec.h"

/* How a row is written. The second parameter is a zero point from REF_WRITER_PYTORCH on. */
typedef enum ref_affine_writer {
    REF_WRITER_RECIPROCAL, /* [scale, min], by the reciprocal of the scale; MLX's rows have a writer of their own */
    REF_WRITER_QUANTO,    /* [scale, min], by the scale, each step in T; a NaN makes the row NaN */
    REF_WRITER_PYTORCH,   /* [scale, zero point] */
    REF_WRITER_SM90,      /* the same with the division of sm_90 */
    REF_WRITER_HQQ        /* [scale, zero point], by the reciprocal of a scale within limits; a NaN makes the row NaN */
} ref_affine_writer;

/* Parameters are [scale, min], decoded with one rounding or two, or [scale, zero point], with three or two. */
typedef struct ref_affine_dialect {
    kvg_dialect base;
    kvg_dialect_number rule;
    uint32_t levels; /* n: largest code, 255 or 15 */
    ref_packing packing;
    ref_affine_writer writer;
} ref_affine_dialect;

kvg_dialect_number ref_affine_number(const void *dialect);
ref_packing ref_affine_packing(const ref_row *row);
void ref_affine_scale(const ref_row *row, const float *x, uint8_t *scales, double *v);
uint16_t ref_affine_encode(const ref_row *row, float x, double v);
void ref_affine_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);
double ref_affine_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y);
void ref_affine_write(kvg_dtype dtype, float value, uint8_t *bytes); /* a parameter */
/* docs/spec/simt-contract.md section 1: the number in f32, each operation rounded once. */
void ref_affine_operands(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);
double ref_affine_grid_value(const ref_row *row, uint16_t code);
void ref_affine_bound(const ref_row *row, const float *x, double *bound);

#define REF_AFFINE_CODEC                                                                            \
    .number = ref_affine_number, .packing = ref_affine_packing, .scale = ref_affine_scale,       \
    .encode = ref_affine_encode,                                                                    \
    .decode = ref_affine_decode, .exact = ref_affine_exact, .operands = ref_affine_operands,        \
    .grid_value = ref_affine_grid_value, .bound = ref_affine_bound

#endif
