/* `kvgold compare`: a pack is made, answered rightly and wrongly, and judged: verdicts, reasons, exit codes, the names
 * of defects, and the report for machines. */
#define _DEFAULT_SOURCE
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "core/bits.h"
#include "harness/pack/compare.h"
#include "harness/pack/golden_case.h"
#include "harness/pack/golden_make.h"

static const char config[] =
    "{\"kvgold_golden\": 1, \"name\": \"small\", \"version\": \"1.0.0\", \"licence\": \"Apache-2.0\","
    " \"seed\": \"0x5\", \"notes\": {\"a\": \"a note\"}, \"groups\": ["
    "{\"flags\": [\"a\"], \"cases\": ["
    "{\"op\": \"quantise\", \"format\": \"nvfp4\", \"dialect\": [\"canonical\", \"vllm\"], \"kv_heads\": 2,"
    " \"head_dim\": 64, \"tokens\": 6, \"scale\": {\"k\": 0.3, \"v\": 0.0123}, \"fill\": \"random\"},"
    "{\"op\": \"append\", \"format\": \"mxfp4\", \"layout\": \"hnd\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 9,"
    " \"block_tokens\": 4, \"sequences\": 2, \"fill\": \"random\"},"
    "{\"op\": \"decode\", \"format\": \"e4m3\", \"layout\": \"hnd\", \"kv_heads\": 2, \"head_dim\": 64, \"group\": 2,"
    " \"tokens\": 20, \"block_tokens\": 4, \"profile\": [\"exact\", \"simt.fma.v1\"],"
    " \"scale\": {\"k\": 0.3, \"v\": 0.0123}, \"fill\": \"random\"}]},"
    "{\"flags\": [\"a\"], \"stored\": false, \"cases\": ["
    "{\"op\": \"dequantise\", \"format\": \"mxfp4\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 6,"
    " \"fill\": \"random\"}]}]}";

enum { CANONICAL, RULE, APPEND, EXACT, PROFILE, RECIPE, CASES };

static char folder[] = "/tmp/kvgold-compare-XXXXXX", pack_path[PATH_MAX], answer_path[PATH_MAX];
static kvg_pack *pack;

/* What an engine gives: one tensor. */
typedef struct part {
    const kvg_pack_answer *asked;
    uint8_t *data;
    bool left_out, flat; /* flat: of one dimension */
} part;

static part parts[64];
static size_t part_count;

static void open_right_answers(void)
{
    for (size_t c = 0; c < pack->case_count; c++) {
        kvg_golden_case golden;
        if (kvg_golden_case_open(pack, &pack->cases[c], &golden)) fail_msg("%s", kvg_error_text());
        for (size_t i = 0; i < pack->cases[c].answer_count; i++) {
            const kvg_pack_answer *asked = &pack->cases[c].answer[i];
            const kvg_tensor *t = &golden.truth.expected.tensors[kvg_golden_case_output(&golden, asked->short_name)];
            uint8_t *data = malloc(asked->bytes);
            assert_non_null(data);
            assert_int_equal(t->bytes, asked->bytes);
            memcpy(data, t->data, asked->bytes);
            parts[part_count++] = (part){.asked = asked, .data = data};
        }
        kvg_golden_case_free(&golden);
    }
}

