/* core/: tables, sizes, error texts, random numbers. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/backend.h"
#include "core/plugin_tensors.h"
#include "core/rng.h"
#include "core/verdict.h"

/* Known answers of Philox4x32-10 from the Random123 distribution's kat_vectors. */
static void test_rng_gives_the_published_answers(void **state)
{
    (void)state;
    uint32_t out[4];
    const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    const uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    const uint32_t digits[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    kvg_rng_block(0, 0, 0, out);
    assert_memory_equal(out, zero, sizeof zero);
    kvg_rng_block(~0ull, ~0ull, ~0ull, out);
    assert_memory_equal(out, ones, sizeof ones);
    kvg_rng_block(0x299f31d0a4093822ull, 0x0370734413198a2eull, 0x85a308d3243f6a88ull, out);
    assert_memory_equal(out, digits, sizeof digits);
}

static void test_rng_normal_has_mean_0_and_variance_1(void **state)
{
    (void)state;
    double sum = 0, squares = 0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        const double x = kvg_rng_normal(1, 2, (uint64_t)i);
        sum += x;
        squares += x * x;
    }
    /* five standard errors: 5 / sqrt(n), 5 * sqrt(2 / n) */
    assert_true(sum / n < 0.0159 && sum / n > -0.0159);
    assert_true(squares / n < 1.0224 && squares / n > 0.9776);
}

/* Also across the carry of the index's low word, and for counts that fill no vector. */
static void test_many_normals_are_those_of_their_indices(void **state)
{
    (void)state;
    enum { MOST = 9 };
    const uint64_t first = 0xFFFFFFFFull - 5;
    for (uint32_t count = 0; count <= MOST; count++) {
        double x[MOST + 1];
        x[count] = 7;
        kvg_rng_normals(1, 2, first, count, x);
        for (uint32_t i = 0; i < count; i++) assert_true(x[i] == kvg_rng_normal(1, 2, first + i));
        assert_true(x[count] == 7);
    }
}

static void test_hash_gives_the_published_answers(void **state)
{
    (void)state;
    assert_int_equal(kvg_hash64("", 0), 0xcbf29ce484222325ull);
    assert_int_equal(kvg_hash64("a", 1), 0xaf63dc4c8601ec8cull);
    assert_int_equal(kvg_hash64("foobar", 6), 0x85944171f73967e8ull);
}

static void test_every_format_is_found_by_its_name(void **state)
{
    (void)state;
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || formats[i].format > formats[i - 1].format);
        kvg_format found = KVG_FORMAT_NONE;
        assert_int_equal(kvg_format_find(formats[i].name, &found), KVG_OK);
        assert_int_equal(found, formats[i].format);
        assert_ptr_equal(kvg_format_get(found), &formats[i]);
    }
    kvg_format none = KVG_FORMAT_NONE;
    assert_int_equal(kvg_format_find("float", &none), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "known: f16, bf16"));
    assert_null(kvg_format_get(KVG_FORMAT_NONE));
    assert_null(kvg_format_get(KVG_FORMAT_END));
}

/* A name that is near is named; the near ones of JSON keys are in test_json. */
static void test_names(void **state)
{
    static const struct {
        const char *name, *text;
    } rows[] = {
        {"NVFP4", "no format 'NVFP4' (did you mean 'nvfp4'?)"},
        {"nvpf4", "no format 'nvpf4' (did you mean 'nvfp4'?)"},
        {"fp8_to", "no format 'fp8_to' (did you mean 'fp8_token_head'?)"}, /* the only one that begins so */
        {"mlx4_", "(did you mean 'mlx4'?)"},
        {"m", "known: f16, bf16"}, /* begins several, and nothing of it is left */
        {"", "no format ''; known: f16, bf16"},
    };
    kvg_profile profile;
    kvg_format format;
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(kvg_format_find(rows[i].name, &format), KVG_ERR_NOT_FOUND);
        if (!strstr(kvg_error_text(), rows[i].text)) fail_msg("%s: %s", rows[i].name, kvg_error_text());
    }
    assert_int_equal(kvg_profile_find("sm80", &profile), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "did you mean 'sm80.mma16816.v1'"));
}

