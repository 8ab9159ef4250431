/* fp8_token_head: docs/spec/formats.md section 13. */
#include <math.h>

#include "reference/formats/ref_token_head.h"
#include "reference/numbers/ref_round.h"

static uint16_t encode(double v) { return kvg_ref_e4m3_of_f32((float)v); }
static uint16_t encode_on_sm90(double v) { return isnan(v) ? 0x7E : encode(v); }
static float value(uint16_t code) { return kvg_ref_f32_of_e4m3((uint8_t)code); }

static const ref_token_head_dialect dialects[] = {
    {{"canonical", "vLLM's source, IEEE division", KVG_DIALECT_BITS}, 448, encode, value, false},
    {{"vllm-sm90", "vLLM on sm_90", KVG_DIALECT_BITS}, 448, encode_on_sm90, value, true},
};

const ref_codec ref_fmt_fp8_token_head = {
    .format = KVG_FORMAT_FP8_TOKEN_HEAD,
    REF_DIALECTS(dialects),
    .grid = {.codes = 256, .low = -448, .high = 448, .relative = 0x1p-4, .absolute = 0x1p-10},
    REF_TOKEN_HEAD_CODEC,
};
