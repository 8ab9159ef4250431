/* How op decode is judged: right answers pass, and one number too far off, a NaN or one that nobody wrote fails and is
 * named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "harness/case/axes.h"
#include "harness/config/config.h"
#include "harness/run/backends.h"
#include "harness/trial/judge/judge_decode.h"
#include "harness/trial/question/decode_probes.h"
#include "harness/trial/wrong/flash.h"
#include "reference/attention_profile.h"
#include "tests/core/whole_blocks.h"

static const char PROFILE[] = "sm90.mma16816.v1";

/* --- a candidate: the reference, then one change --- */

typedef struct change {
    bool skip[2];       /* out, lse: not written at all */
    size_t keep;        /* rows from this one on are not written; 0: all are */
    bool set;           /* element `at` of tensor `which` becomes `to` */
    int which;
    size_t at;
    uint32_t to;
    kvg_profile as;     /* whose arithmetic it has; 0: the case's */
} change;

static change made; /* by the backend below */

static kvg_status run_changed(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_tensor right[2];
    for (int i = 0; i < 2; i++) {
        right[i] = out[i];
        right[i].data = malloc(out[i].bytes);
        if (!right[i].data) return KVG_ERR_MEMORY;
    }
    kvg_problem asked = *p;
    if (made.as) asked.profile = made.as;
    kvg_status s = kvg_reference_run(&asked, in, right);
    for (int i = 0; i < 2; i++) {
        const size_t rows = (size_t)p->attention.queries * p->attention.query_heads;
        const size_t bytes = made.keep ? out[i].bytes / rows * made.keep : out[i].bytes;
        if (!s && !made.skip[i]) memcpy(out[i].data, right[i].data, bytes);
        free(right[i].data);
    }
    const size_t width = kvg_dtype_bytes(out[made.which].dtype);
    if (made.set) memcpy((uint8_t *)out[made.which].data + made.at * width, &made.to, width);
    return s;
}

static const kvg_impl impls[] = {{"changed_decode", KVG_OP_DECODE, KVG_FORMAT_NONE, 0, run_changed}};
static const kvg_backend changed = {.abi = KVG_BACKEND_ABI, .struct_size = sizeof(kvg_backend), .name = "changed",
                                    .impls = impls, .impl_count = 1};

/* --- cases --- */

/* A case of two KV heads: half a dozen rows of q in three sequences, the first empty. */
static kvg_case make_case(kvg_layout layout, kvg_format format, kvg_fill fill, bool profile)
{
    kvg_case c = {
        .problem = {.op = KVG_OP_DECODE, .layout = layout, .dtype = KVG_DTYPE_BF16, .tokens = 40, .kv_heads = 2,
                    .head_dim = whole_blocks(64, format), .storage = {{format, "canonical"}, {format, "canonical"}},
                    .paging = {.layers = 2, .layer = 1, .blocks = 18, .block_tokens = 8, .sequences = 3}},
        .fill = fill,
        .scale = {.given = true, .value = {0.5f, 2}},
        .queries = 3,
        .backend = "reference",
        .seed = 11,
    };
    kvg_problem *p = &c.problem;
    if (layout == KVG_LAYOUT_CONTIGUOUS) p->paging.block_tokens = 40;
    if (kvg_layout_get(layout)->shared == KVG_SHARED_ALWAYS) {
        p->kv_heads = 1;
        p->paging.shared_kv = true;
        p->paging.v_first = 16;
        p->paging.v_dim = 48;
    }
    p->attention.query_heads = 2 * p->kv_heads;
    for (uint32_t i = 0; i < p->paging.sequences; i++) p->attention.queries += kvg_case_queries(&c, i);
    if (profile) assert_int_equal(kvg_profile_find(PROFILE, &p->profile), KVG_OK);
    if (!kvg_profile_has_operands(p->profile, format)) p->profile = KVG_PROFILE_SIMT_FMA_V1;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    return c;
}

typedef struct world {
    kvg_case c;
    kvg_question data;
    kvg_truth truth;
} world;

static void open_world(world *w, kvg_fill fill, bool profile)
{
    w->c = make_case(KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, fill, profile);
    if (kvg_question_make(&w->c, &w->data)) fail_msg("%s", kvg_error_text());
    if (kvg_know(&w->data, &w->truth)) fail_msg("%s", kvg_error_text());
}

