/* The measures by which answers are compared: what each calls different, and that no NaN gets through. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/bits.h"
#include "harness/trial/judge/differences.h"
#include "support/guard.h"

static void test_bytes(void **state)
{
    (void)state;
    const uint8_t want[] = {1, 2, 3, 4}, got[] = {1, 7, 3, 9};
    const kvg_difference d = kvg_differ_bytes(want, got, 4), none = kvg_differ_bytes(want, want, 4);
    assert_true(d.wrong == 2 && d.first == 1 && d.bytes == 2);
    assert_true(none.wrong == 0 && none.bytes == 0);
}

/* +0 and -0 differ, as do numbers in any bit; two NaNs do not, whatever their bits. */
static void test_numbers(void **state)
{
    (void)state;
    const uint32_t want[] = {0x3F800000, 0x00000000, 0x7FC00000, 0x7FC00000, 0x40000000};
    const uint32_t got[] = {0x3F800000, 0x80000000, 0xFFC00001, 0x3F800000, 0x41010000};
    const kvg_difference d = kvg_differ_numbers(KVG_DTYPE_F32, want, got, 5);
    assert_true(d.wrong == 3 && d.first == 1 && d.bytes == 1 + 2 + 2);
    const uint16_t halves[] = {0x7E00, 0x3C00}, others[] = {0xFE01, 0x3C01};
    const kvg_difference h = kvg_differ_numbers(KVG_DTYPE_F16, halves, others, 2);
    assert_true(h.wrong == 1 && h.first == 1 && h.bytes == 1);
}

static void test_loss(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4}, near[] = {1, 2.5f, 3, 9}, other[] = {1, 2, 3.25f, 4};
    const double bound[] = {0, 1, 0, INFINITY};
    kvg_loss loss = {0};
    assert_int_equal(kvg_loss_add(&loss, x, near, bound, 4), 4);
    assert_true(loss.elements == 3 && loss.outside == 0 && loss.inexact == 0 && loss.worst_ratio == 0.5);
    assert_true(loss.xx == 14 && loss.xy == 15 && loss.ee == 0.25);
    assert_true(kvg_loss_relative_l2(&loss) == sqrt(0.25 / 14));
    assert_int_equal(kvg_loss_add(&loss, x, other, bound, 4), 2);
    assert_true(loss.elements == 6 && loss.outside == 1 && loss.inexact == 1 && loss.worst_ratio == 0.5);
}

/* A NaN is outside of every bound, and later numbers do not hide it. */
static void test_a_nan_stays(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3}, y[] = {NAN, 2, 7};
    const double bound[] = {1, 1, 1};
    kvg_loss loss = {0};
    assert_int_equal(kvg_loss_add(&loss, x, y, bound, 3), 0);
    assert_true(loss.outside == 2 && isnan(loss.worst_ratio) && isnan(loss.ee));
}

/* The reference's own rows are right, and a code that is two steps off is not. */
static void test_the_rule_of_a_dialect(void **state)
{
    (void)state;
    kvg_problem p = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = KVG_DTYPE_F16, .tokens = 2,
                     .kv_heads = 1, .head_dim = 64};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){KVG_FORMAT_NVFP4, "vllm"};
    if (kvg_problem_check(&p)) fail_msg("%s", kvg_error_text());
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    uint16_t values[2][2 * 64];
    uint8_t codes[2][2 * 32], scales[2][2 * 4];
    for (size_t i = 0; i < 2 * 64; i++) values[0][i] = values[1][i] = (uint16_t)(0x3C00 + 8 * i);
    for (int side = KVG_K; side <= KVG_V; side++) {
        in[side] = kvg_problem_tensor(&p, KVG_ROLE_VALUES, (kvg_side)side);
        out[side] = kvg_problem_tensor(&p, KVG_ROLE_CODES, (kvg_side)side);
        out[2 + side] = kvg_problem_tensor(&p, KVG_ROLE_SCALES, (kvg_side)side);
        in[side].data = values[side];
        out[side].data = codes[side];
        out[2 + side].data = scales[side];
        assert_true(out[2 + side].bytes <= sizeof scales[side]);
    }
    float g = 1;
    in[2] = in[3] = kvg_problem_tensor(&p, KVG_ROLE_TENSOR_SCALE, KVG_K);
    in[2].data = in[3].data = &g;
    if (kvg_reference_run(&p, in, out)) fail_msg("%s", kvg_error_text());
    kvg_rule_difference d = kvg_differ_by_rule(&p, KVG_K, 1, values[0], codes[0], scales[0]);
    assert_true(d.wrong == 0 && d.steps == 0);
    codes[0][32 + 5] ^= 2; /* elements 10 and 11 of the second row */
    d = kvg_differ_by_rule(&p, KVG_K, 1, values[0], codes[0], scales[0]);
    assert_true(d.wrong == 1 && d.first == 1 && d.dim == 10);
}

/* One byte of each row of 256 has one value of the guard's pattern, whatever wrote it; four values are no chance. */
static void test_what_was_not_written(void **state)
{
    (void)state;
    enum { ROW = 256, ROWS = 8 };
    uint8_t want[ROW * ROWS] = {0}, got[ROW * ROWS] = {0};
    for (size_t row = 0; row < ROWS; row++) got[row * ROW + 100] = kvg_guard_byte(100);
    assert_false(kvg_differ_untouched(want, got, sizeof got, NULL, 1, NULL));
    for (size_t i = 101; i < 104; i++) got[i] = kvg_guard_byte(i);
    assert_true(kvg_differ_untouched(want, got, sizeof got, NULL, 1, NULL));
    got[ROW + 101] = (uint8_t)(kvg_guard_byte(101) + 1);
    assert_false(kvg_differ_untouched(want, got, sizeof got, NULL, 1, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),     cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_loss),      cmocka_unit_test(test_a_nan_stays),
        cmocka_unit_test(test_the_rule_of_a_dialect), cmocka_unit_test(test_what_was_not_written),
    };
    return cmocka_run_group_tests_name("differences", tests, NULL, NULL);
}
