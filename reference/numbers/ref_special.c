#include "reference/numbers/ref_special.h"

#include <math.h>

#include "core/bits.h"

enum { FRACTION = 23, FRACTION_MASK = (1 << FRACTION) - 1 };
static const uint32_t sign_bit = 0x80000000, infinity = 0x7F800000, nan_bits = 0x7FFFFFFF, one = 0x3F800000,
                      least_normal = 0x00800000;

typedef struct piece {
    int32_t k, m, c;
} piece;

static const piece pieces[] = {
#define PIECE(k, m, c) {k, m, c},
#include "reference/numbers/special_sm90.def"
#undef PIECE
};

typedef struct function {
    int first, rest_bits; /* of its pieces; of r */
    int32_t k_unit, c_unit, bias;
    int dropped; /* bits of the sum */
} function;
static const function ex2 = {0, 17, 8192, 1, 6114, 15}, rcp = {64, 16, 8192, 1, 2023, 15},
                      rsqrt = {192, 17, 16384, 4, 16383, 16}, lg2 = {320, 17, 4096, 2, 837, 2};

/* S of the upper 15 bits of r. Bit i has 2^(15 - i) there. Its partial products with the bits below it are these bits,
 * moved down by i - 1 places, where the last ones fall off. From i = 8 on nothing is left. */
static int32_t cut_square(int32_t r)
{
    int32_t sum = 0;
    for (int i = 1; i <= 7; i++) {
        const int32_t bit = 1 << (15 - i), lower = r & (bit - 1);
        if (r & bit) sum += (1 << (15 - 2 * i)) + (lower >> (i - 1));
    }
    return sum;
}

static int64_t value(const function *of, uint32_t fraction)
{
    const piece *p = &pieces[(uint32_t)of->first + (fraction >> of->rest_bits)];
    const int32_t r = (int32_t)(fraction & ((1u << of->rest_bits) - 1));
    const int64_t square = cut_square(r >> (of->rest_bits - 15));
    return ((int64_t)of->k_unit * p->k + (int64_t)p->m * r + of->c_unit * p->c * square + of->bias) >> of->dropped;
}

/* The upper 24 bits of a magnitude in some unit; the lower ones fall off. */
static float cut_to_f32(uint64_t magnitude, float unit)
{
    int low = 0;
    while (magnitude >> low >= 1 << (FRACTION + 1)) low++;
    return (float)(magnitude >> low << low) * unit;
}

/* A subnormal number, or zero. */
static bool is_small(float x)
{
    return fabsf(x) < 0x1p-126f;
}

float ref_ex2_approx(float x, bool ftz)
{
    if (isnan(x)) return kvg_f32_of_bits(nan_bits);
    if (!ftz && x < -126) {
        const float root = ref_ex2_approx(x * 0.5f, true);
        return root * root;
    }
    if (x >= 128) return kvg_f32_of_bits(infinity);
    if (x < -126) return 0;
    const int32_t toward_zero = (int32_t)(x * 0x1p23f); /* the product is exact, and below 2^30 */
    const int32_t q = toward_zero - (toward_zero < 0 && (toward_zero & FRACTION_MASK) != 0);
    const uint32_t bits = (uint32_t)q + one; /* q's integer part, added to the exponent field of 1 */
    return kvg_f32_of_bits((bits & ~(uint32_t)FRACTION_MASK) + (uint32_t)value(&ex2, bits & FRACTION_MASK));
}

float ref_rcp_approx(float x, bool ftz)
{
    if (!ftz) return ref_div_full(1, x, false);
    const uint32_t sign = kvg_bits_of_f32(x) & sign_bit, magnitude = kvg_bits_of_f32(x) & ~sign_bit;
    if (magnitude > infinity) return kvg_f32_of_bits(nan_bits);
    if (magnitude == infinity) return kvg_f32_of_bits(sign);
    if (magnitude < least_normal) return kvg_f32_of_bits(sign | infinity);
    /* The leading bit of the value adds one to the exponent field, or two where the value is 2^24. */
    const int32_t field = 252 - (int32_t)(magnitude >> FRACTION);
    const int32_t bits = field * (1 << FRACTION) + (int32_t)value(&rcp, magnitude & FRACTION_MASK);
    return kvg_f32_of_bits(bits < (int32_t)least_normal ? sign : sign | (uint32_t)bits);
}

