/* The process model on a backend that crashes, hangs, exits and writes where it must not: every case gets its own
 * verdict, and the run goes on. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "harness/run/run.h"
#include "tests/planted/planted_run.h"

#define CONFIG KVG_SOURCE_DIR "/tests/planted/planted.json"
#define OUT KVG_BINARY_DIR "/test_process"

static const planted_case expected[] = {
    {1, KVG_VERDICT_PASS, ""},
    {2, KVG_VERDICT_CRASH, "signal 11"},
    {3, KVG_VERDICT_HANG, "no result after 4 s"},
    {4, KVG_VERDICT_CRASH, "exited with status 0"},
    {5, KVG_VERDICT_FAIL, "1 bytes written past the end, first at +0"},
    {6, KVG_VERDICT_FAIL, "1 bytes written before the start, first at -1"},
    {7, KVG_VERDICT_FAIL, "input k was written"},
    {8, KVG_VERDICT_CRASH, "signal 11"},
    {9, KVG_VERDICT_CRASH, "signal 6"},
    {10, KVG_VERDICT_FAIL, "'invalid': planted ? failure"},
    {11, KVG_VERDICT_UNIMPLEMENTED, "planted refusal"},
    {12, KVG_VERDICT_PASS, ""},
    {13, KVG_VERDICT_FAIL, "k_codes: 32 of 1664 bytes were never written, first at token 3, head 12"},
    {14, KVG_VERDICT_PASS, ""},
    {15, KVG_VERDICT_CRASH, ""},
    {16, KVG_VERDICT_HANG, "no result after 4 s"},
    {17, KVG_VERDICT_FAIL, "floating-point mode"},
    {18, KVG_VERDICT_FAIL, "floating-point mode"},
    {19, KVG_VERDICT_PASS, ""},
};
enum { EXPECTED_COUNT = sizeof expected / sizeof expected[0] };

/* The last lines that the case printed, each with a '\n'. */
static void expect_printed(kvg_json line, const char *wanted)
{
    char text[4096] = "";
    kvg_json lines;
    const char *one;
    const bool has = kvg_json_has(line, "printed");
    if (has) assert_int_equal(kvg_json_get(line, "printed", &lines), KVG_OK);
    for (size_t i = 0; has && i < kvg_json_count(lines); i++) {
        assert_int_equal(kvg_json_string(kvg_json_at(lines, i), &one), KVG_OK);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\n", one);
    }
    assert_string_equal(text, wanted);
}

static void check_line(kvg_json line, const planted_case *e)
{
    char crashed[1024];
    bool slow = false;
    kvg_json value;
    /* a right answer that failed for another reason equals no defect */
    if (e->kv_heads != 13) assert_null(strstr(planted_text(line, "detail"), "equals defect"));
    snprintf(crashed, sizeof crashed, "line 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\n%0200d...\n"
             "?[31mred byte ?\nno end\n", 0);
    if (e->verdict != KVG_VERDICT_CRASH || e->kv_heads == 9) { /* of other crashes a sanitizer prints a report */
        expect_printed(line, e->kv_heads == 3 ? "it hangs\n" : "");
    }
    if (e->kv_heads == 2) expect_printed(line, crashed);
    assert_int_equal(kvg_json_get(line, "slow", &value), KVG_OK);
    assert_int_equal(kvg_json_bool(value, &slow), KVG_OK);
    /* others may be slow on a busy machine */
    if (e->kv_heads == 14 || e->kv_heads == 3 || e->kv_heads == 16) assert_true(slow);
}

static void run_and_check(unsigned jobs)
{
    assert_int_equal(planted_run(CONFIG, OUT, jobs, expected, EXPECTED_COUNT, check_line), EXPECTED_COUNT);
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

static void test_candidate_output_is_kept_in_a_log(void **state)
{
    (void)state;
    assert_int_equal(planted_logged(OUT, "noise \"on\" stdout {\"type\":\"case\"}"), 1);
    assert_int_equal(planted_logged(OUT, "noise on stderr"), 1);
}

static void test_an_empty_selection_is_an_error(void **state)
{
    (void)state;
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT "_empty", .shards = 1, .jobs = 1, .only_case = "no/such/case"};
    assert_int_equal(kvg_config_open(CONFIG, NULL, NULL, &config), KVG_OK);
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "no case 'no/such/case'"));
    kvg_config_close(&config);
}

