/* What a group's rows cover: complete arrays, a missing row, values that cannot stand together, work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/harness/config/config_of.h"

#define QUANTISE "'op':'quantise','kv_heads':1,'tokens':3,'fill':'random'"
#define VALUES "'format':['f16','bf16'],'head_dim':[64,80]"

static char told[256]; /* the text of `seen`, which does not outlive the call */
static kvg_cover seen;

static void keep(const kvg_cover *cover, void *context)
{
    (void)context;
    seen = *cover;
    snprintf(told, sizeof told, "%s", cover->text.text ? cover->text.text : "");
}

/* `axes`: of the group; its "covers" of the values, and its rows. */
static void count(const char *axes, int strength, const char *values, const char *rows)
{
    char group[2048];
    snprintf(group, sizeof group, "{%s,'covers':{'strength':%d,'most_work':1000,'values':{%s}},'include':[%s]}", axes,
             strength, values, rows);
    kvg_config config = config_from(group);
    seen = (kvg_cover){0};
    assert_int_equal(kvg_config_cover(&config, keep, NULL), KVG_OK);
    kvg_config_close(&config);
}

static void test_every_pair_is_counted(void **state)
{
    (void)state;
    count(QUANTISE ",'format':'f16','head_dim':64", 2, VALUES,
          "{'head_dim':80},{'format':'bf16'},{'format':'bf16','head_dim':80}");
    assert_int_equal(seen.rows, 4);
    assert_int_equal(seen.covered, 4);
    assert_int_equal(seen.missing, 0);
}

static void test_a_missing_pair_is_named(void **state)
{
    (void)state;
    count(QUANTISE ",'format':'f16','head_dim':64", 2, VALUES, "{'head_dim':80},{'format':'bf16'}");
    assert_int_equal(seen.covered, 3);
    assert_int_equal(seen.missing, 1);
    assert_string_equal(told, "format bf16, head_dim 80");
}

/* A group whose rows are words of a format, a head_dim and a type. */
static kvg_status of_words(const char *words, kvg_config *out)
{
    char group[1024];
    snprintf(group, sizeof group,
             "{" QUANTISE ",'format':'f16','head_dim':64,'covers':{'strength':2,'most_work':1000,'values':{" VALUES
             ",'dtype':'f16'},'rows':%s}}",
             words);
    return config_of(group, out);
}

static void test_words_are_rows(void **state)
{
    (void)state;
    static const char *const ids[] = {"f16", "bf16", "f16", "bf16"};
    static const uint32_t dims[] = {64, 64, 80, 80};
    kvg_config config;
    assert_int_equal(of_words("['10- 010','',' 11-']", &config), KVG_OK);
    assert_int_equal(config.case_count, 4); /* the group itself is the first */
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_problem *p = &config.cases[i].problem;
        assert_string_equal(kvg_format_get(p->storage[KVG_K].format)->name, ids[i]);
        assert_int_equal(p->head_dim, dims[i]);
        assert_int_equal(p->dtype == KVG_DTYPE_F16, i == 2); /* a row without one has the group's */
    }
    assert_int_equal(kvg_config_cover(&config, keep, NULL), KVG_OK);
    assert_int_equal(seen.rows, 4);
    kvg_config_close(&config);
}

static void test_words_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *words, *text;
    } bad[] = {
        {"['10']", "\"10\" has 2 characters, but \"values\" has 3 axes"},
        {"['1000']", "\"1000\" has 4 characters, but \"values\" has 3 axes"},
        {"['100 200']", "\"200\": \"format\" has no value 2"},
        {"['101']", "\"101\": \"dtype\" has no value 1"},
        {"['1?0']", "\"1?0\": \"head_dim\" has no value ?"},
        {"['---']", "an empty object means nothing here"},
        {"'100'", "expected a list of texts"},
        {"[1]", "expected a string"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvg_config config;
        assert_int_equal(of_words(bad[i].words, &config), KVG_ERR_INVALID);
        assert_non_null(strstr(kvg_error_text(), bad[i].text));
    }
}

