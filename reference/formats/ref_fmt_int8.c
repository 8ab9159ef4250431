/* int8: docs/spec/formats.md section 5. */
#include "reference/formats/ref_affine.h"

static const ref_affine_dialect dialects[] = {
    {{"canonical", "TurboMind: [scale, min], fma", KVG_DIALECT_BITS}, KVG_NUMBER_FUSED,
     255, REF_PACK_U8, REF_WRITER_RECIPROCAL},
    {{"turbomind-muladd", "TurboMind flatten", KVG_DIALECT_BITS}, KVG_NUMBER_TWICE,
     255, REF_PACK_U8, REF_WRITER_RECIPROCAL},
    {{"pytorch", "LMDeploy PyTorch: [scale, zero]", KVG_DIALECT_BITS}, KVG_NUMBER_FROM_ZERO,
     255, REF_PACK_U8, REF_WRITER_PYTORCH},
    {{"lmdeploy-sm90", "LMDeploy PyTorch on sm_90", KVG_DIALECT_BITS}, KVG_NUMBER_FROM_ZERO,
     255, REF_PACK_U8, REF_WRITER_SM90},
    {{"lmdeploy-flatten-sm90", "LMDeploy PyTorch on sm_90, flatten", KVG_DIALECT_BITS}, KVG_NUMBER_LESS_ZERO,
     255, REF_PACK_U8, REF_WRITER_SM90},
    {{"hqq", "hqq without its optimiser: [scale, zero]", KVG_DIALECT_BITS}, KVG_NUMBER_FROM_ZERO_IN_T,
     255, REF_PACK_U8, REF_WRITER_HQQ},
};

const ref_codec ref_fmt_int8 = {
    .format = KVG_FORMAT_INT8,
    REF_DIALECTS(dialects),
    .grid = {.codes = 256, .low = 0, .high = 255, .absolute = 0.5},
    REF_AFFINE_CODEC,
};
