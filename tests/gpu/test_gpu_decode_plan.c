/* The plan of op decode for one or two query tokens (gpu/attention/few/few_plan.h), on the host: pieces hold every key
 * that a query token may see, and a leaf has a CTA of its own where leaves are few. Without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "gpu/attention/few/few_plan.h"

static kvg_problem problem_of(kvg_layout layout, uint32_t kv_heads, uint32_t group, uint32_t sequences, uint32_t tokens,
                              uint32_t block_tokens, uint32_t window)
{
    return (kvg_problem){
        .op = KVG_OP_DECODE,
        .layout = layout,
        .dtype = KVG_DTYPE_BF16,
        .tokens = tokens,
        .kv_heads = kv_heads,
        .head_dim = 128,
        .paging = {.layers = 1, .blocks = 4096, .block_tokens = block_tokens, .sequences = sequences},
        .attention = {.query_heads = kv_heads * group, .queries = sequences, .window = window},
    };
}

static const uint32_t leaf_sizes[] = {KVG_LEAF_OF_MMA16816_V1, KVG_LEAF_OF_MMA16816_V2};
enum { LEAVES = sizeof leaf_sizes / sizeof leaf_sizes[0] };

/* Keys that one query token sees end at any length, and begin at 0, or a window or a ring before. */
static void check_pieces(const kvg_problem *p, uint32_t leaf, bool shares)
{
    kvg_decode_plan plan;
    kvg_decode_plan_of(p, leaf, KVG_DECODE_LEVELS, 1, shares, &plan);
    const uint32_t run = KVG_DECODE_STRETCH * plan.run, window = p->attention.window;
    const bool ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING;
    assert_int_equal(plan.piece, run ? KVG_DECODE_WARPS * run : leaf);
    assert_int_equal(run % leaf, 0);
    assert_true(plan.run <= 1u << KVG_DECODE_LEVELS && (plan.run & (plan.run - 1)) == 0);
    assert_true(plan.run || shares);
    for (uint32_t i = 0; i < 200; i++) {
        const uint32_t longest = ring ? 1u << 20 : p->tokens, end = 1 + (uint32_t)kvg_rng_below(1, longest, i, longest);
        uint32_t begin = window && end > window ? end - window : 0;
        if (ring && end > begin + p->paging.block_tokens) begin = end - p->paging.block_tokens;
        assert_true((end - 1) / plan.piece - begin / plan.piece + 1 <= plan.pieces);
    }
}

static void pieces_hold_all_keys(void **state)
{
    (void)state;
    static const uint32_t tokens[] = {1, 255, 256, 257, 1024, 4096, 5000, 32768, 131072}, windows[] = {0, 1, 130, 5000};
    for (size_t t = 0; t < sizeof tokens / sizeof *tokens; t++) {
        for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
            for (uint32_t sequences = 1; sequences <= 64; sequences *= 4) {
                const kvg_problem paged = problem_of(KVG_LAYOUT_HND, 8, 8, sequences, tokens[t], 16, windows[w]),
                                  ring = problem_of(KVG_LAYOUT_RING, 2, 5, sequences, tokens[t], 333, windows[w]);
                for (size_t i = 0; i < LEAVES; i++) {
                    check_pieces(&paged, leaf_sizes[i], true);
                    check_pieces(&paged, leaf_sizes[i], false);
                    check_pieces(&ring, leaf_sizes[i], true);
                }
            }
        }
    }
}

/* A layer of Llama-3-70B. */
static uint32_t run_of(uint32_t leaf, uint32_t sequences, uint32_t tokens, bool shares)
{
    const kvg_problem p = problem_of(KVG_LAYOUT_HND, 8, 8, sequences, tokens, 16, 0);
    kvg_decode_plan plan;
    kvg_decode_plan_of(&p, leaf, KVG_DECODE_LEVELS, 1, shares, &plan);
    return plan.run;
}

static void few_leaves_have_a_cta_each(void **state)
{
    (void)state;
    assert_int_equal(run_of(256, 1, 1024, true), 0);
    assert_int_equal(run_of(256, 1, 4096, true), 0);
    assert_int_equal(run_of(256, 16, 256, true), 0);
    assert_int_equal(run_of(256, 1, 4096, false), 1);
    assert_int_equal(run_of(256, 1, 4097, true), 1);
    assert_int_equal(run_of(256, 16, 257, true), 1);
    assert_int_equal(run_of(256, 16, 32768, true), 4);
    assert_int_equal(run_of(512, 2, 4096, true), 0);
    assert_int_equal(run_of(512, 2, 4097, true), 2);
    assert_int_equal(run_of(512, 1, 4096, false), 2);
    assert_int_equal(run_of(512, 16, 32768, true), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_hold_all_keys),
        cmocka_unit_test(few_leaves_have_a_cta_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
