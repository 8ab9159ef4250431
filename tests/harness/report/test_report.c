/* Reports: reading, merging, and what the table, the page and the JUnit file make of it. */
#define _POSIX_C_SOURCE 200809L
#include "harness/report/report.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static char folder[] = "/tmp/kvgold-report-XXXXXX";

/* A path in the test's folder; valid until the 16th call after. */
static const char *in_folder(const char *name)
{
    static char paths[16][256];
    static unsigned turn;
    char *path = paths[turn++ % 16];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *write_file(const char *name, const char *text)
{
    const char *path = in_folder(name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
    return path;
}

static char *read_file(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in) fail_msg("cannot read %s", path);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 20) - 1, in) < (1 << 20) - 1);
    fclose(in);
    return text;
}

/* --- sample files --- */

typedef struct sample {
    const char *format, *dialect, *fill, *capture[2], *status, *detail;
    double relative_l2;
    const char *explained; /* names in quotation marks */
} sample;

/* In the order of a report: formats.def, then id. */
static const sample samples[] = {
    {"f16", "canonical", "random", {"", ""}, "PASS", "", 0.001, ""},
    {"int4", "canonical", "capture", {"layers.0.k_post", "layers.0.v"}, "PASS", "", 0.25, ""},
    {"int4", "canonical", "capture", {"layers.1.k_post", "layers.1.v"}, "PASS", "", 0.75, ""},
    {"int4", "canonical", "random", {"", ""}, "PASS", "", 0.125, ""},
    {"int4", "pytorch", "random", {"", ""}, "PASS", "", 0.125, ""},
    {"nvfp4", "canonical", "random", {"", ""}, "PASS", "", 0.0625, ""},
};

static void append(char *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsprintf(text + strlen(text), format, args);
    va_end(args);
}

static void append_run(char *text, const char *shard, size_t cases)
{
    append(text, "{\"type\":\"run\",\"kvgold\":2,\"version\":\"0.1.0\",\"config\":\"configs/a.json\",\"name\":\"a\","
           "\"seed\":\"0x5eed\",\"shard\":\"%s\",\"cases\":%zu}\n", shard, cases);
}

/* What was asked, as both kinds of line have it. */
static void append_asked(char *text, const char *type, const sample *s)
{
    append(text, "{\"type\":\"%s\",\"id\":\"quantise/%s.%s/rows/bf16/64x8x128/%s", type, s->format, s->dialect,
           s->fill);
    if (s->capture[0][0]) append(text, ":%s,%s", s->capture[0], s->capture[1]);
    append(text, "/-/slow\",\"repro\":\"kvgold check %s.%s\",\"op\":\"quantise\",\"layout\":\"rows\","
           "\"dtype\":\"bf16\",\"tokens\":64,\"kv_heads\":8,\"head_dim\":128,\"fill\":\"%s\",\"backend\":\"slow\"",
           s->format, s->dialect, s->fill);
    for (int side = 0; side < 2; side++) {
        append(text, ",\"%c_format\":\"%s\",\"%c_dialect\":\"%s\"", "kv"[side], s->format, "kv"[side], s->dialect);
        if (s->capture[side][0]) append(text, ",\"capture_%c\":\"%s\"", "kv"[side], s->capture[side]);
    }
}

static void append_start(char *text, const sample *s)
{
    append_asked(text, "start", s);
    append(text, "}\n");
}

static void append_case(char *text, const sample *s)
{
    append_asked(text, "case", s);
    append(text, ",\"status\":\"%s\",\"detail\":\"%s\",\"impl\":\"slow\",\"ms\":1.5,\"slow\":false,"
           "\"compared\":1000,\"mismatched\":0,\"steps\":0,", s->status, s->detail);
    for (int side = 0; side < 2; side++) {
        append(text, "\"%c\":{\"elements\":2048,\"relative_l2\":%g,\"sqnr_db\":\"inf\",\"gain\":0.5,"
               "\"worst_ratio\":0.75},", "kv"[side], s->relative_l2);
    }
    append(text, "\"reach\":{\"codes\":8,\"codes_of\":16,\"scales\":0,\"ties\":5,\"saturations\":0,\"zero_blocks\":2,"
           "\"negative_zeros\":3,\"subnormals\":0,\"specials\":0,\"scale_underflows\":0,\"code_set\":\"%s%060d\","
           "\"scale_set\":\"%064d\"},", strcmp(s->fill, "random") == 0 ? "01f0" : "fe0f", 0, 0);
    if (s->explained[0]) append(text, "\"explained\":[%s],", s->explained);
    const char *fitted = strstr(s->detail, "in common: ");
    if (fitted) append(text, "\"fitted\":\"%s\",", fitted + strlen("in common: "));
    append(text, "\"controls\":{\"rejected\":[\"zeros\"],\"unreached\":[\"copy_input\"],\"accepted\":[],\"within\":[],"
           "\"by_bound\":[]}}\n");
}

static void append_end(char *text)
{
    append(text, "{\"type\":\"end\",\"interrupted\":false,\"seconds\":2}\n");
}

/* Shard `shard` of `count` of the samples. */
static void make_shard(char *text, size_t shard, size_t count)
{
    char word[64];
    snprintf(word, sizeof word, "%zu/%zu", shard, count);
    text[0] = '\0';
    append_run(text, word, (COUNT(samples) + count - shard) / count);
    for (size_t i = shard - 1; i < COUNT(samples); i += count) {
        append_start(text, &samples[i]);
        append_case(text, &samples[i]);
    }
    append_end(text);
}

static char text[1 << 16];

