/* What the report says of an answer that no known defect gives: where the wrong numbers lie, and what they have in
 * common. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "harness/config/config.h"
#include "harness/trial/judge/judge.h"
#include "reference/reference.h"

/* A right answer, and what is done to it. */
typedef void spoil_fn(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out);
static spoil_fn *spoil;

static kvg_status run_spoilt(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    const kvg_status s = kvg_reference_run(p, in, out);
    if (!s) spoil(p, in, out);
    return s;
}

static const kvg_impl impls[] = {
    {"spoilt_quantise", KVG_OP_QUANTISE, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_dequantise", KVG_OP_DEQUANTISE, KVG_FORMAT_NONE, 0, run_spoilt},
    {"spoilt_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run_spoilt},
};
static const kvg_backend backend = {
    .abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "spoilt", .impls = impls,
    .impl_count = sizeof impls / sizeof impls[0], .error_text = kvg_error_text, .problem_size = sizeof(kvg_problem),
};

static void expect_common(unsigned seed, const char *group, spoil_fn *by, const char *wanted)
{
    char text[512];
    kvg_config config;
    kvg_result r;
    const int n = snprintf(text, sizeof text,
                           "{\"kvgold\": 1, \"name\": \"where\", \"seed\": \"0x%x\", \"cases\": [{%s}]}", seed,
                           group);
    assert_int_equal(kvg_config_parse("where", text, (size_t)n, ".", NULL, &config), KVG_OK);
    spoil = by;
    kvg_check_run(&config.cases[0], &backend, &r);
    const char *common = strstr(r.detail, "; in common: ");
    const bool said = r.verdict == KVG_VERDICT_FAIL && common && strcmp(common + 2, wanted) == 0;
    if (!said) fail_msg("%s: %s", wanted, r.detail);
    kvg_config_close(&config);
}

#define ROWS "\"format\": \"int8\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 20, \"fill\": \"random\""

/* Codes of rows [token][head][dim]. */
static void add_to_codes(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    uint8_t *codes = out[0].data;
    for (size_t token = 4; token < p->tokens; token += 4) {
        for (size_t dim = 8; dim < 12; dim++) codes[(token * p->kv_heads + 1) * p->head_dim + dim] ^= 0x41;
    }
}

/* V in bf16: every second number of a row has the other sign. */
static void turn_signs(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint16_t *numbers = out[1].data;
    for (size_t i = 1; i < out[1].bytes / sizeof *numbers; i += 2) numbers[i] ^= 0x8000;
}

/* All numbers; the rows of a sequence without keys were not meant. */
static void scale_out(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)p;
    (void)in;
    uint16_t *numbers = out[0].data;
    for (size_t i = 0; i < out[0].bytes / sizeof *numbers; i++) {
        if (numbers[i] & 0x7F80) numbers[i] = (uint16_t)(numbers[i] + 0x0180); /* the exponent of bf16: times 8 */
    }
}

/* What is right where no sequence has a key. */
static void see_nothing(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    (void)in;
    float *lse = out[1].data;
    memset(out[0].data, 0, out[0].bytes);
    for (size_t i = 0; i < (size_t)p->attention.queries * p->attention.query_heads; i++) lse[i] = -INFINITY;
}

/* Under some seeds the last sequence is empty, so that `last_for_longest` gives the same, which is not meant. */
static void test_an_answer_that_is_the_same_everywhere_has_no_name(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 16; seed++) {
        expect_common(seed, "\"op\": \"decode\", \"layout\": \"hnd\", \"group\": 2, \"queries\": 2, \"sequences\": 3, "
                      ROWS, see_nothing, "in common: each is 0");
    }
}

static void test_what_wrong_numbers_have_in_common(void **state)
{
    (void)state;
    expect_common(5, "\"op\": \"quantise\", " ROWS, add_to_codes,
                  "in common: every fourth of tokens 4 to 16 of 20; head 1 of 2; bytes of a row 8 to 11 of 64; "
                  "each differs in the same bits: 0x41");
    expect_common(5, "\"op\": \"dequantise\", " ROWS, turn_signs,
                  "in common: every second of dims 1 to 63 of 64; each is -1 times the right one");
    expect_common(5, "\"op\": \"decode\", \"layout\": \"hnd\", \"group\": 2, \"queries\": 2, \"sequences\": 3, " ROWS,
                  scale_out, "in common: each is 8 times the right one");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_wrong_numbers_have_in_common),
        cmocka_unit_test(test_an_answer_that_is_the_same_everywhere_has_no_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