static void close_world(world *w)
{
    kvg_truth_free(&w->truth);
    kvg_question_free(&w->data);
}

static kvg_result check(const kvg_case *c, change with)
{
    static kvg_result r;
    made = with;
    kvg_check_run(c, &changed, &r);
    return r;
}

/* The answer of a plain kernel, or of run_changed (NULL), judged without controls or diagnosis. */
static kvg_result judge_kernel(const kvg_case *c, const kvg_flash *kernel)
{
    kvg_result r = {.verdict = KVG_VERDICT_PASS};
    kvg_tensor_set answer = {0};
    kvg_question data;
    kvg_truth truth = {0};
    kvg_status s = kvg_question_make(c, &data);
    if (!s) s = kvg_know(&data, &truth);
    if (!s) s = kvg_answer_alloc(&data, &answer);
    if (!s && kernel) s = kvg_flash_run(&c->problem, data.in.tensors, kernel, answer.tensors);
    if (!s && !kernel) s = run_changed(&c->problem, data.in.tensors, answer.tensors, NULL);
    if (s) fail_msg("%s: %s", c->id, kvg_error_text());
    kvg_decode_judge(&truth, answer.tensors, &r);
    kvg_set_free(&answer);
    kvg_truth_free(&truth);
    kvg_question_free(&data);
    return r;
}

static kvg_result judge(const kvg_case *c, change with)
{
    made = with;
    return judge_kernel(c, NULL);
}

static void assert_verdict(const kvg_result *r, kvg_verdict verdict, const char *id)
{
    if (r->verdict != verdict) fail_msg("%s: %s %s", id, kvg_verdict_name(r->verdict), r->detail);
}

static void assert_fails_with(const kvg_result *r, const char *text)
{
    assert_verdict(r, KVG_VERDICT_FAIL, text);
    if (!strstr(r->detail, text)) fail_msg("'%s' is not in: %s", text, r->detail);
}

static uint32_t bits_of(kvg_dtype dtype, float x)
{
    uint32_t bits = 0;
    kvg_reference_store(dtype, &x, 1, &bits);
    return bits;
}

/* --- what passes --- */

static void test_right_answers_pass_on_every_layout_and_format(void **state)
{
    (void)state;
    size_t formats, layouts;
    const kvg_format_info *format = kvg_format_table(&formats);
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (size_t i = 0; i < formats * layouts * 2; i++) {
        const kvg_layout_info *l = &layout[i / 2 / formats];
        if (!l->paged) continue;
        const kvg_case c = make_case(l->layout, format[i / 2 % formats].format, KVG_FILL_RANDOM, i % 2);
        if (kvg_problem_check(&c.problem)) continue; /* a page for some formats alone */
        const kvg_result r = judge(&c, (change){0});
        assert_verdict(&r, KVG_VERDICT_PASS, c.id);
        assert_true(r.decode.worst_ratio <= 1 && r.decode.lse_ratio <= 1 && r.decode.codec_ratio <= 1);
        assert_true(r.decode.elements > 0 && r.decode.unpromised == 0);
        assert_int_equal(r.bytes.mismatched, 0);
    }
}

static void test_probes_agree_with_the_reference_on_every_layout(void **state)
{
    (void)state;
    size_t layouts;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (size_t i = 0; i < layouts * 4 * 2; i++) {
        const kvg_fill fill = (kvg_fill)(KVG_FILL_UNIFORM + i / 2 % 4);
        if (!layout[i / 8].paged) continue;
        kvg_case c = make_case(layout[i / 8].layout, KVG_FORMAT_INT4, fill, i % 2);
        if (kvg_problem_check(&c.problem)) continue;
        for (int sinks = 0; sinks < 2 && kvg_probe_check(&c) == KVG_OK; sinks++) {
            const kvg_result r = judge(&c, (change){0});
            assert_verdict(&r, KVG_VERDICT_PASS, c.id);
            assert_true(r.decode.probe_ratio <= 1);
            c.problem.attention.sinks = true;
        }
    }
}

