#include "second/slow_mma.h"

#include <stdbool.h>
#include <stddef.h>

#include "second/slow_number.h"

/* One chip's way to add up. */
typedef struct rules {
    const slow_layout *operands;
    int fraction_bits, least_exponent;
    uint32_t faults;
} rules;

static bool wrong(const rules *r, slow_mma_fault fault)
{
    return slow_planted(r->faults >> fault & 1);
}

/* A term of a sum: its exact value and the exponent by which the page aligns it, if that counts. */
typedef struct term {
    slow_number value;
    int exponent;
    bool counts;
} term;

static int digits(uint64_t n)
{
    return n ? 64 - __builtin_clzll(n) : 0;
}

/* A pile is a natural number of LIMBS * 64 bits in units of 2^LOWEST: it holds every sum of products of bf16. */
enum { LOWEST = -320, LIMBS = 10 };
typedef struct pile {
    uint64_t limb[LIMBS];
} pile;

static void pile_add(pile *p, uint64_t significand, int exponent)
{
    const int place = exponent - LOWEST, first = place / 64, shift = place % 64;
    uint64_t carry = 0, parts[2] = {significand << shift, shift ? significand >> (64 - shift) : 0};
    for (int i = first; i < LIMBS && (i < first + 2 || carry); i++) {
        const uint64_t part = i < first + 2 ? parts[i - first] : 0;
        const uint64_t sum = p->limb[i] + part, whole = sum + carry;
        carry = sum < part || whole < sum;
        p->limb[i] = whole;
    }
}

/* -1, 0, 1 */
static int pile_compare(const pile *a, const pile *b)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i]) return a->limb[i] < b->limb[i] ? -1 : 1;
    }
    return 0;
}

/* a - b for a >= b */
static pile pile_less(const pile *a, const pile *b)
{
    pile rest;
    uint64_t borrow = 0;
    for (int i = 0; i < LIMBS; i++) {
        rest.limb[i] = a->limb[i] - b->limb[i] - borrow;
        borrow = a->limb[i] < b->limb[i] || (borrow && a->limb[i] == b->limb[i]);
    }
    return rest;
}

/* The bits from exponent `unit` on, and whether anything lies below. */
static uint64_t pile_above(const pile *p, int unit, bool *below)
{
    const int place = unit - LOWEST, first = place / 64, shift = place % 64;
    *below = (p->limb[first] & (((uint64_t)1 << shift) - 1)) != 0;
    for (int i = 0; i < first; i++) *below |= p->limb[i] != 0;
    const uint64_t upper = shift && first + 1 < LIMBS ? p->limb[first + 1] << (64 - shift) : 0;
    return p->limb[first] >> shift | upper;
}

static int pile_leading(const pile *p)
{
    for (int i = LIMBS - 1; i >= 0; i--) {
        if (p->limb[i]) return LOWEST + 64 * i + digits(p->limb[i]) - 1;
    }
    return LOWEST;
}

/* --- the terms --- */

/* The exponent of a finite number of a layout: that of the place before the point, also for subnormals and zero. */
static int exponent_of(const slow_layout *layout, slow_number n)
{
    return n.exponent + layout->fraction_bits;
}

static bool subnormal(const slow_layout *layout, slow_number n)
{
    return n.kind == SLOW_FINITE && n.significand != 0 && digits(n.significand) <= layout->fraction_bits;
}

static slow_number factor(const rules *r, uint16_t code)
{
    const slow_number n = slow_decode(r->operands, code);
    return wrong(r, SLOW_MMA_FACTOR_FLUSHED) && subnormal(r->operands, n) ? slow_zero(n.negative) : n;
}

static int factor_exponent(const rules *r, slow_number n)
{
    const int normalised = n.exponent + digits(n.significand) - 1;
    if (n.significand != 0 && wrong(r, SLOW_MMA_OPERAND_NORMALISED)) return normalised;
    if (slow_is_zero(n)) n = slow_decode(r->operands, 0);
    return exponent_of(r->operands, n);
}

