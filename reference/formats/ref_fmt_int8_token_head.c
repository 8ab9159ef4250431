/* int8_token_head: docs/spec/formats.md section 12. */
#include <math.h>

#include "reference/formats/ref_token_head.h"

/* Halves go away from zero. */
static uint16_t encode(float v)
{
    if (isnan(v)) return 0;
    const float moved = v + copysignf(0.5f, v);
    return (uint8_t)(int8_t)ref_max(-128, ref_min(127, moved)); /* the fraction is cut off */
}

static float value(uint16_t code)
{
    return code < 128 ? code : (float)code - 256;
}

static const ref_token_head_dialect dialects[] = {
    {{"canonical", "vLLM's source, IEEE division", KVG_DIALECT_BITS}, 127, encode, value},
};

const ref_codec ref_fmt_int8_token_head = {
    .format = KVG_FORMAT_INT8_TOKEN_HEAD,
    REF_DIALECTS(dialects),
    .grid = {.codes = 256, .low = -127, .high = 127, .absolute = 0.5},
    REF_TOKEN_HEAD_CODEC,
};