static kvg_report *open_paths(const char *const *paths, size_t count)
{
    kvg_report *report = NULL;
    if (kvg_report_open(paths, NULL, count, NULL, &report)) fail_msg("%s", kvg_error_text());
    return report;
}

/* A report of one file that holds `content`. */
static kvg_report *open_text(const char *content)
{
    const char *path = write_file("one.jsonl", content);
    return open_paths(&path, 1);
}

static void expect_invalid(const char *const *paths, size_t count, const char *said)
{
    kvg_report *report = NULL;
    assert_int_equal(kvg_report_open(paths, NULL, count, NULL, &report), KVG_ERR_INVALID);
    assert_null(report);
    if (!strstr(kvg_error_text(), said)) fail_msg("'%s' is not in '%s'", said, kvg_error_text());
}

static char *table_of(const kvg_report *report, unsigned width)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    assert_non_null(stream);
    kvg_report_table(report, stream, width, false);
    assert_int_equal(fclose(stream), 0);
    return out;
}

static void expect_text(const char *whole, const char *part)
{
    if (!strstr(whole, part)) fail_msg("'%s' is not in:\n%s", part, whole);
}

static void expect_table(const kvg_report *report, const char *part)
{
    char *table = table_of(report, 0);
    expect_text(table, part);
    free(table);
}

static void expect_no_table(const kvg_report *report, const char *part)
{
    char *table = table_of(report, 0);
    if (strstr(table, part)) fail_msg("'%s' is in:\n%s", part, table);
    free(table);
}

static void expect_last_line(const kvg_report *report, const char *line)
{
    char *table = table_of(report, 0);
    char *end = strrchr(table, '\n');
    assert_non_null(end);
    *end = '\0';
    char *last = strrchr(table, '\n');
    assert_string_equal(last ? last + 1 : table, line);
    free(table);
}

/* --- merging --- */

static const char *const shard_names[] = {"s1.jsonl", "s2.jsonl", "s3.jsonl"};

static void write_shards(const char *paths[3])
{
    for (size_t i = 0; i < 3; i++) {
        make_shard(text, i + 1, 3);
        paths[i] = write_file(shard_names[i], text);
    }
}

static void shards_equal_the_whole(void **state)
{
    (void)state;
    const char *paths[3];
    write_shards(paths);
    const char *const shuffled[] = {paths[2], paths[0], paths[1]};
    kvg_report *parts = open_paths(shuffled, 3);
    make_shard(text, 1, 1);
    char *end = strstr(text, "\"seconds\":2");
    assert_non_null(end);
    end[strlen("\"seconds\":")] = '6'; /* three shards of two seconds */
    kvg_report *whole = open_text(text);
    assert_int_equal(kvg_report_exit_code(parts), 0);
    expect_last_line(parts, "6 passed, 0 failed; 4 of 4 cells judged");
    assert_int_equal(kvg_report_merge(parts, in_folder("parts.jsonl")), KVG_OK);
    assert_int_equal(kvg_report_merge(whole, in_folder("whole.jsonl")), KVG_OK);
    char *a = read_file(in_folder("parts.jsonl")), *b = read_file(in_folder("whole.jsonl"));
    assert_string_equal(a, b);
    expect_text(a, "\"shard\":\"1/1\",\"cases\":6}");
    free(a);
    free(b);
    kvg_report_close(parts);
    kvg_report_close(whole);

    /* the merged file is a result file again */
    const char *merged = in_folder("parts.jsonl");
    kvg_report *again = open_paths(&merged, 1);
    assert_int_equal(kvg_report_exit_code(again), 0);
    expect_last_line(again, "6 passed, 0 failed; 4 of 4 cells judged");
    kvg_report_close(again);
}

static void missing_shard_fails(void **state)
{
    (void)state;
    const char *paths[3];
    write_shards(paths);
    const char *const two[] = {paths[0], paths[2]};
    kvg_report *report = open_paths(two, 2);
    assert_int_equal(kvg_report_exit_code(report), 1);
    expect_table(report, "Shard 2 of 3 is not in this report.");
    expect_last_line(report, "INCOMPLETE: 4 passed, 0 failed; 3 of 3 cells judged; 1 of 3 shards missing");

    /* nor does merging hide it */
    assert_int_equal(kvg_report_merge(report, in_folder("merged.jsonl")), KVG_OK);
    kvg_report_close(report);
    const char *merged = in_folder("merged.jsonl");
    report = open_paths(&merged, 1);
    assert_int_equal(kvg_report_exit_code(report), 1);
    kvg_report_close(report);
}

/* Shards 1 and 2 of the samples, each with an origin. */
static kvg_report *open_origins(const char *const origins[2])
{
    const char *paths[2] = {in_folder("o1.jsonl"), in_folder("o2.jsonl")};
    for (size_t i = 0; i < 2; i++) {
        static char with[1 << 16];
        make_shard(text, i + 1, 2);
        const size_t run = strcspn(text, "\n") - 1;
        snprintf(with, sizeof with, "%.*s,\"origins\":[{\"version\":\"0.1.0\",\"commit\":\"abc\",%s}]%s", (int)run,
                 text, origins[i], text + run);
        write_file(i ? "o2.jsonl" : "o1.jsonl", with);
    }
    return open_paths(paths, 2);
}

#define ELEVEN "11111111111111111111111111111111"
#define TWELVE "22222222222222222222222222222222"
#define ON_HOST(host, date, library) \
    "\"date\":\"" date "\",\"host\":\"" host "\",\"cpu\":\"Z80\",\"gpu\":\"H200\",\"libraries\":[\"" library "\"]," \
    "\"capabilities\":[\"" ELEVEN TWELVE "  a.json\"]"

