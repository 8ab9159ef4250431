/* What mx16 and mxfp4 share: E2M1 and one power-of-two byte per block. docs/spec/formats.md section 7. */
#ifndef KVG_REFERENCE_FORMATS_REF_MX_H
#define KVG_REFERENCE_FORMATS_REF_MX_H

#include "reference/formats/ref_fp4_block.h"

/* How the exponent follows from amax = m * 2^k: the last mantissa, and the exponents up to it and above it. */
typedef struct ref_mx_rule {
    double split;      /* m at or below (or below, if `below`) this takes k + low, else k + high */
    bool below;
    int low, high;
    double most, least; /* amax / 2^e lies in [least, most] */
} ref_mx_rule;

extern const ref_mx_rule ref_mx_ceil6, ref_mx_floor, ref_mx_even, ref_mx_trunc6;

/* A block with a NaN, or with amax Inf. */
typedef enum ref_mx_special {
    REF_MX_SKIPPED,  /* NaN does not count for amax; Inf gives byte 254 */
    REF_MX_AS_ZERO,  /* as a block with amax 0 */
    REF_MX_CONVERTED /* e is converted to a byte: 0 for NaN, 255 for Inf; the codes are those of NaN */
} ref_mx_special;

typedef struct ref_mx_dialect {
    ref_fp4_dialect fp4;
    uint32_t block; /* elements per scale byte */
    const ref_mx_rule *rule;
    uint8_t zero_byte;    /* scale byte of a block with amax 0 */
    int least_exponent;   /* e is raised to this */
    ref_mx_special special;
    enum {
        REF_MX_PLAIN,
        REF_MX_FLUSHED,  /* scale byte 0 writes magnitude 0 */
        REF_MX_LOGARITHM /* e is the rounded-up logarithm of amax / 6, both rounded to T: `rule` says only its range */
    } kind;
} ref_mx_dialect;

void ref_mx_scale(const ref_row *row, const float *x, uint8_t *scales, double *v);
void ref_mx_decode(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);
double ref_mx_exact(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y);
ref_range ref_mx_scale_range(const ref_row *row, double amax, bool has_nan);

#define REF_MX_CODEC                                                                                         \
    REF_FP4_CODEC, .scale = ref_mx_scale, .decode = ref_mx_decode, .exact = ref_mx_exact,                    \
    .scale_range = ref_mx_scale_range

#endif
