#include "second/slow_number.h"

__extension__ typedef unsigned __int128 wide;
__extension__ typedef __int128 signed_wide;

const slow_layout slow_f32 = {8, 23, 0x7F7FFFFF, SLOW_IEEE_PAYLOAD};
const slow_layout slow_f16 = {5, 10, 0x7BFF, SLOW_IEEE_PAYLOAD};
const slow_layout slow_bf16 = {8, 7, 0x7F7F, SLOW_IEEE_PAYLOAD};
const slow_layout slow_e5m2 = {5, 2, 0x7B, SLOW_IEEE};
const slow_layout slow_e4m3 = {4, 3, 0x7E, SLOW_ONE_NAN};
const slow_layout slow_e2m1 = {2, 1, 0x7, SLOW_ALL_FINITE};

static uint64_t ones(int count)
{
    return ((uint64_t)1 << count) - 1;
}

static int width_of(wide n)
{
    uint64_t high = (uint64_t)(n >> 64), low = (uint64_t)n;
    return high ? 128 - __builtin_clzll(high) : low ? 64 - __builtin_clzll(low) : 0;
}

static int bias_of(const slow_layout *layout)
{
    return (1 << (layout->exponent_bits - 1)) - 1;
}

/* Exponent of the last place of subnormal numbers. */
static int least_unit(const slow_layout *layout)
{
    return 1 - bias_of(layout) - layout->fraction_bits;
}

slow_number slow_zero(bool negative)
{
    return (slow_number){.kind = SLOW_FINITE, .negative = negative};
}

slow_number slow_infinity(bool negative)
{
    return (slow_number){.kind = SLOW_INF, .negative = negative};
}

slow_number slow_nan(void)
{
    return (slow_number){.kind = SLOW_NAN, .significand = UINT64_MAX};
}

slow_number slow_scaled(int64_t integer, int exponent)
{
    bool negative = integer < 0;
    uint64_t magnitude = negative ? 0 - (uint64_t)integer : (uint64_t)integer;
    return (slow_number){magnitude, exponent, SLOW_FINITE, negative};
}

slow_number slow_decode(const slow_layout *layout, uint64_t code)
{
    uint64_t fraction = code & ones(layout->fraction_bits);
    uint64_t field = code >> layout->fraction_bits & ones(layout->exponent_bits);
    uint64_t magnitude = code & ones(layout->exponent_bits + layout->fraction_bits);
    bool negative = (code >> (layout->exponent_bits + layout->fraction_bits) & 1) != 0;

    if (magnitude > layout->largest) {
        if (layout->specials != SLOW_ONE_NAN && fraction == 0) return slow_infinity(negative);
        slow_number nan = {.kind = SLOW_NAN, .significand = (uint64_t)1 << 63};
        if (layout->specials == SLOW_IEEE_PAYLOAD) {
            nan.significand = fraction << (64 - layout->fraction_bits);
            nan.negative = negative;
        }
        return nan;
    }
    if (field == 0) return (slow_number){fraction, least_unit(layout), SLOW_FINITE, negative};
    uint64_t implicit = (uint64_t)1 << layout->fraction_bits;
    return (slow_number){implicit | fraction, least_unit(layout) + (int)field - 1, SLOW_FINITE, negative};
}

/* n / 2^places to the nearest integer, ties to even. */
static uint64_t drop_nearest(uint64_t n, int places)
{
    if (places > 64) return 0; /* below one half */
    wide kept = (wide)n >> places, dropped = (wide)n - (kept << places), half = (wide)1 << (places - 1);
    if (dropped > half || (dropped == half && (kept & 1))) kept++;
    return (uint64_t)kept;
}

slow_number slow_round(const slow_layout *layout, slow_number n)
{
    if (n.kind != SLOW_FINITE) return n;
    int unit = n.exponent + width_of(n.significand) - (layout->fraction_bits + 1);
    if (unit < least_unit(layout)) unit = least_unit(layout);
    if (unit > n.exponent) {
        n.significand = drop_nearest(n.significand, unit - n.exponent);
        n.exponent = unit;
    }
    if (n.significand != 0 && n.exponent + width_of(n.significand) > bias_of(layout) + 1) {
        return slow_infinity(n.negative);
    }
    return n;
}

uint64_t slow_encode(const slow_layout *layout, slow_number n)
{
    n = slow_round(layout, n);
    uint64_t sign = (uint64_t)n.negative << (layout->exponent_bits + layout->fraction_bits);
    uint64_t infinity = ones(layout->exponent_bits) << layout->fraction_bits;
    if (n.kind == SLOW_INF) return sign | infinity;
    if (n.kind == SLOW_NAN) {
        uint64_t payload = n.significand >> (64 - layout->fraction_bits);
        if (payload == 0) payload = (uint64_t)1 << (layout->fraction_bits - 1); /* or it would read as Inf */
        return sign | infinity | payload;
    }
    if (n.significand == 0) return sign;
    int unit = n.exponent + width_of(n.significand) - (layout->fraction_bits + 1);
    if (unit < least_unit(layout)) unit = least_unit(layout);
    int shift = n.exponent - unit;
    uint64_t whole = shift < 0 ? n.significand >> -shift : n.significand << shift;
    /* The implicit bit of a normal number adds the one that takes the field from "unit" to its exponent. */
    return sign | (((uint64_t)(unit - least_unit(layout)) << layout->fraction_bits) + whole);
}