static void product_term(const rules *r, uint16_t a, uint16_t b, term *t)
{
    const slow_number x = factor(r, a), y = factor(r, b);
    *t = (term){.value = slow_multiply(x, y)};
    if (t->value.kind == SLOW_NAN && x.kind != SLOW_NAN && y.kind != SLOW_NAN && wrong(r, SLOW_MMA_INF_ZERO_IS_ZERO)) {
        t->value = slow_zero(false);
    }
    if (t->value.kind != SLOW_FINITE) return;
    const int leading = t->value.exponent + digits(t->value.significand) - 1;
    if (leading > 127 && !slow_is_zero(t->value) && wrong(r, SLOW_MMA_PRODUCT_OVERFLOWS)) {
        t->value = slow_infinity(t->value.negative);
    }
    t->counts = !slow_is_zero(t->value) || wrong(r, SLOW_MMA_ZERO_FACTOR_COUNTS);
    t->exponent = factor_exponent(r, x) + factor_exponent(r, y);
    if (!slow_is_zero(t->value) && wrong(r, SLOW_MMA_PRODUCT_NORMALISED)) t->exponent = leading;
}

static void addend_term(const rules *r, uint32_t c, term *t)
{
    t->value = slow_decode(&slow_f32, c);
    if (wrong(r, SLOW_MMA_ADDEND_FLUSHED) && subnormal(&slow_f32, t->value)) t->value = slow_zero(t->value.negative);
    const bool zero = slow_is_zero(t->value);
    t->counts = zero ? wrong(r, SLOW_MMA_ZERO_ADDEND_COUNTS) : !wrong(r, SLOW_MMA_ADDEND_IGNORED);
    t->exponent = exponent_of(&slow_f32, zero ? slow_decode(&slow_f32, 0) : t->value);
}

/* --- one fused sum --- */

/* The largest multiple of 2^unit that is not larger in magnitude. */
static slow_number cut_off(const rules *r, slow_number n, int unit)
{
    const int places = unit - n.exponent;
    if (places <= 0) return n;
    uint64_t whole = places < 64 ? n.significand >> places : 0;
    const bool rest = n.significand != 0 && (places >= 64 || whole << places != n.significand);
    const bool half = places <= 64 && (n.significand >> (places - 1) & 1) != 0;
    if ((half && wrong(r, SLOW_MMA_TERM_NEAREST)) || (rest && n.negative && wrong(r, SLOW_MMA_TERM_DOWN))) whole++;
    return (slow_number){whole, unit, SLOW_FINITE, n.negative};
}

static uint32_t special_sum(const rules *r, const term *terms, size_t count)
{
    slow_number sum = slow_zero(false);
    for (size_t i = 0; i < count; i++) {
        const slow_number next = slow_add(sum, terms[i].value);
        const bool opposed = next.kind == SLOW_NAN && sum.kind == SLOW_INF && terms[i].value.kind == SLOW_INF;
        if (!opposed || !wrong(r, SLOW_MMA_INF_MINUS_INF)) sum = next;
    }
    if (sum.kind == SLOW_NAN) return wrong(r, SLOW_MMA_NAN_QUIET) ? 0x7FC00000 : 0x7FFFFFFF;
    return (uint32_t)slow_encode(&slow_f32, sum);
}

/* An exact sum that is not zero, to f32 toward zero. */
static uint32_t to_f32(const rules *r, const pile *magnitude, bool negative)
{
    const uint32_t sign = negative ? 0x80000000u : 0;
    const int leading = pile_leading(magnitude);
    const int unit = leading < -126 ? -149 : leading - 23;
    bool rest, beyond;
    const uint64_t whole = pile_above(magnitude, unit, &rest);
    slow_number n = {whole, unit, SLOW_FINITE, negative};
    const bool half = (pile_above(magnitude, unit - 1, &beyond) & 1) != 0;
    if (half && (beyond || (whole & 1)) && wrong(r, SLOW_MMA_RESULT_NEAREST)) n.significand++;
    if (leading > 127) return sign | (wrong(r, SLOW_MMA_OVERFLOW_SATURATES) ? 0x7F7FFFFF : 0x7F800000);
    if (leading < -126 && wrong(r, SLOW_MMA_RESULT_FLUSHED)) return 0;
    if (n.significand == 0) return wrong(r, SLOW_MMA_UNDERFLOW_SIGNED) ? sign : 0;
    return (uint32_t)slow_encode(&slow_f32, n);
}

