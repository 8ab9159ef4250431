#include "second/slow_rope_table.h"

#include <string.h>

#include "core/bits.h"

/* A number from 0 to 2^32 - 2^-224: words[0] is the lowest. Results are cut off, never rounded. */
enum { WORDS = 8, FRACTION = 224 };
typedef struct fixed {
    uint32_t words[WORDS];
} fixed;

static fixed whole(uint32_t n)
{
    fixed x = {{0}};
    x.words[WORDS - 1] = n;
    return x;
}

static int compare(const fixed *a, const fixed *b)
{
    for (int i = WORDS - 1; i >= 0; i--) {
        if (a->words[i] != b->words[i]) return a->words[i] < b->words[i] ? -1 : 1;
    }
    return 0;
}

static fixed plus(fixed a, fixed b)
{
    uint64_t carry = 0;
    for (int i = 0; i < WORDS; i++) {
        carry += (uint64_t)a.words[i] + b.words[i];
        a.words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    return a;
}

/* a >= b */
static fixed minus(fixed a, fixed b)
{
    uint64_t borrow = 0;
    for (int i = 0; i < WORDS; i++) {
        uint64_t difference = (uint64_t)a.words[i] - b.words[i] - borrow;
        a.words[i] = (uint32_t)difference;
        borrow = difference >> 63;
    }
    return a;
}

static fixed times(fixed a, fixed b)
{
    uint32_t product[2 * WORDS] = {0};
    fixed result;
    for (int i = 0; i < WORDS; i++) {
        uint64_t carry = 0;
        for (int j = 0; j < WORDS; j++) {
            carry += (uint64_t)a.words[i] * b.words[j] + product[i + j];
            product[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        product[i + WORDS] = (uint32_t)carry;
    }
    memcpy(result.words, product + FRACTION / 32, sizeof result.words);
    return result;
}

static fixed over(fixed a, uint32_t divisor)
{
    uint64_t rest = 0;
    for (int i = WORDS - 1; i >= 0; i--) {
        rest = rest << 32 | a.words[i];
        a.words[i] = (uint32_t)(rest / divisor);
        rest %= divisor;
    }
    return a;
}

static bool is_zero(const fixed *a)
{
    fixed zero = {{0}};
    return compare(a, &zero) == 0;
}

/* a / b, digit by digit: a below 2^31, b from 1 to below 2^31. */
static fixed quotient(fixed a, fixed b)
{
    fixed result = {{0}};
    int lift = 0;
    for (; !(b.words[WORDS - 1] >> 30); lift++) b = plus(b, b);
    for (int bit = FRACTION + lift; bit >= 0; bit--) {
        if (compare(&a, &b) >= 0) {
            a = minus(a, b);
            result.words[bit / 32] |= (uint32_t)1 << bit % 32;
        }
        a = plus(a, a);
    }
    return result;
}

/* --- with a sign --- */

typedef struct real {
    fixed size;
    bool negative;
} real;

static real sum(real a, real b)
{
    if (a.negative == b.negative) return (real){plus(a.size, b.size), a.negative};
    if (compare(&a.size, &b.size) >= 0) return (real){minus(a.size, b.size), a.negative};
    return (real){minus(b.size, a.size), b.negative};
}

static real difference(real a, real b)
{
    b.negative = !b.negative;
    return sum(a, b);
}

/* --- from and to floats --- */

/* A finite float below 2^31 in size, cut off at 2^-224. */
static real real_of(slow_number n)
{
    real x = {.negative = n.negative};
    for (int bit = 0; bit < 64; bit++) {
        int to = bit + n.exponent + FRACTION;
        if (to >= 0 && n.significand >> bit & 1) x.size.words[to / 32] |= (uint32_t)1 << to % 32;
    }
    return x;
}

/* The float nearest to x 2^exponent. x is taken to 150 binary places first: all errors here are far below them, and
 * what is exactly a tie, or exactly a float, becomes that again. */
static slow_number nearest(real x, int exponent)
{
    fixed half_place = {{0}};
    half_place.words[(FRACTION - 151) / 32] = (uint32_t)1 << (FRACTION - 151) % 32;
    x.size = plus(x.size, half_place);
    slow_number n = slow_zero(x.negative);
    int top = 32 * WORDS - 1, last = FRACTION - 150;
    while (top > last && !(x.size.words[top / 32] >> top % 32 & 1)) top--;
    for (int bit = top; bit >= last; bit--) {
        uint64_t digit = x.size.words[bit / 32] >> bit % 32 & 1;
        if (top - bit < 62) {
            n.significand = n.significand << 1 | digit;
            n.exponent = bit - FRACTION + exponent;
        } else {
            n.significand |= digit; /* that something follows is all that matters */
        }
    }
    return slow_round(&slow_f32, n);
}

static slow_number of_f32(float x)
{
    return slow_decode(&slow_f32, kvg_bits_of_f32(x));
}

static slow_number rn(slow_number n)
{
    return slow_round(&slow_f32, n);
}

static const slow_number one = {1, 0, SLOW_FINITE, false};

/* --- elementary functions --- */

/* 2 (z + z^3/3 + z^5/5 + ...) = ln((1 + z) / (1 - z)) */
static fixed twice_atanh(fixed z)
{
    fixed power = z, square = times(z, z), total = {{0}};
    for (uint32_t n = 1; !is_zero(&power); n += 2) {
        total = plus(total, over(power, n));
        power = times(power, square);
    }
    return plus(total, total);
}

static fixed ln_2(void)
{
    return twice_atanh(over(whole(1), 3));
}

/* ln of m from 1 to 2 */
static fixed ln_fraction(fixed m)
{
    return twice_atanh(quotient(minus(m, whole(1)), plus(m, whole(1))));
}

static real times_int(fixed x, int n)
{
    return (real){times(x, whole((uint32_t)(n < 0 ? -n : n))), n < 0};
}

/* n above 0 */
static real ln(slow_number n)
{
    int top = 63;
    while (!(n.significand >> top & 1)) top--;
    int exponent = n.exponent + top;
    n.exponent = -top;
    return sum((real){ln_fraction(real_of(n).size), false}, times_int(ln_2(), exponent));
}

static real ln_int(uint64_t n)
{
    return ln((slow_number){n, 0, SLOW_FINITE, false});
}

/* The float nearest to e^x, x >= 0. */
static slow_number nearest_exp(fixed x)
{
    fixed period = ln_2(), total = {{0}}, term = whole(1);
    int doublings = 0;
    for (; compare(&x, &period) >= 0; doublings++) x = minus(x, period);
    for (uint32_t n = 1; !is_zero(&term); n++) {
        total = plus(total, term);
        term = over(times(term, x), n);
    }
    return nearest((real){total, false}, doublings);
}

/* pi, as printed in the tables of Blowfish. */
static const fixed pi = {{0x082EFA98, 0x299F31D0, 0xA4093822, 0x03707344, 0x13198A2E, 0x85A308D3, 0x243F6A88, 3}};

/* 1 - x^2/2! + ... from term = 1 and n = 1, x - x^3/3! + ... from term = x and n = 2. */
static fixed alternating(fixed term, fixed square, uint32_t n)
{
    fixed up = {{0}}, down = {{0}};
    for (bool odd = false; !is_zero(&term); odd = !odd, n += 2) {
        if (odd) down = plus(down, term);
        else up = plus(up, term);
        term = over(times(term, square), n * (n + 1));
    }
    return minus(up, down);
}

void slow_cos_sin(slow_number angle, slow_number *cos, slow_number *sin)
{
    fixed multiples[26], x = real_of(angle).size;
    unsigned quarters = 0;
    multiples[0] = over(pi, 2);
    for (int i = 1; i < 26; i++) multiples[i] = plus(multiples[i - 1], multiples[i - 1]);
    for (int i = 25; i >= 0; i--) {
        if (compare(&x, &multiples[i]) < 0) continue;
        x = minus(x, multiples[i]);
        quarters += 1u << i;
    }
    fixed square = times(x, x), c = alternating(whole(1), square, 1), s = alternating(x, square, 2);
    bool swap = quarters & 1, left = (quarters + 1) >> 1 & 1, lower = quarters >> 1 & 1;
    *cos = nearest((real){swap ? s : c, left}, 0);
    *sin = nearest((real){swap ? c : s, lower}, 0);
}

/* --- docs/spec/numerics.md section 8 --- */

/* exponent ln(t), with t = (factor (L - N) + N) / N = numerator 2^e / N */
static slow_number dynamic_base(const kvg_rope *rope, bool *broken)
{
    const kvg_rope_scaling *p = &rope->scaling;
    slow_number factor = of_f32(p->factor);
    uint64_t original = (uint64_t)p->original_positions, length = (uint64_t)p->length;
    uint64_t beyond = length > original ? length - original : 0;
    real t = ln_int(factor.significand * beyond + (original << -factor.exponent));
    t = sum(difference(t, ln_int(original)), times_int(ln_2(), factor.exponent));
    if (t.negative) t.size = (fixed){{0}}; /* t = 1, and the last digits of its logarithm */
    fixed power = over(times(t.size, whole(rope->dims)), rope->dims - 2);
    slow_number base = nearest_exp(plus(power, ln(of_f32(p->theta)).size));
    *broken = slow_compare(base, (slow_number){1, 80, SLOW_FINITE, false}) > 0;
    return base;
}

/* R ln(N / (2 pi turns)) / (2 ln theta) */
static real pair_at(const kvg_rope *rope, float turns)
{
    const kvg_rope_scaling *p = &rope->scaling;
    real ln_2pi = sum((real){ln_fraction(over(pi, 2)), false}, times_int(ln_2(), 2));
    real ratio = difference(difference(ln(of_f32(p->original_positions)), ln(of_f32(turns))), ln_2pi);
    fixed ln_theta = ln(of_f32(p->theta)).size;
    return (real){quotient(times(ratio.size, whole(rope->dims)), plus(ln_theta, ln_theta)), ratio.negative};
}

/* To the next integer: down, or up. */
static real to_integer(real x, bool up)
{
    uint32_t n = x.size.words[WORDS - 1];
    if (up != x.negative) n++; /* x is never an integer itself */
    return (real){whole(n), x.negative && n > 0};
}

static void yarn_range(const kvg_rope *rope, slow_number *low, slow_number *width, bool *broken)
{
    real from = pair_at(rope, rope->scaling.beta_fast), to = pair_at(rope, rope->scaling.beta_slow);
    real end = {whole(rope->dims - 1), false};
    if (rope->scaling.truncate) {
        from = to_integer(from, false);
        to = to_integer(to, true);
    }
    if (from.negative) from = (real){{{0}}, false};
    if (!to.negative && compare(&to.size, &end.size) > 0) to = end;
    real range = difference(to, from);
    bool empty = is_zero(&range.size);
    *broken = range.negative && !empty;
    *low = nearest(from, 0);
    *width = empty ? of_f32(0.001f) : nearest(range, 0);
}

/* 1 + scale ln(factor) / 10 */
static fixed magnitude(const kvg_rope_scaling *p, float scale)
{
    return plus(whole(1), times(real_of(of_f32(scale)).size, over(ln(of_f32(p->factor)).size, 10)));
}

static slow_number attention_factor(const kvg_rope_scaling *p)
{
    if (p->attention_factor != 0) return of_f32(p->attention_factor);
    if (p->kind != KVG_ROPE_YARN) return one;
    if (p->mscale == 0) return nearest((real){magnitude(p, 1), false}, 0);
    return nearest((real){quotient(magnitude(p, p->mscale), magnitude(p, p->mscale_all_dim)), false}, 0);
}

static slow_number llama3(const kvg_rope_scaling *p, slow_number f)
{
    slow_number two_pi = nearest((real){plus(pi, pi), false}, 0), factor = of_f32(p->factor);
    slow_number original = of_f32(p->original_positions), lo = of_f32(p->low_freq_factor);
    slow_number hi = of_f32(p->high_freq_factor), wavelength = rn(slow_divide(two_pi, f));
    if (slow_compare(wavelength, rn(slow_divide(original, hi))) < 0) return f;
    if (slow_compare(wavelength, rn(slow_divide(original, lo))) > 0) return rn(slow_divide(f, factor));
    slow_number turns = rn(slow_divide(original, wavelength));
    slow_number smooth = rn(slow_divide(rn(slow_subtract(turns, lo)), rn(slow_subtract(hi, lo))));
    slow_number slow = rn(slow_divide(rn(slow_multiply(rn(slow_subtract(one, smooth)), f)), factor));
    return rn(slow_add(slow, rn(slow_multiply(smooth, f))));
}

static slow_number yarn(const kvg_rope_scaling *p, slow_number low, slow_number width, slow_number power, uint32_t pair)
{
    slow_number interpolated = rn(slow_divide(one, rn(slow_multiply(of_f32(p->factor), power))));
    slow_number ramp = rn(slow_divide(rn(slow_subtract(slow_scaled(pair, 0), low)), width));
    if (ramp.negative) ramp = slow_zero(false);
    if (slow_compare(ramp, one) > 0) ramp = one;
    slow_number keep = rn(slow_subtract(one, ramp)), give = rn(slow_subtract(one, keep));
    return rn(slow_add(rn(slow_multiply(interpolated, give)), rn(slow_multiply(rn(slow_divide(one, power)), keep))));
}

void slow_rope_prepare(const kvg_rope *rope, slow_rope_plan *plan)
{
    const kvg_rope_scaling *p = &rope->scaling;
    slow_number base = of_f32(p->theta), low = slow_zero(false), width = slow_zero(false);
    *plan = (slow_rope_plan){.rope = rope, .attention_factor = attention_factor(p)};
    if (p->kind == KVG_ROPE_DYNAMIC) base = dynamic_base(rope, &plan->broken);
    if (p->kind == KVG_ROPE_YARN) yarn_range(rope, &low, &width, &plan->broken);
    fixed ln_base = ln(base).size;
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        slow_number exponent = rn(slow_divide(slow_scaled(2 * i, 0), slow_scaled(rope->dims, 0)));
        slow_number power = nearest_exp(times(real_of(exponent).size, ln_base)), f = rn(slow_divide(one, power));
        if (p->kind == KVG_ROPE_LINEAR) f = rn(slow_divide(f, of_f32(p->factor)));
        if (p->kind == KVG_ROPE_LLAMA3) f = llama3(p, f);
        if (p->kind == KVG_ROPE_YARN) f = yarn(p, low, width, power, i);
        plan->frequency[i] = f;
    }
}

void slow_rope_row(const slow_rope_plan *plan, uint32_t position, slow_number *cos_sin)
{
    const kvg_dtype entries = plan->rope->scaling.entries;
    const slow_layout *type = entries == KVG_DTYPE_F16 ? &slow_f16 : entries == KVG_DTYPE_BF16 ? &slow_bf16 : &slow_f32;
    for (uint32_t i = 0; i < plan->rope->dims / 2; i++) {
        slow_number angle = rn(slow_multiply(slow_scaled(position, 0), plan->frequency[i])), turn[2];
        slow_cos_sin(angle, &turn[0], &turn[1]);
        for (int j = 0; j < 2; j++) {
            slow_number product = rn(slow_multiply(turn[j], plan->attention_factor));
            cos_sin[2 * i + j] = slow_decode(type, slow_encode(type, product));
        }
    }
}