/* Bytes of one row, worked by hand from docs/spec/formats.md. */
static void test_row_sizes_are_those_of_the_page(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        size_t head_dim, codes, scales;
    } rows[] = {
        {KVG_FORMAT_F16, 128, 256, 0},    {KVG_FORMAT_BF16, 80, 160, 0},   {KVG_FORMAT_E4M3, 128, 128, 0},
        {KVG_FORMAT_E5M2, 64, 64, 0},     {KVG_FORMAT_INT8, 128, 128, 4},  {KVG_FORMAT_INT4, 128, 64, 4},
        {KVG_FORMAT_ROWINT4, 128, 64, 2}, {KVG_FORMAT_ROWFP4, 64, 32, 2},  {KVG_FORMAT_MX16, 128, 64, 8},
        {KVG_FORMAT_MXFP4, 128, 64, 4},   {KVG_FORMAT_NVFP4, 576, 288, 36},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(kvg_format_code_bytes(rows[i].format, rows[i].head_dim), rows[i].codes);
        assert_int_equal(kvg_format_scale_bytes(rows[i].format, rows[i].head_dim), rows[i].scales);
    }
}

static void test_head_dims_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_NVFP4, 72), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "multiple of 16"));
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_MXFP4, 80), KVG_ERR_INVALID);
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_INT4, 12), KVG_ERR_INVALID);
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_F16, 0), KVG_ERR_INVALID);
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_F16, KVG_MAX_HEAD_DIM + 1), KVG_ERR_INVALID);
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_MX16, 80), KVG_OK);
    assert_int_equal(kvg_format_check_dim(KVG_FORMAT_END, 64), KVG_ERR_INVALID);
}

static kvg_problem problem_of(kvg_format format)
{
    kvg_problem p = {.op = KVG_OP_QUANTISE,
                     .layout = KVG_LAYOUT_ROWS,
                     .dtype = KVG_DTYPE_BF16,
                     .tokens = 3,
                     .kv_heads = 2,
                     .head_dim = 64};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){format, "canonical"};
    return p;
}

static void test_tensors_follow_from_the_problem(void **state)
{
    (void)state;
    const kvg_problem p = problem_of(KVG_FORMAT_NVFP4);
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    assert_int_equal(kvg_problem_tensor(&p, KVG_ROLE_VALUES, KVG_K).bytes, 3 * 2 * 64 * 2);
    assert_int_equal(kvg_problem_tensor(&p, KVG_ROLE_CODES, KVG_V).bytes, 3 * 2 * 32);
    assert_int_equal(kvg_problem_tensor(&p, KVG_ROLE_SCALES, KVG_V).bytes, 3 * 2 * 4);
    assert_int_equal(kvg_problem_tensor(&p, KVG_ROLE_TENSOR_SCALE, KVG_K).bytes, 4);
    const kvg_problem plain = problem_of(KVG_FORMAT_F16);
    assert_int_equal(kvg_problem_tensor(&plain, KVG_ROLE_SCALES, KVG_K).bytes, 0);
    assert_int_equal(kvg_problem_tensor(&plain, KVG_ROLE_TENSOR_SCALE, KVG_K).bytes, 0);
}

static void test_contradictory_problems_are_refused(void **state)
{
    (void)state;
    kvg_problem p = problem_of(KVG_FORMAT_INT4);
    p.dtype = KVG_DTYPE_F32;
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
    p.dtype = KVG_DTYPE_U8;
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
    p = problem_of(KVG_FORMAT_INT4);
    p.tokens = 0;
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
    p = problem_of(KVG_FORMAT_INT4);
    p.op = (kvg_op)77;
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
    p = problem_of(KVG_FORMAT_INT4);
    p.layout = (kvg_layout)9;
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
}

static kvg_status run_nothing(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)p, (void)in, (void)out, (void)stream;
    return KVG_OK;
}

static uint32_t two_caps(void) { return 3; }

static void test_the_first_implementation_that_fits_is_chosen(void **state)
{
    (void)state;
    const kvg_impl impls[] = {
        {"needs_more", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 4, run_nothing},
        {"other_op", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run_nothing},
        {"int8_only", KVG_OP_QUANTISE, KVG_FORMAT_INT8, 1, run_nothing},
        {"any", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 3, run_nothing},
    };
    kvg_backend backend = {.abi = KVG_BACKEND_ABI,
                           .struct_size = sizeof backend,
                           .name = "b",
                           .impls = impls,
                           .impl_count = 4,
                           .caps = two_caps};
    const kvg_impl *chosen = NULL;
    const kvg_problem int8 = problem_of(KVG_FORMAT_INT8), int4 = problem_of(KVG_FORMAT_INT4);
    assert_int_equal(kvg_backend_choose(&backend, &int8, &chosen), KVG_OK);
    assert_string_equal(chosen->name, "int8_only");
    assert_int_equal(kvg_backend_choose(&backend, &int4, &chosen), KVG_OK);
    assert_string_equal(chosen->name, "any");
    backend.caps = NULL;
    assert_int_equal(kvg_backend_choose(&backend, &int4, &chosen), KVG_ERR_UNIMPLEMENTED);
}