/* A sink takes its share of the weights, which a probe knows without the reference. */
static void test_a_probe_convicts_a_lost_sink(void **state)
{
    (void)state;
    static const kvg_fill fills[] = {KVG_FILL_UNIFORM, KVG_FILL_ONES};
    static const float caps[] = {0, 2};
    const kvg_backend *backend;
    assert_int_equal(kvg_check_backend("defect:sink_lost", &backend), KVG_OK);
    for (size_t i = 0; i < 4; i++) {
        kvg_case c = make_case(KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, fills[i % 2], false);
        kvg_result r;
        c.problem.attention.sinks = true;
        c.problem.attention.softcap = caps[i / 2];
        assert_int_equal(kvg_case_name(&c), KVG_OK);
        assert_true(judge(&c, (change){0}).decode.probe_ratio <= 1);
        kvg_check_run(&c, backend, &r);
        assert_verdict(&r, KVG_VERDICT_FAIL, c.id);
        assert_true(r.decode.probe_ratio > 1);
    }
}

/* --- what fails, and where --- */

/* The number of T next to `x` in the direction of +Inf. */
static float next_above(kvg_dtype dtype, double x)
{
    float near = (float)x, y;
    uint32_t bits = bits_of(dtype, near);
    kvg_reference_load(dtype, &bits, 1, &y);
    for (; !(y > x); kvg_reference_load(dtype, &bits, 1, &y)) bits += y < 0 ? -1 : 1;
    return y;
}

static void test_one_number_outside_its_bound_fails_with_its_place(void **state)
{
    (void)state;
    world w;
    open_world(&w, KVG_FILL_RANDOM, false);
    const size_t row = 2, head = 3, dim = 17, at = (row * 4 + head) * 64 + dim;
    const double limit = w.truth.exact.out[at] + w.truth.exact.out_bound[at];
    change with = {.set = true, .which = 0, .at = at, .to = bits_of(KVG_DTYPE_BF16, next_above(KVG_DTYPE_BF16, limit))};
    kvg_result r = check(&w.c, with);
    char place[160];
    snprintf(place, sizeof place, "dim 17 of sequence %u, query %u (position %lld), head 3 (KV head 1)",
             w.data.queries[row].sequence, w.data.queries[row].number, (long long)w.data.queries[row].position);
    assert_fails_with(&r, place);
    assert_fails_with(&r, "out: 1 of ");
    assert_fails_with(&r, "whose largest weight is token ");
    assert_true(r.decode.worst_ratio > 1);
    assert_int_equal(r.bytes.mismatched, 2);
    with.to += limit < 0 ? 1 : -1; /* the number below it lies inside */
    r = check(&w.c, with);
    assert_verdict(&r, KVG_VERDICT_PASS, "inside");
    assert_true(r.decode.worst_ratio > 0.5);

    const size_t index = row * 4 + head;
    with = (change){.set = true, .which = 1, .at = index};
    with.to = bits_of(KVG_DTYPE_F32, (float)(w.truth.exact.lse[index] + 1.01 * w.truth.exact.lse_bound[index]));
    r = check(&w.c, with);
    assert_fails_with(&r, place + strlen("dim 17 of "));
    assert_fails_with(&r, "lse: 1 of ");
    close_world(&w);
}

static void test_one_bit_fails_under_a_profile(void **state)
{
    (void)state;
    world w;
    open_world(&w, KVG_FILL_RANDOM, true);
    kvg_tensor_set right = {0};
    assert_int_equal(kvg_set_alloc(&w.c.problem, w.data.op->outputs, &right), KVG_OK);
    assert_int_equal(kvg_reference_run(&w.c.problem, w.data.in.tensors, right.tensors), KVG_OK);
    const size_t row = 1, at = (row * 4 + 2) * 64 + 5;
    change with = {.set = true, .which = 0, .at = at};
    with.to = ((uint16_t *)right.tensors[0].data)[at] ^ 1u;
    kvg_result r = check(&w.c, with);
    char text[200];
    snprintf(text, sizeof text,
             "out: 1 of %zu numbers have other bits than %s, first at dim 5 of sequence %u, query %u", w.truth.outputs,
             PROFILE, w.data.queries[row].sequence, w.data.queries[row].number);
    assert_fails_with(&r, text);
    assert_int_equal(r.bytes.mismatched, 1);
    with = (change){.set = true, .which = 1, .at = row * 4 + 2};
    with.to = ((uint32_t *)right.tensors[1].data)[row * 4 + 2] ^ 1u;
    r = check(&w.c, with);
    assert_fails_with(&r, "lse: 1 of ");
    kvg_set_free(&right);
    close_world(&w);
}