static int set_up(void **state)
{
    (void)state;
    char path[PATH_MAX];
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/pack_small.json", folder);
    snprintf(pack_path, sizeof pack_path, "%s/small", folder);
    snprintf(answer_path, sizeof answer_path, "%s/answer.safetensors", folder);
    FILE *f = fopen(path, "w");
    if (!f || fputs(config, f) < 0 || fclose(f) != 0) return 1;
    size_t refused;
    if (kvg_golden_make(path, pack_path, false, stderr, &refused) || kvg_pack_open(pack_path, &pack)) {
        fprintf(stderr, "%s\n", kvg_error_text());
        return 1;
    }
    assert_int_equal(pack->case_count, CASES);
    open_right_answers();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    for (size_t i = 0; i < part_count; i++) free(parts[i].data);
    kvg_pack_close(pack);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

static part *part_of(size_t c, const char *short_name)
{
    for (size_t i = 0; i < part_count; i++) {
        const bool of_case = strncmp(parts[i].asked->name, pack->cases[c].key, 4) == 0;
        if (of_case && strcmp(parts[i].asked->short_name, short_name) == 0) return &parts[i];
    }
    fail_msg("case %zu has no %s", c, short_name);
    return NULL;
}

/* Writes those that are not left out; of the case `only` alone if it is one. */
static void write_answer(size_t only, const char *stranger)
{
    kvg_safetensors_writer *w;
    FILE *f = fopen(answer_path, "w");
    const uint64_t one = 1;
    uint64_t bytes;
    kvg_sha256_digest digest;
    assert_non_null(f);
    assert_int_equal(kvg_safetensors_writer_make(&w), KVG_OK);
    bool use[64];
    for (size_t i = 0; i < part_count; i++) {
        const kvg_pack_answer *a = parts[i].asked;
        const uint64_t all = a->bytes;
        use[i] = !parts[i].left_out && (only == CASES || strncmp(a->name, pack->cases[only].key, 4) == 0);
        if (!use[i]) continue;
        assert_int_equal(kvg_safetensors_writer_declare(w, a->name, parts[i].flat ? "U8" : a->dtype,
                                                        parts[i].flat ? 1 : a->rank, parts[i].flat ? &all : a->shape),
                         KVG_OK);
    }
    if (stranger) assert_int_equal(kvg_safetensors_writer_declare(w, stranger, "U8", 1, &one), KVG_OK);
    assert_int_equal(kvg_safetensors_writer_begin(w, f), KVG_OK);
    for (size_t i = 0; i < part_count; i++) {
        if (use[i]) assert_int_equal(kvg_safetensors_writer_put(w, parts[i].data, parts[i].asked->bytes), KVG_OK);
    }
    if (stranger) assert_int_equal(kvg_safetensors_writer_put(w, "x", 1), KVG_OK);
    kvg_safetensors_writer_end(w, &bytes, &digest);
    kvg_safetensors_writer_free(w);
    assert_int_equal(fclose(f), 0);
}

static kvg_comparison compare(bool bits)
{
    kvg_comparison c;
    const kvg_compare_options o = {.bits = bits, .why = true, .pairs = 64};
    if (kvg_compare(pack, answer_path, &o, NULL, NULL, &c)) fail_msg("%s", kvg_error_text());
    return c;
}

static int run(const char *option, const char *value)
{
    char *argv[] = {"compare", pack_path, answer_path, (char *)option, (char *)value, NULL};
    return kvg_command_run(option ? value ? 5 : 4 : 3, argv);
}

static void expect(const kvg_comparison *c, size_t index, kvg_verdict verdict, const char *reason)
{
    const kvg_compared_case *one = &c->cases[index];
    if (one->verdict != verdict || !strstr(one->reason, reason))
        fail_msg("case %zu: %s %s, not %s %s", index, kvg_verdict_name(one->verdict), one->reason,
                 kvg_verdict_name(verdict), reason);
}

static void expect_name(const kvg_comparison *c, size_t index, const char *name)
{
    char text[256] = "nothing";
    const kvg_diagnosis *d = &c->cases[index].diagnosis;
    if (d->count) kvg_explanation_name(&d->explanations[0], text, sizeof text);
    if (!c->cases[index].diagnosed || !d->count || !d->explanations[0].exact || strcmp(text, name) != 0)
        fail_msg("case %zu: %s, not %s", index, text, name);
}

static void test_right_answers_pass(void **state)
{
    (void)state;
    write_answer(CASES, NULL);
    for (int bits = 0; bits < 2; bits++) {
        kvg_comparison c = compare(bits);
        for (size_t i = 0; i < CASES; i++) expect(&c, i, KVG_VERDICT_PASS, "");
        assert_int_equal(c.counts[KVG_VERDICT_PASS], CASES);
        kvg_comparison_free(&c);
    }
    assert_int_equal(run("-v", NULL), KVG_EXIT_PASS);
}

static void test_unanswered_cases_are_skipped(void **state)
{
    (void)state;
    write_answer(APPEND, NULL);
    kvg_comparison c = compare(false);
    for (size_t i = 0; i < CASES; i++)
        expect(&c, i, i == APPEND ? KVG_VERDICT_PASS : KVG_VERDICT_SKIP, i == APPEND ? "" : "unanswered");
    assert_int_equal(c.unanswered, CASES - 1);
    kvg_comparison_free(&c);
    assert_int_equal(run(NULL, NULL), KVG_EXIT_PASS);
    assert_int_equal(run("--case", pack->cases[EXACT].key), KVG_EXIT_NOTHING);
    assert_int_equal(run("--case", "9999"), KVG_EXIT_USAGE);

}

static void test_incomplete_and_unfit_answers_fail(void **state)
{
    (void)state;
    part *scales = part_of(CANONICAL, "v_scales"), *out = part_of(PROFILE, "out");
    scales->left_out = out->flat = true;
    write_answer(CASES, NULL);
    scales->left_out = out->flat = false;
    kvg_comparison c = compare(false);
    expect(&c, CANONICAL, KVG_VERDICT_FAIL, "v_scales missing");
    expect(&c, PROFILE, KVG_VERDICT_FAIL, "");
    assert_non_null(strstr(c.cases[PROFILE].tensors[0].reason, "nothing is converted"));
    expect(&c, EXACT, KVG_VERDICT_PASS, "");
    kvg_comparison_free(&c);
    assert_int_equal(run(NULL, NULL), KVG_EXIT_FAIL);
}

static void test_strangers_are_refused(void **state)
{
    (void)state;
    kvg_comparison c;
    const kvg_compare_options o = {0};
    write_answer(CASES, "0000.k_code");
    assert_int_equal(kvg_compare(pack, answer_path, &o, NULL, NULL, &c), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "0000.k_code"));
    kvg_comparison_free(&c);
    assert_int_equal(run(NULL, NULL), KVG_EXIT_USAGE);
    unlink(answer_path);
    assert_int_equal(run(NULL, NULL), KVG_EXIT_USAGE);
}

