/* Op generate: what configs select, and verdicts of the carried model on a few bytes: right answers pass by bits, wrong
 * ones fail by bits, by limits or by NaN, a case that cannot tell is MISTRUSTED; its result line comes back from a
 * report's reader. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/config/config.h"
#include "harness/report/report.h"
#include "harness/report/report_data.h"
#include "harness/report/result_line.h"
#include "harness/trial/judge/judge.h"
#include "model/generate/generate_case.h"
#include "model/generate/quality_result.h"
#include "model/generate/quality_session.h"
#include "model/guest/generate_guest.h"
#include "model/report/report_quality.h"

#define MODEL "'model':'../golden/data/model','text':'../golden/data/model/heldout.txt'," \
              "'calibration':'../golden/data/model/README.md','calibration_tokens':32"
#define PLAIN "{'op':'generate'," MODEL ",'window':40,'chunk':7,'block_tokens':8"
#define SMALL PLAIN ",'windows':2,'bit_windows':2"

static kvg_quality_session *session;

/* The group (with ' for ") as a config in the folder of the repository's configs. */
static kvg_config parsed(const char *group)
{
    char text[4096];
    kvg_config config;
    const int n = snprintf(text, sizeof text, "{'kvgold':1,'name':'t','seed':'0x5','cases':[%s]}", group);
    assert_true(n > 0 && (size_t)n < sizeof text);
    for (char *c = text; *c; c++) *c = *c == '\'' ? '"' : *c;
    if (kvg_config_parse("t.json", text, (size_t)n, KVG_SOURCE_DIR "/configs", &kvg_generate_guest, &config)) {
        fail_msg("%s: %s", group, kvg_error_text());
    }
    return config;
}

/* A result, and what the guest measured. */
typedef struct judgement {
    kvg_verdict verdict;
    char detail[KVG_RESULT_TEXT], impl[KVG_IMPL_NAME_SIZE];
    kvg_result_compared bytes;
    kvg_quality_result quality;
} judgement;

static judgement judged(const char *group, const kvg_backend *backend)
{
    kvg_config config = parsed(group);
    kvg_candidate *candidate;
    kvg_result r;
    assert_int_equal(config.case_count, 1);
    assert_int_equal(kvg_candidate_here(backend, &candidate), KVG_OK);
    kvg_quality_check_case(session, &config.cases[0], candidate, &r);
    kvg_candidate_end(candidate);
    judgement j = {.verdict = r.verdict, .bytes = r.bytes, .quality = *(const kvg_quality_result *)r.guest};
    memcpy(j.detail, r.detail, sizeof j.detail);
    memcpy(j.impl, r.impl, sizeof j.impl);
    for (size_t i = 0; i < j.quality.defect_count; i++) j.quality.defects[i].id = ""; /* the config's */
    kvg_config_close(&config);
    return j;
}

static void expect(const char *group, kvg_verdict verdict, const char *text)
{
    const judgement r = judged(group, kvg_reference_backend());
    if (r.verdict == verdict && strstr(r.detail, text)) return;
    fail_msg("%s: %s, '%s'; expected %s, '%s'", group, kvg_verdict_name(r.verdict), r.detail, kvg_verdict_name(verdict),
             text);
}

/* --- configs --- */

