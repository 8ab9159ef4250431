/* mxfp4: docs/spec/formats.md section 7. */
#include "reference/formats/ref_mx.h"

#define EVEN {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 7}
#define MODELOPT {KVG_REF_TIES_ZERO, REF_SIGN_NOTPOS, 8}
#define GGML {KVG_REF_TIES_ZERO, REF_SIGN_NONZERO, 0}

/* name, source, compare, E2M1 rules | block, exponent rule, byte of amax 0, least e, special is 0, byte 0 is 0 */
static const ref_mx_dialect dialects[] = {
    {{{"canonical", "exact ceil(log2(amax/6))", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_ceil6, 0x00, -127, false, false},
    {{{"ocp", "OCP MX 1.0, microxcaling", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_floor, 0x00, -127, false, false},
    {{{"modelopt", "MXFP4QTensor", KVG_DIALECT_BITS}, MODELOPT}, 32, &ref_mx_ceil6, 0x00, -127, false, false},
    {{{"modelopt-floor", "CUDA fake quant, OCP", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_floor, 0x7F, -127, true, false},
    {{{"modelopt-ceil", "CUDA fake quant, NV", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_ceil6, 0x7F, -127, true, false},
    {{{"trtllm", "TensorRT-LLM, FlashInfer", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_ceil6, 0x00, -127, false, true},
    {{{"vllm", "vLLM UE8M0", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_even, 0x00, -127, false, false},
    {{{"vllm-old", "vLLM UE8M0, earlier", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_trunc6, 0x00, -127, false, false},
    {{{"ggml", "llama.cpp MXFP4", KVG_DIALECT_BITS}, GGML}, 32, &ref_mx_floor, 0x00, -127, false, false},
};

const ref_codec ref_fmt_mxfp4 = {
    .format = KVG_FORMAT_MXFP4,
    REF_DIALECTS(dialects),
    .grid = REF_FP4_GRID,
    REF_MX_CODEC,
};
