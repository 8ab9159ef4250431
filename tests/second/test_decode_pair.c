/* Op decode by both references. With a profile every bit must be the same (NaN = NaN); without, the golden answer must
 * lie where roundings of 2^-52 can bring it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reference/reference.h"
#include "tests/second/decode_compare.h"

enum { PROFILE_STREAM = 5000000, SIMT_STREAM = 5500000, FA3_STREAM = 5700000,
       FI2_STREAM = 5800000, FI3_STREAM = 5900000, ONE_STREAM = 5950000, SPEC_STREAM = 7000000 };

static void count_options(coverage *c, const kvg_problem *p)
{
    c->problems++;
    c->windows += p->attention.window > 0;
    c->caps += p->attention.softcap > 0;
    c->sinks += p->attention.sinks;
    c->shared += p->paging.shared_kv;
    c->rings += kvg_problem_blocks(p) == KVG_BLOCKS_RING;
    c->swizzled += p->paging.v_scale_swizzle;
    c->bf16 += p->dtype == KVG_DTYPE_BF16;
    c->several += p->attention.queries > 1;
    c->e4m3 += p->storage[KVG_K].format == KVG_FORMAT_E4M3;
    c->f32 += p->dtype == KVG_DTYPE_F32;
    c->uneven += p->head_dim % KVG_MMA_K != 0;
}

static void print_coverage(const coverage *c, const char *test)
{
    print_message("%s: %llu problems, %llu outputs and %llu lse compared, %llu differ (%llu NaN, %llu not zero, %llu "
                  "beside the exact answer's rounding, %llu open)\n",
                  test, (unsigned long long)c->problems, (unsigned long long)c->outputs, (unsigned long long)c->lse,
                  (unsigned long long)c->differing, (unsigned long long)c->nan, (unsigned long long)c->nonzero,
                  (unsigned long long)c->beside, (unsigned long long)c->open);
    print_message("%s: %u windows, %u caps, %u sinks, %u shared, %u rings, %u swizzled, %u bf16, %u of several "
                  "queries, %u e4m3, %u f32, %u uneven\n",
                  test, c->windows, c->caps, c->sinks, c->shared, c->rings, c->swizzled, c->bf16, c->several, c->e4m3,
                  c->f32, c->uneven);
    assert_true(c->nonzero > c->outputs / 4 && c->differing == 0);
}

static void close_coverage(const coverage *c, const char *test)
{
    print_coverage(c, test);
    assert_true(c->windows && c->caps && c->sinks && c->shared && c->rings && c->swizzled && c->bf16 && c->several);
}

/* --- profiles: the same bits --- */

static void compare_profile(coverage *c, const decode_wish *wish, uint64_t stream)
{
    dice d = {stream, 0};
    kit golden = decode_draw(&d, wish);
    decode_golden(&golden, stream);
    kit slow = decode_slow(&golden, SLOW_DECODE_RIGHT);
    count_options(c, &golden.problem);
    c->differing += decode_differing(c, &golden, &slow, stream);
    kit_close(&slow);
    kit_close(&golden);
}

/* Every dialect of K in turn over layouts, types and profiles. */
static void compare_profiles(coverage *c, decode_wish_fn *wish_of, unsigned repeats, uint64_t stream)
{
    uint64_t number = 0;
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (unsigned repeat = 0; repeat < repeats; repeat++) {
        for (size_t f = 0; f < formats; f++) {
            const kvg_format format = table[f].format;
            for (size_t i = 0; i < kvg_reference_dialect_count(format); i++, number++) {
                const decode_wish wish = wish_of(format, i, number);
                compare_profile(c, &wish, stream + number);
            }
        }
    }
}

static void test_profile_bits(void **state)
{
    const unsigned repeats = *(const unsigned *)*state;
    coverage c = {0};
    compare_profiles(&c, decode_wish_of, repeats, PROFILE_STREAM);
    close_coverage(&c, __func__);
}

/* The same for the contract without a tensor core. */
static void test_simt_bits(void **state)
{
    const unsigned repeats = *(const unsigned *)*state;
    coverage c = {0};
    compare_profiles(&c, decode_simt_wish_of, (repeats + 1) / 2, SIMT_STREAM);
    close_coverage(&c, __func__);
    assert_true(c.f32 && c.uneven);
}

/* The same for the kernels of docs/spec/other-kernels.md. */
static coverage compare_kernels(decode_wish_fn *wish_of, uint64_t count, uint64_t stream, const char *test)
{
    coverage c = {0};
    for (uint64_t number = 0; number < count; number++) {
        const decode_wish wish = wish_of(KVG_FORMAT_F16, 0, number);
        compare_profile(&c, &wish, stream + number);
    }
    print_coverage(&c, test);
    assert_true(c.windows && c.rings && c.bf16 && c.several && c.several < c.problems);
    return c;
}

static void test_fa3_bits(void **state)
{
    const coverage c = compare_kernels(decode_fa3_wish_of, 24 * *(const unsigned *)*state, FA3_STREAM, __func__);
    assert_true(c.sinks && c.e4m3);
}

static void test_fi2_bits(void **state)
{
    const coverage c = compare_kernels(decode_fi2_wish_of, 6 * *(const unsigned *)*state, FI2_STREAM, __func__);
    assert_true(c.caps && c.sinks && c.e4m3);
}

