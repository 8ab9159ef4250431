/* rowint4 and rowfp4, one f16 scale per row: docs/spec/formats.md section 6. */
#include "second/slow_codec.h"

/* RN_f16(RN(a / divisor)), saturated to 65504; stored and returned. */
static slow_number put_scale(uint8_t *scales, slow_number a, int divisor)
{
    slow_number scale = slow_round(&slow_f16, slow_rn(slow_divide(a, slow_scaled(divisor, 0))));
    if (scale.kind == SLOW_INF) scale = slow_decode(&slow_f16, slow_f16.largest);
    slow_put16(scales, &slow_f16, scale);
    return scale;
}

static void quantise_int4(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                          uint8_t *scales)
{
    (void)codec;
    slow_number scale = put_scale(scales, slow_amax(x, row->dim), 7);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number steps = slow_rn(slow_divide(x[j], scale));
        bool none = slow_is_zero(scale) || steps.kind == SLOW_NAN;
        int q = none ? 0 : slow_to_integer(steps, SLOW_TO_NEAREST_EVEN, -7, 7);
        slow_put_nibble(codes, j, (unsigned)(q + 8));
    }
}

static void dequantise_int4(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                            slow_number *x)
{
    (void)codec;
    slow_number scale = slow_get16(scales, &slow_f16);
    for (size_t j = 0; j < row->dim; j++) {
        x[j] = slow_multiply(slow_scaled(slow_get_nibble(codes, j) - 8, 0), scale);
    }
}

static void quantise_fp4(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                         uint8_t *scales)
{
    slow_number scale = put_scale(scales, slow_amax(x, row->dim), 6);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number v = slow_rn(slow_divide(x[j], scale));
        if (slow_is_zero(scale) && x[j].kind != SLOW_NAN) v = slow_zero(x[j].negative);
        slow_put_nibble(codes, j, slow_e2m1_encode(codec->rules, v));
    }
}

static void dequantise_fp4(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                           slow_number *x)
{
    (void)codec;
    slow_number scale = slow_get16(scales, &slow_f16);
    for (size_t j = 0; j < row->dim; j++) {
        x[j] = slow_multiply(slow_decode(&slow_e2m1, slow_get_nibble(codes, j)), scale);
    }
}

static void quantise_linear(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                            uint8_t *scales)
{
    (void)codec;
    slow_number least = slow_rn(slow_divide(slow_scaled(1, 0), slow_scaled(100000000, 0))); /* 1e-8f */
    slow_number a = slow_amax(x, row->dim);
    slow_number scale = put_scale(scales, slow_compare(a, least) < 0 ? least : a, 6);
    for (size_t j = 0; j < row->dim; j++) {
        slow_number steps = slow_rn(slow_multiply(slow_rn(slow_divide(x[j], scale)), slow_scaled(2, 0)));
        bool none = slow_is_zero(scale) || steps.kind == SLOW_NAN;
        int k = none ? 0 : slow_to_integer(steps, SLOW_TO_NEAREST_EVEN, -8, 7);
        slow_put_nibble(codes, j, (unsigned)(k + 8));
    }
}

static void dequantise_linear(const slow_codec *codec, const slow_row *row, const uint8_t *codes,
                              const uint8_t *scales, slow_number *x)
{
    (void)codec;
    slow_number scale = slow_get16(scales, &slow_f16);
    for (size_t j = 0; j < row->dim; j++) {
        x[j] = slow_rn(slow_multiply(slow_scaled(slow_get_nibble(codes, j) - 8, -1), scale));
    }
}

static const slow_e2m1_rule plain = {SLOW_TIES_EVEN, SLOW_SIGN_BIT, 7};

static const slow_codec rowint4[] = {
    {KVG_FORMAT_ROWINT4, "canonical", quantise_int4, dequantise_int4, NULL, SLOW_PRODUCT, NULL},
};
static const slow_codec rowfp4[] = {
    {KVG_FORMAT_ROWFP4, "canonical", quantise_fp4, dequantise_fp4, &plain, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_ROWFP4, "marlin-linear", quantise_linear, dequantise_linear, NULL, SLOW_HALF_STEPS, NULL},
};
const slow_codecs slow_of_rowint4 = SLOW_CODECS(rowint4);
const slow_codecs slow_of_rowfp4 = SLOW_CODECS(rowfp4);