float ref_rsqrt_approx(float x, bool ftz)
{
    if (!ftz && is_small(x)) return 0x1p12f * ref_rsqrt_approx(x * 0x1p24f, true);
    if (is_small(x)) return copysignf(INFINITY, x);
    if (!(x > 0)) return kvg_f32_of_bits(nan_bits);
    if (isinf(x)) return 0;
    const uint32_t bits = kvg_bits_of_f32(x), odd = bits >> FRACTION & 1 ? 0 : 1; /* the bias of the exponent is odd */
    const int32_t half = ((int32_t)(bits >> FRACTION) - 127 - (int32_t)odd) / 2;   /* x = 4^half * (1 to 4) */
    const uint32_t fraction = bits & FRACTION_MASK;
    if (!odd && fraction == 0) return kvg_f32_of_bits((uint32_t)(127 - half) << FRACTION);
    const uint32_t mantissa = (uint32_t)value(&rsqrt, odd << FRACTION | fraction); /* with its leading bit */
    return kvg_f32_of_bits((uint32_t)(125 - half) * (1u << FRACTION) + mantissa);
}

float ref_lg2_approx(float x, bool ftz)
{
    if (!ftz && is_small(x)) return ref_lg2_approx(x * 0x1p24f, true) - 24;
    if (is_small(x)) return -INFINITY;
    if (!(x > 0)) return kvg_f32_of_bits(nan_bits);
    if (isinf(x)) return x;
    if (x == 1) return 0;
    const uint32_t bits = kvg_bits_of_f32(x);
    const int64_t t = ((int64_t)(bits >> FRACTION) - 127) * (INT64_C(1) << 36) + value(&lg2, bits & FRACTION_MASK);
    return copysignf(cut_to_f32((uint64_t)(t < 0 ? ~t : t), 0x1p-36f), (float)t);
}

float ref_tanh_approx(float x)
{
    /* Of each power of two from 2^-8 to 4: its first piece, and the bits of the number of a piece. */
    static const uint8_t first[] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43}, number[] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};
    const float magnitude = fabsf(x);
    if (isnan(x)) return kvg_f32_of_bits(nan_bits);
    if (magnitude < 0x1p-8f) return x;
    if (magnitude >= 8) return copysignf(1, x);
    const uint32_t bits = kvg_bits_of_f32(magnitude), power = (bits >> FRACTION) - 119;
    const function of = {384 + first[power], 17, 32768, 2, 0, 0};
    const int64_t t = value(&of, (bits & FRACTION_MASK) >> (FRACTION - 17 - number[power]));
    return copysignf(cut_to_f32((uint64_t)t, 0x1p-39f), x);
}

/* Below 2^-126 (1 - 2^-25), which is a tie, 24 bits do not reach 2^-126. */
static float product(float a, float b, bool ftz)
{
    const double exact = (double)a * b, least = 0x1p-126 - 0x1p-151;
    if (isnan(exact)) return kvg_f32_of_bits(nan_bits);
    return ftz && fabs(exact) < least ? copysignf(0, (float)exact) : (float)exact;
}

/* By what both operands of div.full are multiplied first. */
static float step_of(float b, bool ftz)
{
    return fabsf(b) > 0x1p126f ? 0x1p-2f : !ftz && fabsf(b) < 0x1p-126f ? 0x1p24f : 1;
}

float ref_div_full(float a, float b, bool ftz)
{
    const float s = step_of(b, ftz);
    return product(product(a, s, ftz), ref_rcp_approx(product(b, s, ftz), true), ftz);
}

float ref_div_full_plus(float a, float b, float c)
{
    const float s = step_of(b, false);
    return fmaf(a * s, ref_rcp_approx(b * s, true), c);
}
