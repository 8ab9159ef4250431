#include "tests/second/conversions.h"

#include <stddef.h>

#include "core/bits.h"
#include "reference/numbers/ref_round.h"
#include "second/slow_convert.h"

const char *conversions_differ(uint32_t bits)
{
    float x = kvg_f32_of_bits(bits);
    slow_number n = slow_decode(&slow_f32, bits);
    if (n.kind != SLOW_NAN) { /* section 2.1 leaves an E2M1 NaN to the dialect */
        if (kvg_ref_e2m1_magnitude(x, KVG_REF_TIES_EVEN) != slow_nearest(&slow_e2m1, n, SLOW_TIES_EVEN)) {
            return "e2m1, ties even";
        }
        if (kvg_ref_e2m1_magnitude(x, KVG_REF_TIES_AWAY) != slow_nearest(&slow_e2m1, n, SLOW_TIES_AWAY)) {
            return "e2m1, ties away";
        }
        if (kvg_ref_e2m1_magnitude(x, KVG_REF_TIES_ZERO) != slow_nearest(&slow_e2m1, n, SLOW_TIES_ZERO)) {
            return "e2m1, ties zero";
        }
    }
    if (kvg_ref_e4m3_of_f32(x) != slow_fp8_encode(&slow_e4m3, n)) return "e4m3";
    if (kvg_ref_e5m2_of_f32(x) != slow_fp8_encode(&slow_e5m2, n)) return "e5m2";
    if (kvg_ref_f16_of_f32(x) != slow_encode(&slow_f16, n)) return "f16";
    if (kvg_ref_bf16_of_f32(x) != slow_encode(&slow_bf16, n)) return "bf16";
    return NULL;
}
