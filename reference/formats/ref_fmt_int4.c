/* int4: docs/spec/formats.md section 5. */
#include "reference/formats/ref_affine.h"

static const ref_affine_dialect dialects[] = {
    {{"canonical", "TurboMind: [scale, min], fma", KVG_DIALECT_BITS}, KVG_NUMBER_FUSED,
     15, REF_PACK_TURBOMIND, REF_WRITER_RECIPROCAL},
    {{"turbomind-muladd", "TurboMind flatten", KVG_DIALECT_BITS}, KVG_NUMBER_TWICE,
     15, REF_PACK_TURBOMIND, REF_WRITER_RECIPROCAL},
    {{"pytorch", "LMDeploy PyTorch: [scale, zero]", KVG_DIALECT_BITS}, KVG_NUMBER_FROM_ZERO,
     15, REF_PACK_HALVES, REF_WRITER_PYTORCH},
    {{"lmdeploy-sm90", "LMDeploy PyTorch on sm_90", KVG_DIALECT_BITS}, KVG_NUMBER_FROM_ZERO,
     15, REF_PACK_HALVES, REF_WRITER_SM90},
    {{"lmdeploy-flatten-sm90", "LMDeploy PyTorch on sm_90, flatten", KVG_DIALECT_BITS}, KVG_NUMBER_LESS_ZERO,
     15, REF_PACK_HALVES, REF_WRITER_SM90},
    {{"quanto", "transformers, optimum-quanto: [scale, min]", KVG_DIALECT_BITS}, KVG_NUMBER_TWICE,
     15, REF_PACK_TURBOMIND, REF_WRITER_QUANTO},
    {{"hqq", "hqq without its optimiser: [scale, zero]", KVG_DIALECT_BITS}, KVG_NUMBER_FROM_ZERO_IN_T,
     15, REF_PACK_TURBOMIND, REF_WRITER_HQQ},
};

const ref_codec ref_fmt_int4 = {
    .format = KVG_FORMAT_INT4,
    REF_DIALECTS(dialects),
    .grid = {.codes = 16, .low = 0, .high = 15, .absolute = 0.5},
    REF_AFFINE_CODEC,
};