/* Changes a tensor, judges, and puts it back. */
static kvg_comparison compare_changed(size_t c, const char *short_name, void (*change)(uint8_t *data, size_t bytes),
                                      bool bits)
{
    part *p = part_of(c, short_name);
    uint8_t *right = malloc(p->asked->bytes);
    assert_non_null(right);
    memcpy(right, p->data, p->asked->bytes);
    change(p->data, p->asked->bytes);
    write_answer(c, NULL);
    const kvg_comparison out = compare(bits);
    memcpy(p->data, right, p->asked->bytes);
    free(right);
    return out;
}

static void swap_nibbles(uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i] = (uint8_t)(x[i] >> 4 | (x[i] & 15) << 4);
}

static void raise_bytes(uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x[i]++;
}

static void to_base_2(uint8_t *x, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(float)) {
        float lse;
        memcpy(&lse, x + i, sizeof lse);
        lse *= 1.44269504f;
        memcpy(x + i, &lse, sizeof lse);
    }
}

static void make_nan(uint8_t *x, size_t n)
{
    x[n - 1] = 0x7F; /* bf16 0x7FFF */
    x[n - 2] = 0xFF;
}

static void flip_last_bit(uint8_t *x, size_t n)
{
    x[n - sizeof(float)] ^= 1; /* the first row sees no key: -Inf */
}

/* Each element is that of two dims on, in rows of 64 numbers of bf16. */
static void turn_dims(uint8_t *x, size_t n)
{
    enum { ROW = 64 * 2, BY = 2 * 2 };
    for (size_t row = 0; row < n; row += ROW) {
        uint8_t right[ROW];
        memcpy(right, x + row, ROW);
        for (size_t i = 0; i < ROW; i++) x[row + i] = right[(i + BY) % ROW];
    }
}

static void test_wrong_answers_are_named(void **state)
{
    (void)state;
    kvg_comparison c = compare_changed(CANONICAL, "v_codes", swap_nibbles, false);
    expect(&c, CANONICAL, KVG_VERDICT_FAIL, "");
    expect_name(&c, CANONICAL, "nibbles_swapped (V)");
    assert_int_equal(c.cases[CANONICAL].tensors[0].verdict, KVG_VERDICT_PASS);
    assert_int_equal(c.cases[CANONICAL].tensors[1].verdict, KVG_VERDICT_FAIL);
    assert_true(c.cases[CANONICAL].tensors[1].where.wrong > 0);
    kvg_comparison_free(&c);

    c = compare_changed(EXACT, "lse", to_base_2, false);
    expect_name(&c, EXACT, "lse_base_2");
    assert_non_null(strstr(c.cases[EXACT].tensors[1].where.pattern, "times the right one"));
    kvg_comparison_free(&c);

    c = compare_changed(RECIPE, "k", raise_bytes, false);
    expect(&c, RECIPE, KVG_VERDICT_FAIL, "");
    assert_true(c.cases[RECIPE].diagnosed);
    kvg_comparison_free(&c);

    /* No defect that gives a few numbers stands beside words that say what they are. */
    c = compare_changed(RECIPE, "k", turn_dims, false);
    assert_string_equal(c.cases[RECIPE].tensors[0].where.pattern, "each dim of a row holds dim + 2");
    assert_true(c.cases[RECIPE].diagnosed && c.cases[RECIPE].diagnosis.reached > 0);
    assert_int_equal(c.cases[RECIPE].diagnosis.count, 0);
    kvg_comparison_free(&c);
}

