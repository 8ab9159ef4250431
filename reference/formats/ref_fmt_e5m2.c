/* e5m2: docs/spec/formats.md section 4. */
#include <math.h>

#include "reference/formats/ref_float.h"
#include "reference/numbers/ref_round.h"

static uint16_t of_f32(float x) { return kvg_ref_e5m2_of_f32(x); }
static uint16_t without_nan(float x) { return isnan(x) ? 0x7B : of_f32(x); }
static float to_f32(uint16_t code) { return kvg_ref_f32_of_e5m2((uint8_t)code); }

static const ref_float_dialect dialects[] = {
    {{"canonical", "x / g", KVG_DIALECT_BITS}, of_f32, to_f32, REF_PACK_U8, true, REF_DIVIDES},
    {{"trtllm", "x * RN(1/g); TensorRT-LLM", KVG_DIALECT_BITS}, of_f32, to_f32, REF_PACK_U8, true, REF_MULTIPLIES},
    {{"lmdeploy-sm90", "LMDeploy PyTorch on sm_90", KVG_DIALECT_BITS}, without_nan, to_f32, REF_PACK_U8, true,
     REF_DIVIDES_ON_SM90},
};

const ref_codec ref_fmt_e5m2 = {
    .format = KVG_FORMAT_E5M2,
    REF_DIALECTS(dialects),
    .grid = {.codes = 256, .low = -57344, .high = 57344, .relative = 0x1p-3, .absolute = 0x1p-17},
    REF_FLOAT_CODEC,
};
