#include "second/slow_special.h"

#include <limits.h>

#include "second/slow_convert.h"

/* The rows are measured: no page derives them, so they are the one thing that both references share. */
static const int64_t ex2_rows[][3] = {
#define EX2(k, m, c) {k, m, c},
#define RCP(k, m, c)
#include "reference/numbers/special_sm90.def"
#undef EX2
#undef RCP
};
static const int64_t rcp_rows[][3] = {
#define EX2(k, m, c)
#define RCP(k, m, c) {k, m, c},
#include "reference/numbers/special_sm90.def"
#undef EX2
#undef RCP
};

/* Every pair of bits of the fraction r / 2^bits, and what of their product counts. */
static int64_t square_of(int64_t r, int bits, slow_special_fault fault)
{
    int64_t sum = 0;
    if (slow_planted(fault == SLOW_SPECIAL_SQUARE_WHOLE)) return r * r >> (2 * bits - 15);
    const int least = slow_planted(fault == SLOW_SPECIAL_SQUARE_LESS) ? 1 : 0;
    for (int i = 1; i <= bits; i++) {
        if (!(r >> (bits - i) & 1)) continue;
        for (int j = i; j <= bits; j++) {
            const int place = i == j ? 15 - 2 * i : 16 - i - j;
            if (place >= least) sum += (r >> (bits - j) & 1) << place;
        }
    }
    return sum;
}

static int64_t value_of(const int64_t row[3], int64_t r, int bits, int64_t bias, bool next_c, slow_special_fault fault)
{
    if (slow_planted(fault == SLOW_SPECIAL_BIAS)) bias++;
    return (8192 * row[0] + row[1] * r + (row[2] + next_c) * square_of(r, bits, fault) + bias) / 32768;
}

slow_number slow_ex2_approx(slow_number x, slow_special_fault fault)
{
    const int64_t unit = 1 << 23;
    if (x.kind == SLOW_NAN) return slow_nan();
    if (slow_compare(x, slow_scaled(128, 0)) >= 0) return slow_infinity(false);
    const int from_least = slow_compare(x, slow_scaled(-126, 0));
    if (from_least < 0 || (from_least == 0 && slow_planted(fault == SLOW_SPECIAL_LEAST_EX2))) return slow_zero(false);

    const slow_number scaled = slow_multiply(x, slow_scaled(unit, 0));
    int64_t q = slow_to_integer(scaled, SLOW_TO_ZERO, INT_MIN, INT_MAX);
    const bool complement = slow_planted(fault == SLOW_SPECIAL_COMPLEMENT)
                                ? slow_compare(scaled, slow_scaled(q, 0)) != 0 && !slow_is_zero(scaled)
                                : q % unit != 0;
    if (x.negative && complement) q--;
    const int n = (int)((q + 256 * unit) / unit) - 256; /* downwards */
    const int64_t f = q - n * unit, width = 1 << 17, piece = f / width;
    const bool next_c = slow_planted(fault == SLOW_SPECIAL_EX2_ROW) && piece == 63;
    return slow_scaled(unit + value_of(ex2_rows[piece], f % width, 17, 6114, next_c, fault), n - 23);
}

static bool below_normal(slow_number x)
{
    return slow_compare_magnitudes(x, slow_scaled(1, -126)) < 0;
}

slow_number slow_rcp_approx(slow_number x, slow_special_fault fault)
{
    if (x.kind == SLOW_NAN) return slow_nan();
    if (x.kind == SLOW_INF) return slow_zero(x.negative);
    if (below_normal(x)) return slow_infinity(x.negative);
    x = slow_decode(&slow_f32, slow_encode(&slow_f32, x)); /* x = 2^23 ... 2^24 - 1, times a power of two */
    const int64_t f = (int64_t)x.significand - (1 << 23), width = 1 << 16, piece = f / width;
    const bool next_c = slow_planted(fault == SLOW_SPECIAL_RCP_ROW) && piece == 127;
    slow_number y = slow_scaled(value_of(rcp_rows[piece], f % width, 16, 2023, next_c, fault), -x.exponent - 47);
    y.negative = x.negative;
    if (below_normal(y) && !slow_planted(fault == SLOW_SPECIAL_RCP_TINY)) return slow_zero(x.negative);
    return y;
}

/* The exponents of small products are lifted out of the range of subnormal numbers, and lowered again. */
static slow_number product(slow_number a, slow_number b, bool ftz, slow_special_fault fault)
{
    enum { LIFT = 500 };
    const slow_number exact = slow_multiply(a, b);
    if (ftz && exact.kind == SLOW_FINITE && slow_compare_magnitudes(exact, slow_scaled(1, 0)) < 0) {
        slow_number looked_at = exact;
        looked_at.exponent += LIFT;
        looked_at = slow_round(&(slow_layout){11, 23, 0, SLOW_IEEE_PAYLOAD}, looked_at);
        looked_at.exponent -= LIFT;
        if (slow_planted(fault == SLOW_SPECIAL_FLUSH_FIRST)) looked_at = exact;
        if (slow_planted(fault == SLOW_SPECIAL_FLUSH_LAST)) looked_at = slow_rn(exact);
        if (below_normal(looked_at)) return slow_zero(exact.negative);
    }
    return slow_rn(exact);
}

slow_number slow_div_full(slow_number a, slow_number b, bool ftz, slow_special_fault fault)
{
    int places = 0;
    if (slow_planted(fault == SLOW_SPECIAL_ROUNDED)) return slow_rn(slow_divide(a, b));
    if (b.kind == SLOW_NAN) return slow_nan();
    if (slow_compare_magnitudes(b, slow_scaled(1, 126)) > 0 && !slow_planted(fault == SLOW_SPECIAL_LARGE_KEPT)) {
        places = -2;
    } else if (!ftz && below_normal(b) && !slow_planted(fault == SLOW_SPECIAL_SMALL_KEPT)) {
        places = 24;
    }
    const slow_number s = slow_scaled(1, places);
    return product(product(a, s, ftz, fault), slow_rcp_approx(product(b, s, ftz, fault), fault), ftz, fault);
}
