#include "second/slow_special.h"

#include <limits.h>

#include "second/slow_convert.h"

/* The rows are measured: no page derives them, so they are the one thing that both references share. */
static const int64_t rows[][3] = {
#define PIECE(k, m, c) {k, m, c},
#include "reference/numbers/special_sm90.def"
#undef PIECE
};

/* The table of section 9.1, and a fault in the last piece of a function. */
typedef struct table {
    int64_t first, pieces, bits, k, c, bias, divisor;
    slow_special_fault row;
} table;
static const table ex2 = {0, 64, 17, 8192, 1, 6114, 1 << 15, SLOW_SPECIAL_EX2_ROW},
                   rcp = {64, 128, 16, 8192, 1, 2023, 1 << 15, SLOW_SPECIAL_RCP_ROW},
                   rsqrt = {192, 128, 17, 16384, 4, 16383, 1 << 16, SLOW_SPECIAL_RSQRT_ROW},
                   lg2 = {320, 64, 17, 4096, 2, 837, 1 << 2, SLOW_SPECIAL_LG2_ROW};

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

/* The sum is never negative. */
static int64_t value_of(const table *of, int64_t f, slow_special_fault fault)
{
    const int64_t width = (int64_t)1 << of->bits, piece = f / width, r = f % width;
    const int64_t *row = rows[of->first + piece];
    const int64_t c = row[2] + (slow_planted(fault == of->row) && piece == of->pieces - 1);
    const int64_t bias = of->bias + slow_planted(fault == SLOW_SPECIAL_BIAS);
    return (of->k * row[0] + row[1] * r + of->c * c * square_of(r, (int)of->bits, fault) + bias) / of->divisor;
}

static bool below_normal(slow_number x)
{
    return slow_compare_magnitudes(x, slow_scaled(1, -126)) < 0;
}

/* Without ftz: x is subnormal, or zero. */
static bool is_lifted(slow_number x, bool ftz, slow_special_fault fault)
{
    return !ftz && x.kind == SLOW_FINITE && below_normal(x) && !slow_planted(fault == SLOW_SPECIAL_SMALL_KEPT);
}

slow_number slow_ex2_approx(slow_number x, bool ftz, slow_special_fault fault)
{
    const int64_t unit = 1 << 23;
    if (x.kind == SLOW_NAN) return slow_nan();
    if (slow_compare(x, slow_scaled(128, 0)) >= 0) return slow_infinity(false);
    const int from_least = slow_compare(x, slow_scaled(-126, 0));
    if (!ftz && from_least < 0 && !slow_planted(fault == SLOW_SPECIAL_SMALL_KEPT)) {
        const slow_number root = slow_ex2_approx(slow_multiply(x, slow_scaled(1, -1)), true, fault);
        return slow_rn(slow_multiply(root, root));
    }
    if (from_least < 0 || (from_least == 0 && slow_planted(fault == SLOW_SPECIAL_LEAST_EX2))) return slow_zero(false);

    const slow_number scaled = slow_multiply(x, slow_scaled(unit, 0));
    int64_t q = slow_to_integer(scaled, SLOW_TO_ZERO, INT_MIN, INT_MAX);
    const bool complement = slow_planted(fault == SLOW_SPECIAL_COMPLEMENT)
                                ? slow_compare(scaled, slow_scaled(q, 0)) != 0 && !slow_is_zero(scaled)
                                : q % unit != 0;
    if (x.negative && complement) q--;
    const int n = (int)((q + 256 * unit) / unit) - 256; /* downwards */
    return slow_scaled(unit + value_of(&ex2, q - n * unit, fault), n - 23);
}

slow_number slow_rcp_approx(slow_number x, bool ftz, slow_special_fault fault)
{
    if (!ftz) return slow_div_full(slow_scaled(1, 0), x, false, fault);
    if (x.kind == SLOW_NAN) return slow_nan();
    if (x.kind == SLOW_INF) return slow_zero(x.negative);
    if (below_normal(x)) return slow_infinity(x.negative);
    x = slow_decode(&slow_f32, slow_encode(&slow_f32, x)); /* x = 2^23 ... 2^24 - 1, times a power of two */
    slow_number y = slow_scaled(value_of(&rcp, (int64_t)x.significand - (1 << 23), fault), -x.exponent - 47);
    y.negative = x.negative;
    if (below_normal(y) && !slow_planted(fault == SLOW_SPECIAL_RCP_TINY)) return slow_zero(x.negative);
    return y;
}

/* The upper 24 bits of `magnitude` * 2^place; with the fault the rounded number. */
static slow_number upper_24_bits(int64_t magnitude, int place, bool negative, bool rounded)
{
    for (; !slow_planted(rounded) && magnitude >= 1 << 24; place++) magnitude /= 2;
    return slow_rn(slow_scaled(negative ? -magnitude : magnitude, place));
}