static void test_the_bits_of_another_profile_are_named(void **state)
{
    (void)state;
    world w;
    open_world(&w, KVG_FILL_RANDOM, true);
    kvg_result r = check(&w.c, (change){.as = KVG_PROFILE_SM90_MMA16816_V2});
    assert_fails_with(&r, "numbers have other bits than sm90.mma16816.v1");
    assert_fails_with(&r, "; the bits are those of sm90.mma16816.v2");
    r = check(&w.c, (change){.as = KVG_PROFILE_SM90_MMA16816_V2, .set = true, .at = 3, .to = 0x1234});
    assert_null(strstr(r.detail, "the bits are those of"));
    r = check(&w.c, (change){.as = KVG_PROFILE_SM100_MMA16816_V1}); /* of a chip with the same sums */
    assert_verdict(&r, KVG_VERDICT_PASS, "sm100");
    close_world(&w);
}

static void test_nan_and_infinity_fail(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++) {
        const kvg_case c = make_case(KVG_LAYOUT_VLLM, KVG_FORMAT_E4M3, KVG_FILL_RANDOM, i & 1);
        const float bad = i & 2 ? NAN : INFINITY;
        const int which = i >> 2;
        const kvg_dtype dtype = which ? KVG_DTYPE_F32 : KVG_DTYPE_BF16;
        const kvg_result r = judge(&c, (change){.set = true, .which = which, .at = 11, .to = bits_of(dtype, bad)});
        assert_fails_with(&r, which ? "lse: 1 of " : "out: 1 of ");
        assert_true(r.decode.worst_ratio == INFINITY || r.decode.lse_ratio == INFINITY);
    }
}

/* Where out alone is asked for, nothing in lse is judged, by bounds or by bits, and all of out is. */
static void test_out_alone_is_judged(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        kvg_case c = make_case(KVG_LAYOUT_VLLM, KVG_FORMAT_E4M3, KVG_FILL_RANDOM, i & 1);
        c.answers = KVG_ANSWERS_OUT;
        assert_int_equal(kvg_case_name(&c), KVG_OK);
        assert_non_null(strstr(c.id, ":out/"));
        const int which = i >> 1;
        const kvg_dtype dtype = which ? KVG_DTYPE_F32 : KVG_DTYPE_BF16;
        const kvg_result r = judge(&c, (change){.set = true, .which = which, .at = 11, .to = bits_of(dtype, NAN)});
        if (which) assert_verdict(&r, KVG_VERDICT_PASS, c.id);
        else assert_fails_with(&r, "out: 1 of ");
    }
}

static void test_what_nobody_wrote_fails(void **state)
{
    (void)state;
    static const change unwritten[] = {{.skip = {true, false}}, {.skip = {false, true}}, {.skip = {true, true}},
                                       {.keep = 1}, {.keep = 7}};
    for (size_t i = 0; i < 2 * sizeof unwritten / sizeof unwritten[0]; i++) {
        const kvg_case c = make_case(KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT8, KVG_FILL_RANDOM, i & 1);
        const kvg_result r = judge(&c, unwritten[i / 2]);
        assert_verdict(&r, KVG_VERDICT_FAIL, "unwritten");
        assert_true(r.decode.worst_ratio == INFINITY || r.decode.lse_ratio == INFINITY); /* NaN patterns were there */
    }
}