/* Of six cases of one op that hang the first three take their time. */
static void test_an_op_that_hangs_again_is_not_waited_for(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kvgold\": 1, \"name\": \"hangs\", \"seed\": \"0x1\", "
        "\"limits\": {\"slow_seconds\": 1, \"hang_seconds\": 1}, \"cases\": ["
        "{\"op\": \"quantise\", \"format\": \"nvfp4\", \"kv_heads\": 3, \"head_dim\": 64, "
        "\"tokens\": [1, 2, 3, 4, 5, 6], \"fill\": \"random\", \"backend\": \"planted\"}, "
        "{\"op\": \"dequantise\", \"format\": \"nvfp4\", \"kv_heads\": 1, \"head_dim\": 64, \"tokens\": 4, "
        "\"fill\": \"random\", \"backend\": \"planted\"}]}";
    static const char not_run[] =
        "not run: three cases of its op hung, the last in 'quantise/nvfp4.canonical/rows/bf16/3x3x64";
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT "_hangs", .shards = 1, .jobs = 1};
    assert_int_equal(kvg_config_parse("hangs", text, sizeof text - 1, ".", NULL, &config), KVG_OK);
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_OK);
    kvg_config_close(&config);
    assert_int_equal(summary.counts[KVG_VERDICT_HANG], 6);
    assert_int_equal(summary.counts[KVG_VERDICT_PASS], 1);
    unsigned waited = 0, told = 0;
    char line[1 << 14];
    FILE *f = fopen(OUT "_hangs/results.jsonl", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        waited += strstr(line, "no result after 1 s: killed") != NULL;
        told += strstr(line, not_run) != NULL;
    }
    fclose(f);
    assert_int_equal(waited, 3);
    assert_int_equal(told, 3);
}

/* Runs quantise cases with so many tokens, which tell the cases apart, of planted_open, which aborts in the openings
 * `aborts`. Each case must have the verdict and the words in its line. */
typedef struct opened_case {
    unsigned kv_heads, tokens;
    kvg_verdict verdict;
    const char *detail;
} opened_case;

static kvg_status run_opened(const char *aborts, unsigned jobs, const opened_case *cases, size_t count)
{
    static char text[1 << 13], line[1 << 14];
    kvg_config config;
    kvg_run_summary summary;
    size_t seen = 0;
    const kvg_run_options options = {.out_folder = OUT "_opened", .shards = 1, .jobs = jobs};
    int n = snprintf(text, sizeof text, "{\"kvgold\": 1, \"name\": \"opened\", \"seed\": \"0x1\", \"cases\": [");
    for (size_t i = 0; i < count; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%s{\"op\": \"quantise\", \"format\": \"nvfp4\", "
                      "\"kv_heads\": %u, \"head_dim\": 64, \"tokens\": %u, \"fill\": \"random\", "
                      "\"backend\": \"planted_open\"}", i ? ", " : "", cases[i].kv_heads, cases[i].tokens);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "]}");
    remove(OUT "_openings");
    setenv("KVGOLD_PLANTED_OPENINGS", OUT "_openings", 1);
    setenv("KVGOLD_PLANTED_OPEN", aborts, 1);
    assert_int_equal(kvg_config_parse("opened", text, (size_t)n, ".", NULL, &config), KVG_OK);
    const kvg_status s = kvg_run(&config, &options, &summary);
    kvg_config_close(&config);
    FILE *f = fopen(OUT "_opened/results.jsonl", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (!strstr(line, "\"type\":\"case\"")) continue;
        char status[64], id[96];
        for (size_t i = 0; i < count; i++) {
            snprintf(id, sizeof id, "\"id\":\"quantise/nvfp4.canonical/rows/bf16/%ux%ux64/", cases[i].tokens,
                     cases[i].kv_heads);
            snprintf(status, sizeof status, "\"status\":\"%s\"", kvg_verdict_name(cases[i].verdict));
            if (!strstr(line, id)) continue;
            seen++;
            if (!strstr(line, status) || !strstr(line, cases[i].detail)) fail_msg("%s: %s", id, line);
        }
    }
    fclose(f);
    assert_int_equal(seen, count);
    return s;
}

