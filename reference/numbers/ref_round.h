/* Room numbers: arithmetic whose every bit is fixed, without the C library's exp, log, pow and sin.
 *
 *   ref_round              Conversions between f32 and the small formats.
 *   ref_fused, ref_chains  Fused multiply-adds, one and in chains.
 *   ref_exp2               exp2 and log2 of the decode contract, in f32.
 *   ref_special            ex2, rcp and div.full of sm_90, bit for bit.
 *   ref_elementary         exp, log and tanh in double.
 *   ref_double_double      About 106 bits, for the table of RoPE.
 *
 * The room knows no format and no problem. docs/spec/formats.md section 2 and docs/spec/numerics.md are its pages. */
/* Conversions between f32 and the small formats, on bit patterns: docs/spec/formats.md section 2.
 * Every conversion to a small format is to nearest, ties to even unless it takes a tie rule. */
#ifndef KVG_REFERENCE_NUMBERS_REF_ROUND_H
#define KVG_REFERENCE_NUMBERS_REF_ROUND_H

#include <stdint.h>

#include "core/bits.h"

/* IEEE binary16 and bfloat16. Overflow gives Inf, NaN keeps sign and leading payload bits (section 2.4). */
uint16_t kvg_ref_f16_of_f32(float x);
uint16_t kvg_ref_bf16_of_f32(float x);
float kvg_ref_f32_of_f16(uint16_t code);

static inline float kvg_ref_f32_of_bf16(uint16_t code)
{
    return kvg_f32_of_bits((uint32_t)code << 16);
}

/* The same from binary64, so that one rounding from a wider intermediate is possible; NaN gives 0x7FFF. */
uint16_t kvg_ref_f16_of_f64(double x);
uint16_t kvg_ref_bf16_of_f64(double x);

/* FP8. Saturating, sign kept, NaN gives 0x7F (section 2.2). */
uint8_t kvg_ref_e4m3_of_f32(float x);
uint8_t kvg_ref_e5m2_of_f32(float x);
float kvg_ref_f32_of_e4m3(uint8_t code);
float kvg_ref_f32_of_e5m2(uint8_t code);

/* E2M1 magnitude code 0 to 7 of |v|; v must not be NaN. Signs and NaN are the dialect's business (section 2.1). */
typedef enum kvg_ref_ties { KVG_REF_TIES_EVEN, KVG_REF_TIES_AWAY, KVG_REF_TIES_ZERO } kvg_ref_ties;
static inline uint8_t kvg_ref_e2m1_magnitude(double v, kvg_ref_ties ties)
{
    double a = v < 0 ? -v : v;
    switch (ties) {
    case KVG_REF_TIES_AWAY:
        return (uint8_t)((a >= 0.25) + (a >= 0.75) + (a >= 1.25) + (a >= 1.75) + (a >= 2.5) + (a >= 3.5) + (a >= 5));
    case KVG_REF_TIES_ZERO:
        return (uint8_t)((a > 0.25) + (a > 0.75) + (a > 1.25) + (a > 1.75) + (a > 2.5) + (a > 3.5) + (a > 5));
    case KVG_REF_TIES_EVEN: break;
    }
    /* A midpoint goes to its even neighbour: down from .25, 1.25, 2.5 and 5, up from .75, 1.75 and 3.5. */
    return (uint8_t)((a > 0.25) + (a >= 0.75) + (a > 1.25) + (a >= 1.75) + (a > 2.5) + (a >= 3.5) + (a > 5));
}

/* Value of E2M1 code 0 to 15; code 8 is -0. */
static inline float kvg_ref_f32_of_e2m1(uint8_t code)
{
    static const float values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
    return values[code & 15];
}

/* 2^(code - 127); 255 gives NaN. */
float kvg_ref_f32_of_e8m0(uint8_t code);

/* x to the nearest integer, ties to even; |x| must be below 2^51. */
static inline double ref_to_integer(double x)
{
    const double magic = 6755399441055744.0; /* 1.5 * 2^52: its unit in the last place is 1 */
    return (x + magic) - magic;
}

#endif
