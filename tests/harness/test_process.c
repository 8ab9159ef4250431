/* The process model on a backend that crashes, hangs, exits and writes where it must not: every case gets its own
 * verdict, and the run goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden/golden.h"
#include "harness/run.h"

#define CONFIG KVG_SOURCE_DIR "/tests/planted/planted.json"
#define OUT KVG_BINARY_DIR "/test_process"

static const struct expectation {
    unsigned kv_heads;
    kvg_verdict verdict;
    const char *detail; /* must be part of the detail */
} expected[] = {
    {1, KVG_VERDICT_PASS, ""},
    {2, KVG_VERDICT_CRASH, "signal 11"},
    {3, KVG_VERDICT_HANG, "no result after 4 s"},
    {4, KVG_VERDICT_CRASH, "exited with status 0"},
    {5, KVG_VERDICT_FAIL, "1 bytes written past the end, first at +0"},
    {6, KVG_VERDICT_FAIL, "1 bytes written before the start, first at -1"},
    {7, KVG_VERDICT_FAIL, "input k was written"},
    {8, KVG_VERDICT_CRASH, "signal 11"},
    {9, KVG_VERDICT_CRASH, "signal 6"},
    {10, KVG_VERDICT_FAIL, "'invalid': planted failure"},
    {11, KVG_VERDICT_UNIMPLEMENTED, "planted refusal"},
    {12, KVG_VERDICT_PASS, ""},
    {13, KVG_VERDICT_FAIL, "token 3, head 12"},
    {14, KVG_VERDICT_PASS, ""},
    {15, KVG_VERDICT_CRASH, ""},
    {16, KVG_VERDICT_HANG, "no result after 4 s"},
    {17, KVG_VERDICT_FAIL, "floating-point mode"},
    {18, KVG_VERDICT_FAIL, "floating-point mode"},
    {19, KVG_VERDICT_PASS, ""},
};
enum { EXPECTED_COUNT = sizeof expected / sizeof expected[0] };

static const char *text(kvg_json object, const char *key)
{
    kvg_json value;
    const char *string;
    assert_int_equal(kvg_json_get(object, key, &value), KVG_OK);
    assert_int_equal(kvg_json_string(value, &string), KVG_OK);
    return string;
}

/* The kv_heads of a case id ".../TxHxD/...". */
static unsigned heads_of(const char *id)
{
    unsigned tokens, heads, dim;
    assert_int_equal(sscanf(strstr(id, "bf16/"), "bf16/%ux%ux%u", &tokens, &heads, &dim), 3);
    return heads;
}

static void check_line(const char *line, size_t length, unsigned *cases, unsigned *starts)
{
    kvg_json_doc *doc;
    assert_int_equal(kvg_json_parse("result line", line, length, &doc), KVG_OK);
    const kvg_json root = kvg_json_root(doc);
    const char *type = text(root, "type");
    if (strcmp(type, "start") == 0) ++*starts;
    if (strcmp(type, "case") == 0) {
        const struct expectation *e = &expected[heads_of(text(root, "id")) - 1];
        if (strcmp(text(root, "status"), kvg_verdict_name(e->verdict)) != 0 ||
            !strstr(text(root, "detail"), e->detail)) {
            fail_msg("%u heads: %s: %s", e->kv_heads, text(root, "status"), text(root, "detail"));
        }
        /* a right answer that failed for another reason equals no defect */
        if (e->kv_heads != 13) assert_null(strstr(text(root, "detail"), "equals defect"));
        assert_non_null(strstr(text(root, "repro"), "kvgold check "));
        bool slow = false;
        kvg_json value;
        assert_int_equal(kvg_json_get(root, "slow", &value), KVG_OK);
        assert_int_equal(kvg_json_bool(value, &slow), KVG_OK);
        /* others may be slow on a busy machine */
        if (e->kv_heads == 14 || e->kv_heads == 3 || e->kv_heads == 16) assert_true(slow);
        ++*cases;
    }
    kvg_json_close(doc);
}

static void run_and_check(unsigned jobs)
{
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT, .shards = 1, .jobs = jobs};
    assert_int_equal(kvg_config_open(CONFIG, NULL, &config), KVG_OK);
    assert_int_equal(config.case_count, EXPECTED_COUNT);
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_OK);
    size_t counts[KVG_VERDICT_COUNT] = {0};
    for (int i = 0; i < EXPECTED_COUNT; i++) counts[expected[i].verdict]++;
    assert_memory_equal(summary.counts, counts, sizeof counts);
    kvg_config_close(&config);

    FILE *f = fopen(OUT "/results.jsonl", "r");
    assert_non_null(f);
    static char line[1 << 16];
    unsigned cases = 0, starts = 0;
    while (fgets(line, sizeof line, f)) {
        assert_int_equal(line[strlen(line) - 1], '\n');
        check_line(line, strlen(line) - 1, &cases, &starts);
    }
    fclose(f);
    assert_int_equal(cases, EXPECTED_COUNT);
    assert_int_equal(starts, EXPECTED_COUNT);
}

static void test_one_child_gives_every_case_its_own_verdict(void **state)
{
    (void)state;
    run_and_check(1);
}

static void test_several_children_give_every_case_its_own_verdict(void **state)
{
    (void)state;
    run_and_check(4);
}

static void test_candidate_output_is_kept_in_the_log(void **state)
{
    (void)state;
    static char log[1 << 16];
    FILE *f = fopen(OUT "/candidate.log", "r");
    assert_non_null(f);
    log[fread(log, 1, sizeof log - 1, f)] = 0;
    fclose(f);
    assert_non_null(strstr(log, "noise \"on\" stdout"));
    assert_non_null(strstr(log, "noise on stderr"));
}

static void test_an_empty_selection_is_an_error(void **state)
{
    (void)state;
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT "_empty", .shards = 1, .jobs = 1, .only_case = "no/such/case"};
    assert_int_equal(kvg_config_open(CONFIG, NULL, &config), KVG_OK);
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "no case 'no/such/case'"));
    kvg_config_close(&config);
}

int main(void)
{
    remove(OUT "/candidate.log");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_child_gives_every_case_its_own_verdict),
        cmocka_unit_test(test_several_children_give_every_case_its_own_verdict),
        cmocka_unit_test(test_candidate_output_is_kept_in_the_log),
        cmocka_unit_test(test_an_empty_selection_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
