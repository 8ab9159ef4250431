#include "second/slow_mpfr.h"

void slow_to_mpfr(mpfr_t to, slow_number n)
{
    if (n.kind != SLOW_FINITE) {
        mpfr_set_nan(to);
        return;
    }
    mpfr_set_uj(to, n.significand, MPFR_RNDN);
    mpfr_mul_2si(to, to, n.exponent, MPFR_RNDN);
    if (n.negative) mpfr_neg(to, to, MPFR_RNDN);
}

slow_number slow_from_mpfr(const mpfr_t from)
{
    enum { BITS = 60 };
    if (mpfr_nan_p(from)) return slow_nan();
    if (mpfr_inf_p(from)) return slow_infinity(mpfr_signbit(from));
    if (mpfr_zero_p(from)) return slow_zero(false);
    mpfr_t whole;
    mpfr_init2(whole, BITS);
    const bool rest = mpfr_abs(whole, from, MPFR_RNDZ) != 0;
    const int exponent = (int)mpfr_get_exp(whole) - BITS;
    mpfr_mul_2si(whole, whole, -exponent, MPFR_RNDN);
    slow_number n = {2 * mpfr_get_uj(whole, MPFR_RNDZ) + rest, exponent - 1, SLOW_FINITE, mpfr_signbit(from)};
    mpfr_clear(whole);
    return n;
}