slow_number slow_rsqrt_approx(slow_number x, bool ftz, slow_special_fault fault)
{
    if (is_lifted(x, ftz, fault)) {
        const slow_number y = slow_rsqrt_approx(slow_multiply(x, slow_scaled(1, 24)), true, fault);
        return slow_rn(slow_multiply(y, slow_scaled(1, 12)));
    }
    if (x.kind == SLOW_FINITE && below_normal(x)) return slow_infinity(x.negative);
    if (x.kind == SLOW_NAN || x.negative) return slow_nan();
    if (x.kind == SLOW_INF) return slow_zero(false);
    x = slow_decode(&slow_f32, slow_encode(&slow_f32, x));
    const int e = x.exponent + 23, odd = ((e % 2) + 2) % 2, q = (e - odd) / 2;
    const int64_t f = (int64_t)x.significand - (1 << 23);
    if (!odd && f == 0 && !slow_planted(fault == SLOW_SPECIAL_RSQRT_ONE)) return slow_scaled(1, -q);
    return slow_scaled(value_of(&rsqrt, odd * (1 << 23) + f, fault), -q - 24);
}

slow_number slow_lg2_approx(slow_number x, bool ftz, slow_special_fault fault)
{
    const int64_t unit = (int64_t)1 << 36;
    if (is_lifted(x, ftz, fault)) {
        const slow_number y = slow_lg2_approx(slow_multiply(x, slow_scaled(1, 24)), true, fault);
        return slow_rn(slow_add(y, slow_scaled(-24, 0)));
    }
    if (x.kind == SLOW_FINITE && below_normal(x)) return slow_infinity(true);
    if (x.kind == SLOW_NAN || x.negative) return slow_nan();
    if (x.kind == SLOW_INF) return x;
    const bool is_one = slow_compare(x, slow_scaled(1, 0)) == 0;
    if (is_one && !slow_planted(fault == SLOW_SPECIAL_LG2_ONE)) return slow_zero(false);
    x = slow_decode(&slow_f32, slow_encode(&slow_f32, x));
    const int64_t t = (x.exponent + 23) * unit + value_of(&lg2, (int64_t)x.significand - (1 << 23), fault);
    const int64_t magnitude = t >= 0 ? t : slow_planted(fault == SLOW_SPECIAL_LG2_NEGATED) ? -t : -t - 1;
    return upper_24_bits(magnitude, -36, t < 0, fault == SLOW_SPECIAL_LG2_ROUNDED);
}

slow_number slow_tanh_approx(slow_number x, slow_special_fault fault)
{
    static const int pieces[] = {1, 1, 1, 2, 2, 4, 4, 4, 8, 16, 8}; /* from 2^-8 on */
    if (x.kind == SLOW_NAN) return slow_nan();
    if (slow_compare_magnitudes(x, slow_scaled(1, -8)) < 0) return x;
    if (slow_compare_magnitudes(x, slow_scaled(8, 0)) >= 0) return slow_scaled(x.negative ? -1 : 1, 0);
    x = slow_decode(&slow_f32, slow_encode(&slow_f32, x));
    const int power = x.exponent + 23 + 8;
    table of = {384, pieces[power], 17, 32768, 2, 0, 1, SLOW_SPECIAL_TANH_ROW};
    for (int i = 0; i < power; i++) of.first += pieces[i];
    const int64_t whole = (int64_t)x.significand - (1 << 23), dropped = 64 / pieces[power];
    return upper_24_bits(value_of(&of, whole / dropped, fault), -39, x.negative, fault == SLOW_SPECIAL_TANH_ROUNDED);
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

static slow_number step_of(slow_number b, bool ftz, slow_special_fault fault)
{
    int places = 0;
    if (slow_compare_magnitudes(b, slow_scaled(1, 126)) > 0 && !slow_planted(fault == SLOW_SPECIAL_LARGE_KEPT)) {
        places = -2;
    } else if (!ftz && below_normal(b) && !slow_planted(fault == SLOW_SPECIAL_SMALL_KEPT)) {
        places = 24;
    }
    return slow_scaled(1, places);
}

slow_number slow_div_full_unrounded(slow_number a, slow_number b)
{
    if (b.kind == SLOW_NAN) return slow_nan();
    const slow_number s = step_of(b, false, SLOW_SPECIAL_FAULTS);
    const slow_number of_a = slow_rn(slow_multiply(a, s)), of_b = slow_rn(slow_multiply(b, s));
    return slow_multiply(of_a, slow_rcp_approx(of_b, true, SLOW_SPECIAL_FAULTS));
}

slow_number slow_div_full(slow_number a, slow_number b, bool ftz, slow_special_fault fault)
{
    if (slow_planted(fault == SLOW_SPECIAL_ROUNDED)) return slow_rn(slow_divide(a, b));
    if (b.kind == SLOW_NAN) return slow_nan();
    const slow_number s = step_of(b, ftz, fault);
    return product(product(a, s, ftz, fault), slow_rcp_approx(product(b, s, ftz, fault), true, fault), ftz,
                   fault);
}
