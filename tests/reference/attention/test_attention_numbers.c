/* The spec tier's own functions against the C library's long double and against double-double arithmetic; decoded
 * numbers against the decoder that slowref judges. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_elementary.h"
#include "tests/core/whole_blocks.h"
#include "tests/reference/attention/test_attention.h"

/* --- double-double: high + low, about 2^-104 --- */

typedef struct dd {
    double high, low;
} dd;

static dd dd_add(dd a, dd b)
{
    const double s = a.high + b.high, t = s - a.high;
    const double e = ((a.high - (s - t)) + (b.high - t)) + (a.low + b.low);
    return (dd){s + e, e - ((s + e) - s)};
}

static dd dd_mul(dd a, dd b)
{
    const double p = a.high * b.high, e = fma(a.high, b.high, -p) + (a.high * b.low + a.low * b.high);
    return (dd){p + e, e - ((p + e) - p)};
}

/* a / b: a quotient and two corrections. */
static dd dd_div(dd a, dd b)
{
    dd q = {a.high / b.high, 0};
    for (int i = 0; i < 2; i++) {
        const dd back = dd_mul(q, b), rest = dd_add(a, (dd){-back.high, -back.low});
        q = dd_add(q, (dd){rest.high / b.high, 0});
    }
    return q;
}

/* Taylor's series at x / 2^12, squared twelve times; |x| up to 64. */
static dd dd_exp(double x)
{
    dd sum = {1, 0}, term = {1, 0};
    for (int i = 1; i < 12; i++) {
        term = dd_div(dd_mul(term, (dd){x * 0x1p-12, 0}), (dd){i, 0});
        sum = dd_add(sum, term);
    }
    for (int i = 0; i < 12; i++) sum = dd_mul(sum, sum);
    return sum;
}

static double relative(double got, long double exact)
{
    if (exact == 0) return got == 0 ? 0 : INFINITY;
    const double e = (double)fabsl((got - exact) / exact);
    return e == e ? e : INFINITY;
}

static double relative_dd(double got, dd exact)
{
    return fabs(((got - exact.high) - exact.low) / exact.high);
}

static double uniform(uint64_t stream, uint64_t i, double size)
{
    return ((double)(kvg_rng_u64(41, stream, i) >> 11) * 0x1p-52 - 1) * size;
}

void test_elementary_functions(void **state)
{
    (void)state;
    double exp_worst = 0, log_worst = 0, tanh_worst = 0, exp_dd = 0, log_dd = 0, tanh_dd = 0;
    for (uint64_t i = 0; i < 300000; i++) {
        static const double sizes[] = {700, 40, 2, 0.5, 1e-3, 1e-9};
        const double size = sizes[i % 6], x = uniform(1, i, size);
        exp_worst = fmax(exp_worst, relative(ref_exp(x), expl(x)));
        const double y = i % 2 ? exp(x) : 1 + uniform(2, i, fmin(size, 0.9));
        log_worst = fmax(log_worst, relative(ref_log(y), logl(y)));
        tanh_worst = fmax(tanh_worst, relative(ref_tanh(x), tanhl(x)));
        if (i % 8 || size > 40) continue;
        const dd e = dd_exp(x), square = dd_mul(e, e);
        exp_dd = fmax(exp_dd, relative_dd(ref_exp(x), e));
        tanh_dd = fmax(tanh_dd,
                       relative_dd(ref_tanh(x), dd_div(dd_add(square, (dd){-1, 0}), dd_add(square, (dd){1, 0}))) *
                           (size < 1e-2 ? 0 : 1)); /* the quotient cancels near 0 */
        const double L = ref_log(e.high); /* e^L = e.high (1 + error of L) */
        const dd ratio = dd_add(dd_div(dd_exp(L), (dd){e.high, 0}), (dd){-1, 0});
        if (L != 0) log_dd = fmax(log_dd, fabs(ratio.high / L));
    }
    print_message("errors in 2^-53: exp %.2f, log %.2f, tanh %.2f; by double-double %.2f, %.2f, %.2f\n",
                  exp_worst * 0x1p53, log_worst * 0x1p53, tanh_worst * 0x1p53, exp_dd * 0x1p53, log_dd * 0x1p53,
                  tanh_dd * 0x1p53);
    assert_true(exp_worst <= 0x1p-52 && log_worst <= 0x1p-52 && tanh_worst <= 0x1p-51);
    assert_true(exp_dd <= 0x1p-52 && log_dd <= 0x1p-52 && tanh_dd <= 0x1p-51);

    assert_true(ref_exp(0) == 1 && ref_log(1) == 0 && ref_tanh(0) == 0 && signbit(ref_tanh(-0.0)));
    assert_true(ref_exp(-INFINITY) == 0 && ref_exp(INFINITY) == INFINITY && isnan(ref_exp(NAN)));
    assert_true(ref_exp(-745.13) == 0x1p-1074 && ref_exp(-746) == 0 && ref_exp(709.78) < INFINITY);
    assert_true(ref_log(0) == -INFINITY && isnan(ref_log(-1)) && ref_log(INFINITY) == INFINITY && isnan(ref_log(NAN)));
    assert_true(relative(ref_log(0x1p-1074), logl(0x1p-1074L)) <= 0x1p-52);
    assert_true(ref_tanh(40) == 1 && ref_tanh(-INFINITY) == -1 && isnan(ref_tanh(NAN)));
}

