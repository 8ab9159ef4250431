/* Op decode can fail: every row of harness/trial/wrong/defects.def that applies to it is judged, over layouts, formats,
 * fills and options. A row is rejected wherever it changes the exact answer beyond the bound, and every row
 * somewhere. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/run/backends.h"
#include "harness/trial/judge/judge_decode.h"
#include "harness/trial/judge/known_wrong.h"
#include "harness/trial/question/decode_probes.h"

/* What the cases differ in; each takes the next value of every list, whose lengths have few factors in common. */
static const kvg_layout layouts[] = {KVG_LAYOUT_NHD,  KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_HND,        KVG_LAYOUT_TRTLLM,
                                     KVG_LAYOUT_RING, KVG_LAYOUT_VLLM,      KVG_LAYOUT_CONTIGUOUS, KVG_LAYOUT_MLA,
                                     KVG_LAYOUT_SLOT, KVG_LAYOUT_VLLM_HND};
static const kvg_format formats[] = {KVG_FORMAT_NVFP4,   KVG_FORMAT_F16,    KVG_FORMAT_E4M3, KVG_FORMAT_INT8,
                                     KVG_FORMAT_ROWINT4, KVG_FORMAT_MXFP4,  KVG_FORMAT_BF16, KVG_FORMAT_INT4,
                                     KVG_FORMAT_MX16,    KVG_FORMAT_ROWFP4, KVG_FORMAT_E5M2};
static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16, KVG_DTYPE_F32};
static const kvg_fill fills[] = {KVG_FILL_RANDOM, KVG_FILL_CODES,       KVG_FILL_RANDOM, KVG_FILL_COLD, KVG_FILL_RANDOM,
                                 KVG_FILL_NEEDLE, KVG_FILL_ADVERSARIAL, KVG_FILL_ONES,   KVG_FILL_UNIFORM};
static const struct {
    uint32_t group, queries, window;
    float softcap, scale;
    bool sinks, padded;
} options[] = {
    {4, 5, 0, 0, 0, false, false}, {1, 1, 0, 0, 0, true, true},      {3, 6, 9, 0, 0, false, false},
    {2, 4, 0, 3, 0, true, false},  {8, 1, 0, 0, 0.2f, false, true},  {5, 7, 20, 5, 0.2f, true, false},
    {1, 3, 0, 0, 0, true, false},
};
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static bool is_probe(kvg_fill fill)
{
    return fill == KVG_FILL_UNIFORM || fill == KVG_FILL_ONES || fill == KVG_FILL_NEEDLE || fill == KVG_FILL_COLD;
}

