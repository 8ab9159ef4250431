/* bf16: docs/spec/formats.md section 3. */
#include "reference/formats/ref_float.h"
#include "reference/numbers/ref_round.h"

static const ref_float_dialect dialects[] = {
    {{"canonical", "bfloat16", KVG_DIALECT_BITS},
     kvg_ref_bf16_of_f32, kvg_ref_f32_of_bf16, REF_PACK_U16, false, REF_DIVIDES},
};

const ref_codec ref_fmt_bf16 = {
    .format = KVG_FORMAT_BF16,
    REF_DIALECTS(dialects),
    .grid = {.codes = 65536, .low = -0x1.FEp127, .high = 0x1.FEp127, .relative = 0x1p-8, .absolute = 0x1p-134},
    .keeps_nan = true,
    REF_FLOAT_CODEC,
};
