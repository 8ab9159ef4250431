/* Op expand by hand: what flatten gives, then E4M3 (docs/spec/layouts.md section 7). The cache is in f16 or bf16, so
 * that every number of the model type can lie in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reference/reference.h"

enum { DIM = 16, BLOCK = 4, BLOCKS = 1024, TOKENS = BLOCK * BLOCKS, UNTOUCHED = 0x5A };

/* One sequence of one head that fills the pool of layout slot in order; V is K once more. */
static kvg_problem problem_of(kvg_op op, kvg_format format, kvg_dtype dtype)
{
    const kvg_storage storage = {format, "canonical"};
    return (kvg_problem){
        .op = op,
        .layout = KVG_LAYOUT_SLOT,
        .dtype = dtype,
        .storage = {storage, storage},
        .tokens = TOKENS,
        .kv_heads = 1,
        .head_dim = DIM,
        .paging = {.layers = 1, .blocks = BLOCKS, .block_tokens = BLOCK, .sequences = 1},
    };
}

/* Runs the op over the pool `codes`; `out` gets K and is UNTOUCHED where nothing is written. */
static kvg_status run(const kvg_problem *p, uint16_t codes[TOKENS * DIM], int32_t length, void *out)
{
    static int32_t table[BLOCKS];
    static uint8_t v[TOKENS * DIM * sizeof(uint16_t)];
    const kvg_op_info *op = kvg_op_get(p->op);
    kvg_tensor in[KVG_MAX_TENSORS], outputs[2];
    for (int32_t i = 0; i < BLOCKS; i++) table[i] = i;
    for (size_t i = 0; i < kvg_roles_tensors(op->inputs); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(op->inputs, i, &role, &side);
        in[i] = kvg_problem_tensor(p, role, side);
        if (role == KVG_ROLE_DATA_POOL) in[i].data = codes;
        if (role == KVG_ROLE_BLOCK_TABLE) in[i].data = table;
        if (role == KVG_ROLE_LENGTHS) in[i].data = &length;
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        outputs[side] = kvg_problem_tensor(p, op->outputs[0], (kvg_side)side);
        outputs[side].data = side == KVG_K ? out : v;
        memset(outputs[side].data, UNTOUCHED, outputs[side].bytes);
    }
    return kvg_reference_run(p, in, outputs);
}

/* The E4M3 code of x: the nearest of all of them, the even one of two, by comparing. */
static uint8_t nearest_code(float x)
{
    int best = 0;
    if (x != x) return 0x7F;
    const double magnitude = x < 0 ? -(double)x : x;
    for (int code = 1; code < 0x7F; code++) {
        const int exponent = code < 8 ? 1 : code >> 3, fraction = code < 8 ? code : 8 + (code & 7);
        const int least = best < 8 ? 1 : best >> 3, other = best < 8 ? best : 8 + (best & 7);
        const double value = (double)fraction * (1 << exponent) / 1024, below = (double)other * (1 << least) / 1024;
        const double middle = (value + below) / 2;
        if (magnitude > middle || (magnitude == middle && code % 2 == 0)) best = code;
    }
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint8_t)(best | (bits >> 31 ? 0x80 : 0));
}

static void test_every_number_of_the_model_type(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        kvg_dtype dtype;
    } types[] = {{KVG_FORMAT_F16, KVG_DTYPE_F16}, {KVG_FORMAT_BF16, KVG_DTYPE_BF16}};
    static uint16_t codes[TOKENS * DIM];
    static uint8_t got[TOKENS * DIM];
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const kvg_problem p = problem_of(KVG_OP_EXPAND, types[t].format, types[t].dtype);
        for (size_t i = 0; i < TOKENS * DIM; i++) codes[i] = (uint16_t)i;
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
        assert_int_equal(run(&p, codes, TOKENS, got), KVG_OK);
        for (size_t i = 0; i < TOKENS * DIM; i++) {
            float x;
            kvg_reference_load(types[t].dtype, &codes[i], 1, &x);
            if (got[i] != nearest_code(x)) fail_msg("%a gives 0x%02X, not 0x%02X", (double)x, got[i], nearest_code(x));
        }
    }
}

static void test_known_values(void **state)
{
    (void)state;
    static const struct {
        uint16_t f16;
        uint8_t code;
    } rows[] = {
        {0x0000, 0x00}, {0x8000, 0x80}, {0x3C00, 0x38}, {0xBC00, 0xB8}, {0x5F00, 0x7E}, /* 0, -0, 1, -1, 448 */
        {0x5F40, 0x7E}, {0x5F80, 0x7E}, {0x7BFF, 0x7E}, {0x7C00, 0x7E}, {0xFC00, 0xFE}, /* 464, 480, 65504, Inf, -Inf */
        {0x7E00, 0x7F}, {0xFE00, 0x7F}, {0x1800, 0x01}, {0x1400, 0x00}, {0x9400, 0x80}, /* NaN, -NaN, 2^-9, +-2^-10 */
        {0x1401, 0x01}, {0x4C40, 0x58}, {0x4CC0, 0x5A}, {0x1600, 0x01}, /* above 2^-10, 17, 19, 1.5 * 2^-10 */
    };
    static uint16_t codes[TOKENS * DIM];
    static uint8_t got[TOKENS * DIM];
    const kvg_problem p = problem_of(KVG_OP_EXPAND, KVG_FORMAT_F16, KVG_DTYPE_F16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) codes[i] = rows[i].f16;
    assert_int_equal(run(&p, codes, TOKENS, got), KVG_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (got[i] != rows[i].code) fail_msg("f16 0x%04X gives 0x%02X, not 0x%02X", rows[i].f16, got[i], rows[i].code);
    }
}

/* 1.0635 rounds up to 1.125, but its bf16 is 1.0625, a tie, and goes down to 1. */
static void test_the_model_type_rounds_first(void **state)
{
    (void)state;
    static uint16_t codes[TOKENS * DIM] = {0x3C41};
    static uint8_t got[TOKENS * DIM];
    kvg_problem p = problem_of(KVG_OP_EXPAND, KVG_FORMAT_F16, KVG_DTYPE_F16);
    assert_int_equal(run(&p, codes, TOKENS, got), KVG_OK);
    assert_int_equal(got[0], 0x39);
    p.dtype = KVG_DTYPE_BF16;
    assert_int_equal(run(&p, codes, TOKENS, got), KVG_OK);
    assert_int_equal(got[0], 0x38);
}

static void test_what_is_not_there_stays(void **state)
{
    (void)state;
    static uint16_t codes[TOKENS * DIM];
    static uint8_t got[TOKENS * DIM];
    const kvg_problem p = problem_of(KVG_OP_EXPAND, KVG_FORMAT_F16, KVG_DTYPE_F16);
    assert_int_equal(run(&p, codes, 3, got), KVG_OK);
    for (size_t i = 0; i < TOKENS * DIM; i++) assert_int_equal(got[i], i < 3 * DIM ? 0 : UNTOUCHED);
    assert_int_equal(run(&p, codes, TOKENS + 1, got), KVG_ERR_INVALID);
    for (size_t i = 0; i < TOKENS * DIM; i++) assert_int_equal(got[i], UNTOUCHED);
}

static void test_f32_is_refused(void **state)
{
    (void)state;
    const kvg_problem p = problem_of(KVG_OP_EXPAND, KVG_FORMAT_NVFP4, KVG_DTYPE_F32);
    assert_int_equal(kvg_problem_check(&p), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "use f16 or bf16"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_number_of_the_model_type), cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_the_model_type_rounds_first),    cmocka_unit_test(test_what_is_not_there_stays),
        cmocka_unit_test(test_f32_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
