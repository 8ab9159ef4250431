#include "reference/numbers/ref_elementary.h"

#include <math.h> /* fabs, copysign, INFINITY, NAN */

#include "core/bits.h"
#include "reference/numbers/ref_round.h"

/* ln 2 in two parts: an integer below 2^20 times the first is exact. */
static const double LN2_HIGH = 0x1.62e42feep-1, LN2_LOW = 0x1.a39ef35793c76p-33;
static const double LOG2_E = 0x1.71547652b82fep0;

/* p[0] + p[1] x + ... by Horner's rule. */
static double polynomial(const double *p, int terms, double x)
{
    double y = p[terms - 1];
    for (int i = terms - 2; i >= 0; i--) y = y * x + p[i];
    return y;
}

static double power_of_two(int k)
{
    return kvg_f64_of_bits((uint64_t)(k + 1023) << 52);
}

/* x = k ln 2 + r, |r| <= 0.347: e^r = 1 + r + r^2 (1/2! + r/3! + ...), cut where r^15/15! < 2^-62. */
double ref_exp(double x)
{
    static const double p[] = {1.0 / 2,      1.0 / 6,       1.0 / 24,       1.0 / 120,       1.0 / 720,
                               1.0 / 5040,   1.0 / 40320,   1.0 / 362880,   1.0 / 3628800,   1.0 / 39916800,
                               1.0 / 479001600, 1.0 / 6227020800.0, 1.0 / 87178291200.0};
    if (x != x) return x;
    if (x > 710) return INFINITY;
    if (x < -746) return 0;
    const double k = ref_to_integer(x * LOG2_E);
    const double high = x - k * LN2_HIGH, low = k * LN2_LOW; /* high is exact */
    const double r = high - low, lost = (high - r) - low;    /* r + lost is the reduced argument */
    const double y = 1 + (r + (lost + r * r * polynomial(p, sizeof p / sizeof p[0], r)));
    const int half = (int)k / 2; /* two factors: 2^k itself may be beyond the normal range */
    return y * power_of_two(half) * power_of_two((int)k - half);
}

/* x = 2^k m, m in (0.70, 1.42]; ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.172: 2s (1 + s^2/3 + s^4/5 ...), cut
 * where s^24/25 < 2^-65. With f = m - 1: 2s = f - s f, so that the leading part f is exact. */
double ref_log(double x)
{
    static const double p[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11, 1.0 / 13,
                               1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
    if (x != x || x == INFINITY) return x;
    if (x <= 0) return x == 0 ? -INFINITY : NAN;
    int k = 0;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        k = -54;
    }
    uint64_t bits = kvg_bits_of_f64(x);
    k += (int)(bits >> 52) - 1023;
    double m = kvg_f64_of_bits((bits & 0xFFFFFFFFFFFFFull) | 1023ull << 52);
    if (m > 1.4142135) {
        m /= 2;
        k++;
    }
    const double f = m - 1, s = f / (2 + f), square = s * s;
    const double tail = 2 * s * square * polynomial(p, sizeof p / sizeof p[0], square);
    const double half = 0.5 * f * f; /* f - s f = f - (half - s half): both small beside f */
    return k * LN2_HIGH + (f - (half - (s * half + (tail + k * LN2_LOW))));
}

/* Near 0 by the series of sinh and cosh, elsewhere by e^(2x). */
double ref_tanh(double x)
{
    static const double odd[] = {1.0,          1.0 / 6,        1.0 / 120,         1.0 / 5040,
                                 1.0 / 362880, 1.0 / 39916800, 1.0 / 6227020800.0};
    static const double even[] = {1.0,         1.0 / 2,       1.0 / 24,        1.0 / 720,
                                  1.0 / 40320, 1.0 / 3628800, 1.0 / 479001600, 1.0 / 87178291200.0};
    const double a = fabs(x);
    if (a < 0.5) {
        const double square = x * x;
        return x * (polynomial(odd, 7, square) / polynomial(even, 8, square));
    }
    const double e = ref_exp(-2 * a);
    return copysign((1 - e) / (1 + e), x);
}