static void test_a_missing_or_foreign_library_is_refused(void **state)
{
    (void)state;
    const kvg_backend *backend;
    assert_int_equal(kvg_backend_open("/no/such/library.so", &backend), KVG_ERR_NOT_FOUND);
    assert_int_equal(kvg_backend_open(KVG_BINARY_DIR "/bin/libkvgold_wrong_abi.so", &backend), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "its ABI is"));
}

static void test_error_texts_keep_their_context(void **state)
{
    (void)state;
    assert_int_equal(kvg_fail(KVG_ERR_IO, "inner %d", 7), KVG_ERR_IO);
    assert_int_equal(kvg_fail_in(KVG_ERR_IO, "outer %s", "x"), KVG_ERR_IO);
    assert_string_equal(kvg_error_text(), "outer x: inner 7");
}

/* The constants of core/plugin_tensors.h of an op, as text and as values: in the same order. */
#define ROLES(...) __VA_ARGS__
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define OP(ENUM, id, name, paged, inputs, outputs, summary)                                                    \
    {KVG_OP_##ENUM, {TEXT(KVG_TENSORS_OF(KVG_##ENUM##_IN, inputs)), TEXT(KVG_TENSORS_OF(KVG_##ENUM##_OUT, outputs))}, \
     {KVG_##ENUM##_IN_COUNT, KVG_##ENUM##_OUT_COUNT}},
static const struct {
    kvg_op op;
    const char *names[2];
    size_t counts[2];
} constants[] = {
#include "core/ops.def"
};
#undef OP

/* Constants count from 0 in their order, so the n-th name must be that of tensor n. */
static void test_constants_of_plugins_are_the_places_of_tensors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof constants / sizeof constants[0]; i++) {
        const kvg_op_info *op = kvg_op_get(constants[i].op);
        for (int out = 0; out < 2; out++) {
            const kvg_role *roles = out ? op->outputs : op->inputs;
            char text[1024], wanted[64], prefix[64];
            snprintf(text, sizeof text, "%s", constants[i].names[out]);
            snprintf(prefix, sizeof prefix, "kvg_%s_%s_", op->name, out ? "out" : "in");
            assert_int_equal(constants[i].counts[out], kvg_roles_tensors(roles));
            size_t n = 0;
            for (char *name = strtok(text, ", "); name; name = strtok(NULL, ", "), n++) {
                kvg_role role;
                kvg_side side;
                kvg_roles_at(roles, n, &role, &side);
                snprintf(wanted, sizeof wanted, "%s%s", prefix, kvg_tensor_name(role, side));
                for (char *c = name; *c; c++) *c = (char)tolower((unsigned char)*c);
                assert_string_equal(name, wanted);
            }
            assert_int_equal(n, constants[i].counts[out]);
        }
    }
    assert_int_equal(KVG_APPEND_IN_SLOTS, kvg_roles_index(kvg_op_get(KVG_OP_APPEND)->inputs, KVG_ROLE_SLOTS, KVG_K));
}

static void test_verdicts_have_unique_names(void **state)
{
    (void)state;
    for (int i = 0; i < KVG_VERDICT_COUNT; i++) {
        kvg_verdict found = KVG_VERDICT_COUNT;
        assert_int_equal(kvg_verdict_find(kvg_verdict_name((kvg_verdict)i), &found), KVG_OK);
        assert_int_equal(found, i);
    }
    assert_false(kvg_verdict_fails(KVG_VERDICT_PASS));
    assert_false(kvg_verdict_fails(KVG_VERDICT_SKIP));
    assert_true(kvg_verdict_fails(KVG_VERDICT_MISTRUSTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rng_gives_the_published_answers),
        cmocka_unit_test(test_rng_normal_has_mean_0_and_variance_1),
        cmocka_unit_test(test_many_normals_are_those_of_their_indices),
        cmocka_unit_test(test_hash_gives_the_published_answers),
        cmocka_unit_test(test_every_format_is_found_by_its_name),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_row_sizes_are_those_of_the_page),
        cmocka_unit_test(test_head_dims_that_do_not_fit_are_refused),
        cmocka_unit_test(test_tensors_follow_from_the_problem),
        cmocka_unit_test(test_contradictory_problems_are_refused),
        cmocka_unit_test(test_the_first_implementation_that_fits_is_chosen),
        cmocka_unit_test(test_a_missing_or_foreign_library_is_refused),
        cmocka_unit_test(test_error_texts_keep_their_context),
        cmocka_unit_test(test_constants_of_plugins_are_the_places_of_tensors),
        cmocka_unit_test(test_verdicts_have_unique_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
