/* exp, log and tanh in double from + - * / and bit patterns alone: the C library's change their last bits with the CPU.
 * For the spec tier of attention, whose bounds are millions of times larger than the errors given here. */
#ifndef KVG_REFERENCE_NUMBERS_REF_ELEMENTARY_H
#define KVG_REFERENCE_NUMBERS_REF_ELEMENTARY_H

/* e^x, within 2^-52 of it, relative (2^-1074 below the normal range); exactly 1 for 0. NaN for NaN. */
double ref_exp(double x);

/* ln x, within 2^-52 of it, relative. -Inf for 0, NaN for x < 0. */
double ref_log(double x);

/* tanh x, within 2^-51 of it, relative; odd. */
double ref_tanh(double x);

/* A sum that keeps what each addition rounds away: high + low, within 2^-53 of the exact sum, relative, plus
 * n * n * 2^-106 of the sum of magnitudes (Neumaier 1974; Ogita, Rump, Oishi 2005). */
typedef struct ref_sum {
    double high, low;
} ref_sum;

static inline void ref_sum_step(double *high, double *low, double x)
{
    const double sum = *high + x, part = sum - *high;
    *low += (*high - (sum - part)) + (x - part);
    *high = sum;
}

static inline void ref_sum_add(ref_sum *s, double x)
{
    ref_sum_step(&s->high, &s->low, x);
}

/* Infinities and NaN make the low part NaN: then the plain sum is the answer. */
static inline double ref_sum_value(const ref_sum *s)
{
    const double sum = s->high + s->low;
    return sum == sum ? sum : s->high;
}

#endif