static void test_a_probe_convicts_a_wrong_reference(void **state)
{
    (void)state;
    for (int fill = KVG_FILL_UNIFORM; fill <= KVG_FILL_COLD; fill++) {
        world w;
        open_world(&w, (kvg_fill)fill, false);
        kvg_tensor_set answer = {0};
        assert_int_equal(kvg_set_alloc(&w.c.problem, w.data.op->outputs, &answer), KVG_OK);
        assert_int_equal(kvg_reference_run(&w.c.problem, w.data.in.tensors, answer.tensors), KVG_OK);
        const size_t at = w.truth.outputs - 1; /* the reference "agrees" with a wrong number */
        const float wrong = (float)(w.truth.exact.out[at] + 4);
        kvg_reference_store(KVG_DTYPE_BF16, &wrong, 1, (uint16_t *)answer.tensors[0].data + at);
        w.truth.exact.out[at] = wrong;
        w.truth.exact.out_bound[at] = 1;
        kvg_result r = {.verdict = KVG_VERDICT_PASS};
        kvg_decode_judge(&w.truth, answer.tensors, &r);
        assert_fails_with(&r, "out: 1 of ");
        assert_fails_with(&r, "outside what the probe must give");
        assert_true(r.decode.worst_ratio <= 1 && r.decode.probe_ratio > 1);
        kvg_set_free(&answer);
        close_world(&w);
    }
}

static void test_the_heaviest_key_is_named(void **state)
{
    (void)state;
    world w;
    open_world(&w, KVG_FILL_NEEDLE, false);
    size_t row = w.c.problem.attention.queries;
    uint32_t head = 0;
    while (row-- > 0) { /* a row whose needle is its newest key: harness/trial/question/decode_probes.c */
        for (head = 0; head < 4 && (row * 7 + head) % 7 != 0; head++) {}
        if (head < 4 && w.data.queries[row].keys > 0) break;
    }
    const int64_t token = w.data.queries[row].position;
    const int32_t *table = kvg_set_tensor(&w.data.in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    char text[160];
    snprintf(text, sizeof text, "whose largest weight is token %lld (block %d, tile %lld, leaf %lld)", (long long)token,
             table[w.data.queries[row].sequence * 5 + token / 8], (long long)token / 32, (long long)token / 128);
    const size_t at = (row * 4 + head) * 64;
    const kvg_result r = check(&w.c, (change){.set = true, .at = at, .to = bits_of(KVG_DTYPE_BF16, NAN)});
    assert_fails_with(&r, text);
    close_world(&w);
}

static void test_a_defect_explains_a_failure(void **state)
{
    (void)state;
    const kvg_backend *backend;
    kvg_result r;
    const kvg_case c = make_case(KVG_LAYOUT_HND, KVG_FORMAT_NVFP4, KVG_FILL_RANDOM, false);
    assert_int_equal(kvg_check_backend("defect:hnd_as_nhd", &backend), KVG_OK);
    kvg_check_run(&c, backend, &r);
    assert_fails_with(&r, "near defect hnd_as_nhd");
}

/* --- what a case holds --- */

enum { SEEDS = 2 };

/* In how many of SEEDS cases an answer of a kernel of class `kernel` passes as one of class `judge`. */
static int passes(kvg_format format, kvg_operands kernel, kvg_operands judge)
{
    int passed = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        kvg_case c = make_case(KVG_LAYOUT_HND, format, KVG_FILL_RANDOM, false);
        c.scale.value[KVG_K] = 0.3124f; /* far from any bf16 */
        c.scale.value[KVG_V] = 0.01318f;
        c.seed = (uint64_t)seed;
        c.operands = kernel;
        kvg_flash right;
        kvg_flash_init(&c.problem, KVG_FLASH_RIGHT, &right);
        assert_int_equal(kvg_decode_arithmetic(&c, &right.class), KVG_OK);
        right.class.fraction_bits = 0;
        c.operands = judge;
        passed += judge_kernel(&c, &right).verdict == KVG_VERDICT_PASS;
    }
    return passed;
}