/* c + the `count` products of a[0], a[step], ... */
static uint32_t fused_sum(const rules *r, const uint16_t *a, const uint16_t *b, size_t count, size_t step, uint32_t c)
{
    term terms[1 + SLOW_MOST_TERMS];
    bool special = false, minus_zeros = true;
    addend_term(r, c, &terms[0]);
    for (size_t i = 1; i <= count; i++) product_term(r, a[(i - 1) * step], b[(i - 1) * step], &terms[i]);

    int largest = r->least_exponent;
    for (size_t i = 0; i <= count; i++) {
        special |= terms[i].value.kind != SLOW_FINITE;
        minus_zeros &= slow_is_zero(terms[i].value) && terms[i].value.negative;
        if (terms[i].counts && terms[i].exponent > largest) largest = terms[i].exponent;
    }
    if (special) return special_sum(r, terms, count + 1);

    pile positive = {{0}}, negative = {{0}};
    for (size_t i = 0; i <= count; i++) {
        const slow_number n = cut_off(r, terms[i].value, largest - r->fraction_bits);
        if (n.significand != 0) pile_add(n.negative ? &negative : &positive, n.significand, n.exponent);
    }
    const int order = pile_compare(&positive, &negative);
    if (order == 0) return minus_zeros && wrong(r, SLOW_MMA_ZERO_SIGNED) ? 0x80000000u : 0;
    const pile rest = order > 0 ? pile_less(&positive, &negative) : pile_less(&negative, &positive);
    return to_f32(r, &rest, order < 0);
}

uint32_t slow_mma_sum_8(const kvg_chip_info *chip, const uint16_t *a, const uint16_t *b, uint32_t c)
{
    const int kept = (int)chip->fraction_bits_8;
    const rules r = {&slow_e4m3, kept, chip->least_exponent, 0};
    return fused_sum(&r, a, b, chip->sum_terms_8, 1, c) >> (23 - kept) << (23 - kept);
}

uint32_t slow_mma_output(const kvg_chip_info *chip, kvg_dtype dtype, uint32_t faults, const uint16_t *a,
                         const uint16_t *b, uint32_t c)
{
    rules r = {dtype == KVG_DTYPE_F16 ? &slow_f16 : &slow_bf16, (int)chip->fraction_bits, chip->least_exponent,
               faults};
    size_t terms = chip->sum_terms;
    if (wrong(&r, SLOW_MMA_FRACTION_LESS)) r.fraction_bits--;
    if (wrong(&r, SLOW_MMA_FRACTION_MORE)) r.fraction_bits++;
    if (wrong(&r, SLOW_MMA_LEAST_LOWER)) r.least_exponent--;
    if (wrong(&r, SLOW_MMA_LEAST_HIGHER)) r.least_exponent++;
    if (wrong(&r, SLOW_MMA_LEAST_NONE)) r.least_exponent = LOWEST;
    if (wrong(&r, SLOW_MMA_OTHER_SPLIT)) terms = KVG_MMA_K + KVG_MMA_K / 2 - terms;
    if (wrong(&r, SLOW_MMA_INTERLEAVED)) {
        for (size_t i = 0; i < 2; i++) c = fused_sum(&r, a + i, b + i, KVG_MMA_K / 2, 2, c);
        return c;
    }
    for (size_t i = 0; i < KVG_MMA_K; i += terms) c = fused_sum(&r, a + i, b + i, terms, 1, c);
    return c;
}
