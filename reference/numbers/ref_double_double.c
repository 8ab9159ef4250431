#include "reference/numbers/ref_double_double.h"

#include <math.h> /* fabs */
#include <stdbool.h>

#include "core/bits.h"
#include "reference/numbers/ref_elementary.h"
#include "reference/numbers/ref_round.h"

/* a + b exactly (Knuth). */
static ref_dd two_sum(double a, double b)
{
    const double sum = a + b, part = sum - a;
    return (ref_dd){sum, (a - (sum - part)) + (b - part)};
}

/* a + b exactly where |a| >= |b| or a = 0. */
static ref_dd fast_two_sum(double a, double b)
{
    const double sum = a + b;
    return (ref_dd){sum, b - (sum - a)};
}

/* a b exactly: each factor in two halves of 26 bits (Dekker, Veltkamp). */
static ref_dd two_product(double a, double b)
{
    const double split_a = 134217729.0 * a, split_b = 134217729.0 * b; /* 2^27 + 1 */
    const double a1 = split_a - (split_a - a), a2 = a - a1, b1 = split_b - (split_b - b), b2 = b - b1;
    const double product = a * b;
    return (ref_dd){product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

ref_dd ref_dd_add(ref_dd a, ref_dd b)
{
    const ref_dd high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
    const ref_dd sum = fast_two_sum(high.high, high.low + low.high);
    return fast_two_sum(sum.high, sum.low + low.low);
}

ref_dd ref_dd_multiply(ref_dd a, ref_dd b)
{
    const ref_dd product = two_product(a.high, b.high);
    return fast_two_sum(product.high, product.low + (a.high * b.low + a.low * b.high));
}

static ref_dd negative(ref_dd x)
{
    return (ref_dd){-x.high, -x.low};
}

/* Two quotients of doubles: the second one is of what the first left over. */
ref_dd ref_dd_divide(ref_dd a, ref_dd b)
{
    const double first = a.high / b.high;
    const ref_dd rest = ref_dd_add(a, negative(ref_dd_multiply(b, ref_dd_of(first))));
    const double second = rest.high / b.high;
    const ref_dd more = ref_dd_add(rest, negative(ref_dd_multiply(b, ref_dd_of(second))));
    return ref_dd_add(fast_two_sum(first, second), ref_dd_of(more.high / b.high));
}

/* x = k ln 2 + r, |r| <= 0.347: e^r = 1 + r (1 + r/2 (1 + r/3 (...))), cut where r^28/28! < 2^-140. */
ref_dd ref_dd_exp(ref_dd x)
{
    static const ref_dd ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
    const double k = ref_to_integer(x.high * 0x1.71547652b82fep0); /* / ln 2 */
    const ref_dd r = ref_dd_add(x, ref_dd_multiply(ref_dd_of(-k), ln2));
    ref_dd y = ref_dd_of(1);
    for (int n = 28; n > 0; n--) {
        y = ref_dd_add(ref_dd_of(1), ref_dd_divide(ref_dd_multiply(r, y), ref_dd_of(n)));
    }
    const double power = kvg_f64_of_bits((uint64_t)((int)k + 1023) << 52);
    return (ref_dd){y.high * power, y.low * power};
}

/* One step of Newton's method from a double: ln x = y + ln(1 + d), d = x e^-y - 1 = O(2^-52). */
ref_dd ref_dd_log(ref_dd x)
{
    const ref_dd y = ref_dd_of(ref_log(x.high));
    const ref_dd d = ref_dd_add(ref_dd_multiply(x, ref_dd_exp(negative(y))), ref_dd_of(-1));
    return ref_dd_add(y, ref_dd_of(d.high - d.high * d.high / 2));
}

/* 1 - q/(n (n+1)) (1 - q/((n+2)(n+3)) (...)) with q = r^2, |r| < 0.79, in double from term `first` on: within 2^-51. */
static double alternating(double q, int n, int first)
{
    double y = 1;
    for (int i = n + 24; i >= n + 2 * first; i -= 2) y = 1 - q * y / (i * (i + 1));
    return y;
}

/* The same within 2^-84: the terms from r^12 on, whose sum is below 2^-32, are in double. */
static ref_dd alternating_dd(ref_dd q, int n)
{
    ref_dd y = ref_dd_of(alternating(q.high, n, 6));
    for (int i = n + 10; i >= n; i -= 2) {
        y = ref_dd_add(ref_dd_of(1), negative(ref_dd_divide(ref_dd_multiply(q, y), ref_dd_of(i * (i + 1)))));
    }
    return y;
}

/* x = k pi/2 + r; returns k mod 4. pi/2 has three parts: what they lack is below 2^-161, times k < 2^24; no float below
 * 2^24 comes nearer to a multiple of pi/2 than 2^-35, so r is within 2^-100, relative. */
static int reduce(float x, ref_dd *r)
{
    static const double parts[] = {0x1.921fb54442d18p0, 0x1.1a62633145c07p-54, -0x1.f1976b7ed8fbcp-110};
    const double k = ref_to_integer((double)x * 0x1.45f306dc9c883p-1); /* 2/pi */
    *r = ref_dd_of((double)x);
    for (int i = 0; i < 3; i++) *r = ref_dd_add(*r, two_product(-k, parts[i]));
    return (int)k & 3;
}

/* cos and sin of x from those of r: (c, s), (-s, c), (-c, -s), (s, -c). */
static bool swaps(int quadrant) { return quadrant & 1; }
static bool negates_cos(int quadrant) { return quadrant == 1 || quadrant == 2; }
static bool negates_sin(int quadrant) { return quadrant >= 2; }

void ref_dd_cos_sin(float x, ref_dd *cos, ref_dd *sin)
{
    ref_dd r;
    const int quadrant = reduce(x, &r);
    const ref_dd q = ref_dd_multiply(r, r), s = ref_dd_multiply(r, alternating_dd(q, 2)), c = alternating_dd(q, 1);
    *cos = swaps(quadrant) ? s : c;
    *sin = swaps(quadrant) ? c : s;
    if (negates_cos(quadrant)) *cos = negative(*cos);
    if (negates_sin(quadrant)) *sin = negative(*sin);
}

/* True if all numbers within 2^-48 of y round to one float. */
static bool rounds(double y, float *out)
{
    *out = (float)(y + y * 0x1p-48);
    return *out == (float)(y - y * 0x1p-48);
}

/* In double where that decides the rounding, as it nearly always does (Ziv 1991). */
void ref_cos_sin(float x, float *cos, float *sin)
{
    ref_dd r, exact_cos, exact_sin;
    float c, s;
    const int quadrant = reduce(x, &r);
    const double q = r.high * r.high;
    if (rounds(alternating(q, 1, 0), &c) && rounds(r.high * alternating(q, 2, 0), &s)) {
        *cos = swaps(quadrant) ? s : c;
        *sin = swaps(quadrant) ? c : s;
        if (negates_cos(quadrant)) *cos = -*cos;
        if (negates_sin(quadrant)) *sin = -*sin;
        return;
    }
    ref_dd_cos_sin(x, &exact_cos, &exact_sin);
    *cos = ref_dd_to_f32(exact_cos);
    *sin = ref_dd_to_f32(exact_sin);
}

/* The high part is rounded to odd first: a second rounding to 24 bits then sees on which side of a tie x lies. */
float ref_dd_to_f32(ref_dd x)
{
    uint64_t bits = kvg_bits_of_f64(x.high);
    if (fabs(x.low) > 0x1p-90 * fabs(x.high) && !(bits & 1)) bits += (x.low > 0) == (x.high > 0) ? 1 : UINT64_MAX;
    return (float)kvg_f64_of_bits(bits);
}