/* A kernel that keeps its class passes with every seed; one that rounds more than its class says fails with some. */
static void test_a_class_is_kept_or_broken(void **state)
{
    (void)state;
    static const struct {
        kvg_format format;
        kvg_operands kernel, judge;
    } broken[] = {
        {KVG_FORMAT_E4M3, KVG_OPERANDS_BF16, KVG_OPERANDS_F16},
        {KVG_FORMAT_E4M3, KVG_OPERANDS_E4M3, KVG_OPERANDS_BF16},
        {KVG_FORMAT_E4M3, KVG_OPERANDS_F16_DECODED, KVG_OPERANDS_F16},
        {KVG_FORMAT_E4M3, KVG_OPERANDS_BF16_DECODED, KVG_OPERANDS_F16_DECODED},
        {KVG_FORMAT_E4M3, KVG_OPERANDS_BF16_DECODED, KVG_OPERANDS_BF16},
        {KVG_FORMAT_BF16, KVG_OPERANDS_BF16_PRODUCTS, KVG_OPERANDS_BF16_DECODED},
    };
    const char *const *names = kvg_axis_get(KVG_AXIS_OPERANDS)->value.names;
    for (int class = 0; names[class]; class++) {
        const int passed = passes(KVG_FORMAT_E4M3, (kvg_operands)class, (kvg_operands)class);
        if (passed != SEEDS) fail_msg("class %s: %d of %d passed", names[class], passed, SEEDS);
    }
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        if (passes(broken[i].format, broken[i].kernel, broken[i].judge) == SEEDS)
            fail_msg("a kernel of class %s passes as %s", names[broken[i].kernel], names[broken[i].judge]);
    }
}

static void test_queries_are_spread_over_the_sequences(void **state)
{
    (void)state;
    for (uint32_t queries = 1; queries <= 16; queries++) {
        kvg_case c = make_case(KVG_LAYOUT_HND, KVG_FORMAT_BF16, KVG_FILL_RANDOM, false);
        c.queries = queries;
        c.problem.paging.sequences = 4;
        bool none = false;
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(kvg_case_queries(&c, i) <= queries);
            none |= kvg_case_queries(&c, i) == 0;
        }
        assert_int_equal(kvg_case_queries(&c, 3), queries);
        assert_true(none == (queries > 1));
    }
}

/* The last sequence is full and sees `window` keys up to each query; what no query sees is noise. */
static void test_queries_see_their_window(void **state)
{
    (void)state;
    kvg_case c = make_case(KVG_LAYOUT_HND, KVG_FORMAT_F16, KVG_FILL_ADVERSARIAL, false);
    kvg_question d;
    c.problem.attention.window = 5;
    assert_int_equal(kvg_case_name(&c), KVG_OK);
    assert_int_equal(kvg_question_make(&c, &d), KVG_OK);
    for (uint32_t i = 0; i < 3; i++) {
        const kvg_query_row *q = &d.queries[c.problem.attention.queries - 3 + i];
        assert_int_equal(q->sequence, 2);
        assert_int_equal(q->number, i);
        assert_int_equal(q->position, 37 + i);
        assert_int_equal(q->keys, 5);
        assert_int_equal(d.source[q->first], 2 * 40 + 33 + i);
    }
    for (size_t i = 0; i < d.rows.tokens; i++) assert_true(d.source[i] / 40 != 2 || d.source[i] % 40 >= 33);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *values = kvg_set_tensor(&d.values, KVG_ROLE_VALUES, (kvg_side)side);
        for (size_t i = 0; i < values->bytes / 2; i++) {
            float x;
            kvg_reference_load(KVG_DTYPE_BF16, (uint16_t *)values->data + i, 1, &x);
            assert_true(isfinite(x));
        }
    }
    kvg_question_free(&d);
}

static void test_axes_are_in_the_id(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kvgold\":1,\"name\":\"t\",\"seed\":\"0x5\",\"cases\":[{\"op\":\"decode\",\"format\":\"bf16\",\"layout\":"
        "\"hnd\",\"model\":\"llama-3-8b\",\"fill\":\"random\",\"queries\":[1,3],\"window\":[0,128],\"softcap\":[0,30],"
        "\"score_scale\":0.125,\"sinks\":[false,true],\"profile\":[\"exact\",\"sm90.mma16816.v1\"],\"operands\":"
        "\"plain\",\"exclude\":[{\"queries\":1,\"sinks\":true},{\"window\":128,\"softcap\":false},"
        "{\"profile\":\"exact\",\"group\":4,\"queries\":3}]}]}";
    kvg_config config;
    if (kvg_config_parse("t.json", text, strlen(text), KVG_SOURCE_DIR "/configs", NULL, &config))
        fail_msg("%s", kvg_error_text());
    assert_int_equal(config.case_count, 12);
    bool found = false;
    for (size_t i = 0; i < config.case_count; i++) {
        const kvg_problem *p = &config.cases[i].problem;
        found |= strstr(config.cases[i].id, ":L2:S3:G4:q3:w128:cap30:s0.125:sinks:sm90.mma16816.v1/") != NULL;
        assert_int_equal(p->attention.query_heads, 32);
    }
    assert_true(found);
    kvg_config_close(&config);
}