/* n / 2^places, the last bit set if anything was cut off. */
static wide drop_sticky(wide n, int places)
{
    if (places > 127) return n != 0;
    wide kept = n >> places;
    return kept | ((kept << places) != n);
}

static slow_number make(bool negative, wide significand, int exponent)
{
    int excess = width_of(significand) - 64;
    if (excess < 0) excess = 0;
    if (significand == 0) return slow_zero(negative);
    return (slow_number){(uint64_t)drop_sticky(significand, excess), exponent + excess, SLOW_FINITE, negative};
}

slow_number slow_add(slow_number a, slow_number b)
{
    if (a.kind == SLOW_NAN || b.kind == SLOW_NAN) return slow_nan();
    if (a.kind == SLOW_INF && b.kind == SLOW_INF && a.negative != b.negative) return slow_nan();
    if (a.kind == SLOW_INF || b.kind == SLOW_INF) return a.kind == SLOW_INF ? a : b;
    if (slow_is_zero(a) && slow_is_zero(b)) return slow_zero(a.negative && b.negative);
    if (slow_is_zero(a) || slow_is_zero(b)) return slow_is_zero(a) ? b : a;
    if (a.exponent < b.exponent) {
        slow_number t = a;
        a = b;
        b = t;
    }
    /* Beyond 60 places b is far below a's last bit (48 bits at most), so a sticky bit says all about it. */
    int gap = a.exponent - b.exponent, lift = gap < 60 ? gap : 60;
    signed_wide high = (signed_wide)((wide)a.significand << lift);
    signed_wide low = (signed_wide)drop_sticky(b.significand, gap - lift);
    signed_wide sum = (a.negative ? -high : high) + (b.negative ? -low : low);
    return make(sum < 0, (wide)(sum < 0 ? -sum : sum), a.exponent - lift); /* an exact 0 is +0 */
}

slow_number slow_subtract(slow_number a, slow_number b)
{
    b.negative = !b.negative;
    return slow_add(a, b);
}

slow_number slow_multiply(slow_number a, slow_number b)
{
    bool negative = a.negative != b.negative;
    if (a.kind == SLOW_NAN || b.kind == SLOW_NAN) return slow_nan();
    if (a.kind == SLOW_INF || b.kind == SLOW_INF) {
        return slow_is_zero(a) || slow_is_zero(b) ? slow_nan() : slow_infinity(negative);
    }
    return make(negative, (wide)a.significand * b.significand, a.exponent + b.exponent);
}

slow_number slow_divide(slow_number a, slow_number b)
{
    bool negative = a.negative != b.negative;
    if (a.kind == SLOW_NAN || b.kind == SLOW_NAN) return slow_nan();
    if (a.kind == b.kind && (a.kind == SLOW_INF || (slow_is_zero(a) && slow_is_zero(b)))) return slow_nan();
    if (a.kind == SLOW_INF || slow_is_zero(b)) return slow_infinity(negative);
    if (b.kind == SLOW_INF || slow_is_zero(a)) return slow_zero(negative);
    int lift = 64 - width_of(a.significand);
    uint64_t dividend = a.significand << lift, quotient = dividend / b.significand;
    bool rest = dividend % b.significand != 0;
    return (slow_number){quotient | rest, a.exponent - lift - b.exponent, SLOW_FINITE, negative};
}

bool slow_is_zero(slow_number n)
{
    return n.kind == SLOW_FINITE && n.significand == 0;
}

int slow_compare_magnitudes(slow_number a, slow_number b)
{
    if (a.kind == SLOW_INF || b.kind == SLOW_INF) return (a.kind == SLOW_INF) - (b.kind == SLOW_INF);
    if (a.significand == 0 || b.significand == 0) return (a.significand != 0) - (b.significand != 0);
    int a_lift = 64 - width_of(a.significand), b_lift = 64 - width_of(b.significand);
    int a_exponent = a.exponent - a_lift, b_exponent = b.exponent - b_lift;
    if (a_exponent != b_exponent) return a_exponent < b_exponent ? -1 : 1;
    uint64_t a_digits = a.significand << a_lift, b_digits = b.significand << b_lift;
    return (a_digits > b_digits) - (a_digits < b_digits);
}

int slow_compare(slow_number a, slow_number b)
{
    if (a.negative != b.negative) return a.negative ? -1 : 1;
    return a.negative ? slow_compare_magnitudes(b, a) : slow_compare_magnitudes(a, b);
}

int slow_to_integer(slow_number n, slow_direction direction, int low, int high)
{
    enum { ENOUGH = 31 }; /* bits: anything longer is outside low ... high */
    if (n.kind == SLOW_INF || n.exponent + width_of(n.significand) > ENOUGH) return n.negative ? low : high;
    uint64_t whole = n.significand;
    if (n.exponent >= 0) {
        whole <<= n.exponent;
    } else if (direction == SLOW_TO_NEAREST_EVEN) {
        whole = drop_nearest(whole, -n.exponent);
    } else {
        whole = n.exponent < -63 ? 0 : whole >> -n.exponent;
    }
    int64_t value = n.negative ? -(int64_t)whole : (int64_t)whole;
    return (int)(value < low ? low : value > high ? high : value);
}
