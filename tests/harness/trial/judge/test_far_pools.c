/* A case asked again in pools that leave 32 bits: who computes offsets in 32 bits fails, who writes elsewhere does, and
 * who dies there is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/trial/judge/judge.h"

enum { PAGE = 4096, FAR = (1 << 20) + 10 }; /* bytes of K's block in a layer, and blocks: 2^33 bytes and more */

static kvg_status (*misdeed)(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out);

/* Right about the case itself, and about far pools what `misdeed` says. */
static kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    return p->paging.blocks == FAR && misdeed ? misdeed(p, in, out) : kvg_reference_run(p, in, out);
}

static void *input(const kvg_problem *p, const kvg_tensor *in, kvg_role role)
{
    return in[kvg_roles_index(kvg_op_get(p->op)->inputs, role, KVG_K)].data;
}

/* The place of a block in bytes, cut to 32 bits: that of another block. */
static kvg_status offsets_of_32_bits(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int64_t B = p->paging.block_tokens, blocks = (1ll << 32) / PAGE;
    kvg_tensor moved[KVG_MAX_TENSORS];
    memcpy(moved, in, kvg_roles_tensors(kvg_op_get(p->op)->inputs) * sizeof *in);
    kvg_tensor *ids = &moved[kvg_roles_index(kvg_op_get(p->op)->inputs,
                                             p->op == KVG_OP_APPEND ? KVG_ROLE_SLOTS : KVG_ROLE_BLOCK_TABLE, KVG_K)];
    void *copy = malloc(ids->bytes);
    memcpy(copy, ids->data, ids->bytes);
    for (size_t i = 0; p->op == KVG_OP_APPEND && i < p->tokens; i++) {
        int64_t *slot = (int64_t *)copy + i;
        if (*slot >= 0) *slot %= blocks * B;
    }
    for (size_t i = 0; p->op != KVG_OP_APPEND && i < ids->bytes / sizeof(int32_t); i++) {
        int32_t *block = (int32_t *)copy + i;
        if (*block >= 0) *block %= (int32_t)blocks;
    }
    ids->data = copy;
    const kvg_status s = kvg_reference_run(p, moved, out);
    free(copy);
    return s;
}

static kvg_tensor *pool(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const int written = kvg_roles_index(kvg_op_get(p->op)->outputs, KVG_ROLE_DATA_POOL, KVG_V);
    if (written >= 0) return &out[written];
    return (kvg_tensor *)&in[kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_DATA_POOL, KVG_V)];
}

/* A byte that no token owns, beyond 2^32. */
static kvg_status writes_astray(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    ((uint8_t *)pool(p, in, out)->data)[5000000007] ^= 1;
    return kvg_reference_run(p, in, out);
}

/* A row of V that the case owns: the first one of its last sequence. */
static kvg_status writes_a_row(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    const kvg_status s = kvg_reference_run(p, in, out);
    const int32_t *table = input(p, in, KVG_ROLE_BLOCK_TABLE);
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    const uint32_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens), last = p->paging.sequences - 1;
    const uint32_t block = (uint32_t)table[last * width];
    ((uint8_t *)pool(p, in, out)->data)[kvg_rows_place(&map.codes[KVG_V], p->paging.layer, block, 0, 0, 0)] ^= 1;
    return s;
}

static kvg_status dies(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in, (void)out;
    return kvg_fail(KVG_ERR_DEVICE, "gone");
}

static kvg_status refuses(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p, (void)in, (void)out;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "too large");
}

static kvg_result check(kvg_op op, kvg_status (*planted)(const kvg_problem *, const kvg_tensor *, kvg_tensor *))
{
    static const kvg_impl impls[] = {{"far_append", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run},
                                     {"far_flatten", KVG_OP_FLATTEN, KVG_FORMAT_NONE, 0, run},
                                     {"far_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run}};
    static const kvg_backend backend = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "far",
                                        .impls = impls, .impl_count = 3, .error_text = kvg_error_text};
    kvg_case c = {
        .problem = {.op = op, .layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16, .tokens = 40, .kv_heads = 2,
                    .head_dim = 64,
                    .storage = {{KVG_FORMAT_BF16, "canonical"}, {KVG_FORMAT_BF16, "canonical"}},
                    .paging = {.layers = 2, .layer = 1, .blocks = 12, .block_tokens = 16, .sequences = 3}},
        .fill = KVG_FILL_RANDOM,
        .scale = {.given = true, .value = {1, 1}},
        .far_blocks = FAR,
        .backend = "far",
        .seed = 5,
    };
    if (op == KVG_OP_DECODE) {
        c.queries = 1;
        c.problem.attention = (kvg_attention){.query_heads = 2, .queries = 3};
    }
    kvg_result r;
    misdeed = planted;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    kvg_check_run(&c, &backend, &r);
    return r;
}

static void expect(kvg_op op, kvg_status (*planted)(const kvg_problem *, const kvg_tensor *, kvg_tensor *),
                   kvg_verdict verdict, const char *words)
{
    const kvg_result r = check(op, planted);
    if (r.verdict != verdict || strncmp(r.detail, "relation far (", 14) != 0 || !strstr(r.detail, words)) {
        fail_msg("%s: %s: %s", kvg_op_get(op)->name, kvg_verdict_name(r.verdict), r.detail);
    }
}

static const kvg_op ops[] = {KVG_OP_APPEND, KVG_OP_FLATTEN, KVG_OP_DECODE};

static void test_a_right_implementation_passes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        const kvg_result r = check(ops[i], NULL);
        if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s: %s", kvg_op_get(ops[i])->name, r.detail);
        assert_true(r.relations.count == 1 && strcmp(r.relations.name[0], "far") == 0);
    }
}

static void test_what_is_wrong_in_far_pools_alone_fails(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        expect(ops[i], offsets_of_32_bits, KVG_VERDICT_FAIL, "");
        expect(ops[i], writes_astray, KVG_VERDICT_FAIL, "byte 5000000007 of");
        expect(ops[i], refuses, KVG_VERDICT_UNIMPLEMENTED, "too large");
    }
    expect(KVG_OP_FLATTEN, writes_a_row, KVG_VERDICT_FAIL, "rows of a pool were written");
    expect(KVG_OP_DECODE, writes_a_row, KVG_VERDICT_FAIL, "rows of a pool were written");
}

static void test_a_death_in_far_pools(void **state)
{
    (void)state;
    expect(KVG_OP_FLATTEN, dies, KVG_VERDICT_CRASH, "gone");
    assert_int_equal(check(KVG_OP_FLATTEN, dies).lost, KVG_ERR_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_right_implementation_passes),
        cmocka_unit_test(test_what_is_wrong_in_far_pools_alone_fails),
        cmocka_unit_test(test_a_death_in_far_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
