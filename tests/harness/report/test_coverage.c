/* The ledger of what was judged, of result files with verdicts, origins and faults that are planted here. */
#define _POSIX_C_SOURCE 200809L
#include "harness/report/coverage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden/golden.h"

static char folder[] = "/tmp/kvgold-coverage-XXXXXX";

/* A case of a file: what was asked, and the verdict. */
typedef struct sample {
    const char *op, *format, *layout, *profile, *backend, *status;
    unsigned id;
} sample;

enum { FILES = 3, PATH = 64 };

typedef struct file {
    const char *config, *origins; /* origins: members of the line of the run; "": none */
    const sample *samples;
    size_t count;
} file;

static char paths[FILES][PATH];
static const char *const names[FILES] = {paths[0], paths[1], paths[2]};

static void write_case(const sample *s, FILE *out)
{
    fprintf(out, "{\"type\":\"case\",\"id\":\"%s/%u\",\"repro\":\"\",\"op\":\"%s\",\"k_format\":\"%s\","
            "\"k_dialect\":\"canonical\",\"v_format\":\"%s\",\"v_dialect\":\"canonical\",\"layout\":\"%s\","
            "\"dtype\":\"bf16\",\"tokens\":4,\"kv_heads\":1,\"head_dim\":128,", s->op, s->id, s->op, s->format,
            s->format, s->layout);
    if (s->profile) fprintf(out, "\"profile\":\"%s\",", s->profile);
    fprintf(out, "\"backend\":\"%s\",\"status\":\"%s\",\"detail\":\"\",\"impl\":\"\",\"ms\":1.5,\"slow\":false",
            s->backend, s->status);
    fprintf(out, "%s}\n", strcmp(s->status, "SKIP") == 0 ? "" : ",\"compared\":1000,\"mismatched\":0,\"steps\":0");
}

static void write_file(size_t index, const file *f)
{
    snprintf(paths[index], PATH, "%s/%zu.jsonl", folder, index);
    FILE *out = fopen(paths[index], "w");
    assert_non_null(out);
    fprintf(out, "{\"type\":\"run\",\"kvgold\":2,\"version\":\"0.1.0\",\"config\":\"%s.json\",\"name\":\"%s\","
            "\"seed\":\"0x5\",\"shard\":\"1/1\",\"cases\":%zu%s}\n", f->config, f->config, f->count, f->origins);
    for (size_t i = 0; i < f->count; i++) write_case(&f->samples[i], out);
    fprintf(out, "{\"type\":\"end\",\"interrupted\":false,\"seconds\":1}\n");
    assert_int_equal(fclose(out), 0);
}

#define ORIGIN(commit, date, gpu) \
    "{\"version\":\"0.1.0\",\"commit\":\"" commit "\",\"date\":\"" date "\",\"host\":\"h\",\"cpu\":\"Z80\"," \
    "\"gpu\":\"" gpu "\"}"
#define EARLY ORIGIN("0123456789abcdef with changes", "2026-01-01T00:00:00Z", "H200")
#define LATE ORIGIN("fedcba", "2026-02-01T00:00:00Z", "H200")
#define OTHER_CHIP ORIGIN("fedcba", "2026-03-01T00:00:00Z", "H100")
#define FROM(origins) ",\"origins\":[" origins "]"

/* What the ledger of the first files prints, with one blank for several. */
static char *print_first(size_t count)
{
    kvg_coverage *c;
    char *text = NULL;
    size_t size, kept = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    if (kvg_coverage_open(names, count, NULL, &c)) fail_msg("%s", kvg_error_text());
    kvg_coverage_print(c, out);
    kvg_coverage_close(c);
    assert_int_equal(fclose(out), 0);
    for (size_t i = 0; i <= size; i++) {
        if (text[i] != ' ' || text[i + 1] != ' ') text[kept++] = text[i];
    }
    return text;
}

/* The ledger of the first files has the text, or has it not. */
static void expect(size_t count, const char *part, bool wanted)
{
    char *text = print_first(count);
    if ((strstr(text, part) != NULL) != wanted) fail_msg("'%s' is %s:\n%s", part, wanted ? "not in" : "in", text);
    free(text);
}