static void runs_of_one_library_are_told_once(void **state)
{
    (void)state;
    kvg_report *report = open_origins((const char *const[]){
        ON_HOST("here", "2026-02-01T00:00:00Z", ELEVEN ELEVEN "  b/lib.so"),
        ON_HOST("here", "2026-01-01T00:00:00Z", ELEVEN ELEVEN "  c/lib.so")});
    expect_table(report, "\nmachine    here, Z80, H200; kvgold 0.1.0, commit abc; 2026-01-01T00:00:00Z to "
                         "2026-02-01T00:00:00Z\nlibrary    " ELEVEN ELEVEN "  b/lib.so\ncapability " ELEVEN TWELVE
                         "  a.json\npolicy ");
    expect_last_line(report, "6 passed, 0 failed; 4 of 4 cells judged");
    kvg_report_close(report);
}

/* Nor does merging hide it. */
static void runs_of_two_libraries_say_so(void **state)
{
    (void)state;
    kvg_report *report = open_origins((const char *const[]){
        ON_HOST("here", "2026-02-01T00:00:00Z", ELEVEN ELEVEN "  lib.so"),
        ON_HOST("there", "2026-01-01T00:00:00Z", ELEVEN TWELVE "  lib.so")});
    assert_int_equal(kvg_report_merge(report, in_folder("merged.jsonl")), KVG_OK);
    assert_int_equal(kvg_report_html(report, in_folder("report.html")), KVG_OK);
    const char *merged = in_folder("merged.jsonl");
    kvg_report *both[] = {report, open_paths(&merged, 1)};
    for (size_t i = 0; i < COUNT(both); i++) {
        expect_table(both[i], "\nmachine    there, Z80, H200; kvgold 0.1.0, commit abc; 2026-01-01T00:00:00Z\n");
        expect_table(both[i], "\nnote       The runs of this report had different libraries: " ELEVEN ELEVEN
                              "  lib.so and " ELEVEN TWELVE "  lib.so.\n");
        expect_last_line(both[i], "6 passed, 0 failed; 4 of 4 cells judged; of 2 different libraries");
        kvg_report_close(both[i]);
    }
    char *page = read_file(in_folder("report.html"));
    expect_text(page, "4 cells judged; of 2 different libraries\"");
    expect_text(page, "[\"library\",\"" ELEVEN TWELVE "  lib.so\"]");
    free(page);
}

static void duplicates_are_refused(void **state)
{
    (void)state;
    text[0] = '\0';
    append_run(text, "1/1", 2);
    append_case(text, &samples[0]);
    append_case(text, &samples[0]);
    const char *path = write_file("twice.jsonl", text);
    expect_invalid(&path, 1, "a case appears twice");

    /* in two shards */
    const char *paths[2] = {in_folder("d1.jsonl"), in_folder("d2.jsonl")};
    for (int i = 0; i < 2; i++) {
        text[0] = '\0';
        append_run(text, i ? "2/2" : "1/2", 1);
        append_case(text, &samples[0]);
        write_file(i ? "d2.jsonl" : "d1.jsonl", text);
    }
    expect_invalid(paths, 2, "a case appears twice");

    /* started in one, finished in the other */
    text[0] = '\0';
    append_run(text, "2/2", 1);
    append_start(text, &samples[0]);
    write_file("d2.jsonl", text);
    expect_invalid(paths, 2, "a case appears twice");

    const char *const same[] = {paths[0], paths[0]};
    expect_invalid(same, 2, "both shard 1/2");
}

static void other_runs_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *old, *new, *said;
    } changes[] = {
        {"\"name\":\"a\"", "\"name\":\"b\"", "another config"},
        {"0x5eed", "0x5eee", "has seed"},
        {"\"2/3\"", "\"2/4\"", "one of 4 shards"},
        {"\"2/3\"", "\"4/3\"", "is not I/N"},
        {"\"kvgold\":2", "\"kvgold\":1", "layout 1"},
        {"\"cases\":2", "\"cases\":1", "announces 1 cases but holds 2"},
        {"\"PASS\"", "\"PASD\"", "unknown verdict"},
        {"\"sqnr_db\":\"inf\"", "\"sqnr_db\":\"big\"", "expected a number"},
        {"\"code_set\":\"fe", "\"code_set\":\"xe", "hex digits"},
        {"\"op\":", "\"od\":", "unknown key 'od'"},
        {"\"op\":\"quantise\",", "", "missing key 'op'"},
        {"\"head_dim\":128", "\"head_dim\":\"128\"", "expected an integer"},
        {"\"controls\":{\"rejected\":[\"zeros\"]", "\"controls\":{\"rejected\":\"zeros\"", "an array of names"},
        {"\"gain\":0.5,", "", "missing key 'gain'"},
        {"\"type\":\"run\"", "\"type\":\"ran\"", "first line"},
        {"\"type\":\"end\"", "\"type\":\"ent\"", "unknown line type"},
        {"{\"type\":\"end\"", "{\"type\":\"end\",\"interrupted\":false,\"seconds\":1}\n{\"type\":\"end\"",
         "after the end"},
        {"\"slow\":false", "\"slaw\":false", "slaw"},
        {"\"slow\":false", "\"slow\":false,\"mode\":{\"effective\":\"none\"}", "missing key 'requested'"},
        {"\"slow\":false", "\"slow\":false,\"mode\":\"none\"", "expected an object"},
        {"}\n{\"type\":\"case\"", "\n{\"type\":\"case\"", "s2.jsonl:2"},
    };
    const char *paths[3];
    for (size_t i = 0; i < COUNT(changes); i++) {
        write_shards(paths);
        make_shard(text, 2, 3);
        char *at = strstr(text, changes[i].old);
        if (!at) fail_msg("nothing to change: %s", changes[i].old);
        static char changed[1 << 16];
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, changes[i].new,
                 at + strlen(changes[i].old));
        write_file("s2.jsonl", changed);
        expect_invalid(paths, 3, changes[i].said);
    }
    const char *none = write_file("empty.jsonl", "");
    expect_invalid(&none, 1, "is empty");
    const char *nowhere = in_folder("nowhere.jsonl");
    kvg_report *report = NULL;
    assert_int_equal(kvg_report_open(&nowhere, NULL, 1, NULL, &report), KVG_ERR_NOT_FOUND);
    const char *no_file = folder;
    assert_int_equal(kvg_report_open(&no_file, NULL, 1, NULL, &report), KVG_ERR_IO);
}