/* The i-th case; false where the combination makes no problem. */
static bool make_case(size_t i, kvg_profile profile, kvg_case *c)
{
    const kvg_layout layout = layouts[i % COUNT(layouts)];
    const kvg_layout_info *info = kvg_layout_get(layout);
    const kvg_format k = formats[i % COUNT(formats)], v = i % 4 == 3 ? formats[(i + 3) % COUNT(formats)] : k;
    const size_t option = i % COUNT(options);
    *c = (kvg_case){
        .problem = {.op = KVG_OP_DECODE, .layout = layout, .dtype = dtypes[i % COUNT(dtypes)], .tokens = 60,
                    .kv_heads = 2, .head_dim = 64, .profile = profile,
                    .storage = {{k, "canonical"}, {v, "canonical"}},
                    .paging = {.layers = 3, .layer = 1, .blocks = 32, .block_tokens = 8, .sequences = 3}},
        .fill = fills[i % COUNT(fills)],
        .scale = {.given = true, .value = {0.3124f, 0.01318f}}, /* far from any bf16 */
        .queries = options[option].queries,
        .operands = profile || i % 5 != 4 ? KVG_OPERANDS_PLAIN : KVG_OPERANDS_E4M3,
        .backend = "reference",
        .seed = 7,
    };
    kvg_problem *p = &c->problem;
    p->attention = (kvg_attention){.window = options[option].window, .softcap = options[option].softcap,
                                   .scale = options[option].scale, .sinks = options[option].sinks};
    if (layout == KVG_LAYOUT_CONTIGUOUS) p->paging.block_tokens = 64;
    if (layout == KVG_LAYOUT_RING) p->paging.block_tokens = 32;
    if (layout == KVG_LAYOUT_MLA || (layout == KVG_LAYOUT_TURBOMIND && k == v && k == KVG_FORMAT_NVFP4)) {
        if (layout == KVG_LAYOUT_MLA) p->kv_heads = 1;
        p->storage[KVG_V].format = k;
        p->paging.shared_kv = true;
        p->paging.v_dim = 48;
    }
    if (options[option].padded && strstr(info->text, "+data")) p->paging.data_padding = 16;
    if (options[option].padded && strstr(info->text, "+scale")) p->paging.scale_padding = 37;
    p->paging.v_scale_swizzle = info->groups && v == KVG_FORMAT_NVFP4 && i % 2;
    p->attention.query_heads = p->kv_heads * options[option].group;
    if (is_probe(c->fill)) {
        p->attention.sinks = false;
        p->attention.softcap = 0;
        c->scale.value[KVG_K] = c->scale.value[KVG_V] = 1;
    }
    if (profile && c->fill == KVG_FILL_CODES) { /* answers beyond f16 */
        p->dtype = KVG_DTYPE_F16;
        c->scale.value[KVG_V] = 1000;
    }
    if (i % 6 == 0 && kvg_problem_blocks(p) == KVG_BLOCKS_TABLE) c->shared_prefix = 20;
    for (uint32_t s = 0; s < p->paging.sequences; s++) p->attention.queries += kvg_case_queries(c, s);
    c->shuffled = true;
    if (profile && kvg_profile_is_chip(kvg_profile_get(profile)) && p->dtype == KVG_DTYPE_F32) return false;
    if (c->fill == KVG_FILL_ONES && p->paging.shared_kv) return false; /* K's rows are not all ones */
    return kvg_case_name(c) == KVG_OK && kvg_problem_check(p) == KVG_OK && kvg_probe_check(c) == KVG_OK;
}

/* Of one defect: in how many cases each check rejected it, and where none had to. */
typedef struct tally {
    unsigned out, lse, probe, bits; /* checks that said FAIL */
    unsigned rejected, within, unreached;
    double least;
} tally;

typedef struct bench {
    kvg_case c;
    kvg_question data;
    kvg_truth truth;
    kvg_tensor_set wrong;
} bench;

static bool open_bench(bench *b)
{
    if (kvg_question_make(&b->c, &b->data)) { /* a probe that has no such answer */
        kvg_question_free(&b->data);
        return false;
    }
    if (kvg_know(&b->data, &b->truth)) fail_msg("%s: %s", b->c.id, kvg_error_text());
    assert_int_equal(kvg_set_alloc(&b->c.problem, b->data.op->outputs, &b->wrong), KVG_OK);
    return true;
}

static void close_bench(bench *b)
{
    kvg_set_free(&b->wrong);
    kvg_truth_free(&b->truth);
    kvg_question_free(&b->data);
}

static kvg_result judge(const bench *b, const kvg_tensor *answer)
{
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    if (b->c.problem.profile) kvg_decode_judge_bits(&b->truth, answer, &r);
    else kvg_decode_judge(&b->truth, answer, &r);
    return r;
}

/* The plain kernel without a defect is right: what its defects change is theirs. */
static void judge_plain_kernel(bench *b)
{
    kvg_flash right;
    kvg_flash_init(&b->c.problem, KVG_FLASH_RIGHT, &right);
    kvg_question_prefill(&b->data, &b->wrong);
    assert_int_equal(kvg_flash_run(&b->c.problem, b->data.in.tensors, &right, b->wrong.tensors), KVG_OK);
    const kvg_result r = judge(b, b->wrong.tensors);
    if (r.verdict != KVG_VERDICT_PASS) fail_msg("%s: the plain kernel: %s", b->c.id, r.detail);
}

