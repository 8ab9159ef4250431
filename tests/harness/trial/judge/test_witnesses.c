/* What a case asks for is seen: each axis has a witness, a kernel with the wrong window fails with every seed, and a
 * case that can show nothing of an axis is MISTRUSTED by the axis's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "harness/case/axes.h"
#include "harness/run/backends.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/witnesses.h"
#include "harness/trial/question/fill.h"

/* --- the table --- */

static void test_each_defect_of_a_row_exists(void **state)
{
    (void)state;
    size_t count;
    const kvg_witness *rows = kvg_witness_table(&count);
    for (size_t row = 0; row < count; row++) {
        assert_non_null(rows[row].defects[0]);
        for (size_t i = 0; i < KVG_WITNESSES_OF_ROW && rows[row].defects[i]; i++) {
            const kvg_defect *defect;
            if (kvg_defect_find(rows[row].defects[i], &defect)) fail_msg("%s", kvg_error_text());
        }
    }
}

/* Axes of pages, append and decode that say how a question is put and judged, or whose every value the defects of pages
 * see. Configs with far pools below 2^31 bytes are refused. */
static const kvg_axis without[] = {KVG_AXIS_BLOCK_TOKENS, KVG_AXIS_BLOCKS,   KVG_AXIS_SEQUENCES, KVG_AXIS_LAYER,
                                   KVG_AXIS_FAR_BLOCKS,   KVG_AXIS_OPERANDS, KVG_AXIS_PROFILE,   KVG_AXIS_RELATIONS,
                                   KVG_AXIS_INVARIANT,    KVG_AXIS_ANSWERS,  KVG_AXIS_LENGTHS, KVG_AXIS_UNOWNED};

static void test_each_axis_has_a_witness(void **state)
{
    (void)state;
    size_t count;
    const kvg_witness *rows = kvg_witness_table(&count);
    for (kvg_axis axis = 0; axis < KVG_AXIS_COUNT; axis++) {
        const kvg_axis_scope scope = kvg_axis_get(axis)->scope;
        bool found = scope == KVG_SCOPE_ALL || scope == KVG_SCOPE_STORED || scope == KVG_SCOPE_SHAPED;
        for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) found |= without[i] == axis;
        for (size_t row = 0; row < count; row++) found |= strcmp(rows[row].axis, kvg_axis_get(axis)->name) == 0;
        if (!found) fail_msg("no row of witnesses.def is for axis %s", kvg_axis_get(axis)->name);
    }
}

/* --- cases --- */

/* One KV head with a group of one, as the sliding layers of GPT-OSS in a config of one's own. */
static kvg_case windowed(uint32_t tokens, uint32_t window, uint32_t queries, uint64_t seed)
{
    kvg_case c = {
        .problem = {.op = KVG_OP_DECODE, .layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16, .tokens = tokens,
                    .kv_heads = 1, .head_dim = 64,
                    .storage = {{KVG_FORMAT_BF16, "canonical"}, {KVG_FORMAT_BF16, "canonical"}},
                    .paging = {.layers = 2, .layer = 1, .blocks = 3 * (tokens / 16 + 2), .block_tokens = 16,
                               .sequences = 3},
                    .attention = {.query_heads = 1, .window = window, .sinks = true}},
        .fill = KVG_FILL_RANDOM,
        .scale = {.given = true, .value = {1, 1}},
        .queries = queries,
        .backend = "reference",
        .seed = seed,
    };
    for (uint32_t i = 0; i < c.problem.paging.sequences; i++) c.problem.attention.queries += kvg_case_queries(&c, i);
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    kvg_fill_shuffle(&c);
    return c;
}

static kvg_result check(const kvg_case *c, const char *backend)
{
    static kvg_result r;
    const kvg_backend *candidate;
    if (strcmp(backend, "reference") == 0) candidate = kvg_reference_backend();
    else assert_int_equal(kvg_defect_backend(backend, &candidate), KVG_OK);
    kvg_check_run(c, candidate, &r);
    return r;
}

static void test_a_wrong_window_fails_with_every_seed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        const kvg_case one = windowed(150, 128, 1, seed), four = windowed(100, 32, 4, seed);
        assert_int_equal(check(&one, "reference").verdict, KVG_VERDICT_PASS);
        assert_int_equal(check(&one, "defect:window_short").verdict, KVG_VERDICT_FAIL);
        assert_int_equal(check(&four, "defect:window_short").verdict, KVG_VERDICT_FAIL);
        assert_int_equal(check(&four, "defect:window_long").verdict, KVG_VERDICT_FAIL);
    }
}

static void test_a_window_that_no_query_reaches_is_named(void **state)
{
    (void)state;
    kvg_case c = windowed(60, 128, 2, 7);
    kvg_result r = check(&c, "reference");
    assert_int_equal(r.verdict, KVG_VERDICT_MISTRUSTED);
    assert_int_equal(r.redraws, KVG_REDRAWS);
    assert_non_null(strstr(r.detail, "window is asked for and never seen: defect window_short would pass"));
    assert_int_equal(check(&c, "defect:window_short").verdict, KVG_VERDICT_MISTRUSTED); /* no PASS either */
    c.unseen = true;
    assert_int_equal(check(&c, "reference").verdict, KVG_VERDICT_PASS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_defect_of_a_row_exists),
        cmocka_unit_test(test_each_axis_has_a_witness),
        cmocka_unit_test(test_a_wrong_window_fails_with_every_seed),
        cmocka_unit_test(test_a_window_that_no_query_reaches_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