static void truncated_line_is_dropped(void **state)
{
    (void)state;
    text[0] = '\0';
    append_run(text, "1/1", 2);
    append_case(text, &samples[0]);
    append_start(text, &samples[1]);
    append_case(text, &samples[1]);
    text[strlen(text) - 100] = '\0';
    kvg_report *report = open_text(text);
    assert_int_equal(kvg_report_exit_code(report), 1);
    expect_table(report, "the last line was cut short");
    expect_table(report, "1 PASS, 1 UNFINISHED");
    expect_table(report, "UNFINISHED    quantise/int4.canonical");
    expect_last_line(report, "INCOMPLETE: 1 passed, 0 failed, 1 missing; 1 of 2 cells judged");

    /* an unfinished case stays one */
    assert_int_equal(kvg_report_merge(report, in_folder("merged.jsonl")), KVG_OK);
    kvg_report_close(report);
    const char *merged = in_folder("merged.jsonl");
    report = open_paths(&merged, 1);
    expect_last_line(report, "INCOMPLETE: 1 passed, 0 failed, 1 missing; 1 of 2 cells judged");
    kvg_report_close(report);

    /* the same bytes with an end of line are no crash but a wrong file */
    append(text, "\n");
    const char *path = write_file("one.jsonl", text);
    expect_invalid(&path, 1, "one.jsonl:4");
}

static void missing_cases_fail(void **state)
{
    (void)state;
    text[0] = '\0';
    append_run(text, "1/1", 5);
    append_case(text, &samples[0]);
    kvg_report *report = open_text(text);
    assert_int_equal(kvg_report_exit_code(report), 1);
    expect_table(report, "4 of 5 cases are missing");
    expect_last_line(report, "INCOMPLETE: 1 passed, 0 failed, 4 missing; 1 of 1 cell judged");
    kvg_report_close(report);
}

static void only_skips_is_77(void **state)
{
    (void)state;
    sample skipped = samples[0];
    skipped.status = "SKIP";
    text[0] = '\0';
    append_run(text, "1/1", 1);
    append_case(text, &skipped);
    append_end(text);
    kvg_report *report = open_text(text);
    assert_int_equal(kvg_report_exit_code(report), 77);
    expect_last_line(report, "0 passed, 0 failed, 1 skipped; 0 of 1 cell judged");
    kvg_report_close(report);
}

/* --- the table --- */

static void table_has_the_numbers(void **state)
{
    (void)state;
    make_shard(text, 1, 1);
    kvg_report *report = open_text(text);
    /* captured data before random data; the median of 0.25 and 0.75; codes of all fills together */
    expect_table(report, "int4.canonical       3       3  16/16       -  3.0 kB      0       0.5       0.5     inf");
    expect_table(report, "int4.pytorch         1       1   5/16       -  1.0 kB      0     0.125     0.125     inf");
    expect_table(report, "compared   6.0 kB (6000 bytes), 0 mismatched");
    expect_table(report, "controls   6 rejected, 6 unreached, 0 accepted");
    for (unsigned width = 40; width <= 200; width += 20) {
        char *table = table_of(report, width);
        char *row = strstr(table, "nvfp4.canonical");
        assert_non_null(row);
        if (strcspn(row, "\n") > width) fail_msg("wider than %u:\n%s", width, table);
        assert_int_equal(strstr(table, "|g-1| K") != NULL, width >= 140);
        free(table);
    }
    kvg_report_close(report);
}

static void causes_come_last_and_failures_first(void **state)
{
    (void)state;
    static const sample bad[] = {
        {"int4", "canonical", "random01", {"", ""}, "UNIMPLEMENTED", "not here", 0.5, ""},
        {"int4", "canonical", "random02", {"", ""}, "UNIMPLEMENTED", "not here", 0.5, ""},
        {"int4", "canonical", "random03", {"", ""}, "FAIL", "k_codes: 3 of 9 bytes differ", 0.5, "\"one\",\"two\""},
        {"int4", "canonical", "random04", {"", ""}, "FAIL", "k_codes: 5 of 9 bytes differ", 0.5, ""},
        {"int4", "canonical", "random05", {"", ""}, "CRASH", "signal\\u001b[31m\\n11", 0.5, ""},
        {"int4", "pytorch", "random06", {"", ""}, "FAIL", "v_codes: 1 of 9 bytes differ", 0.5, "\"two\""},
        {"mx16", "canonical", "random07", {"", ""}, "FAIL", "k_codes: 7 of 9 bytes differ", 0.5, ""},
        {"mx16", "canonical", "random08", {"", ""}, "FAIL", "k_codes: 7 of 9 bytes differ", 0.5, "\"one\""},
        {"mx16", "canonical", "random09", {"", ""}, "FAIL", "k_codes: 2 of 9 bytes; in common: one row", 0.5, ""},
    };
    static const char *const order[] = {
        ("\n3 cases FAIL\n    op quantise; layout rows; format int4.canonical, mx16.canonical; one of them is\n"
        "FAIL          quantise/mx16.canonical/rows/bf16/64x8x128/random09/-/slow\n"
        "    k_codes: 2 of 9 bytes; in common: one row\n    kvgold check mx16.canonical\n"),
        ("\n2 cases FAIL: their answers are those of defect two\n"
         "    op quantise; layout rows; format int4.canonical, int4.pytorch; one of them is\n"),
        "\nFAIL          quantise/mx16.canonical/rows/bf16/64x8x128/random08/-/slow\n",
        "\nCRASH         quantise/int4.canonical/rows/bf16/64x8x128/random05/-/slow\n    signal?[31m 11\n",
        "\n2 cases UNIMPLEMENTED\n",
        "\n1 passed, 9 failed; ",
    };
    text[0] = '\0';
    append_run(text, "1/1", COUNT(bad) + 1);
    append_case(text, &samples[0]);
    for (size_t i = 0; i < COUNT(bad); i++) append_case(text, &bad[i]);
    append_end(text);
    kvg_report *report = open_text(text);
    char *table = table_of(report, 0), *at = strstr(table, "\ntime ");
    for (size_t i = 0; i < COUNT(order); i++) {
        char *next = at ? strstr(at, order[i]) : NULL;
        if (!next) fail_msg("'%s' is not in its place in\n%s", order[i], table);
        at = next;
    }
    free(table);
    kvg_report_close(report);
}

