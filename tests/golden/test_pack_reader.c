/* kvgold_compare of the single-file reader: what passes, what fails, what is skipped; and its SHA-256. */
#define KVGOLD_PACK_IMPLEMENTATION
#include "golden/reader/kvgold_pack.h"

#include <math.h>
#include <setjmp.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* --- bounds --- */

static kvgold_result by_bound(const char *dtype, const void *data, size_t bytes, double exact, double bound)
{
    const kvgold_tensor e = {.bytes = sizeof exact, .data = &exact}, b = {.bytes = sizeof bound, .data = &bound};
    const kvgold_answer a = {
        .name = "0000.out", .dtype = dtype, .bytes = bytes, .rule = KVGOLD_BOUND, .exact = &e, .bound = &b};
    kvgold_report report;
    const kvgold_result result = kvgold_compare(&a, data, bytes, false, &report);
    assert_int_equal(result, report.result);
    assert_int_equal(report.wrong, result == KVGOLD_FAIL);
    assert_true(strlen(report.text) > 10);
    return result;
}

static kvgold_result f32(float y, double exact, double bound)
{
    return by_bound("F32", &y, sizeof y, exact, bound);
}

static kvgold_result half(const char *dtype, uint16_t code, double exact)
{
    return by_bound(dtype, &code, sizeof code, exact, 0);
}

static void test_bound(void **state)
{
    (void)state;
    assert_int_equal(f32(1, 1, 0), KVGOLD_PASS);
    assert_int_equal(f32(1.5f, 1, 0.5), KVGOLD_PASS);
    assert_int_equal(f32(0.5f, 1, 0.5), KVGOLD_PASS);
    assert_int_equal(f32(1.5f, 1, nextafter(0.5, 0)), KVGOLD_FAIL);
    assert_int_equal(f32(0.5f, 1, nextafter(0.5, 0)), KVGOLD_FAIL);
    assert_int_equal(f32(-0.0f, 0, 0), KVGOLD_PASS);
    assert_int_equal(f32(NAN, 1, 1e300), KVGOLD_FAIL);
    assert_int_equal(f32(-NAN, 0, 0), KVGOLD_FAIL);
    assert_int_equal(f32(1, NAN, 1), KVGOLD_FAIL);
    assert_int_equal(f32(1, 1.5, NAN), KVGOLD_FAIL);
    assert_int_equal(f32(INFINITY, 1, 1e308), KVGOLD_FAIL);
    assert_int_equal(f32(INFINITY, INFINITY, 0), KVGOLD_PASS);
    assert_int_equal(f32(-INFINITY, INFINITY, 1), KVGOLD_FAIL);
    assert_int_equal(f32(3, INFINITY, 1), KVGOLD_FAIL);
    assert_int_equal(f32(1, 2, -1), KVGOLD_FAIL);
}

static void test_nothing_promised_is_no_pass(void **state)
{
    (void)state;
    assert_int_equal(f32(1, 2, INFINITY), KVGOLD_SKIP);
    assert_int_equal(f32(NAN, 2, INFINITY), KVGOLD_SKIP);
    const double exact[3] = {1, 2, 3}, bound[3] = {0, INFINITY, 0};
    const float right[3] = {1, NAN, 3}, wrong[3] = {1, 2, 4};
    const kvgold_tensor e = {.bytes = sizeof exact, .data = exact}, b = {.bytes = sizeof bound, .data = bound};
    const kvgold_answer a = {
        .name = "0000.out", .dtype = "F32", .bytes = 12, .rule = KVGOLD_BOUND, .exact = &e, .bound = &b};
    kvgold_report report;
    assert_int_equal(kvgold_compare(&a, right, 12, false, &report), KVGOLD_PASS);
    assert_int_equal(report.unpromised, 1);
    assert_int_equal(kvgold_compare(&a, wrong, 12, false, &report), KVGOLD_FAIL);
    assert_int_equal(report.wrong, 1);
    assert_int_equal(report.first, 2);
    assert_non_null(strstr(report.text, "1 of 3 numbers"));
    assert_int_equal(kvgold_compare(&a, right, 8, false, &report), KVGOLD_FAIL);
    assert_int_equal(kvgold_compare(&a, NULL, 12, false, &report), KVGOLD_FAIL);
    assert_int_equal(kvgold_compare(&a, right, 12, true, &report), KVGOLD_SKIP); /* no profile: no bits */
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        uint16_t code;
        double value;
    } list[] = {
        {"F16", 0x0000, 0},         {"F16", 0x8000, -0.0},       {"F16", 0x0001, 0x1p-24},
        {"F16", 0x83ff, -0x3ffp-24}, {"F16", 0x0400, 0x1p-14},   {"F16", 0x3c00, 1},
        {"F16", 0x3c01, 0x1.004p0}, {"F16", 0xc500, -5},         {"F16", 0x7bff, 65504},
        {"F16", 0x7c00, INFINITY},  {"F16", 0xfc00, -INFINITY},  {"BF16", 0x3f80, 1},
        {"BF16", 0x0001, 0x1p-133}, {"BF16", 0xc0a0, -5},        {"BF16", 0x7f80, INFINITY},
        {"BF16", 0x7f7f, 0x1.fep127},
    };
    for (size_t i = 0; i < COUNT(list); i++) {
        assert_int_equal(half(list[i].dtype, list[i].code, list[i].value), KVGOLD_PASS);
        assert_int_equal(half(list[i].dtype, list[i].code ^ 0x10, list[i].value), KVGOLD_FAIL);
    }
    assert_int_equal(half("F16", 0x7e00, 1), KVGOLD_FAIL);
    assert_int_equal(half("BF16", 0x7fc0, 1), KVGOLD_FAIL);
    for (uint32_t code = 0; code < 0x7c00; code++) { /* every finite f16 of one sign, against its definition */
        const double value = code < 0x400 ? ldexp(code, -24) : ldexp(0x400 + code % 0x400, (int)(code / 0x400) - 25);
        assert_int_equal(half("F16", (uint16_t)code, value), KVGOLD_PASS);
        assert_int_equal(half("F16", (uint16_t)(code | 0x8000), -value), KVGOLD_PASS);
    }
}