/* `whole` gets the distance of all rows of the answer, of which the pass may have made a part. */
static void judge_defect(bench *b, const kvg_defect *defect, kvg_separation_scene *scene, double distance,
                         kvg_separation *whole, tally *t)
{
    if (isnan(distance)) return; /* it does not apply */
    kvg_question_prefill(&b->data, &b->wrong);
    if (kvg_defect_run(defect, &b->c.problem, b->data.in.tensors, b->wrong.tensors)) fail_msg("%s", kvg_error_text());
    double of_all = -1;
    assert_int_equal(kvg_separation_measure(scene, defect, &b->wrong, NULL, &of_all), KVG_OK);
    kvg_separation_add(whole, defect, of_all);
    if (!(distance <= of_all) || (distance < 0 && of_all >= 0))
        fail_msg("%s: %s: %g of some rows, %g of all", b->c.id, defect->id, distance, of_all);
    t->unreached += distance < 0;
    if (distance < 0) return;
    if (b->c.problem.profile && defect->flash) return; /* its arithmetic alone gives other bits */
    const kvg_result r = judge(b, b->wrong.tensors);
    const bool rejected = r.verdict == KVG_VERDICT_FAIL;
    if (rejected != kvg_separation_rejects(whole->by_bits, distance))
        fail_msg("%s: %s at distance %g: %s", b->c.id, defect->id, distance, rejected ? r.detail : "accepted");
    t->rejected += rejected;
    t->within += !rejected;
    t->bits += rejected && b->c.problem.profile;
    t->out += r.decode.worst_ratio > 1;
    t->lse += r.decode.lse_ratio > 1;
    t->probe += r.decode.probe_ratio > 1;
    if (!b->c.problem.profile && distance < t->least) t->least = distance;
}

static kvg_case mistrusted; /* the case that tells right from wrong the least */
static double least_separation = INFINITY;

static void judge_case(bench *b, tally *tallies, size_t *refused)
{
    size_t count;
    const kvg_defect *defects = kvg_defect_table(&count);
    kvg_known_wrong known;
    const kvg_separation *separation = &known.separation;
    if (!b->c.problem.profile) judge_plain_kernel(b);
    if (kvg_known_wrong_try(&b->truth, NULL, KVG_OFFER_NONE, NULL, &known))
        fail_msg("%s: %s", b->c.id, kvg_error_text());
    if (!kvg_separation_suffices(separation)) {
        char text[KVG_SEPARATION_TEXT];
        kvg_separation_text(separation, text, sizeof text);
        printf("refused: %s: %s\n", b->c.id, text);
        ++*refused;
        if (separation->least < least_separation) {
            least_separation = separation->least;
            mistrusted = b->c;
        }
    }
    kvg_separation whole = {.by_bits = separation->by_bits, .least = INFINITY};
    kvg_separation_scene scene;
    kvg_flash_kept kept;
    assert_int_equal(kvg_flash_kept_open(&b->c.problem, &kept), KVG_OK);
    assert_int_equal(kvg_separation_open(&b->truth, &kept, &scene), KVG_OK);
    for (size_t d = 0; d < count; d++) judge_defect(b, &defects[d], &scene, known.distance[d], &whole, &tallies[d]);
    kvg_separation_close(&scene);
    kvg_flash_kept_close(&kept);
    const bool same = whole.least == separation->least && whole.nearest == separation->nearest;
    if (!same || whole.reached != separation->reached)
        fail_msg("%s: %g of %s by parts, %g of %s by all rows", b->c.id, separation->least,
                 separation->nearest ? separation->nearest->id : "none", whole.least,
                 whole.nearest ? whole.nearest->id : "none");
}

static void test_every_defect_is_rejected(void **state)
{
    (void)state;
    static const kvg_profile profiles[] = {KVG_PROFILE_SM90_MMA16816_V1, KVG_PROFILE_SIMT_FMA_V1};
    enum { CASES = 120, OF_A_PROFILE = 18 };
    static tally tallies[KVG_MAX_DEFECTS];
    size_t count, cases = 0, refused = 0, missed = 0, rows = 0;
    const kvg_defect *defects = kvg_defect_table(&count);
    for (size_t d = 0; d < count; d++) tallies[d].least = INFINITY;
    for (size_t i = 0; i < CASES + COUNT(profiles) * OF_A_PROFILE; i++) {
        bench b = {0};
        if (!make_case(i, i < CASES ? KVG_PROFILE_NONE : profiles[(i - CASES) / OF_A_PROFILE], &b.c)) continue;
        if (!open_bench(&b)) continue;
        judge_case(&b, tallies, &refused);
        close_bench(&b);
        cases++;
    }
    printf("%-22s %8s %5s %5s %5s %5s %7s %9s  %s\n", "defect", "rejected", "out", "lse", "probe", "bits", "within",
           "unreached", "nearest");
    for (size_t d = 0; d < count; d++) {
        const tally *t = &tallies[d];
        if (t->rejected + t->within + t->unreached == 0) continue; /* of other ops */
        printf("%-22s %8u %5u %5u %5u %5u %7u %9u  %.3g\n", defects[d].id, t->rejected, t->out, t->lse, t->probe,
               t->bits, t->within, t->unreached, t->least);
        rows++;
        missed += t->rejected == 0;
    }
    printf("%zu defects of op decode over %zu cases, %zu of which are refused; %zu defects not rejected\n", rows, cases,
           refused, missed);
    assert_int_equal(missed, 0);
    for (size_t d = 0; d < count; d++) { /* every kernel is a row of op decode */
        if (defects[d].flash && tallies[d].rejected == 0) fail_msg("no case reaches %s", defects[d].id);
    }
}

