/* Numbers as the unevaluated sum of two doubles, about 106 bits, and the elementary functions that the table of RoPE is
 * made of: for numbers that must come out correctly rounded, whatever the CPU and its C library.
 *
 * Algorithms and bounds of + * /: Joldes, Muller, Popescu, "Tight and rigorous error bounds for basic building blocks
 * of double-word arithmetic" (2017). Products are split (Dekker 1971): no fused multiply-add is needed. Operands stay
 * far from the limits of the range: from 2^-300 to 2^300, or 0. */
#ifndef KVG_REFERENCE_NUMBERS_REF_DOUBLE_DOUBLE_H
#define KVG_REFERENCE_NUMBERS_REF_DOUBLE_DOUBLE_H

typedef struct ref_dd {
    double high, low; /* high is the double nearest to high + low */
} ref_dd;

/* Within 2^-100 of their exact results, relative, whatever cancels. */
ref_dd ref_dd_add(ref_dd a, ref_dd b);
ref_dd ref_dd_multiply(ref_dd a, ref_dd b);
ref_dd ref_dd_divide(ref_dd a, ref_dd b);

static inline ref_dd ref_dd_of(double x)
{
    return (ref_dd){x, 0};
}

/* e^x for |x| < 300, within 2^-95 of it, relative; exactly 1 for 0. */
ref_dd ref_dd_exp(ref_dd x);

/* ln x for 2^-200 < x < 2^200, within 2^-95 max(1, |ln x|) of it; exactly 0 for 1. */
ref_dd ref_dd_log(ref_dd x);

/* cos x and sin x for 0 <= x < 2^24 that is a float: within 2^-80 of them, relative. */
void ref_dd_cos_sin(float x, ref_dd *cos, ref_dd *sin);

/* The floats nearest to them. */
void ref_cos_sin(float x, float *cos, float *sin);

/* The float nearest to x, ties to even, subnormals and overflow to Inf as in any rounding. A low part below 2^-90 of
 * the high one is the error of a series and counts as 0: then a tie is a tie. */
float ref_dd_to_f32(ref_dd x);

#endif