/* Under this seed one key has nearly all the weight before K is quantised, and next to none after it: section 6.5 of
 * docs/spec/numerics.md. */
static void test_a_weight_that_vanishes_is_within_the_bound(void **state)
{
    (void)state;
    static const char name[] = "/e4m3.canonical/hnd:B16:N12:L2:S3:G3:q3:simt.fma.v1/f32/70x2x96/adversarial/";
    const uint64_t seed = 3;
    kvg_config config;
    size_t known = 0;
    const kvg_status s = kvg_config_open(KVG_SOURCE_DIR "/configs/ci_attention.json", &seed, NULL, &config);
    if (s) fail_msg("%s", kvg_error_text());
    for (size_t i = 0; i < config.case_count; i++) {
        kvg_question question;
        kvg_truth truth;
        if (!strstr(config.cases[i].id, name)) continue;
        assert_int_equal(kvg_question_make(&config.cases[i], &question), KVG_OK);
        if (kvg_know(&question, &truth)) fail_msg("%s", kvg_error_text());
        assert_true(truth.codec_ratio > 0.5 && truth.codec_ratio <= 1);
        kvg_truth_free(&truth);
        kvg_question_free(&question);
        known++;
    }
    assert_int_equal(known, 1);
    kvg_config_close(&config);
}

/* The first KV head sees more than 2^18 numbers of K, so that 8 of the 16 query heads are measured. */
static void test_codec_of_a_large_case_is_measured_on_its_first_rows(void **state)
{
    static const char text[] = "{\"kvgold\": 1, \"name\": \"large\", \"seed\": \"0x7\", \"cases\": [{"
                               "\"op\": \"decode\", \"sequences\": 1, \"layout\": \"hnd\", \"format\": \"int8\", "
                               "\"kv_heads\": 2, \"group\": 8, \"head_dim\": 128, \"tokens\": 2100, "
                               "\"fill\": \"random\"}]}";
    kvg_config config;
    kvg_question question;
    kvg_truth truth;
    (void)state;
    assert_int_equal(kvg_config_parse("large", text, sizeof text - 1, ".", NULL, &config), KVG_OK);
    assert_int_equal(kvg_question_make(&config.cases[0], &question), KVG_OK);
    if (kvg_know(&question, &truth)) fail_msg("%s", kvg_error_text());
    assert_int_equal(truth.rows, 16);
    assert_true(truth.codec_ratio > 0 && truth.codec_ratio <= 1 && truth.codec_l2 > 0);
    kvg_truth_free(&truth);
    kvg_question_free(&question);
    kvg_config_close(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codec_of_a_large_case_is_measured_on_its_first_rows),
        cmocka_unit_test(test_right_answers_pass_on_every_layout_and_format),
        cmocka_unit_test(test_probes_agree_with_the_reference_on_every_layout),
        cmocka_unit_test(test_one_number_outside_its_bound_fails_with_its_place),
        cmocka_unit_test(test_one_bit_fails_under_a_profile),
        cmocka_unit_test(test_the_bits_of_another_profile_are_named),
        cmocka_unit_test(test_nan_and_infinity_fail),
        cmocka_unit_test(test_out_alone_is_judged),
        cmocka_unit_test(test_what_nobody_wrote_fails),
        cmocka_unit_test(test_a_probe_convicts_a_lost_sink),
        cmocka_unit_test(test_a_probe_convicts_a_wrong_reference),
        cmocka_unit_test(test_the_heaviest_key_is_named),
        cmocka_unit_test(test_a_defect_explains_a_failure),
        cmocka_unit_test(test_a_class_is_kept_or_broken),
        cmocka_unit_test(test_queries_are_spread_over_the_sequences),
        cmocka_unit_test(test_queries_see_their_window),
        cmocka_unit_test(test_axes_are_in_the_id),
        cmocka_unit_test(test_a_weight_that_vanishes_is_within_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