static void many_causes_are_cut(void **state)
{
    (void)state;
    sample bad = {"int4", "canonical", "", {"", ""}, "MISTRUSTED", "", 0.5, ""};
    char fill[24], detail[24];
    text[0] = '\0';
    append_run(text, "1/1", 26);
    append_case(text, &samples[0]);
    for (int i = 0; i < 25; i++) {
        snprintf(fill, sizeof fill, "random%02d", i);
        snprintf(detail, sizeof detail, "detail %c: text", 'a' + i / 2); /* two cases for each but the last */
        bad.fill = fill;
        bad.detail = detail;
        append_case(text, &bad);
    }
    append_end(text);
    kvg_report *report = open_text(text);
    expect_table(report, "detail j: text");
    expect_table(report, "\nand 5 more cases, for other reasons: the HTML report has them\n");
    assert_int_equal(kvg_report_exit_code(report), 2); /* MISTRUSTED alone: the config is to blame */
    expect_last_line(report, "1 passed, 25 failed; 2 of 2 cells judged");
    kvg_report_close(report);
}

static void a_run_that_judged_little_says_so(void **state)
{
    static const struct {
        size_t config_cases;
        const char *status, *says;
    } rows[] = {
        {2, "PASS", NULL}, /* half of them */
        {3, "PASS", "\n1 of 3 cases was judged: this proves little\n"},
        {1303, "PASS", "\n1 of 1303 cases was judged: this proves almost nothing\n"},
        {1, "SKIP", "\n0 of 1 cases were judged: this proves nothing\n"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        sample one = samples[0];
        one.status = rows[i].status;
        text[0] = '\0';
        append_run(text, "1/1", 1);
        text[strlen(text) - 2] = '\0';
        append(text, ",\"config_cases\":%zu}\n", rows[i].config_cases);
        append_case(text, &one);
        append_end(text);
        kvg_report *report = open_text(text);
        if (rows[i].says) expect_table(report, rows[i].says);
        else expect_no_table(report, "this proves");
        kvg_report_close(report);
    }
}

static void a_reference_that_judged_itself_is_named(void **state)
{
    static const char says[] = "\nthe reference judged itself: name an implementation by --backend\n1 passed, ";
    (void)state;
    for (int itself = 0; itself < 2; itself++) {
        char *backend;
        text[0] = '\0';
        append_run(text, "1/1", 1);
        append_case(text, &samples[0]);
        append_end(text);
        backend = strstr(text, "\"backend\":\"slow\"");
        if (itself) {
            char rest[sizeof text];
            strcpy(rest, backend + strlen("\"backend\":\"slow\""));
            strcpy(backend, "\"backend\":\"reference\"");
            strcat(backend, rest);
        }
        kvg_report *report = open_text(text);
        if (itself) expect_table(report, says);
        else expect_no_table(report, "judged itself");
        kvg_report_close(report);
    }
}

static void a_separation_reads_as_1_only_if_it_is(void **state)
{
    static const struct {
        const char *least, *says;
    } rows[] = {{"1.00004", "1.00004 ("}, {"1.004", "1.004 ("}, {"1.04", "1.04 ("}, {"0.9999", "0.9999 ("},
                {"1", "1 ("}, {"1.26", "1.3 ("}, {"320.5", "3.2e+02 ("}};
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        char says[64];
        text[0] = '\0';
        append_run(text, "1/1", 1);
        append_case(text, &samples[0]);
        text[strlen(text) - 2] = '\0';
        append(text, ",\"separation\":{\"least\":%s,\"nearest\":\"sink_scaled\",\"reached\":1,\"unreached\":[]}}\n",
               rows[i].least);
        append_end(text);
        kvg_report *report = open_text(text);
        snprintf(says, sizeof says, "; least of the others %s", rows[i].says);
        expect_table(report, says);
        kvg_report_close(report);
    }
}

/* The controls of a report are bits of more than one word. */
static void controls_beyond_64_are_counted(void **state)
{
    (void)state;
    text[0] = '\0';
    append_run(text, "1/1", 1);
    append_case(text, &samples[0]);
    char *const list = strstr(text, "\"zeros\"");
    char rest[256];
    snprintf(rest, sizeof rest, "%s", list + strlen("\"zeros\""));
    *list = '\0';
    for (int i = 0; i < 90; i++) append(text, "%s\"defect_%d\"", i ? "," : "", i);
    append(text, "%s", rest);
    append_end(text);
    kvg_report *report = open_text(text);
    expect_table(report, "controls   90 rejected, 1 unreached, 0 accepted");
    kvg_report_close(report);
}

