/* int8_token_head: docs/spec/formats.md section 12. */
#include <math.h>

#include "reference/formats/ref_token_head.h"

static uint16_t cut_off(float moved)
{
    return (uint8_t)(int8_t)ref_max(-128, ref_min(127, moved));
}

/* Halves go away from zero. */
static uint16_t encode(double v)
{
    const float y = (float)v;
    return isnan(y) ? 0 : cut_off(y + copysignf(0.5f, y));
}

static uint16_t encode_on_sm90(double v)
{
    return isnan(v) ? 0x80 : cut_off(ref_round_sum(KVG_DTYPE_F32, v, (float)v >= 0 ? 0.5 : -0.5));
}

static float value(uint16_t code)
{
    return code < 128 ? code : (float)code - 256;
}

static const ref_token_head_dialect dialects[] = {
    {{"canonical", "vLLM's source, IEEE division", KVG_DIALECT_BITS}, 127, encode, value, false},
    {{"vllm-sm90", "vLLM on sm_90", KVG_DIALECT_BITS}, 127, encode_on_sm90, value, true},
};

const ref_codec ref_fmt_int8_token_head = {
    .format = KVG_FORMAT_INT8_TOKEN_HEAD,
    REF_DIALECTS(dialects),
    .grid = {.codes = 256, .low = -127, .high = 127, .absolute = 0.5},
    REF_TOKEN_HEAD_CODEC,
};
