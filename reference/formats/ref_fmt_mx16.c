/* mx16: docs/spec/formats.md section 7. */
#include "reference/formats/ref_mx.h"

#define EVEN {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 7}
#define SGLANG {KVG_REF_TIES_AWAY, REF_SIGN_LESS, 0}

/* name, source, compare, E2M1 rules | block, exponent rule, byte of amax 0, least e, special is 0, byte 0 is 0 */
static const ref_mx_dialect dialects[] = {
    {{{"canonical", "exact ceil(log2(amax/6))", KVG_DIALECT_BITS}, EVEN}, 16, &ref_mx_ceil6, 0x00, -127, false, false},
    {{{"turbomind", "MXFP4_KV for TurboMind", KVG_DIALECT_BITS}, EVEN}, 16, &ref_mx_ceil6, 0x00, -127, false, false},
    {{{"sglang", "SGLang fp4_mx_block16", KVG_DIALECT_BITS}, SGLANG}, 16, &ref_mx_ceil6, 0x5E, -33, false, false},
};

const ref_codec ref_fmt_mx16 = {
    .format = KVG_FORMAT_MX16,
    REF_DIALECTS(dialects),
    .grid = REF_FP4_GRID,
    REF_MX_CODEC,
};
