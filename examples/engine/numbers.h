/* Numbers: floats of few bits, between their codes and doubles, which hold all of them exactly. */
#ifndef KVG_EXAMPLES_ENGINE_NUMBERS_H
#define KVG_EXAMPLES_ENGINE_NUMBERS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/format.h"

typedef struct small_float {
    int fraction_bits, least_exponent; /* the least exponent of a normal number */
    uint32_t sign;                     /* the sign bit */
    uint32_t overflow;                 /* the code of a magnitude that rounds above the largest */
    uint32_t first_nan;
    bool has_infinity;                 /* its code lies before the first NaN */
} small_float;

static const small_float FLOAT_F32 = {23, -126, 0x80000000, 0x7F800000, 0x7F800001, true};
static const small_float FLOAT_F16 = {10, -14, 0x8000, 0x7C00, 0x7C01, true};
static const small_float FLOAT_BF16 = {7, -126, 0x8000, 0x7F80, 0x7F81, true};
static const small_float FLOAT_E5M2 = {2, -14, 0x80, 0x7B, 0x7D, true};
static const small_float FLOAT_E4M3 = {3, -6, 0x80, 0x7E, 0x7F, false};
static const small_float FLOAT_E2M1 = {1, 0, 0x8, 0x7, 0x8, false};

static inline const small_float *float_of_dtype(kvg_dtype dtype)
{
    return dtype == KVG_DTYPE_F16 ? &FLOAT_F16 : dtype == KVG_DTYPE_BF16 ? &FLOAT_BF16 : &FLOAT_F32;
}

/* The code of the nearest number, ties to even. `nan` is the code of each NaN. */
static inline uint32_t code_of(const small_float *type, double x, uint32_t nan)
{
    const uint32_t sign = signbit(x) ? type->sign : 0;
    if (isnan(x)) return nan;
    if (isinf(x)) return sign | type->overflow;
    const int exponent = ilogb(x) > type->least_exponent ? ilogb(x) : type->least_exponent;
    const uint32_t steps = (uint32_t)rint(ldexp(fabs(x), type->fraction_bits - exponent));
    /* A normal number's leading bit is one of the steps, and adds one to the exponent field. */
    const uint32_t code = ((uint32_t)(exponent - type->least_exponent) << type->fraction_bits) + steps;
    return sign | (code < type->overflow ? code : type->overflow);
}

static inline bool is_nan_code(const small_float *type, uint32_t code)
{
    return (code & (type->sign - 1)) >= type->first_nan;
}

static inline double number_of(const small_float *type, uint32_t code)
{
    if (is_nan_code(type, code)) return NAN;
    const uint32_t magnitude = code & (type->sign - 1), field = magnitude >> type->fraction_bits;
    const uint32_t leading = field ? 1U << type->fraction_bits : 0;
    const uint32_t steps = leading | (magnitude & ((1U << type->fraction_bits) - 1));
    const int exponent = type->least_exponent + (field ? (int)field - 1 : 0);
    const bool infinite = type->has_infinity && magnitude == type->first_nan - 1;
    const double x = infinite ? INFINITY : ldexp(steps, exponent - type->fraction_bits);
    return code & type->sign ? -x : x;
}

/* A rounded number as a word of a model type. Each NaN is the same word. */
static inline uint32_t word_of(const small_float *model, double x)
{
    return code_of(model, x, model->sign - 1);
}

static inline double rounded(const small_float *model, double x)
{
    return number_of(model, word_of(model, x));
}

/* A word of f32, f16 or bf16 as a word of another one of these types. A NaN keeps its sign and the top bits of its
 * payload. */
static inline uint32_t converted(const small_float *from, const small_float *to, uint32_t word)
{
    if (!is_nan_code(from, word)) return word_of(to, number_of(from, word));
    const uint32_t sign = word & from->sign ? to->sign : 0, payload = word & ((1U << from->fraction_bits) - 1);
    const int wider = to->fraction_bits - from->fraction_bits;
    const uint32_t kept = wider > 0 ? payload << wider : payload >> -wider;
    return sign | to->overflow | (kept ? kept : 1U << (to->fraction_bits - 1));
}

/* A sum for one more rounding: where no double holds it, the odd one of the two doubles around it. */
static inline double sum_to_odd(double a, double b)
{
    const double sum = a + b, part = sum - a, error = (a - (sum - part)) + (b - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (bits & 1) return sum;
    return error > 0 ? nextafter(sum, INFINITY) : error < 0 ? nextafter(sum, -INFINITY) : sum;
}

#endif
