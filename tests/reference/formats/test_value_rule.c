/* The value rule of docs/spec/formats.md section 8 on an encoder with an inexact reciprocal: what an engine with
 * rcp.approx writes is accepted wherever its reciprocal is one unit off, and nothing else is. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/numbers/ref_round.h"
#include "reference/reference.h"

enum { BLOCK = 16, ROWS = 20000 };

/* A reciprocal `off` units in the last place away from the correctly rounded one. */
static float near_reciprocal(float x, int off)
{
    return kvg_f32_of_bits(kvg_bits_of_f32(1.0f / x) + (uint32_t)off);
}

/* flashinfer-kv and trtllm (docs/spec/formats.md section 8), each reciprocal off by its own amount. */
static void encode_block(bool trtllm, const float *x, float g, const int off[3], uint8_t *codes, uint8_t *scale)
{
    float amax = 0, multiplier;
    for (int i = 0; i < BLOCK; i++) amax = fabsf(x[i]) > amax ? fabsf(x[i]) : amax;
    const float encode = 1.0f / g, sixth = amax * near_reciprocal(6, 0);
    const float q = (trtllm ? encode : near_reciprocal(g, off[0])) * sixth;
    *scale = kvg_ref_e4m3_of_f32(q);
    const float sf = kvg_ref_f32_of_e4m3(*scale);
    if (trtllm) multiplier = near_reciprocal(sf * near_reciprocal(encode, off[1]), off[2]);
    else multiplier = near_reciprocal(sf * g, off[2]);
    for (int i = 0; i < BLOCK; i++) {
        const float v = x[i] * multiplier;
        const uint8_t code = (uint8_t)(kvg_ref_e2m1_magnitude(v, KVG_REF_TIES_EVEN) | (signbit(v) ? 8 : 0));
        codes[i / 2] = (uint8_t)(i % 2 ? codes[i / 2] | code << 4 : code);
    }
}

static kvg_problem problem_of(const char *dialect)
{
    kvg_problem p = {.op = KVG_OP_QUANTISE,
                     .layout = KVG_LAYOUT_ROWS,
                     .dtype = KVG_DTYPE_BF16,
                     .tokens = 1,
                     .kv_heads = 1,
                     .head_dim = BLOCK};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){KVG_FORMAT_NVFP4, dialect};
    return p;
}

/* bf16 values of which many are on ties of the block's scale: small multiples of a power of two. */
static void fill_block(uint64_t row, float *x)
{
    for (int i = 0; i < BLOCK; i++) {
        const uint64_t word = kvg_rng_u64(3, row, (uint64_t)i);
        const int steps = (int)(word % 49) - 24; /* quarters of -6 ... 6 */
        x[i] = row % 2 ? (float)steps / 4 : (float)kvg_rng_normal(4, row, (uint64_t)i);
        x[i] = kvg_ref_f32_of_bf16(kvg_ref_bf16_of_f32(x[i]));
    }
    x[row % BLOCK] = row % 2 ? 6 : x[row % BLOCK] + 0.01f;
}

/* Within 2^-20 of a midpoint of E2M1, more than the dialects' slack of 4 units of 2^-23. */
static bool near_tie(double v)
{
    static const double midpoints[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5};
    for (int i = 0; i < 7; i++) {
        if (fabs(fabs(v) - midpoints[i]) <= midpoints[i] * 0x1p-20) return true;
    }
    return false;
}

static void judge_encoder(const char *dialect, bool trtllm)
{
    const kvg_problem p = problem_of(dialect);
    uint64_t steps_total = 0, refused = 0;
    for (uint64_t row = 0; row < ROWS; row++) {
        float x[BLOCK];
        uint8_t codes[BLOCK / 2], scale;
        uint32_t steps, bad;
        const float g = (const float[]){1, 0.0123f, 1.0f / 448, 20.0f / 2688}[row / 2 % 4];
        const int off[3] = {(int)(row % 3) - 1, (int)(row / 3 % 3) - 1, (int)(row / 9 % 3) - 1};
        fill_block(row, x);
        encode_block(trtllm, x, g, off, codes, &scale);
        if (!kvg_reference_row_accept(&p, KVG_K, g, x, codes, &scale, &steps, &bad)) {
            fail_msg("%s: row %llu refused at element %u", dialect, (unsigned long long)row, bad);
        }
        steps_total += steps;
        /* one code moved by one step: only an element at a tie may do that */
        const unsigned i = (unsigned)(kvg_rng_u64(5, row, 0) % BLOCK);
        if (near_tie((double)x[i] / ((double)kvg_ref_f32_of_e4m3(scale) * g))) continue;
        codes[i / 2] ^= (uint8_t)(1u << (4 * (i % 2)));
        assert_false(kvg_reference_row_accept(&p, KVG_K, g, x, codes, &scale, &steps, &bad));
        assert_int_equal(bad, i);
        refused++;
    }
    printf("%s: %d rows accepted, %llu bytes a tie away; %llu wrong rows refused\n", dialect, ROWS,
           (unsigned long long)steps_total, (unsigned long long)refused);
    assert_true(steps_total > 0 && refused > 0);
}

static void test_flashinfer_kv_with_an_inexact_reciprocal_is_accepted(void **state)
{
    (void)state;
    judge_encoder("flashinfer-kv", false);
}

static void test_trtllm_with_inexact_reciprocals_is_accepted(void **state)
{
    (void)state;
    judge_encoder("trtllm", true);
}

/* Signs, zero blocks and NaN have no slack. */
static void test_signs_and_specials_have_no_slack(void **state)
{
    (void)state;
    const kvg_problem p = problem_of("flashinfer-kv");
    float x[BLOCK] = {0};
    uint8_t codes[BLOCK / 2] = {0}, scale = 0;
    uint32_t steps, bad;
    assert_true(kvg_reference_row_accept(&p, KVG_K, 1, x, codes, &scale, &steps, &bad));
    assert_int_equal(steps, 0);
    codes[3] = 0x80;
    assert_false(kvg_reference_row_accept(&p, KVG_K, 1, x, codes, &scale, &steps, &bad));
    assert_int_equal(bad, 7);
    codes[3] = 0;
    x[5] = NAN;
    assert_false(kvg_reference_row_accept(&p, KVG_K, 1, x, codes, &scale, &steps, &bad));
    codes[2] = 0x70;
    assert_true(kvg_reference_row_accept(&p, KVG_K, 1, x, codes, &scale, &steps, &bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flashinfer_kv_with_an_inexact_reciprocal_is_accepted),
        cmocka_unit_test(test_trtllm_with_inexact_reciprocals_is_accepted),
        cmocka_unit_test(test_signs_and_specials_have_no_slack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