static void test_the_value_rule_judges_rows(void **state)
{
    (void)state;
    kvg_comparison c = compare_changed(RULE, "k_codes", swap_nibbles, false);
    expect(&c, RULE, KVG_VERDICT_FAIL, "");
    assert_non_null(strstr(c.cases[RULE].tensors[0].reason, "value rule of dialect vllm"));
    expect_name(&c, RULE, "nibbles_swapped (K)");
    kvg_comparison_free(&c);
}

static void test_nan_never_passes(void **state)
{
    (void)state;
    kvg_comparison c = compare_changed(EXACT, "out", make_nan, false);
    expect(&c, EXACT, KVG_VERDICT_FAIL, "");
    assert_int_equal(c.cases[EXACT].tensors[0].wrong, 1);
    kvg_comparison_free(&c);
}

/* One unit in the last place is within the bound, and not a profile's bits. */
static void test_bits_are_judged_on_request(void **state)
{
    (void)state;
    kvg_comparison c = compare_changed(PROFILE, "lse", flip_last_bit, false);
    expect(&c, PROFILE, KVG_VERDICT_PASS, "");
    kvg_comparison_free(&c);
    c = compare_changed(PROFILE, "lse", flip_last_bit, true);
    expect(&c, PROFILE, KVG_VERDICT_FAIL, "");
    assert_non_null(strstr(c.cases[PROFILE].tensors[1].reason, "simt.fma.v1"));
    kvg_comparison_free(&c);
    c = compare_changed(EXACT, "lse", flip_last_bit, true); /* no profile: no bits */
    expect(&c, EXACT, KVG_VERDICT_PASS, "");
    kvg_comparison_free(&c);
}

static void test_the_report_is_json(void **state)
{
    (void)state;
    char path[PATH_MAX];
    kvg_json_doc *doc;
    kvg_json cases, value;
    uint64_t code;
    part *codes = part_of(CANONICAL, "k_codes");
    swap_nibbles(codes->data, codes->asked->bytes);
    write_answer(CASES, NULL);
    swap_nibbles(codes->data, codes->asked->bytes);
    snprintf(path, sizeof path, "%s/report.json", folder);
    assert_int_equal(run("--json", path), KVG_EXIT_FAIL);
    if (kvg_json_open(path, &doc)) fail_msg("%s", kvg_error_text());
    assert_int_equal(kvg_json_get(kvg_json_root(doc), "cases", &cases), KVG_OK);
    assert_int_equal(kvg_json_count(cases), CASES);
    assert_true(kvg_json_has(kvg_json_at(cases, CANONICAL), "diagnosis"));
    assert_false(kvg_json_has(kvg_json_at(cases, EXACT), "diagnosis"));
    assert_int_equal(kvg_json_get(kvg_json_root(doc), "exit_code", &value), KVG_OK);
    assert_int_equal(kvg_json_u64(value, 0, 99, &code), KVG_OK);
    assert_int_equal(code, KVG_EXIT_FAIL);
    kvg_json_close(doc);
    assert_int_equal(run("--json", "/nonexistent/report.json"), KVG_EXIT_ENVIRONMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right_answers_pass),
        cmocka_unit_test(test_unanswered_cases_are_skipped),
        cmocka_unit_test(test_incomplete_and_unfit_answers_fail),
        cmocka_unit_test(test_strangers_are_refused),
        cmocka_unit_test(test_wrong_answers_are_named),
        cmocka_unit_test(test_the_value_rule_judges_rows),
        cmocka_unit_test(test_nan_never_passes),
        cmocka_unit_test(test_bits_are_judged_on_request),
        cmocka_unit_test(test_the_report_is_json),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