static void only_right_and_wrong_answers_are_judged(void **state)
{
    (void)state;
    const sample of[] = {{"merge", "f16", "rows", NULL, "mine", "PASS", 1},
                         {"merge", "f16", "rows", NULL, "mine", "FAIL", 2},
                         {"merge", "bf16", "rows", NULL, "mine", "MISTRUSTED", 3},
                         {"merge", "bf16", "rows", NULL, "mine", "SKIP", 4}};
    write_file(0, &(file){"a", FROM(EARLY), of, 4});
    expect(1, "\nmerge f16.canonical rows - H200 mine 1 1 2.0 kB 0123456789ab with changes 2026-01-01T00:00:00Z\n\n",
           true);
    expect(1, "bf16.canonical", false);
    expect(1, "\nnot judged: 1 MISTRUSTED\nnot judged: 1 SKIP\n", true);
    expect(1, "\n merge of bf16: every layout\n", true);
}

static void runs_of_two_configs_are_one_ledger(void **state)
{
    (void)state;
    const sample one = {"mma", "f16", "rows", "sm90.mma16816.v1", "mine", "PASS", 1};
    sample two = one, other = one;
    two.id = 2;
    other.id = 3;
    write_file(0, &(file){"a", FROM(LATE), &one, 1});
    write_file(1, &(file){"b", FROM(EARLY), &two, 1});
    write_file(2, &(file){"c", FROM(OTHER_CHIP), &other, 1});
    expect(3, "\nmma f16.canonical rows sm90.mma16816.v1 H100 mine 1 0 1.0 kB fedcba 2026-03-01T00:00:00Z\n"
              "mma f16.canonical rows sm90.mma16816.v1 H200 mine 2 0 2.0 kB fedcba 2026-02-01T00:00:00Z\n\n", true);
}

/* Nobody knows which run of a merged file had a case; the file of the run itself does. */
static void a_line_of_two_files_counts_once(void **state)
{
    (void)state;
    const sample one = {"mma", "f16", "rows", "sm90.mma16816.v1", "mine", "PASS", 1};
    write_file(0, &(file){"a", FROM(LATE "," OTHER_CHIP), &one, 1});
    expect(1, " several mine 1 0 1.0 kB fedcba 2026-02-01T00:00:00Z\n\n", true);
    write_file(1, &(file){"a", FROM(OTHER_CHIP), &one, 1});
    expect(2, "last\nmma f16.canonical rows sm90.mma16816.v1 H100 mine 1 0 1.0 kB fedcba 2026-03-01T00:00:00Z\n\n",
           true);
}

static void what_no_file_says_is_left_out(void **state)
{
    (void)state;
    const sample one = {"merge", "f16", "rows", NULL, "mine", "PASS", 1};
    write_file(0, &(file){"a", "", &one, 1});
    expect(1, "\nmerge f16.canonical rows - - mine 1 0 1.0 kB 0.1.0 -\n\n", true);
}

static void what_never_ran_shrinks(void **state)
{
    (void)state;
    const sample itself[] = {{"mma", "f16", "rows", "sm90.mma16816.v1", "reference", "PASS", 1},
                             {"mma", "f16", "rows", "sm90.mma16816.v1", "defect:zeros", "FAIL", 2}};
    const sample mine = {"mma", "f16", "rows", "sm90.mma16816.v1", "mine", "PASS", 3};
    write_file(0, &(file){"a", FROM(EARLY), itself, 2});
    write_file(1, &(file){"b", FROM(EARLY), &mine, 1});
    expect(1, "\n mma, merge of f16, bf16: every layout\n", true);
    expect(1, "\n dialects of f16: canonical\n", true);
    expect(1, ", sm90.mma16816.v1,", true);
    expect(2, "\n mma of bf16: every layout\n", true);
    expect(2, "dialects of f16", false);
    expect(2, ", sm90.mma16816.v1,", false);
    expect(2, ", sm89.mma16816.v1,", true);

    const sample paged = {"append", "nvfp4", "hnd", NULL, "mine", "PASS", 4};
    expect(2, "append of nvfp4", false); /* it stands among ops and formats with the same layouts */
    write_file(2, &(file){"c", FROM(EARLY), &paged, 1});
    expect(3, "\n append of nvfp4: layouts turbomind, trtllm, nhd, vllm,", true);
}