/* --- bits --- */

static void test_bits(void **state)
{
    (void)state;
    const uint16_t expected[4] = {0x3c00, 0x7fff, 0x0000, 0x7e01};
    const uint16_t other_nan[4] = {0x3c00, 0xfe00, 0x0000, 0x7fff}, minus_0[4] = {0x3c00, 0x7fff, 0x8000, 0x7e01};
    const uint16_t no_nan[4] = {0x3c00, 0x7c00, 0x0000, 0x7e01}, more_nan[4] = {0x7fff, 0x7fff, 0x0000, 0x7e01};
    const kvgold_tensor e = {.bytes = sizeof expected, .data = expected};
    kvgold_answer a = {
        .name = "0000.out", .dtype = "F16", .bytes = 8, .rule = KVGOLD_BOUND, .profile = "p", .expected = &e};
    kvgold_report report;
    assert_int_equal(kvgold_compare(&a, expected, 8, true, &report), KVGOLD_PASS);
    assert_int_equal(kvgold_compare(&a, other_nan, 8, true, &report), KVGOLD_PASS);
    assert_int_equal(kvgold_compare(&a, minus_0, 8, true, &report), KVGOLD_FAIL);
    assert_int_equal(kvgold_compare(&a, no_nan, 8, true, &report), KVGOLD_FAIL);
    assert_int_equal(kvgold_compare(&a, more_nan, 8, true, &report), KVGOLD_FAIL);
    a.rule = KVGOLD_BITS; /* storage: every byte, NaN or not */
    assert_int_equal(kvgold_compare(&a, expected, 8, false, &report), KVGOLD_PASS);
    assert_int_equal(kvgold_compare(&a, other_nan, 8, false, &report), KVGOLD_FAIL);
    assert_int_equal(report.wrong, 4);
    assert_int_equal(report.first, 2);
    assert_non_null(strstr(report.text, "first byte 2: 0x00, expected 0xff"));
    a.rule = KVGOLD_BY_RULE;
    assert_int_equal(kvgold_compare(&a, expected, 8, false, &report), KVGOLD_SKIP);
    assert_int_equal(kvgold_compare(&a, expected, 7, false, &report), KVGOLD_FAIL);
    const kvgold_tensor recipe = {.bytes = 8};
    a.rule = KVGOLD_BITS;
    a.expected = &recipe;
    assert_int_equal(kvgold_compare(&a, expected, 8, false, &report), KVGOLD_SKIP);
    assert_non_null(strstr(report.text, "expand"));
}

/* FIPS 180-4's examples; every length around the ends of blocks: the SHA-256 of their sums, by Python's hashlib. */
static void test_sha256(void **state)
{
    (void)state;
    char text[65];
    char bytes[300], sums[200 * 64];
    kvgoldp_sha_text("", 0, text);
    assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    kvgoldp_sha_text("abc", 3, text);
    assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    kvgoldp_sha_text("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, text);
    assert_string_equal(text, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(bytes, 'a', sizeof bytes);
    for (size_t n = 0; n < 200; n++) {
        kvgoldp_sha_text(bytes, n, text);
        memcpy(sums + 64 * n, text, 64);
    }
    kvgoldp_sha_text(sums, sizeof sums, text);
    assert_string_equal(text, "019f2b9f1af27a53a1f046da7e98af2c179f431e4b5bebb000e74040917a4123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bound),   cmocka_unit_test(test_nothing_promised_is_no_pass),
        cmocka_unit_test(test_numbers), cmocka_unit_test(test_bits),
        cmocka_unit_test(test_sha256),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