static void test_product(void **state)
{
    (void)state;
    kvg_config config = parsed(SMALL ",'greedy':3,'format':['bf16','nvfp4',{'k':'int8','v':'bf16'}],"
                               "'dtype':['bf16','f16'],'layers':['all','full'],'scale':['P1','P2']}");
    static const char *const ids[] = {
        "generate/bf16.canonical/hnd:B8/bf16/40x2x64/heldout.txt:n2:s40:c7:b4:x2:g3/-/reference",
        "generate/nvfp4.canonical/hnd:B8/f16/40x2x64/heldout.txt:n2:s40:c7:b4:x2:g3:full/P1/reference",
        "generate/int8.canonical+bf16.canonical/hnd:B8/f16/40x2x64/heldout.txt:n2:s40:c7:b4:x2:g3/-/reference",
    };
    /* Formats without a tensor scale are the same case under each convention. */
    assert_int_equal(config.case_count, 2 * 2 * (1 + 2 + 1));
    for (size_t k = 0; k < sizeof ids / sizeof ids[0]; k++) {
        size_t found = 0;
        for (size_t i = 0; i < config.case_count; i++) found += strcmp(config.cases[i].id, ids[k]) == 0;
        if (found != 1) fail_msg("%s: %zu times", ids[k], found);
    }
    kvg_config_close(&config);
    config = parsed(SMALL ",'format':'nvfp4','dialect':'all'}");
    assert_int_equal(config.case_count, kvg_reference_dialect_count(KVG_FORMAT_NVFP4));
    kvg_config_close(&config);
}

/* --- verdicts --- */

static void test_right_answers(void **state)
{
    (void)state;
    expect(SMALL ",'format':'bf16','max_loss':0,'max_kl':0,'min_top1':1}", KVG_VERDICT_PASS, "");
    expect(SMALL ",'format':'nvfp4','greedy':3}", KVG_VERDICT_PASS, "");
    expect(SMALL ",'format':'int4','layout':'turbomind','dtype':'f16'}", KVG_VERDICT_PASS, "");
    expect(SMALL ",'format':'mxfp4','layers':'sliding'}", KVG_VERDICT_PASS, "");
    expect(SMALL ",'format':{'k':'e4m3','v':'bf16'},'quantise_k':'before_rope'}", KVG_VERDICT_PASS, "");
}

/* A format that is exact loses nothing, wherever K is quantised and whatever layers keep it. */
static void test_ablations_of_an_exact_format(void **state)
{
    (void)state;
    expect(SMALL ",'format':'bf16','quantise_k':'before_rope','max_kl':0}", KVG_VERDICT_PASS, "");
    expect(SMALL ",'format':'bf16','layers':'full','max_kl':0}", KVG_VERDICT_PASS, "");
}

/* The two together: K of the other layers is not touched, so both kinds' shares differ from all of it. */
static void test_ablations_together(void **state)
{
    (void)state;
    static const char *const layers[] = {"all", "sliding", "full"};
    double kl[3];
    for (size_t i = 0; i < 3; i++) {
        char group[1024];
        snprintf(group, sizeof group, SMALL ",'format':{'k':'mxfp4','v':'bf16'},'quantise_k':'before_rope',"
                 "'layers':'%s'}", layers[i]);
        const judgement r = judged(group, kvg_reference_backend());
        if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s", r.detail);
        kl[i] = r.quality.quality.kl.value;
    }
    assert_true(kl[0] != kl[1] && kl[0] != kl[2] && kl[1] != kl[2] && kl[1] > 0 && kl[2] > 0);
}

static void test_each_layer_kind_and_side_is_a_part(void **state)
{
    (void)state;
    static const char *const groups[] = {SMALL ",'format':'mxfp4','layers':'sliding'}",
                                         SMALL ",'format':'mxfp4','layers':'full'}",
                                         SMALL ",'format':{'k':'mxfp4','v':'bf16'}}",
                                         SMALL ",'format':{'k':'bf16','v':'mxfp4'}}",
                                         SMALL ",'format':{'k':'mxfp4','v':'bf16'},'quantise_k':'before_rope'}"};
    const judgement all = judged(SMALL ",'format':'mxfp4'}", kvg_reference_backend());
    double kl[5];
    for (size_t i = 0; i < 5; i++) {
        const judgement r = judged(groups[i], kvg_reference_backend());
        kl[i] = r.quality.quality.kl.value;
        assert_true(r.quality.measured && kl[i] > 0 && kl[i] != all.quality.quality.kl.value);
        assert_true(r.quality.memory.block_bytes > all.quality.memory.block_bytes);
        for (size_t k = 0; k < i; k++) assert_true(kl[k] != kl[i]);
    }
}