/* --- layouts, ops and modes --- */

static void append_paged(char *out, const char *op, const char *layout, const char *rest, const char *status,
                         unsigned wrong, const char *mode)
{
    append(out, "{\"type\":\"case\",\"id\":\"%s/mx16.canonical/%s%s/bf16/40x2x64/random/-/slow\",\"repro\":\"\","
           "\"op\":\"%s\",\"k_format\":\"mx16\",\"k_dialect\":\"canonical\",\"v_format\":\"mx16\","
           "\"v_dialect\":\"canonical\",\"layout\":\"%s\",\"dtype\":\"bf16\",\"tokens\":40,\"kv_heads\":2,"
           "\"head_dim\":64,\"fill\":\"random\",\"backend\":\"slow\",", op, layout, rest, op, layout);
    append(out, "\"status\":\"%s\",\"detail\":\"\",\"impl\":\"slow\",\"ms\":1.5,\"slow\":false,\"compared\":500,"
           "\"mismatched\":%u,\"steps\":0%s%s}\n", status, wrong, mode[0] ? ",\"mode\":" : "", mode);
}

/* Two layouts, three ops, a mode as asked for, and one that fell back for a reason that no page must believe. */
static kvg_report *open_paged(void)
{
    static const char fp4[] = "{\"requested\":\"fp4_mx\",\"effective\":\"fp4_mx\",\"fell_back\":false,\"reason\":\"\","
                              "\"partial_kv\":\"on\",\"prefix_cache\":\"banned\"}";
    static const char none[] = "{\"requested\":\"fp4_nv\",\"effective\":\"none\",\"fell_back\":true,"
                               "\"reason\":\"no <b>chip</b>\"}";
    static const char unnamed[] = "{\"requested\":\"unsupported\",\"effective\":\"none\",\"fell_back\":true,"
                                  "\"reason\":\"SM 80\"}";
    text[0] = '\0';
    append_run(text, "1/1", 7);
    append_paged(text, "probe", "ring", ":B16:N5:L2:S3", "PASS", 0, "");
    append_paged(text, "quantise", "rows", "", "PASS", 0, "");
    append_paged(text, "flatten", "ring", ":B16:N5:L2:S3", "PASS", 0, "");
    append_paged(text, "append", "odd<i>", ":B8", "PASS", 0, "");
    append_paged(text, "append", "ring", ":B16:N5:L2:S3:policy16@sm90", "PASS", 0, fp4);
    append_paged(text, "append", "ring", ":B16:N5:L2:S3:policy16@sm100>none", "FAIL", 3, none);
    append_paged(text, "append", "ring", ":B16:N6:L2:S3:policy16@sm80>none", "CRASH", 0, unnamed);
    append_end(text);
    return open_text(text);
}

static void layouts_and_ops_have_a_table(void **state)
{
    (void)state;
    kvg_report *report = open_paged();
    expect_table(report, "\nlayout  op          cases   passed    bytes    wrong\n"
                         "rows    quantise        1        1    500 B        0\n"
                         "ring    append          3        1   1.5 kB        3\n"
                         "ring    flatten         1        1    500 B        0\n"
                         "ring    probe           1        1    500 B        0\n"
                         "odd<i>  append          1        1    500 B        0\n\n");
    assert_int_equal(kvg_report_html(report, in_folder("report.html")), KVG_OK);
    kvg_report_close(report);
    char *page = read_file(in_folder("report.html"));
    expect_text(page, "{\"layout\":\"ring\",\"op\":\"append\",\"cases\":3,\"passed\":1,\"failed\":2,"
                      "\"compared\":\"1.5 kB\",\"mismatched\":3}");
    expect_text(page, "{\"layout\":\"odd\\u003ci>\"");
    free(page);
}

static void modes_are_in_every_report(void **state)
{
    (void)state;
    kvg_report *report = open_paged();
    expect_table(report, "\nmode       1 case: fp4_mx; partial KV on; prefix cache off: banned\n"
                         "mode       1 case: none (fell back from fp4_nv: no <b>chip</b>)\n"
                         "mode       1 case: none (fell back: SM 80)\n"
                         "policy     off: 4 cases by name of format\n");
    expect_table(report, ">none/bf16/40x2x64/random/-/slow\n    mode: none (fell back from fp4_nv: no <b>chip</b>)\n");
    assert_int_equal(kvg_report_html(report, in_folder("report.html")), KVG_OK);
    assert_int_equal(kvg_report_junit(report, in_folder("junit.xml")), KVG_OK);
    assert_int_equal(kvg_report_merge(report, in_folder("merged.jsonl")), KVG_OK);
    kvg_report_close(report);
    char *page = read_file(in_folder("report.html")), *xml = read_file(in_folder("junit.xml"));
    expect_text(page, "[\"mode\",\"1 case: none (fell back from fp4_nv: no \\u003cb>chip\\u003c/b>)\"]");
    expect_text(page, "[\"mode\",\"1 case: fp4_mx;");
    expect_text(page, "[\"policy\",\"off: 4 cases by name of format\"]");
    assert_null(strstr(page, "<b>chip"));
    expect_text(xml, "</failure>\n"
                     "      <system-out>mode: none (fell back from fp4_nv: no &lt;b&gt;chip&lt;/b&gt;)</system-out>\n");
    expect_text(xml, "time=\"0.001500\">\n      <system-out>mode: fp4_mx; partial KV on;");
    free(page);
    free(xml);
    const char *merged = in_folder("merged.jsonl");
    report = open_paths(&merged, 1);
    expect_table(report, "none (fell back: SM 80)");
    kvg_report_close(report);
}