static void refuse_second(const char *text, const char *said)
{
    kvg_coverage *c;
    FILE *out = fopen(paths[1], "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(kvg_coverage_open(names, 2, NULL, &c), KVG_ERR_INVALID);
    assert_null(c);
    if (!strstr(kvg_error_text(), said) || strchr(kvg_error_text(), '\n')) fail_msg("'%s': %s", said, kvg_error_text());
}

static void what_is_no_result_file_is_refused(void **state)
{
    (void)state;
    const sample of[] = {{"merge", "f16", "rows", NULL, "mine", "PASS", 1},
                         {"merge", "f16", "rows", NULL, "mine", "PASS", 2}};
    write_file(0, &(file){"a", FROM(EARLY), of, 2});
    write_file(1, &(file){"b", FROM(LATE), of, 2});
    char text[4096] = "";
    FILE *in = fopen(paths[1], "r");
    assert_non_null(in);
    assert_true(fread(text, 1, sizeof text - 1, in) > 0);
    assert_int_equal(fclose(in), 0);
    refuse_second("garbage\n", "1.jsonl:1");
    refuse_second("", "1.jsonl: is empty");
    char *second = strchr(text, '\n') + 1, *third = strchr(second, '\n') + 1;
    char torn[4096];
    snprintf(torn, sizeof torn, "%.*s\n%s", (int)(third - text - 20), text, third); /* in its middle */
    refuse_second(torn, "1.jsonl:2");
    snprintf(torn, sizeof torn, "%.*s", (int)(second - text - 20), text); /* in the line of the run */
    refuse_second(torn, "1.jsonl:1");

    /* a crash cuts the last line: the lines before it stay */
    FILE *out = fopen(paths[1], "w");
    assert_non_null(out);
    fprintf(out, "%.*s", (int)(strchr(third, '\n') - text - 20), text);
    assert_int_equal(fclose(out), 0);
    expect(2, "1.jsonl: the last line was cut short and is left out\n", true);
}

static void programs_read_the_same(void **state)
{
    (void)state;
    const sample of[] = {{"mma", "f16", "rows", "sm90.mma16816.v1", "mine", "FAIL", 1},
                         {"mma", "bf16", "rows", "sm90.mma16816.v1", "mine", "CRASH", 2}};
    write_file(0, &(file){"a", FROM(EARLY), of, 2});
    kvg_coverage *c;
    char path[PATH], text[1024] = "";
    snprintf(path, sizeof path, "%s/ledger.json", folder);
    if (kvg_coverage_open(names, 1, NULL, &c)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_coverage_write(c, path), KVG_OK);
    kvg_coverage_close(c);
    kvg_json_doc *doc;
    assert_int_equal(kvg_json_open(path, &doc), KVG_OK);
    kvg_json_close(doc);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_true(fread(text, 1, sizeof text - 1, in) > 0);
    assert_int_equal(fclose(in), 0);
    static const char *const parts[] = {"\"profile\":\t\"sm90.mma16816.v1\"", "\"failed\":\t1", "\"compared\":\t1000",
                                        "\"CRASH\":\t1", "\"never_judged\":\t{"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (!strstr(text, parts[i])) fail_msg("%s is not in %s", parts[i], text);
    }
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
        cmocka_unit_test(only_right_and_wrong_answers_are_judged),
        cmocka_unit_test(runs_of_two_configs_are_one_ledger),
        cmocka_unit_test(a_line_of_two_files_counts_once),
        cmocka_unit_test(what_no_file_says_is_left_out),
        cmocka_unit_test(what_never_ran_shrinks),
        cmocka_unit_test(what_is_no_result_file_is_refused),
        cmocka_unit_test(programs_read_the_same),
    };
    return cmocka_run_group_tests_name("coverage", tests, make_folder, remove_folder);
}