static void test_limits(void **state)
{
    (void)state;
    expect(SMALL ",'format':'mxfp4','max_kl':0.0001}", KVG_VERDICT_FAIL, "KL divergence");
    expect(SMALL ",'format':'mxfp4','min_top1':1}", KVG_VERDICT_FAIL, "top-1 agreement");
    expect(PLAIN ",'format':'int4','backend':'defect:scales_shifted','max_loss':0.5,'windows':2}", KVG_VERDICT_FAIL,
           "loses");
}

static void test_wrong_answers(void **state)
{
    (void)state;
    expect(SMALL ",'format':'nvfp4','backend':'defect:stale_tail_page'}", KVG_VERDICT_FAIL,
           "rows differ, first of window 0");
    expect(SMALL ",'format':'nvfp4','backend':'defect:prefix_scales_lost:v'}", KVG_VERDICT_FAIL, "rows differ");
    expect(SMALL ",'format':'nvfp4','backend':'defect:sink_per_split'}", KVG_VERDICT_FAIL, "row 0, token 0");
    expect(SMALL ",'format':'nvfp4','backend':'defect:rope_lost'}", KVG_VERDICT_FAIL, "rows differ");
    expect(SMALL ",'format':'bf16','backend':'defect:scales_zero'}", KVG_VERDICT_UNIMPLEMENTED, "changes nothing");
    expect(SMALL ",'format':'bf16','backend':'defect:no_such'}", KVG_VERDICT_ERROR, "no defect 'no_such'");
}

/* Answers of a plug-in: the reference's, but for what a defect of this file does to decode's output. */
static void (*spoil)(kvg_tensor *out);

static void make_nan(kvg_tensor *out) { memset(out->data, 0x7f, out->bytes); /* f16, bf16: NaN */ }
static void change_last_bit(kvg_tensor *out) { ((uint8_t *)out->data)[out->bytes - 2] ^= 1; }

static kvg_status run_spoilt(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status s = kvg_reference_run(problem, in, out);
    if (!s && spoil && problem->op == KVG_OP_DECODE) spoil(&out[0]);
    return s;
}

