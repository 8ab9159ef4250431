/* Bytes with one f32 scale per row: docs/spec/formats.md section 12. */
#include "second/slow_codec.h"
#include "second/slow_special.h"
#include "second/slow_side.h"

typedef struct token_head_rules {
    int most; /* amax becomes this */
    unsigned (*write)(slow_number y);
    slow_number (*read)(uint8_t byte);
} token_head_rules;

static void quantise(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                     uint8_t *scales)
{
    const token_head_rules *rules = codec->rules;
    const slow_number least = slow_rn(slow_divide(slow_scaled(1, 0), slow_scaled(1000000, 0))); /* 1e-6f */
    slow_number s = slow_rn(slow_divide(slow_amax(x, row->dim), slow_scaled(rules->most, 0)));
    if (slow_compare(s, least) < 0) s = least;
    slow_store(KVG_DTYPE_F32, &s, 1, scales);
    const slow_number reciprocal = slow_rn(slow_divide(slow_scaled(1, 0), s));
    for (size_t j = 0; j < row->dim; j++) codes[j] = (uint8_t)rules->write(slow_rn(slow_multiply(x[j], reciprocal)));
}

/* a / b as div.full of sm_90 has it. */
static slow_number over(slow_number a, slow_number b)
{
    return slow_div_full(a, b, false, SLOW_SPECIAL_FAULTS);
}

/* `write` is given the product itself. */
static void quantise_on_sm90(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                             uint8_t *scales)
{
    const token_head_rules *rules = codec->rules;
    const slow_number one = slow_scaled(1, 0), least = slow_rn(slow_divide(one, slow_scaled(1000000, 0)));
    const slow_number ratio = over(slow_amax(x, row->dim), slow_scaled(rules->most, 0));
    const slow_number s = slow_compare(ratio, least) < 0 ? least : ratio, r = over(one, s);
    slow_store(KVG_DTYPE_F32, &s, 1, scales);
    for (size_t j = 0; j < row->dim; j++) codes[j] = (uint8_t)rules->write(slow_multiply(x[j], r));
}

static void dequantise(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                       slow_number *x)
{
    const token_head_rules *rules = codec->rules;
    slow_number s;
    slow_load(KVG_DTYPE_F32, scales, 1, &s);
    for (size_t j = 0; j < row->dim; j++) x[j] = slow_rn(slow_multiply(rules->read(codes[j]), s));
}

/* --- int8_token_head --- */

static unsigned write_int8(slow_number y)
{
    if (y.kind == SLOW_NAN) return 0;
    const slow_number half = slow_scaled(y.negative ? -1 : 1, -1);
    return (unsigned)slow_to_integer(slow_rn(slow_add(y, half)), SLOW_TO_ZERO, -128, 127);
}

static unsigned write_int8_on_sm90(slow_number product)
{
    if (product.kind == SLOW_NAN) return 0x80;
    const slow_number y = slow_rn(product), half = slow_scaled(y.negative && !slow_is_zero(y) ? -1 : 1, -1);
    return (unsigned)slow_to_integer(slow_rn(slow_add(product, half)), SLOW_TO_ZERO, -128, 127);
}

static slow_number read_int8(uint8_t byte)
{
    return slow_scaled(byte & 0x80 ? (int)byte - 0x100 : (int)byte, 0);
}

static const token_head_rules int8_rules = {127, write_int8, read_int8};
static const token_head_rules int8_on_sm90 = {127, write_int8_on_sm90, read_int8};
static const slow_codec int8_token_head[] = {
    {KVG_FORMAT_INT8_TOKEN_HEAD, "canonical", quantise, dequantise, &int8_rules, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_INT8_TOKEN_HEAD, "vllm-sm90", quantise_on_sm90, dequantise, &int8_on_sm90, SLOW_PRODUCT, NULL},
};
const slow_codecs slow_of_int8_token_head = SLOW_CODECS(int8_token_head);

/* --- fp8_token_head: section 13 --- */

static unsigned write_fp8(slow_number y)
{
    return slow_fp8_encode(&slow_e4m3, y);
}

static unsigned write_fp8_on_sm90(slow_number product)
{
    return product.kind == SLOW_NAN ? 0x7E : write_fp8(slow_rn(product));
}

static slow_number read_fp8(uint8_t byte)
{
    return slow_decode(&slow_e4m3, byte);
}

static const token_head_rules fp8_rules = {448, write_fp8, read_fp8};
static const token_head_rules fp8_on_sm90 = {448, write_fp8_on_sm90, read_fp8};
static const slow_codec fp8_token_head[] = {
    {KVG_FORMAT_FP8_TOKEN_HEAD, "canonical", quantise, dequantise, &fp8_rules, SLOW_PRODUCT, NULL},
    {KVG_FORMAT_FP8_TOKEN_HEAD, "vllm-sm90", quantise_on_sm90, dequantise, &fp8_on_sm90, SLOW_PRODUCT, NULL},
};
const slow_codecs slow_of_fp8_token_head = SLOW_CODECS(fp8_token_head);