/* From the backend to the verdict: a defect fails, by name. */
static void test_a_failure_names_its_defect(void **state)
{
    (void)state;
    static const char *const ids[] = {"nibbles_swapped", "window_short", "lse_base_2", "sum_twice",
                                      "mask_less", "window_long"};
    kvg_case c;
    assert_true(make_case(2, KVG_PROFILE_NONE, &c));
    for (size_t i = 0; i < COUNT(ids); i++) {
        c.fill = KVG_FILL_RANDOM; /* keys that no query sees are NaN */
        c.problem.storage[KVG_K].format = c.problem.storage[KVG_V].format = i ? KVG_FORMAT_BF16 : KVG_FORMAT_NVFP4;
        char name[64];
        const kvg_backend *backend;
        kvg_result r;
        snprintf(name, sizeof name, "defect:%s", ids[i]);
        c.backend = name;
        assert_int_equal(kvg_case_name(&c), KVG_OK);
        assert_int_equal(kvg_check_backend(name, &backend), KVG_OK);
        kvg_check_run(&c, backend, &r);
        if (r.verdict != KVG_VERDICT_FAIL || !strstr(r.detail, ids[i]))
            fail_msg("%s: %s %s", name, kvg_verdict_name(r.verdict), r.detail);
    }
}

static void test_a_case_that_cannot_separate_is_mistrusted(void **state)
{
    (void)state;
    kvg_result r;
    assert_non_null(mistrusted.backend); /* the first test found one */
    kvg_check_run(&mistrusted, kvg_reference_backend(), &r);
    if (r.verdict != KVG_VERDICT_MISTRUSTED || !strstr(r.detail, "separation"))
        fail_msg("%s: %s", kvg_verdict_name(r.verdict), r.detail);
    assert_true(r.separation.measured && r.separation.least <= 1);
    assert_non_null(strstr(r.detail, r.separation.nearest));
}

/* A pass that may end early ends in the same doubt, and one that begins with it tries nothing else. */
static void test_a_pass_ends_in_doubt(void **state)
{
    (void)state;
    bench b = {.c = mistrusted};
    const kvg_defect *doubted = NULL;
    size_t count, tried = 0;
    kvg_known_wrong known;
    char doubt[KVG_DOUBT_TEXT];
    const kvg_defect *defects = kvg_defect_table(&count);
    assert_true(open_bench(&b));
    for (int pass = 0; pass < 2; pass++) {
        const kvg_defect *first = doubted;
        assert_int_equal(kvg_known_wrong_try(&b.truth, NULL, KVG_OFFER_CONTROLS, &doubted, &known), KVG_OK);
        assert_false(kvg_known_wrong_tells(&known, doubt));
        assert_non_null(doubted);
        assert_true(known.distance[doubted - defects] >= 0 && known.distance[doubted - defects] <= 1);
        if (first) assert_ptr_equal(doubted, first);
    }
    for (size_t i = 0; i < count; i++) tried += !isnan(known.distance[i]);
    assert_int_equal(tried, 1);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_defect_is_rejected),
        cmocka_unit_test(test_a_failure_names_its_defect),
        cmocka_unit_test(test_a_case_that_cannot_separate_is_mistrusted),
        cmocka_unit_test(test_a_pass_ends_in_doubt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
