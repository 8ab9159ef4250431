/* mxfp4: docs/spec/formats.md section 7. */
#include "reference/formats/ref_mx.h"

#define SKIP REF_MX_SKIPPED
#define PLAIN REF_MX_PLAIN
#define ZERO REF_MX_AS_ZERO
#define EVEN {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 7}
#define MODELOPT {KVG_REF_TIES_ZERO, REF_SIGN_NOTPOS, 8}
#define GGML {KVG_REF_TIES_ZERO, REF_SIGN_NONZERO, 0}

/* name, source, compare, E2M1 | block, exponent rule, byte of amax 0, least e, specials, kind */
static const ref_mx_dialect dialects[] = {
    {{{"canonical", "exact ceil(log2(amax/6))", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_ceil6, 0x00, -127, SKIP, PLAIN},
    {{{"ocp", "OCP MX 1.0, microxcaling", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_floor, 0x00, -127, SKIP, PLAIN},
    {{{"modelopt", "MXFP4QTensor", KVG_DIALECT_BITS}, MODELOPT}, 32, &ref_mx_ceil6, 0x00, -127, SKIP, PLAIN},
    {{{"modelopt-floor", "CUDA fake quant, OCP", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_floor, 0x7F, -127, ZERO, PLAIN},
    {{{"modelopt-ceil", "CUDA fake quant, NV", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_ceil6, 0x7F, -127, ZERO, PLAIN},
    {{{"trtllm", "TensorRT-LLM, FlashInfer", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_ceil6, 0x00, -127,
     SKIP, REF_MX_FLUSHED},
    {{{"vllm", "vLLM UE8M0", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_even, 0x00, -127, SKIP, PLAIN},
    {{{"vllm-old", "vLLM UE8M0, earlier", KVG_DIALECT_BITS}, EVEN}, 32, &ref_mx_trunc6, 0x00, -127, SKIP, PLAIN},
    {{{"ggml", "llama.cpp MXFP4", KVG_DIALECT_BITS}, GGML}, 32, &ref_mx_floor, 0x00, -127, SKIP, PLAIN},
};

const ref_codec ref_fmt_mxfp4 = {
    .format = KVG_FORMAT_MXFP4,
    REF_DIALECTS(dialects),
    .grid = REF_FP4_GRID,
    REF_MX_CODEC,
};