/* --- what follows from other failures --- */

static void append_broken(char *out, const char *op, const char *rest, const char *relation)
{
    append_paged(out, op, "ring", rest, "FAIL", 0, "");
    out[strlen(out) - 2] = '\0';
    append(out, ",\"relations\":[\"repeated\",\"alone\"],\"broken\":[\"%s\"]}\n", relation);
}

/* Three answers are right and one append is wrong: the append stands first, wherever its id stands. */
static void consequences_come_after_causes(void **state)
{
    (void)state;
    static const char why[] = "right, and the pages that slow wrote are wrong: see "
                              "append/mx16.canonical/ring:a/bf16/40x2x64/random/-/slow";
    static const char *const order[] = {
        "\nrelations  8 held in 4 cases; broken in 4 cases: appended 3, moved 1\n",
        "\n3 cases FAIL\n    op append, decode, probe; layout ring;",
        "\n3 cases FAIL: these answers are right, and the pages that slow wrote", "\n    op decode;",
        "\nFAIL          decode/mx16.canonical/ring:a/", "\nCRASH ",
    };
    text[0] = '\0';
    append_run(text, "1/1", 7);
    append_paged(text, "append", "ring", ":a", "FAIL", 3, "");
    append_broken(text, "decode", ":a", "appended");
    append_broken(text, "decode", ":b", "appended");
    append_broken(text, "decode", ":c", "appended");
    append_broken(text, "decode", ":d", "moved");
    append_paged(text, "flatten", "ring", ":a", "CRASH", 0, "");
    append_paged(text, "probe", "ring", ":a", "FAIL", 3, "");
    append_end(text);
    kvg_report *report = open_text(text);
    char *table = table_of(report, 0), *at = table;
    for (size_t i = 0; i < COUNT(order); i++) {
        char *next = strstr(at, order[i]);
        if (!next) fail_msg("'%s' is not in its place in\n%s", order[i], table);
        at = next;
    }
    expect_text(table, why);
    assert_int_equal(kvg_report_html(report, in_folder("report.html")), KVG_OK);
    assert_int_equal(kvg_report_junit(report, in_folder("junit.xml")), KVG_OK);
    char *page = read_file(in_folder("report.html")), *xml = read_file(in_folder("junit.xml"));
    expect_text(page, why);
    expect_text(xml, why);
    assert_true(strstr(xml, "\"probe/") < strstr(xml, "\"decode/mx16.canonical/ring:a"));
    free(table);
    free(page);
    free(xml);
    kvg_report_close(report);
}

/* --- the page and JUnit --- */

/* A run whose names would break out of a script element, an attribute or XML. */
static kvg_report *open_hostile(void)
{
    static const sample hostile[] = {
        {"int4", "<b>&'`touch x`", "capture", {"layers.0.k<i>", "layers.0.v\\\"'"}, "FAIL",
         "<script>&amp;\\\"'\\u0001\\uffff\\n]]>", 0.5, ""},
        {"'", "canonical\\nEND\\n", "random", {"", ""}, "CRASH", "", 0.5, ""},
        {"int4", "skipped", "random", {"", ""}, "SKIP", "<none>", 0.5, ""},
    };
    text[0] = '\0';
    append_run(text, "1/1", 5);
    for (size_t i = 0; i < COUNT(hostile); i++) append_case(text, &hostile[i]);
    append_case(text, &samples[1]);
    append_start(text, &samples[0]);
    append_end(text);
    return open_text(text);
}

/* The text of a script element of the page, which it ends. */
static char *data_of(char *page, const char *id)
{
    char mark[32];
    snprintf(mark, sizeof mark, "id=\"%s\">", id);
    char *data = strstr(page, mark);
    assert_non_null(data);
    data += strlen(mark);
    char *end = strstr(data, "</script>");
    assert_non_null(end);
    *end = '\0';
    return data;
}

static void page_holds_any_name(void **state)
{
    (void)state;
    kvg_report *report = open_hostile();
    const char *path = in_folder("report.html");
    if (kvg_report_html(report, path)) fail_msg("%s", kvg_error_text());
    kvg_report_close(report);
    char *page = read_file(path), *other = strdup(page);
    expect_text(page, "content=\"default-src 'none';"); /* a browser loads nothing for it */
    const char *summary = data_of(page, "summary"), *lines = data_of(other, "lines");
    assert_null(strchr(summary, '<'));
    assert_null(strchr(lines, '<'));
    expect_text(summary, "\"headline\":\"FAILED\",\"counts\":\"1 passed, 2 failed, 1 skipped, 1 missing;");
    expect_text(summary, "int4.\\u003cb>&'`touch x`");
    expect_text(lines, "\"detail\":\"\\u003cscript>&amp;\\\"'\\u0001\\uffff\\n]]>\"");
    expect_text(lines, "{\"type\":\"start\"");
    assert_int_equal(access("x", F_OK), -1);
    free(other);
    free(page);
}

static void page_has_codes(void **state)
{
    (void)state;
    text[0] = '\0';
    append_run(text, "1/1", 1);
    append_case(text, &samples[0]); /* codes 0 and 12 to 15 */
    append_end(text);
    kvg_report *report = open_text(text);
    assert_int_equal(kvg_report_html(report, in_folder("report.html")), KVG_OK);
    kvg_report_close(report);
    char *page = read_file(in_folder("report.html"));
    expect_text(data_of(page, "summary"), "\"code_set\":\"01f0000000");
    free(page);
}