/* Opening 2 is that of a case that is asked again. */
static void test_an_opening_that_crashes_later_costs_its_case_alone(void **state)
{
    (void)state;
    static const opened_case cases[] = {
        {1, 1, KVG_VERDICT_PASS, ""},
        {2, 2, KVG_VERDICT_CRASH, "signal 6"},
        {1, 3, KVG_VERDICT_CRASH, "while its library was opened: killed by signal 6"},
        {2, 4, KVG_VERDICT_CRASH, "signal 6"},
        {1, 5, KVG_VERDICT_PASS, ""},
        {2, 6, KVG_VERDICT_CRASH, "signal 6"},
        {1, 7, KVG_VERDICT_PASS, ""},
    };
    assert_int_equal(run_opened("3-3", 1, cases, sizeof cases / sizeof cases[0]), KVG_OK);
}

static void test_three_openings_that_crash_end_a_backend(void **state)
{
    (void)state;
    static const char opened[] = "while its library was opened: killed by signal 6";
    static const char not_run[] = "not run: its library could not be opened in 'quantise/nvfp4.canonical/rows/bf16/5x1";
    static const opened_case cases[] = {
        {1, 1, KVG_VERDICT_PASS, ""},       {2, 2, KVG_VERDICT_CRASH, "signal 6"}, {1, 3, KVG_VERDICT_CRASH, opened},
        {1, 4, KVG_VERDICT_CRASH, opened},  {1, 5, KVG_VERDICT_CRASH, opened},     {1, 6, KVG_VERDICT_CRASH, not_run},
        {1, 7, KVG_VERDICT_CRASH, not_run},
    };
    assert_int_equal(run_opened("3-9", 1, cases, sizeof cases / sizeof cases[0]), KVG_OK);
}

/* The first of two children dies at its end, while the other one still has cases. The run fails, and all are judged. */
static void test_a_crash_at_the_end_costs_no_case(void **state)
{
    (void)state;
    static const opened_case cases[] = {
        {4, 1, KVG_VERDICT_PASS, ""},
        {3, 2, KVG_VERDICT_PASS, ""},
    };
    assert_int_equal(run_opened("9-9", 2, cases, sizeof cases / sizeof cases[0]), KVG_ERR_IO);
    assert_non_null(strstr(kvg_error_text(), "a child ended badly behind all cases: "));
}

/* Another process that writes results into the folder, until it is killed. */
static pid_t start_other_run(const char *results, const char *line)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        const int fd = open(results, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (fcntl(fd, F_SETLK, &lock) == 0 && write(fd, line, strlen(line)) > 0 && write(ready[1], "", 1) == 1) pause();
        _exit(1);
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void test_two_runs_do_not_share_a_folder(void **state)
{
    (void)state;
    static const char line[] = "{\"type\":\"run\",\"origins\":[{\"date\":\"2026-01-02T03:04:05Z\"}]}\n";
    char said[128], held[256];
    kvg_config config;
    kvg_run_summary summary;
    const kvg_run_options options = {.out_folder = OUT, .shards = 1, .jobs = 1};
    const pid_t other = start_other_run(OUT "/results.jsonl", line);
    assert_int_equal(kvg_config_open(CONFIG, NULL, NULL, &config), KVG_OK);
    assert_int_equal(kvg_run(&config, &options, &summary), KVG_ERR_IO);
    kvg_config_close(&config);
    snprintf(said, sizeof said, "another run (process %ld, since 2026-01-02T03:04:05Z) writes into ", (long)other);
    assert_non_null(strstr(kvg_error_text(), said));
    FILE *f = fopen(OUT "/results.jsonl", "r");
    assert_non_null(f);
    assert_non_null(fgets(held, sizeof held, f));
    fclose(f);
    assert_string_equal(held, line);
    kill(other, SIGKILL);
    assert_int_equal(waitpid(other, NULL, 0), other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_child_gives_every_case_its_own_verdict),
        cmocka_unit_test(test_several_children_give_every_case_its_own_verdict),
        cmocka_unit_test(test_candidate_output_is_kept_in_a_log),
        cmocka_unit_test(test_an_empty_selection_is_an_error),
        cmocka_unit_test(test_an_op_that_hangs_again_is_not_waited_for),
        cmocka_unit_test(test_an_opening_that_crashes_later_costs_its_case_alone),
        cmocka_unit_test(test_three_openings_that_crash_end_a_backend),
        cmocka_unit_test(test_a_crash_at_the_end_costs_no_case),
        cmocka_unit_test(test_two_runs_do_not_share_a_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