static void test_fi3_bits(void **state)
{
    const coverage c = compare_kernels(decode_fi3_wish_of, 6 * *(const unsigned *)*state, FI3_STREAM, __func__);
    assert_true(c.caps);
}

static void test_one_bits(void **state)
{
    const coverage c = compare_kernels(decode_one_wish_of, 24 * *(const unsigned *)*state, ONE_STREAM, __func__);
    assert_true(c.caps);
}

/* --- the exact tier --- */

/* Nothing is said about a query that is not. */
static bool q_is_finite(const kit *k, size_t row)
{
    const kvg_tensor *q = &k->tensor[KVG_ROLE_Q][KVG_K];
    for (size_t d = 0; d < q->shape[2]; d++) {
        if (decode_element(q, row * (size_t)q->shape[2] + d).kind != SLOW_FINITE) return false;
    }
    return true;
}

static void compare_exact(coverage *c, const decode_wish *wish, uint64_t stream)
{
    dice d = {stream, 0};
    kit golden = decode_draw(&d, wish);
    decode_golden(&golden, stream);
    kit slow = decode_slow(&golden, SLOW_DECODE_RIGHT), low = decode_end(&golden, -1), high = decode_end(&golden, 1);
    count_options(c, &golden.problem);
    for (size_t o = 0; o < DECODE_OUTPUTS; o++) {
        const kvg_role role = decode_outputs[o];
        const kvg_tensor *a = &golden.tensor[role][KVG_K], *b = &slow.tensor[role][KVG_K];
        for (size_t i = 0; i < decode_elements(a); i++) {
            const slow_number x = decode_element(a, i), least = decode_element(&low.tensor[role][KVG_K], i);
            const slow_number y = decode_element(b, i), most = decode_element(&high.tensor[role][KVG_K], i);
            const bool promised = least.kind != SLOW_NAN && most.kind != SLOW_NAN;
            const size_t row = o ? i : i / (size_t)a->shape[2];
            const bool open = !q_is_finite(&golden, row) || (y.kind != SLOW_NAN && !promised);
            const bool both_inside = promised && decode_inside(least, x, most) && decode_inside(least, y, most);
            const bool right = open || (y.kind == SLOW_NAN ? x.kind != SLOW_FINITE : both_inside);
            c->open += open;
            *(o ? &c->lse : &c->outputs) += 1;
            c->nan += x.kind == SLOW_NAN;
            c->nonzero += o == 0 && !slow_is_zero(x);
            c->beside += !open && x.kind == SLOW_FINITE && decode_bits(a, i) != decode_bits(b, i);
            c->differing += !right;
            if (!right) decode_show(c, &golden, stream, role, i, decode_bits(a, i), decode_bits(b, i));
        }
    }
    kit_close(&high);
    kit_close(&low);
    kit_close(&slow);
    kit_close(&golden);
}

static void test_exact_answers(void **state)
{
    const unsigned repeats = *(const unsigned *)*state;
    coverage c = {0};
    uint64_t number = 0;
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (unsigned repeat = 0; repeat < repeats; repeat++) {
        for (size_t f = 0; f < formats; f++) {
            const kvg_format format = table[f].format;
            for (size_t i = 0; i < kvg_reference_dialect_count(format); i++, number++) {
                decode_wish wish = decode_wish_of(format, i, number);
                wish.profile = KVG_PROFILE_NONE;
                wish.longest = number % 16 == 0 ? 200 : 40;
                if (number % 5 == 0 && type_fits(format, KVG_DTYPE_F32)) wish.dtype = KVG_DTYPE_F32;
                compare_exact(&c, &wish, SPEC_STREAM + number);
            }
        }
    }
    close_coverage(&c, __func__);
}

/* usage: test_decode_pair [REPEATS [TEST]]; without REPEATS 2, and every sixth defect is planted */
int main(int argc, char **argv)
{
    unsigned repeats = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2, stride = argc > 1 ? 1 : 6;
    if (argc > 2) cmocka_set_test_filter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_profile_bits, &repeats),
        cmocka_unit_test_prestate(test_faults_are_seen, &stride),
        cmocka_unit_test_prestate(test_simt_bits, &repeats),
        cmocka_unit_test_prestate(test_simt_faults_are_seen, &stride),
        cmocka_unit_test_prestate(test_fa3_bits, &repeats),
        cmocka_unit_test_prestate(test_fa3_faults_are_seen, &stride),
        cmocka_unit_test_prestate(test_fi2_bits, &repeats),
        cmocka_unit_test_prestate(test_fi2_faults_are_seen, &stride),
        cmocka_unit_test_prestate(test_fi3_bits, &repeats),
        cmocka_unit_test_prestate(test_fi3_faults_are_seen, &stride),
        cmocka_unit_test_prestate(test_one_bits, &repeats),
        cmocka_unit_test_prestate(test_one_faults_are_seen, &stride),
        cmocka_unit_test_prestate(test_exact_answers, &repeats),
        cmocka_unit_test(test_changes_are_seen),
        cmocka_unit_test(test_decode_refusals),
    };
    return cmocka_run_group_tests_name("decode_pair", tests, NULL, NULL);
}
