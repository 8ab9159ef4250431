/* Conversions by integer work on bit patterns: no rounding mode, compiler flag or instruction set can change them. */
#include "reference/numbers/ref_round.h"

#include "core/bits.h"

#define F32_ABS 0x7FFFFFFFu
#define F32_INF 0x7F800000u
#define F64_ABS 0x7FFFFFFFFFFFFFFFull
#define F64_INF 0x7FF0000000000000ull

/* The nearest code (ties to even) of |x| in a format with `m` fraction bits and exponent bias `bias`. Codes of such a
 * format count upwards with the value, so a carry out of the fraction lands in the next binade by itself. The result is
 * not limited: the caller compares it with the format's largest code. x is finite or Inf. */
static uint32_t magnitude_code(double x, int m, int bias)
{
    uint64_t bits = kvg_bits_of_f64(x) & F64_ABS;
    int exponent = (int)(bits >> 52) - 1023;
    if (exponent == -1023) return 0; /* zero; subnormal doubles are below every format here */
    uint64_t significand = (bits & 0xFFFFFFFFFFFFFull) | 1ull << 52;

    int lowest = 1 - bias; /* exponent of the smallest normal; below it the step stays constant */
    int drop = 52 - m + (exponent < lowest ? lowest - exponent : 0);
    if (drop > 53) return 0; /* less than half of the smallest step */
    uint64_t kept = significand >> drop;
    uint64_t rest = significand & ((1ull << drop) - 1);
    uint64_t half = 1ull << (drop - 1);
    kept += rest + (kept & 1) > half; /* 2.5 of steps: 2 and a half, which an even 2 keeps; 3.5 goes up from an odd 3 */
    if (exponent < lowest) return (uint32_t)kept;
    return ((uint32_t)(exponent + bias - 1) << m) +
           (uint32_t)kept; /* kept's leading 1 adds one to the exponent field */
}

static uint32_t at_most(uint32_t code, uint32_t largest)
{
    return code < largest ? code : largest;
}

/* NaN of a 16-bit type with `m` fraction bits: sign and leading payload bits, quiet bit if those vanish. */
static uint16_t half_nan(uint32_t f32_bits, int m)
{
    uint32_t payload = (f32_bits & 0x7FFFFFu) >> (23 - m);
    if (payload == 0) payload = 1u << (m - 1);
    return (uint16_t)((f32_bits >> 31) << 15 | (0x7FFFu >> m << m) | payload);
}

static uint16_t half_of_f32(float x, int m, int bias)
{
    uint32_t bits = kvg_bits_of_f32(x);
    if ((bits & F32_ABS) > F32_INF) return half_nan(bits, m);
    uint32_t infinity = 0x7FFFu >> m << m;
    return (uint16_t)((bits >> 31) << 15 | at_most(magnitude_code(x, m, bias), infinity));
}

static uint16_t half_of_f64(double x, int m, int bias)
{
    uint64_t bits = kvg_bits_of_f64(x);
    if ((bits & F64_ABS) > F64_INF) return 0x7FFF;
    uint32_t infinity = 0x7FFFu >> m << m;
    return (uint16_t)((uint32_t)(bits >> 63) << 15 | at_most(magnitude_code(x, m, bias), infinity));
}

uint16_t kvg_ref_f16_of_f32(float x) { return half_of_f32(x, 10, 15); }
uint16_t kvg_ref_bf16_of_f32(float x) { return half_of_f32(x, 7, 127); }
uint16_t kvg_ref_f16_of_f64(double x) { return half_of_f64(x, 10, 15); }
uint16_t kvg_ref_bf16_of_f64(double x) { return half_of_f64(x, 7, 127); }

/* Value of a magnitude code with `m` fraction bits and `bias`, smaller than f32 in both: shift the fraction into place
 * and correct the bias by an exact power of two, which also normalises subnormals. */
static float magnitude_value(uint32_t code, int m, int bias)
{
    float scaled = kvg_f32_of_bits(code << (23 - m));
    return scaled * kvg_f32_of_bits((uint32_t)(254 - bias) << 23); /* 2^(127 - bias) */
}

static float with_sign(float magnitude, uint32_t sign)
{
    return kvg_f32_of_bits(kvg_bits_of_f32(magnitude) | sign << 31);
}

float kvg_ref_f32_of_f16(uint16_t code)
{
    uint32_t sign = code >> 15, magnitude = code & 0x7FFFu;
    if (magnitude >= 0x7C00) return kvg_f32_of_bits(sign << 31 | F32_INF | (magnitude & 0x3FFu) << 13);
    return with_sign(magnitude_value(magnitude, 10, 15), sign);
}

uint8_t kvg_ref_e4m3_of_f32(float x)
{
    uint32_t bits = kvg_bits_of_f32(x);
    if ((bits & F32_ABS) > F32_INF) return 0x7F;
    return (uint8_t)((bits >> 31) << 7 | at_most(magnitude_code(x, 3, 7), 0x7E));
}

uint8_t kvg_ref_e5m2_of_f32(float x)
{
    uint32_t bits = kvg_bits_of_f32(x);
    if ((bits & F32_ABS) > F32_INF) return 0x7F;
    return (uint8_t)((bits >> 31) << 7 | at_most(magnitude_code(x, 2, 15), 0x7B));
}

#define NAN_VALUE kvg_f32_of_bits(0x7FC00000u)

float kvg_ref_f32_of_e4m3(uint8_t code)
{
    uint32_t magnitude = code & 0x7Fu;
    if (magnitude == 0x7F) return NAN_VALUE;
    return with_sign(magnitude_value(magnitude, 3, 7), code >> 7);
}

float kvg_ref_f32_of_e5m2(uint8_t code)
{
    uint32_t magnitude = code & 0x7Fu;
    if (magnitude > 0x7C) return NAN_VALUE;
    if (magnitude == 0x7C) return kvg_f32_of_bits((uint32_t)(code >> 7) << 31 | F32_INF);
    return with_sign(magnitude_value(magnitude, 2, 15), code >> 7);
}

float kvg_ref_f32_of_e8m0(uint8_t code)
{
    if (code == 255) return NAN_VALUE;
    if (code == 0) return kvg_f32_of_bits(0x00400000u); /* 2^-127, subnormal */
    return kvg_f32_of_bits((uint32_t)code << 23);
}
