/* f16, bf16 (docs/spec/formats.md section 3), e4m3, e5m2 (section 4). The rules are the layout of the code. */
#include "second/slow_codec.h"
#include "second/slow_special.h"

static void quantise_f16(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                         uint8_t *scales)
{
    (void)scales;
    for (size_t i = 0; i < row->dim; i++) slow_put16(codes + 2 * i, codec->rules, x[i]);
}

static void dequantise_f16(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                           slow_number *x)
{
    (void)scales;
    for (size_t i = 0; i < row->dim; i++) x[i] = slow_get16(codes + 2 * i, codec->rules);
}

static void quantise_fp8(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                         uint8_t *scales)
{
    (void)scales;
    for (size_t i = 0; i < row->dim; i++) {
        codes[i] = slow_fp8_encode(codec->rules, slow_rn(slow_divide(x[i], row->g)));
    }
}

static void quantise_fp8_trtllm(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                                uint8_t *scales)
{
    (void)scales;
    slow_number s = slow_rn(slow_divide(slow_scaled(1, 0), row->g));
    for (size_t i = 0; i < row->dim; i++) codes[i] = slow_fp8_encode(codec->rules, slow_rn(slow_multiply(x[i], s)));
}

static void quantise_fp8_vllm(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                              uint8_t *scales)
{
    (void)scales;
    for (size_t i = 0; i < row->dim; i++) {
        codes[i] = slow_fp8_encode(codec->rules, slow_div_full(x[i], row->g, false, SLOW_SPECIAL_FAULTS));
    }
}

static void quantise_fp8_lmdeploy(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                                  uint8_t *scales)
{
    quantise_fp8_vllm(codec, row, x, codes, scales);
    for (size_t i = 0; i < row->dim; i++) {
        if (x[i].kind == SLOW_NAN) codes[i] = (uint8_t)((const slow_layout *)codec->rules)->largest;
    }
}

static void dequantise_fp8(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                           slow_number *x)
{
    (void)scales;
    for (size_t i = 0; i < row->dim; i++) {
        x[i] = slow_rn(slow_multiply(slow_decode(codec->rules, codes[i]), row->g));
    }
}

static const slow_codec f16[] = {
    {KVG_FORMAT_F16, "canonical", quantise_f16, dequantise_f16, &slow_f16, SLOW_PRODUCT, NULL},
};
static const slow_codec bf16[] = {
    {KVG_FORMAT_BF16, "canonical", quantise_f16, dequantise_f16, &slow_bf16, SLOW_PRODUCT, NULL},
};
static const slow_codec e4m3[] = {
    {KVG_FORMAT_E4M3, "canonical", quantise_fp8, dequantise_fp8, &slow_e4m3, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_E4M3, "trtllm", quantise_fp8_trtllm, dequantise_fp8, &slow_e4m3, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_E4M3, "vllm-sm90", quantise_fp8_vllm, dequantise_fp8, &slow_e4m3, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_E4M3, "lmdeploy-sm90", quantise_fp8_lmdeploy, dequantise_fp8, &slow_e4m3, SLOW_PRODUCT, NULL},
};
static const slow_codec e5m2[] = {
    {KVG_FORMAT_E5M2, "canonical", quantise_fp8, dequantise_fp8, &slow_e5m2, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_E5M2, "trtllm", quantise_fp8_trtllm, dequantise_fp8, &slow_e5m2, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_E5M2, "lmdeploy-sm90", quantise_fp8_lmdeploy, dequantise_fp8, &slow_e5m2, SLOW_PRODUCT, NULL},
};
const slow_codecs slow_of_f16 = SLOW_CODECS(f16);
const slow_codecs slow_of_bf16 = SLOW_CODECS(bf16);
const slow_codecs slow_of_e4m3 = SLOW_CODECS(e4m3);
const slow_codecs slow_of_e5m2 = SLOW_CODECS(e5m2);