/* Random codes and scale bytes: the decoder's result is the exact number, rounded as the format's page says. */
static void check_numbers(const kvg_problem *p, uint64_t *compared)
{
    enum { ROWS = 400 };
    const kvg_format format = p->storage[KVG_K].format;
    const kvg_format_info *info = kvg_format_get(format);
    size_t dialect;
    assert_int_equal(kvg_reference_dialect_find(format, p->storage[KVG_K].dialect, &dialect), KVG_OK);
    const kvg_dialect_number number = kvg_reference_dialect_number(format, dialect);
    const bool in_f32 = number == KVG_NUMBER_FROM_ZERO || number == KVG_NUMBER_FROM_ZERO_IN_T ||
                        (number == KVG_NUMBER_LESS_ZERO && p->dtype == KVG_DTYPE_BF16);
    const bool affine = info->scales == KVG_SCALES_AFFINE;
    const kvg_dtype to = affine ? p->dtype : KVG_DTYPE_F32;
    float g = 0.0371f;
    const kvg_tensor scale = {.bytes = sizeof g, .data = &g};
    ref_side side;
    assert_int_equal(ref_side_init(p, KVG_K, &scale, &side), KVG_OK);
    for (uint64_t row = 0; row < ROWS; row++) {
        uint16_t codes[KVG_MAX_HEAD_DIM];
        uint8_t scales[KVG_MAX_HEAD_DIM];
        float y[KVG_MAX_HEAD_DIM];
        double x[KVG_MAX_HEAD_DIM];
        for (uint32_t i = 0; i < p->head_dim; i++) {
            codes[i] = (uint16_t)(kvg_rng_u64(5, row, i) & ((1u << info->element_bits) - 1));
            scales[i] = (uint8_t)kvg_rng_u64(6, row, i);
        }
        side.codec->decode(&side.row, codes, scales, y);
        const double factor = side.codec->exact(&side.row, codes, scales, x);
        for (uint32_t i = 0; i < p->head_dim; i++) {
            const double exact = x[i] * factor;
            bool wrong;
            ++*compared;
            if (isnan(y[i]) || isnan(exact)) {
                wrong = !(isnan(y[i]) && isnan(exact));
            } else if (in_f32 && isfinite(y[i])) {
                wrong = !(fabs(y[i] - exact) <= 0x1p-22 * fabs(exact) + 0x1p-149);
            } else {
                /* An affine sum has itself been rounded to 53 bits: at a tie of T its neighbours count too. */
                const double slack = affine ? 0x1p-52 : 0;
                wrong = y[i] != ref_round_to(to, exact) && y[i] != ref_round_to(to, exact * (1 + slack)) &&
                        y[i] != ref_round_to(to, exact * (1 - slack));
            }
            if (wrong) {
                fail_msg("%s %s %s: %a is not %a rounded", info->name, p->storage[KVG_K].dialect,
                         kvg_dtype_name(p->dtype), (double)y[i], exact);
            }
        }
    }
}

void test_exact_numbers(void **state)
{
    (void)state;
    static const kvg_dtype types[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16, KVG_DTYPE_F32};
    uint64_t compared = 0, dialects = 0;
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    for (size_t f = 0; f < count; f++) {
        const uint32_t dim = whole_blocks(64, formats[f].format);
        for (size_t d = 0; d < kvg_reference_dialect_count(formats[f].format); d++, dialects++) {
            for (int t = 0; t < 3; t++) {
                const kvg_storage storage = {formats[f].format, kvg_reference_dialect(formats[f].format, d)->name};
                const kvg_problem p = {.layout = KVG_LAYOUT_ROWS, .dtype = types[t], .storage = {storage, storage},
                                       .tokens = 1, .kv_heads = 1, .head_dim = dim};
                if (types[t] == KVG_DTYPE_F32 && formats[f].scales == KVG_SCALES_AFFINE) continue;
                check_numbers(&p, &compared);
            }
        }
    }
    print_message("%llu numbers of %llu dialects\n", (unsigned long long)compared, (unsigned long long)dialects);
    assert_true(compared > dialects && dialects >= count);
}