static judgement judged_spoilt(const char *group, void (*how)(kvg_tensor *out))
{
    static const kvg_impl impls[] = {{"spoilt_append", KVG_OP_APPEND, KVG_FORMAT_NONE, 0, run_spoilt},
                                     {"spoilt_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run_spoilt}};
    static const kvg_backend backend = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof backend, .name = "spoilt",
                                        .impls = impls, .impl_count = 2, .error_text = kvg_error_text};
    spoil = how;
    return judged(group, &backend);
}

static void test_a_plug_in(void **state)
{
    (void)state;
    static const char group[] = PLAIN ",'format':'int8','backend':'spoilt','windows':1,'bit_windows':1}";
    static const char unread[] = PLAIN ",'format':'int8','backend':'spoilt','windows':1,'max_kl':64}";
    judgement r = judged_spoilt(group, NULL);
    if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s", r.detail);
    assert_string_equal(r.impl, "reference with spoilt");
    assert_true(r.bytes.compared == 39u * 1024 + 1024 && r.bytes.mismatched == 0);
    r = judged_spoilt(group, change_last_bit);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    assert_true(strstr(r.detail, "rows differ") && r.bytes.mismatched > 0);
    r = judged_spoilt(group, make_nan);
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    r = judged_spoilt(unread, make_nan); /* no bits are read: the limit alone must not let a NaN pass */
    assert_int_equal(r.verdict, KVG_VERDICT_FAIL);
    assert_non_null(strstr(r.detail, "39 of 39 rows have no distribution"));
}

/* The sliding window is 128: on 40 bytes one key less is never missed. */
static void test_a_case_that_cannot_tell(void **state)
{
    (void)state;
    static const char four[] = SMALL ",'format':'nvfp4','defects':['stale_tail_page','sink_per_split',"
                               "'scales_shifted:k','prefix_scales_lost:v'],'max_kl':0.3}";
    expect(SMALL ",'format':'nvfp4','defects':['window_short']}", KVG_VERDICT_MISTRUSTED,
           "planted defect 'window_short'");
    const judgement r = judged(four, kvg_reference_backend());
    if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s", r.detail);
    for (size_t i = 0; i < 4; i++) assert_true(r.quality.defects[i].applies && r.quality.defects[i].by_bits);
    assert_true(r.quality.defects[2].by_limits && !r.quality.defects[1].by_limits);
}

/* K quantised before RoPE lies in a cache of the model type: there is no scale of K to shift. */
static void test_before_rope_leaves_no_scales(void **state)
{
    (void)state;
    expect(SMALL ",'format':{'k':'mxfp4','v':'bf16'},'quantise_k':'before_rope','defects':['scales_shifted:k']}",
           KVG_VERDICT_MISTRUSTED, "planted defect 'scales_shifted:k'");
    expect(SMALL ",'format':{'k':'mxfp4','v':'bf16'},'defects':['scales_shifted:k']}", KVG_VERDICT_PASS, "");
}

/* Largest magnitudes over 2688, 448, 6, by layer and side; a turn by RoPE changes K's, by at most sqrt(2), not V's. */
static void test_scales(void **state)
{
    (void)state;
    enum { CASES = 5, LAYERS = 6 };
    float g[CASES][LAYERS][2];
    for (size_t i = 0; i < CASES; i++) {
        static const char *const rest[CASES] = {"'scale':'P1'", "'scale':'P2'", "'scale':'P3'", "'scale':'P4'",
                                                "'scale':'P2','quantise_k':'before_rope'"};
        char group[1024];
        snprintf(group, sizeof group, SMALL ",'format':'nvfp4',%s}", rest[i]);
        kvg_config config = parsed(group);
        const kvg_case *c = &config.cases[0];
        kvg_model_setup setup = {.dtype = KVG_DTYPE_BF16, .layout = KVG_LAYOUT_HND, .block_tokens = 8,
                                 .profile = KVG_PROFILE_SIMT_FMA_V1,
                                 .storage = {c->problem.storage[KVG_K], c->problem.storage[KVG_V]}};
        assert_int_equal(kvg_quality_session_model(session, kvg_generate_of(c)->model, &setup), KVG_OK);
        assert_int_equal(kvg_quality_session_scales(session, c, &setup, g[i]), KVG_OK);
        kvg_config_close(&config);
    }
    size_t turned = 0, apart = 0;
    for (size_t l = 0; l < LAYERS; l++) {
        for (int side = KVG_K; side <= KVG_V; side++) {
            const double largest = 448.0 * g[1][l][side];
            assert_true(largest > 0 && fabs(2688.0 * g[0][l][side] / largest - 1) < 1e-6);
            assert_true(fabs(6.0 * g[2][l][side] / largest - 1) < 1e-6 && g[3][l][side] == 1);
            apart += g[1][l][side] != g[1][0][side];
        }
        const double ratio = (double)g[4][l][KVG_K] / g[1][l][KVG_K];
        assert_true(ratio > 0.7 && ratio < 1.42 && g[4][l][KVG_V] == g[1][l][KVG_V]);
        turned += ratio != 1;
    }
    assert_true(turned > 0 && apart > 0);
}

/* --- results --- */

/* docs/dev/architecture.md section 4.1; a config's word would mean both. */
static void test_generate_is_no_op(void **state)
{
    (void)state;
    kvg_config config = parsed(SMALL ",'format':'nvfp4'}");
    kvg_op op;
    assert_int_not_equal(kvg_op_find(kvg_case_op_name(&config.cases[0]), &op), KVG_OK);
    kvg_config_close(&config);
    static const char path[] = KVG_SOURCE_DIR "/configs/ci_generate.json";
    assert_int_equal(kvg_config_open(path, NULL, NULL, &config), KVG_ERR_INVALID);
    assert_string_equal(kvg_error_text(), KVG_SOURCE_DIR "/configs/ci_generate.json: cases of op generate are for "
                        "`kvgold check` alone");
}

static void test_a_result_line_comes_back(void **state)
{
    (void)state;
    static const char path[] = KVG_BINARY_DIR "/test_quality_check.jsonl";
    kvg_config config = parsed(SMALL ",'format':'nvfp4','defects':['sink_per_split'],'greedy':2,'budget':1000000}");
    kvg_candidate *candidate;
    kvg_result r;
    kvg_report *report;
    assert_int_equal(kvg_candidate_here(kvg_reference_backend(), &candidate), KVG_OK);
    kvg_quality_check_case(session, &config.cases[0], candidate, &r);
    kvg_quality_result had = *(const kvg_quality_result *)r.guest;
    had.limits.loss = INFINITY;
    r.guest = &had;
    char *line = kvg_result_line(&config.cases[0], &r, "repro");
    char *run = kvg_result_run_line(&(kvg_result_run){"0", "t.json", "t", "1/1", 5, 1, 1, true, NULL, 0});
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fprintf(out, "%s\n%s\n{\"type\":\"end\",\"interrupted\":false,\"seconds\":1,\"PASS\":1}\n", run, line);
    assert_int_equal(fclose(out), 0);
    free(run);
    free(line);
    if (kvg_report_open(&(const char *){path}, NULL, 1, &kvg_generate_guest, &report)) fail_msg("%s", kvg_error_text());
    const kvg_report_case *c = &report->cases[0];
    const kvg_report_quality *q = kvg_report_quality_of(c);
    assert_non_null(q);
    const kvg_quality_result *m = &q->measures;
    const kvg_quality_bucket *first = &m->quality.buckets[0];
    assert_true(m->quality.rows == 78 && m->quality.kl.value == had.quality.kl.value);
    assert_true(m->quality.loss.low == had.quality.loss.low && isinf(m->limits.loss));
    assert_true(m->budget == 1000000 && m->memory.requests == had.memory.requests);
    assert_true(first->rows == 78 && first->kl == had.quality.buckets[0].kl && m->quality.buckets[1].rows == 0);
    assert_true(m->defect_count == 1 && strcmp(m->defects[0].id, "sink_per_split") == 0 && m->defects[0].by_bits);
    assert_true(m->bits.rows == 82 && m->bits.differ == 0 && m->greedy.tokens == 2 && m->shared_tokens > 0);
    assert_string_equal(c->asked.op, "generate");
    assert_string_equal(q->asked.layers, "all");
    assert_string_equal(q->asked.quantise_k, "after_rope");
    assert_true(c->asked.fill[0] == 0 && c->asked.tokens == config.cases[0].problem.tokens);
    assert_int_equal(report->control_totals[KVG_REPORT_REJECTED], 1);
    kvg_report_close(report);
    kvg_candidate_end(candidate);
    kvg_config_close(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_product),
        cmocka_unit_test(test_generate_is_no_op),
        cmocka_unit_test(test_right_answers),
        cmocka_unit_test(test_ablations_of_an_exact_format),
        cmocka_unit_test(test_ablations_together),
        cmocka_unit_test(test_each_layer_kind_and_side_is_a_part),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_a_plug_in),
        cmocka_unit_test(test_a_case_that_cannot_tell),
        cmocka_unit_test(test_before_rope_leaves_no_scales),
        cmocka_unit_test(test_scales),
        cmocka_unit_test(test_a_result_line_comes_back),
    };
    if (kvg_quality_session_open(&session)) return 1;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    kvg_quality_session_close(session);
    return failed;
}