/* Rows that have every pair need not have every triple: the four of even parity have half of the eight. */
static void test_triples_are_more_than_pairs(void **state)
{
    (void)state;
    static const char rows[] = "{'head_dim':80,'dtype':'f16'},{'format':'bf16','dtype':'f16'},"
                               "{'format':'bf16','head_dim':80}";
    count(QUANTISE ",'format':'f16','head_dim':64,'dtype':'bf16'", 2, VALUES ",'dtype':['bf16','f16']", rows);
    assert_int_equal(seen.covered, 12);
    assert_int_equal(seen.missing, 0);
    count(QUANTISE ",'format':'f16','head_dim':64,'dtype':'bf16'", 3, VALUES ",'dtype':['bf16','f16']", rows);
    assert_int_equal(seen.covered, 4);
    assert_int_equal(seen.missing, 4);
}

/* mlx4 shares a scale among 64 elements, so that head_dim 80 does not fit it: with any other value of a third axis. */
static void test_values_that_no_case_has_are_not_missing(void **state)
{
    (void)state;
    count(QUANTISE ",'format':'f16','head_dim':64", 2, "'format':['f16','mlx4'],'head_dim':[64,80]",
          "{'head_dim':80},{'format':'mlx4'}");
    assert_int_equal(seen.covered, 3);
    assert_int_equal(seen.missing, 0);
    count(QUANTISE ",'format':'f16','head_dim':64,'dtype':'bf16'", 3,
          "'format':['f16','mlx4'],'head_dim':[64,80],'dtype':['bf16','f16']",
          "{'head_dim':80,'dtype':'f16'},{'format':'mlx4','dtype':'f16'}");
    assert_int_equal(seen.covered, 3);
    assert_int_equal(seen.missing, 3);
}

/* 1 query of 1 head over 2 tokens of 64 elements is 128 products, over 32 tokens 2,048: more than 1,000. */
static void test_work_is_counted_apart(void **state)
{
    (void)state;
    static const char decode[] = "'op':'decode','layout':'hnd','format':'f16','kv_heads':1,'head_dim':64,'tokens':2,"
                                 "'block_tokens':8,'sequences':1,'fill':'random'";
    count(decode, 2, "'format':['f16','bf16'],'tokens':[2,32]", "{'format':'bf16'}");
    assert_int_equal(seen.covered, 2);
    assert_int_equal(seen.dearer, 2);
    assert_int_equal(seen.missing, 0);
}

/* Layout mla needs shared_kv, which no row has: that no row becomes a case says nothing. */
static void test_a_value_in_no_row_is_missing(void **state)
{
    (void)state;
    static const char flatten[] = "'op':'flatten','layout':'hnd','format':'f16','kv_heads':1,'head_dim':64,'tokens':2,"
                                  "'fill':'random'";
    count(flatten, 2, "'format':['f16','bf16'],'layout':['hnd','mla']", "{'format':'bf16'}");
    assert_int_equal(seen.covered, 2);
    assert_int_equal(seen.missing, 2);
}

static void test_what_cannot_be_judged_is_not_missing(void **state)
{
    (void)state;
    kvg_config config = config_from(
        "{" QUANTISE ",'format':'f16','head_dim':64,'covers':{'strength':2,'most_work':1,'values':{" VALUES "},"
        "'without':[{'format':'bf16','head_dim':[80]}]},'include':[{'head_dim':80},{'format':'bf16'}]}");
    assert_int_equal(kvg_config_cover(&config, keep, NULL), KVG_OK);
    assert_int_equal(seen.covered, 3);
    assert_int_equal(seen.missing, 0);
    kvg_config_close(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair_is_counted),
        cmocka_unit_test(test_words_are_rows),
        cmocka_unit_test(test_words_that_are_none),
        cmocka_unit_test(test_a_missing_pair_is_named),
        cmocka_unit_test(test_triples_are_more_than_pairs),
        cmocka_unit_test(test_values_that_no_case_has_are_not_missing),
        cmocka_unit_test(test_work_is_counted_apart),
        cmocka_unit_test(test_a_value_in_no_row_is_missing),
        cmocka_unit_test(test_what_cannot_be_judged_is_not_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
