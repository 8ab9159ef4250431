/* kvg_identify names the layout of pages that the reference wrote: each named one, texts with mistakes that are drawn,
 * and none for bytes that no layout explains. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/layout_text.h"
#include "core/rng.h"
#include "harness/trial/explain/identify.h"
#include "harness/trial/judge/judge_decode.h"
#include "reference/reference.h"

enum { DRAWN = 20, SEED = 5 };

static kvg_case the_case;
static kvg_question question;
static kvg_truth truth;

static int set_up(void **state)
{
    (void)state;
    the_case = (kvg_case){
        .problem = {.op = KVG_OP_APPEND, .layout = KVG_LAYOUT_HND, .dtype = KVG_DTYPE_BF16, .tokens = 24, .kv_heads = 3,
                    .head_dim = 64,
                    .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
                    .paging = {.layers = 3, .layer = 1, .blocks = 6, .block_tokens = 8, .sequences = 1}},
        .fill = KVG_FILL_RANDOM,
        .scale = {.given = true, .value = {0.3124f, 0.01318f}},
        .shuffled = true,
        .backend = "reference",
        .seed = 11,
    };
    if (kvg_case_name(&the_case) || kvg_question_make(&the_case, &question) || kvg_know(&question, &truth)) {
        fail_msg("%s", kvg_error_text());
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kvg_truth_free(&truth);
    kvg_question_free(&question);
    return 0;
}

/* What an engine of that layout writes for the question, and what is identified then. */
static void identify_for(const kvg_question *asked, const kvg_truth *right, const char *text, kvg_identification *found)
{
    const kvg_layout_text own = {"own", text};
    kvg_problem p = asked->c->problem;
    kvg_tensor_set pages;
    kvg_tensor pools[KVG_POOLS];
    p.layout = KVG_LAYOUT_TEXT;
    p.text = &own;
    assert_int_equal(kvg_set_alloc(&p, asked->op->outputs, &pages), KVG_OK);
    assert_int_equal(kvg_reference_run(&p, asked->in.tensors, pages.tensors), KVG_OK);
    for (int i = 0; i < KVG_POOLS; i++) {
        const kvg_role pool = i % 2 ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL;
        pools[i] = *kvg_set_tensor(&pages, pool, (kvg_side)(i / 2));
    }
    assert_int_equal(kvg_identify(asked, right->expected.tensors, pools, found), KVG_OK);
    kvg_set_free(&pages);
}

static void identify(const char *text, kvg_identification *found)
{
    identify_for(&question, &truth, text, found);
}

/* False: it is no text of this cache. */
static bool map_of(const char *text, kvg_layout_map *map)
{
    const kvg_layout_text own = {"own", text};
    kvg_problem p = the_case.problem;
    p.layout = KVG_LAYOUT_TEXT;
    p.text = &own;
    if (kvg_problem_check(&p)) return false;
    kvg_rows_map(&p, map);
    return true;
}

/* Whether the text, or one that puts all bytes where it does, is among those that explain every byte. The bytes of one
 * layer cannot tell all of them apart. */
static bool is_first(const kvg_identification *found, const char *text)
{
    kvg_layout_map best, own;
    bool named = false;
    for (size_t i = 0; i < found->count && found->best[i].right == found->all && !named; i++) {
        named = map_of(found->best[i].text, &best) && map_of(text, &own) && memcmp(&best, &own, sizeof own) == 0;
    }
    return named;
}

static void test_named_layouts(void **state)
{
    (void)state;
    size_t layouts, asked = 0;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (size_t i = 0; i < layouts; i++) {
        const char *const texts[] = {layout[i].text, layout[i].groups};
        for (int k = 0; k < 2; k++) {
            kvg_identification found;
            kvg_layout_map map;
            if (!layout[i].paged || !texts[k] || !map_of(texts[k], &map)) continue;
            identify(texts[k], &found);
            if (!is_first(&found, texts[k])) fail_msg("%s is not named", layout[i].name);
            assert_int_equal(found.best[0].mistakes, 0);
            asked++;
        }
    }
    printf("%zu texts of named layouts: all named first\n", asked);
    assert_true(asked > layouts / 2);
}

/* A layout's text with one mistake or two, in a cache that takes it. */
static const char *draw(uint64_t number, const char **name, kvg_near_texts *near, char text[KVG_NEAR_TEXT])
{
    size_t layouts;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (uint64_t i = 0;; i += 4) {
        const kvg_layout_info *const from = &layout[kvg_rng_below(SEED, number, i, layouts)];
        const uint64_t mistakes = 1 + kvg_rng_below(SEED, number, i + 1, 2);
        kvg_layout_map map;
        strcpy(text, from->text);
        for (uint64_t m = 0; m < mistakes && map_of(text, &map); m++) {
            kvg_near_texts_of(text, near);
            strcpy(text, near->texts[kvg_rng_below(SEED, number, i + 2 + m, near->count)]);
        }
        *name = from->name;
        if (*text && map_of(text, &map)) return text;
    }
}

static void test_texts_with_mistakes(void **state)
{
    (void)state;
    static kvg_near_texts near;
    unsigned first = 0;
    for (uint64_t i = 0; i < DRAWN; i++) {
        kvg_identification found;
        char text[KVG_NEAR_TEXT];
        const char *name;
        identify(draw(i, &name, &near, text), &found);
        if (is_first(&found, text)) first++;
        else printf("not named first, of %s: %s\n", name, text);
    }
    printf("%u of %d drawn texts named first\n", first, DRAWN);
    assert_int_equal(first, DRAWN);
}

/* Texts far from every name, of a case that has such a text itself: right, and with K's and V's codes exchanged. */
static void test_text_of_the_case(void **state)
{
    static const kvg_layout_text mine = {"mine",
                                         "[B H L]{ [N] V.codes +%64 [N] V.scales [N] K.codes +7 [N] K.scales }"};
    const char *const exchanged = "[B H L]{ [N] K.codes +%64 [N] V.scales [N] V.codes +7 [N] K.scales }";
    kvg_case c = the_case;
    kvg_question q;
    kvg_truth t;
    kvg_identification found;
    (void)state;
    c.problem.layout = KVG_LAYOUT_TEXT;
    c.problem.text = &mine;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    assert_int_equal(kvg_question_make(&c, &q), KVG_OK);
    assert_int_equal(kvg_know(&q, &t), KVG_OK);
    for (unsigned mistakes = 0; mistakes < 2; mistakes++) {
        identify_for(&q, &t, mistakes ? exchanged : mine.text, &found);
        assert_string_equal(found.best[0].name, mine.name);
        assert_int_equal(found.best[0].mistakes, mistakes);
        assert_int_equal(found.best[0].right, found.all);
    }
    kvg_truth_free(&t);
    kvg_question_free(&q);
}

static void test_bytes_without_a_layout(void **state)
{
    (void)state;
    uint8_t bytes[2][1 << 16];
    kvg_identification found;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i / sizeof *bytes][i % sizeof *bytes] = (uint8_t)kvg_rng_below(SEED, 1, i, 256);
    }
    const kvg_tensor pools[KVG_POOLS] = {{.data = bytes[0], .bytes = sizeof *bytes}, {.bytes = 0},
                                         {.data = bytes[1], .bytes = sizeof *bytes}, {.bytes = 0}};
    assert_int_equal(kvg_identify(&question, truth.expected.tensors, pools, &found), KVG_OK);
    assert_true(found.best[0].right < found.all / 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_named_layouts),
        cmocka_unit_test(test_texts_with_mistakes),
        cmocka_unit_test(test_text_of_the_case),
        cmocka_unit_test(test_bytes_without_a_layout),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
