/* What the backend cuda refuses for what tensors hold (gpu/inputs/gpu_inputs.c) against what the
 * reference refuses, without a GPU: one wrong number at a time, on every layout. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/inputs/gpu_inputs.h"
#include "support/tensor_set.h"
#include "reference/reference.h"

enum { TOKENS = 20, BLOCK = 16, BLOCKS = 4, SEQUENCES = 3, POSITIONS = 32, HEADS = 2 };

typedef struct wrong_number {
    kvg_op op;
    kvg_role role;
    size_t index;
    int64_t value;
    bool refused;
    kvg_layout only; /* 0: on every layout */
} wrong_number;

/* Slots start at 1 and lengths are 3, 4, 5: see fill. */
static const wrong_number integers[] = {
    {KVG_OP_APPEND, KVG_ROLE_SLOTS, 4, BLOCK * BLOCKS, true, 0},
    {KVG_OP_APPEND, KVG_ROLE_SLOTS, 4, BLOCK * BLOCKS - 1, false, 0},
    {KVG_OP_APPEND, KVG_ROLE_SLOTS, 4, INT64_MAX, true, 0},
    {KVG_OP_APPEND, KVG_ROLE_SLOTS, 4, -7, false, 0},
    {KVG_OP_APPEND, KVG_ROLE_SLOTS, TOKENS - 1, 1, true, 0}, /* comes twice */
    {KVG_OP_APPEND, KVG_ROLE_POSITIONS, 2, -1, true, 0},
    {KVG_OP_APPEND, KVG_ROLE_POSITIONS, 2, POSITIONS, true, 0},
    {KVG_OP_APPEND, KVG_ROLE_POSITIONS, 2, POSITIONS - 1, false, 0},
    {KVG_OP_PROBE, KVG_ROLE_SLOTS, 4, BLOCK * BLOCKS, true, 0},
    {KVG_OP_PROBE, KVG_ROLE_SLOTS, 4, 1, false, 0}, /* twice, which is no harm */
    {KVG_OP_FLATTEN, KVG_ROLE_LENGTHS, 1, -1, true, 0},
    {KVG_OP_FLATTEN, KVG_ROLE_LENGTHS, 1, TOKENS, false, KVG_LAYOUT_HND},
    {KVG_OP_FLATTEN, KVG_ROLE_LENGTHS, 1, BLOCK, false, KVG_LAYOUT_CONTIGUOUS},
    {KVG_OP_FLATTEN, KVG_ROLE_LENGTHS, 1, BLOCK + 1, true, KVG_LAYOUT_CONTIGUOUS}, /* its capacity */
    {KVG_OP_FLATTEN, KVG_ROLE_LENGTHS, 1, TOKENS + 1, true, KVG_LAYOUT_HND},
    {KVG_OP_FLATTEN, KVG_ROLE_LENGTHS, 1, TOKENS + 1, false, KVG_LAYOUT_RING},
    {KVG_OP_FLATTEN, KVG_ROLE_BLOCK_TABLE, 0, BLOCKS, false, 0}, /* skipped */
    {KVG_OP_EXPAND, KVG_ROLE_LENGTHS, 2, INT32_MIN, true, 0},
    {KVG_OP_DECODE, KVG_ROLE_LENGTHS, 2, -1, true, 0},
    {KVG_OP_DECODE, KVG_ROLE_QUERY_LENGTHS, 0, -1, true, 0},
    {KVG_OP_DECODE, KVG_ROLE_QUERY_LENGTHS, 0, 2, true, 0}, /* one row of q more than there are */
    {KVG_OP_DECODE, KVG_ROLE_QUERY_LENGTHS, 0, 0, true, 0},
};

static const struct {
    kvg_op op;
    kvg_role role;
    float value;
    bool refused;
} floats[] = {
    {KVG_OP_APPEND, KVG_ROLE_TENSOR_SCALE, 0, true},         {KVG_OP_APPEND, KVG_ROLE_TENSOR_SCALE, NAN, true},
    {KVG_OP_APPEND, KVG_ROLE_TENSOR_SCALE, INFINITY, true},  {KVG_OP_FLATTEN, KVG_ROLE_TENSOR_SCALE, -1, true},
    {KVG_OP_EXPAND, KVG_ROLE_TENSOR_SCALE, NAN, true},       {KVG_OP_DECODE, KVG_ROLE_TENSOR_SCALE, 0, true},
    {KVG_OP_DECODE, KVG_ROLE_SINKS, NAN, true},              {KVG_OP_DECODE, KVG_ROLE_SINKS, INFINITY, true},
    {KVG_OP_DECODE, KVG_ROLE_SINKS, -INFINITY, false},       {KVG_OP_DECODE, KVG_ROLE_SINKS, 1e30f, false},
    {KVG_OP_APPEND, KVG_ROLE_TENSOR_SCALE, 0x1p-140f, false},
};

