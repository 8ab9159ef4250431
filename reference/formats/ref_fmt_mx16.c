/* mx16: docs/spec/formats.md section 7. */
#include "reference/formats/ref_mx.h"

#define LOST REF_MX_CONVERTED
#define SKIP REF_MX_SKIPPED
#define PLAIN REF_MX_PLAIN
#define EVEN {KVG_REF_TIES_EVEN, REF_SIGN_BIT, 7}
#define SGLANG {KVG_REF_TIES_AWAY, REF_SIGN_LESS, 0}

/* name, source, compare, E2M1 | block, exponent rule, byte of amax 0, least e, specials, kind */
static const ref_mx_dialect dialects[] = {
    {{{"canonical", "exact ceil(log2(amax/6))", KVG_DIALECT_BITS}, EVEN}, 16, &ref_mx_ceil6, 0x00, -127, SKIP, PLAIN},
    {{{"turbomind", "MXFP4_KV for TurboMind", KVG_DIALECT_BITS}, EVEN}, 16, &ref_mx_ceil6, 0x00, -127, SKIP, PLAIN},
    {{{"sglang", "SGLang fp4_mx_block16", KVG_DIALECT_BITS}, SGLANG}, 16, &ref_mx_ceil6, 0x5E, -33, SKIP, PLAIN},
    {{{"sglang-sm90", "SGLang, compiled", KVG_DIALECT_BITS}, SGLANG}, 16, &ref_mx_ceil6, 0x5E, -33, LOST, PLAIN},
    {{{"sglang-eager-sm90", "SGLang, eager", KVG_DIALECT_BITS}, SGLANG}, 16, &ref_mx_ceil6, 0x5E, -33, LOST,
     REF_MX_LOGARITHM},
};

const ref_codec ref_fmt_mx16 = {
    .format = KVG_FORMAT_MX16,
    REF_DIALECTS(dialects),
    .grid = REF_FP4_GRID,
    REF_MX_CODEC,
};
