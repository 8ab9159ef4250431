#include "second/slow_exp2.h"

slow_number slow_f32_add(slow_number a, slow_number b)
{
    return slow_rn(slow_add(a, b));
}

slow_number slow_f32_subtract(slow_number a, slow_number b)
{
    return slow_rn(slow_subtract(a, b));
}

slow_number slow_f32_multiply(slow_number a, slow_number b)
{
    return slow_rn(slow_multiply(a, b));
}

slow_number slow_f32_divide(slow_number a, slow_number b)
{
    return slow_rn(slow_divide(a, b));
}

/* The product of two f32 has 48 bits: slow_add takes it whole. */
slow_number slow_f32_fma(slow_number a, slow_number b, slow_number c)
{
    return slow_rn(slow_add(slow_multiply(a, b), c));
}

slow_number slow_f32_of(uint32_t bits)
{
    return slow_decode(&slow_f32, bits);
}

/* ( ... (last * t + last but one) * t + ... ) * t + first */
static slow_number polynomial(const uint32_t *coefficients, size_t count, slow_number t, bool unfused)
{
    slow_number sum = slow_f32_of(coefficients[count - 1]);
    for (size_t i = count - 1; i-- > 0;) {
        const slow_number c = slow_f32_of(coefficients[i]);
        sum = unfused ? slow_f32_add(slow_f32_multiply(sum, t), c) : slow_f32_fma(sum, t, c);
    }
    return sum;
}

/* n and x - n, n = floor(x) for |x| <= 127. */
static int split(slow_number x, bool nearest, slow_number *rest)
{
    int n = slow_to_integer(x, nearest ? SLOW_TO_NEAREST_EVEN : SLOW_TO_ZERO, -200, 200);
    *rest = slow_f32_subtract(x, slow_scaled(n, 0));
    if (!nearest && rest->negative && !slow_is_zero(*rest)) *rest = slow_f32_subtract(x, slow_scaled(--n, 0));
    return n;
}

slow_number slow_exp2(slow_number x, slow_decode_fault fault)
{
    /* 1, 0x1.62d51cp-1, 0x1.ee587ep-3, 0x1.aa3fd8p-5, 0x1.bc31b2p-7 */
    uint32_t coefficients[] = {0x3F800000, 0x3F316A8E, 0x3E772C3F, 0x3D551FEC, 0x3C5E18D9};
    const int least = slow_planted(fault == SLOW_DECODE_EXP2_FLUSHED) ? -126 : -127;
    if (x.kind == SLOW_NAN || slow_compare(x, slow_scaled(least, 0)) <= 0) return slow_zero(false);
    if (slow_planted(fault == SLOW_DECODE_EXP2_LAST_BIT)) coefficients[2]++;
    slow_number f;
    const int n = split(x, slow_planted(fault == SLOW_DECODE_EXP2_NEAREST), &f);
    const slow_number p = polynomial(coefficients, 5, f, slow_planted(fault == SLOW_DECODE_EXP2_UNFUSED));
    return slow_f32_of((uint32_t)slow_encode(&slow_f32, p) + ((uint32_t)n << 23));
}

slow_number slow_log2(slow_number l, slow_decode_fault fault)
{
    uint32_t coefficients[] = {/* 0x1.715476p+0, -0x1.71547p-1, 0x1.ec73d6p-2, -0x1.715c4ep-2, */
                               0x3FB8AA3B, 0xBF38AA38, 0x3EF639EB, 0xBEB8AE27,
                               /* 0x1.26d394p-2, -0x1.e95c7ep-3, 0x1.b9c8aap-3, -0x1.a877c8p-3, */
                               0x3E9369CA, 0xBE74AE3F, 0x3E5CE455, 0xBE543BE4,
                               0x3E00D83E /* 0x1.01b07cp-3 */};
    if (slow_planted(fault == SLOW_DECODE_LSE_LAST_BIT)) coefficients[1]++;
    const uint32_t lowest = slow_planted(fault == SLOW_DECODE_LSE_LOG2_CUT) ? 0x3F800000 : 0x3F3504F3;
    /* k = (bits - lowest) >> 23, downwards */
    const uint32_t bits = (uint32_t)slow_encode(&slow_f32, l);
    const int k = bits >= lowest ? (int)((bits - lowest) >> 23) : -(int)((lowest - bits + 0x7FFFFF) >> 23);
    l.exponent -= k;
    const slow_number t = slow_f32_subtract(l, slow_scaled(1, 0));
    return slow_f32_fma(t, polynomial(coefficients, 9, t, false), slow_scaled(k, 0));
}