static void junit_is_xml(void **state)
{
    (void)state;
    kvg_report *report = open_hostile();
    const char *path = in_folder("junit.xml");
    if (kvg_report_junit(report, path)) fail_msg("%s", kvg_error_text());
    kvg_report_close(report);
    char *xml = read_file(path);
    expect_text(xml, "tests=\"5\" failures=\"1\" errors=\"2\" skipped=\"1\"");
    expect_text(xml, "<skipped message=\"&lt;none&gt;\">");
    expect_text(xml, "kvgold check int4.&lt;b&gt;&amp;&#39;`touch x`</failure>");
    expect_text(xml, "type=\"UNFINISHED\"");
    expect_text(xml, "time=\"0.001500\"");
    free(xml);
    char command[600];
    snprintf(command, sizeof command,
             "python3 -c \"import sys, xml.etree.ElementTree as e; s = e.parse(sys.argv[1]).getroot()[0]; "
             "assert len(s.findall('testcase')) == 5 and len(s.findall('.//error')) == 2; "
             "assert '<script>&amp;' in s.find('.//failure').text\" %s", path);
    assert_int_equal(system(command), 0);
}

static void junit_shows_what_is_missing(void **state)
{
    (void)state;
    text[0] = '\0';
    append_run(text, "1/2", 1);
    append_case(text, &samples[0]);
    append_end(text);
    kvg_report *report = open_text(text);
    assert_int_equal(kvg_report_junit(report, in_folder("junit.xml")), KVG_OK);
    kvg_report_close(report);
    char *xml = read_file(in_folder("junit.xml"));
    expect_text(xml, "tests=\"2\" failures=\"0\" errors=\"1\"");
    expect_text(xml, "Shard 2 of 2 is not in this report.");
    free(xml);
}

/* --- writing --- */

typedef kvg_status write_report(const kvg_report *report, const char *path);

static write_report *const writers[] = {kvg_report_html, kvg_report_junit, kvg_report_merge};

static void expect_write_error(const kvg_report *report, const char *path)
{
    for (size_t i = 0; i < COUNT(writers); i++) {
        assert_int_equal(writers[i](report, path), KVG_ERR_IO);
        expect_text(kvg_error_text(), path);
    }
}

static size_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void write_errors_are_told(void **state)
{
    (void)state;
    make_shard(text, 1, 1);
    kvg_report *report = open_text(text);
    expect_write_error(report, in_folder("nowhere/report"));
    expect_write_error(report, folder);
    const char *full = in_folder("full"); /* a link: a report that renames must not replace the device itself */
    assert_int_equal(symlink("/dev/full", full), 0);
    if (access(full, W_OK) == 0) expect_write_error(report, full);

    /* a full disk: the file that was there stays, and no part of a new one */
    const char *path = write_file("kept", "old");
    struct rlimit old_limit, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
    limit = old_limit;
    limit.rlim_cur = 1000;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old_action;
    sigaction(SIGXFSZ, &ignore, &old_action);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    kvg_status status[COUNT(writers)];
    for (size_t i = 0; i < COUNT(writers); i++) status[i] = writers[i](report, path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
    sigaction(SIGXFSZ, &old_action, NULL);
    for (size_t i = 0; i < COUNT(writers); i++) assert_int_equal(status[i], KVG_ERR_IO);
    expect_text(kvg_error_text(), path);
    assert_int_equal(size_of(path), 3);
    char part[300];
    snprintf(part, sizeof part, "%s.%ld.part", path, (long)getpid());
    assert_int_equal(access(part, F_OK), -1);
    assert_int_equal(kvg_report_merge(report, path), KVG_OK);
    assert_true(size_of(path) > 1000);
    kvg_report_close(report);
}

static void devices_stay_devices(void **state)
{
    (void)state;
    make_shard(text, 1, 1);
    kvg_report *report = open_text(text);
    struct stat st;
    const char *path = in_folder("link");
    assert_int_equal(symlink("/dev/null", path), 0);
    for (size_t i = 0; i < COUNT(writers); i++) assert_int_equal(writers[i](report, path), KVG_OK);
    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    kvg_report_close(report);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_equal_the_whole),
        cmocka_unit_test(missing_shard_fails),
        cmocka_unit_test(runs_of_one_library_are_told_once),
        cmocka_unit_test(runs_of_two_libraries_say_so),
        cmocka_unit_test(duplicates_are_refused),
        cmocka_unit_test(other_runs_are_refused),
        cmocka_unit_test(truncated_line_is_dropped),
        cmocka_unit_test(missing_cases_fail),
        cmocka_unit_test(only_skips_is_77),
        cmocka_unit_test(table_has_the_numbers),
        cmocka_unit_test(causes_come_last_and_failures_first),
        cmocka_unit_test(many_causes_are_cut),
        cmocka_unit_test(consequences_come_after_causes),
        cmocka_unit_test(a_run_that_judged_little_says_so),
        cmocka_unit_test(a_reference_that_judged_itself_is_named),
        cmocka_unit_test(a_separation_reads_as_1_only_if_it_is),
        cmocka_unit_test(controls_beyond_64_are_counted),
        cmocka_unit_test(layouts_and_ops_have_a_table),
        cmocka_unit_test(modes_are_in_every_report),
        cmocka_unit_test(page_holds_any_name),
        cmocka_unit_test(page_has_codes),
        cmocka_unit_test(junit_is_xml),
        cmocka_unit_test(junit_shows_what_is_missing),
        cmocka_unit_test(write_errors_are_told),
        cmocka_unit_test(devices_stay_devices),
    };
    return cmocka_run_group_tests_name("report", tests, make_folder, remove_folder);
}