static kvg_problem problem_of(kvg_op op, kvg_layout layout)
{
    kvg_problem p = {.op = op, .layout = layout, .dtype = KVG_DTYPE_BF16, .tokens = TOKENS, .kv_heads = HEADS,
                     .head_dim = 64, .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}}};
    p.paging = (kvg_paging){.layers = 1, .blocks = BLOCKS, .block_tokens = BLOCK,
                            .sequences = kvg_op_reads_sequences(op) ? SEQUENCES : 0};
    if (op == KVG_OP_APPEND) p.rope = (kvg_rope){.dims = 64, .positions = POSITIONS, .pairing = KVG_PAIRING_HALVES};
    if (op == KVG_OP_DECODE) p.attention = (kvg_attention){.query_heads = HEADS, .queries = SEQUENCES, .sinks = true};
    return p;
}

/* Right numbers everywhere; zeros are fine in the rest. */
static void fill(const kvg_tensor_set *in)
{
    const kvg_tensor *slots = kvg_set_tensor(in, KVG_ROLE_SLOTS, KVG_K);
    const kvg_tensor *lengths = kvg_set_tensor(in, KVG_ROLE_LENGTHS, KVG_K);
    const kvg_tensor *queries = kvg_set_tensor(in, KVG_ROLE_QUERY_LENGTHS, KVG_K);
    for (size_t i = 0; i < in->count; i++) {
        if (in->tensors[i].bytes) memset(in->tensors[i].data, 0, in->tensors[i].bytes);
    }
    for (size_t i = 0; slots && i < TOKENS; i++) ((int64_t *)slots->data)[i] = (int64_t)i + 1;
    for (size_t i = 0; lengths && i < SEQUENCES; i++) ((int32_t *)lengths->data)[i] = (int32_t)i + 3;
    for (size_t i = 0; queries && i < SEQUENCES; i++) ((int32_t *)queries->data)[i] = 1;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *scale = kvg_set_tensor(in, KVG_ROLE_TENSOR_SCALE, (kvg_side)side);
        if (scale) *(float *)scale->data = 1;
    }
}

/* Both must say the same of inputs with one number changed: `integer`, or the first of `role`. */
static void compare(const kvg_problem *p, const wrong_number *integer, kvg_role role, float value, bool refused)
{
    kvg_tensor_set in = {0}, out = {0};
    if (kvg_problem_check(p)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_set_alloc(p, kvg_op_get(p->op)->inputs, &in), KVG_OK);
    assert_int_equal(kvg_set_alloc(p, kvg_op_get(p->op)->outputs, &out), KVG_OK);
    fill(&in);
    assert_int_equal(kvg_gpu_check_inputs(p, in.tensors), KVG_OK);
    const kvg_tensor *t = kvg_set_tensor(&in, integer ? integer->role : role, KVG_V);
    assert_non_null(t);
    if (!integer) ((float *)t->data)[0] = value;
    else if (t->dtype == KVG_DTYPE_I64) ((int64_t *)t->data)[integer->index] = integer->value;
    else ((int32_t *)t->data)[integer->index] = (int32_t)integer->value;
    const kvg_status want = kvg_reference_run(p, in.tensors, out.tensors);
    const kvg_status got = kvg_gpu_check_inputs(p, in.tensors);
    if (want != (refused ? KVG_ERR_INVALID : KVG_OK) || got != want) {
        fail_msg("op %s, %s, layout %s: the reference says %s, the backend %s: %s", kvg_op_get(p->op)->name,
                 kvg_tensor_name(integer ? integer->role : role, KVG_V), kvg_layout_get(p->layout)->name,
                 kvg_status_name(want), kvg_status_name(got), kvg_error_text());
    }
    kvg_set_free(&in);
    kvg_set_free(&out);
}

static void test_integers_are_refused_as_by_the_reference(void **state)
{
    (void)state;
    static const kvg_layout layouts[] = {KVG_LAYOUT_HND, KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_RING, KVG_LAYOUT_CONTIGUOUS};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
            if (integers[i].only && integers[i].only != layouts[l]) continue;
            const kvg_problem p = problem_of(integers[i].op, layouts[l]);
            compare(&p, &integers[i], KVG_ROLE_NONE, 0, integers[i].refused);
        }
    }
}

static void test_floats_are_refused_as_by_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof floats / sizeof floats[0]; i++) {
        const kvg_problem p = problem_of(floats[i].op, KVG_LAYOUT_NHD);
        compare(&p, NULL, floats[i].role, floats[i].value, floats[i].refused);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers_are_refused_as_by_the_reference),
        cmocka_unit_test(test_floats_are_refused_as_by_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
