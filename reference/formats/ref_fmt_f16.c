/* f16: docs/spec/formats.md section 3. */
#include "reference/formats/ref_float.h"
#include "reference/numbers/ref_round.h"

static const ref_float_dialect dialects[] = {
    {{"canonical", "IEEE binary16", KVG_DIALECT_BITS},
     kvg_ref_f16_of_f32, kvg_ref_f32_of_f16, REF_PACK_U16, false, REF_DIVIDES},
};

const ref_codec ref_fmt_f16 = {
    .format = KVG_FORMAT_F16,
    REF_DIALECTS(dialects),
    .grid = {.codes = 65536, .low = -65504, .high = 65504, .relative = 0x1p-11, .absolute = 0x1p-25},
    .keeps_nan = true,
    REF_FLOAT_CODEC,
};
