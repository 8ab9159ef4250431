/* The measures of op generate on distributions whose values are known, with NaN, and each beside a wrong formula that
 * these values tell from the right one; what a planted defect does to ops; what a request weighs. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "harness/config/config.h"
#include "model/generate/generate_memory.h"
#include "model/generate/quality_run.h"
#include "model/generate/defect_planted.h"

static bool near(double x, double y, double within)
{
    return fabs(x - y) <= within; /* false for a NaN */
}

/* Sums of at most 4 terms of size 8: a few roundings of doubles. */
static const double roundings = 1e-12;

/* --- one row --- */

/* p = (1/2, 1/4, 1/8, 1/8), q = (1/4, 1/4, 1/4, 1/4), as logits that are off by constants. */
static const float p_logits[] = {2.0794415f, 1.3862944f, 0.6931472f, 0.6931472f}; /* ln 8, ln 4, ln 2, ln 2 */
static const float q_logits[] = {-3, -3, -3, -3};

/* The values above are f32 of logarithms: relative 2^-25 each, a few of them in a sum. */
static const double inputs = 4e-7;

static void test_row_known(void **state)
{
    (void)state;
    kvg_quality_row r;
    kvg_quality_compare(p_logits, q_logits, 4, 1, &r);
    assert_true(near(r.base_bits, 2, inputs));
    assert_true(near(r.bits, 2, inputs));
    assert_true(near(r.kl, 0.25, inputs)); /* 2 - H(p) = 2 - 1.75 */
    assert_true(r.same_top);               /* the first of equal ones */
    kvg_quality_compare(q_logits, p_logits, 4, 3, &r);
    assert_true(near(r.base_bits, 2, inputs));
    assert_true(near(r.bits, 3, inputs));
    assert_true(near(r.kl, 0.25, inputs)); /* (1 + 2 + 3 + 3) / 4 - 2 */
}

/* Formulas that are wrong, on the same two: what the right one must be told from. */
static void test_row_wrong_formulas(void **state)
{
    (void)state;
    const double p[] = {0.7, 0.2, 0.1}, q[] = {0.5, 0.2, 0.3};
    float a[3], b[3];
    double kl = 0, reverse = 0, nats = 0, absolute = 0, swapped = 0;
    for (int i = 0; i < 3; i++) {
        a[i] = (float)log(p[i]);
        b[i] = (float)log(q[i]);
        kl += p[i] * log2(p[i] / q[i]);
        reverse += q[i] * log2(q[i] / p[i]);
        nats += p[i] * log(p[i] / q[i]);
        absolute += p[i] * fabs(log2(p[i] / q[i]));
        swapped += p[i] * log2(p[i] / q[2 - i]);
    }
    const double wrong[] = {reverse, nats, absolute, swapped, 0};
    kvg_quality_row r;
    kvg_quality_compare(a, b, 3, 2, &r);
    assert_true(near(r.kl, kl, inputs));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) assert_false(near(r.kl, wrong[i], inputs));
    assert_true(near(r.bits, -log2(q[2]), inputs));
    assert_false(near(r.bits, -log2(p[2]), inputs)); /* of the wrong run */
    assert_false(near(r.bits, -log2(q[1]), inputs)); /* of the token before */
}

static void test_row_same_is_zero(void **state)
{
    (void)state;
    float logits[256];
    for (uint32_t i = 0; i < 256; i++) logits[i] = (float)(8 * kvg_rng_normal(7, 0, i));
    kvg_quality_row r;
    kvg_quality_compare(logits, logits, 256, 17, &r);
    assert_true(r.kl == 0 && r.same_top && r.bits == r.base_bits);
}

static void test_row_far_apart(void **state)
{
    (void)state;
    const float one[] = {0, -INFINITY}, other[] = {-INFINITY, 0}, steep[] = {0, 300}, back[] = {300, 0};
    kvg_quality_row r;
    kvg_quality_compare(one, other, 2, 0, &r); /* impossible tokens: infinite, but no NaN */
    assert_true(isinf(r.kl) && r.kl > 0 && isinf(r.bits) && r.base_bits == 0 && !r.same_top);
    kvg_quality_compare(one, one, 2, 0, &r);
    assert_true(r.kl == 0 && r.bits == 0);
    kvg_quality_compare(steep, back, 2, 1, &r); /* exponentials that would overflow without their maximum */
    assert_true(near(r.kl, 300 / log(2.0), 1e-9) && near(r.bits, 300 / log(2.0), 1e-9));
}

static void test_row_nan(void **state)
{
    (void)state;
    const float good[] = {1, 2}, nan_first[] = {NAN, 2}, nan_last[] = {1, NAN}, inf[] = {1, INFINITY},
                none[] = {-INFINITY, -INFINITY};
    const float *const bad[] = {nan_first, nan_last, inf, none};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kvg_quality_row r;
        kvg_quality_compare(good, bad[i], 2, 0, &r);
        assert_true(isnan(r.bits) && isnan(r.kl) && !isnan(r.base_bits));
        kvg_quality_compare(bad[i], good, 2, 0, &r);
        assert_true(isnan(r.base_bits) && isnan(r.kl));
    }
}

/* --- all rows --- */

enum { ROWS = 1000 };

/* Rows of 4 texts of 250: bits 1 + i / 1000 in the base, 0.5 more in the other run; kl i / 1000; every fifth differs
 * in its top token. */
static void make_rows(kvg_quality_row rows[ROWS])
{
    for (uint32_t i = 0; i < ROWS; i++) {
        const double x = (double)i / ROWS;
        rows[i] = (kvg_quality_row){.text = i / 250, .position = i % 250, .base_bits = 1 + x, .bits = 1.5 + x, .kl = x,
                                    .same_top = i % 5 != 0};
    }
}

static void test_summary(void **state)
{
    (void)state;
    kvg_quality_row rows[ROWS];
    kvg_quality q, again, other;
    make_rows(rows);
    assert_int_equal(kvg_quality_summarise(rows, ROWS, 1, &q), KVG_OK);
    assert_int_equal(q.rows, ROWS);
    assert_true(near(q.base_bits, 1.4995, roundings * ROWS) && near(q.bits.value, 1.9995, roundings * ROWS));
    assert_true(near(q.loss.value, 0.5, roundings * ROWS) && near(q.kl.value, 0.4995, roundings * ROWS));
    assert_true(near(q.top1.value, 0.8, roundings));
    assert_true(q.kl_p99 == 0.989 && q.kl_worst == 0.999); /* the 990th of 1000, and the last */
    assert_false(q.kl_p99 == 0.99);                        /* one rank late */
    /* The loss is the same in every row, so in every replicate; KL is not. */
    assert_true(near(q.loss.low, 0.5, 1e-9) && near(q.loss.high, 0.5, 1e-9));
    assert_true(q.kl.low < q.kl.value && q.kl.value < q.kl.high && q.kl.high < 0.999 && q.kl.low > 0);
    assert_int_equal(kvg_quality_summarise(rows, ROWS, 1, &again), KVG_OK);
    assert_memory_equal(&q, &again, sizeof q);
    assert_int_equal(kvg_quality_summarise(rows, ROWS, 2, &other), KVG_OK);
    assert_true(other.kl.low != q.kl.low && other.kl.value == q.kl.value);
}

/* Neighbours that are alike are one draw: rows drawn one by one would make the interval eight times too narrow. */
static void test_bootstrap_draws_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 32, MANY = BLOCKS * KVG_QUALITY_BLOCK };
    static kvg_quality_row rows[MANY];
    double squares = 0, mean = 0;
    kvg_quality q;
    for (uint32_t i = 0; i < MANY; i++) {
        const double x = 10 + kvg_rng_normal(3, 0, i / KVG_QUALITY_BLOCK);
        rows[i] = (kvg_quality_row){.position = i, .kl = x, .same_top = true};
        mean += x / MANY;
        squares += x * x / MANY;
    }
    assert_int_equal(kvg_quality_summarise(rows, MANY, 5, &q), KVG_OK);
    const double error = sqrt((squares - mean * mean) / BLOCKS), width = (q.kl.high - q.kl.low) / 2;
    /* 1.96 standard errors of a mean of 32; a thousand replicates give a percentile to within a tenth or so */
    assert_true(width > 1.5 * error && width < 2.5 * error);
    assert_false(width < 2.5 * error / sqrt(KVG_QUALITY_BLOCK));
}

static void test_buckets(void **state)
{
    (void)state;
    static const uint32_t positions[] = {0, 63, 64, 127, 128, 255, 256, 4096, UINT32_MAX};
    static const unsigned expected[] = {0, 0, 1, 1, 2, 2, 3, 7, KVG_QUALITY_BUCKETS - 1};
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; i++) {
        const kvg_quality_row row = {.position = positions[i], .bits = 3, .base_bits = 1, .kl = 0.5};
        kvg_quality q;
        assert_int_equal(kvg_quality_summarise(&row, 1, 1, &q), KVG_OK);
        for (unsigned b = 0; b < KVG_QUALITY_BUCKETS; b++) assert_int_equal(q.buckets[b].rows, b == expected[i]);
        assert_true(q.buckets[expected[i]].loss == 2 && q.buckets[expected[i]].kl == 0.5);
        assert_true(kvg_quality_bucket_from(expected[i]) <= positions[i]);
    }
}

static void test_nan_never_passes(void **state)
{
    (void)state;
    const kvg_quality_limits none = {.loss = INFINITY, .kl = INFINITY}, all = {.loss = 0.6, .kl = 0.5, .top1 = 0.75};
    kvg_quality_row rows[ROWS];
    kvg_quality q;
    char text[256];
    make_rows(rows);
    assert_int_equal(kvg_quality_summarise(rows, ROWS, 1, &q), KVG_OK);
    assert_false(kvg_quality_exceeds(&q, &none, text, sizeof text));
    assert_false(kvg_quality_exceeds(&q, &all, text, sizeof text));
    const kvg_quality_limits tight[] = {{.loss = 0.4, .kl = 0.5}, {.loss = 0.6, .kl = 0.4}, {0.6, 0.5, 0.81}};
    static const char *const words[] = {"loses", "KL", "top-1"};
    for (size_t i = 0; i < 3; i++) {
        assert_true(kvg_quality_exceeds(&q, &tight[i], text, sizeof text));
        assert_non_null(strstr(text, words[i]));
    }
    for (int field = 0; field < 3; field++) {
        make_rows(rows);
        *(double *[]){&rows[500].base_bits, &rows[500].bits, &rows[500].kl}[field] = NAN;
        assert_int_equal(kvg_quality_summarise(rows, ROWS, 1, &q), KVG_OK);
        assert_int_equal(q.unknown, 1);
        assert_true(isnan(q.loss.value) && isnan(q.kl.value) && isnan(q.kl_worst) && isnan(q.kl.high));
        assert_true(kvg_quality_exceeds(&q, &none, text, sizeof text));
        assert_non_null(strstr(text, "1 of 1000 rows"));
        q.unknown = 0; /* whoever forgets to ask for it is stopped by the limits, which a NaN does not keep */
        assert_true(kvg_quality_exceeds(&q, &all, text, sizeof text));
    }
    for (int field = 0; field < 3; field++) { /* each limit for itself */
        q = (kvg_quality){.rows = 1, .top1.value = 1};
        *(double *[]){&q.loss.value, &q.kl.value, &q.top1.value}[field] = NAN;
        assert_true(kvg_quality_exceeds(&q, &none, text, sizeof text));
        assert_non_null(strstr(text, words[field]));
    }
    assert_int_equal(kvg_quality_summarise(rows, 0, 1, &q), KVG_ERR_INVALID);
}

/* --- two runs --- */

enum { LENGTH = 8, VOCAB = 4, GREEDY = 3, TEXTS = 3, OF_TEXT = LENGTH + GREEDY };

typedef struct made {
    float logits[TEXTS * OF_TEXT * VOCAB];
    bool seen[TEXTS * OF_TEXT];
    int32_t generated[TEXTS * GREEDY], tokens[TEXTS * LENGTH];
    kvg_quality_answer answer;
    kvg_quality_texts texts;
} made;

static void make_answer(made *m)
{
    for (uint32_t i = 0; i < TEXTS * OF_TEXT * VOCAB; i++) m->logits[i] = (float)kvg_rng_normal(9, 1, i);
    for (uint32_t i = 0; i < TEXTS * OF_TEXT; i++) m->seen[i] = i % OF_TEXT != OF_TEXT - 1;
    for (uint32_t i = 0; i < TEXTS * GREEDY; i++) m->generated[i] = (int32_t)(i % VOCAB);
    for (uint32_t i = 0; i < TEXTS * LENGTH; i++) m->tokens[i] = (int32_t)(i % VOCAB);
    m->answer = (kvg_quality_answer){.texts = TEXTS, .length = LENGTH, .greedy = GREEDY, .vocab = VOCAB,
                                     .logits = m->logits, .seen = m->seen, .generated = m->generated};
    m->texts = (kvg_quality_texts){.tokens = m->tokens, .texts = TEXTS, .length = LENGTH, .stride = 3};
}

/* A window of 8 every 3: the first scores 7 tokens, each other one 3. With stride 8: 7 each. */
static void test_scored_once(void **state)
{
    (void)state;
    made base, own;
    kvg_quality q;
    make_answer(&base);
    make_answer(&own);
    assert_int_equal(kvg_quality_measure(&own.texts, &base.answer, &own.answer, 1, &q), KVG_OK);
    assert_int_equal(q.rows, 7 + 3 + 3);
    assert_true(q.kl.value == 0 && q.loss.value == 0 && q.top1.value == 1);
    own.texts.stride = LENGTH;
    assert_int_equal(kvg_quality_measure(&own.texts, &base.answer, &own.answer, 1, &q), KVG_OK);
    assert_int_equal(q.rows, 7 * 3);
    double bits = 0;
    for (uint32_t t = 0; t < TEXTS; t++) { /* row r tells of token r + 1 */
        for (uint32_t r = 0; r + 1 < LENGTH; r++) {
            kvg_quality_row row;
            const float *logits = &own.logits[(t * OF_TEXT + r) * VOCAB];
            kvg_quality_compare(logits, logits, VOCAB, (uint32_t)own.tokens[t * LENGTH + r + 1], &row);
            bits += row.bits / (7 * TEXTS);
        }
    }
    assert_true(near(q.bits.value, bits, roundings));
    own.texts.stride = 3;
    own.logits[(OF_TEXT + 3) * VOCAB] = NAN; /* text 1, row 3: its token was scored in text 0 */
    assert_int_equal(kvg_quality_measure(&own.texts, &base.answer, &own.answer, 1, &q), KVG_OK);
    assert_int_equal(q.unknown, 0);
    own.logits[(OF_TEXT + 4) * VOCAB] = NAN; /* row 4 tells of token 5, the first new one */
    assert_int_equal(kvg_quality_measure(&own.texts, &base.answer, &own.answer, 1, &q), KVG_OK);
    assert_int_equal(q.unknown, 1);
}

static void test_bits(void **state)
{
    (void)state;
    made base, own;
    make_answer(&base);
    make_answer(&own);
    kvg_quality_bits b = kvg_quality_compare_bits(&base.answer, &own.answer);
    assert_int_equal(b.rows, TEXTS * (OF_TEXT - 1)); /* the last row of each was not seen */
    assert_int_equal(b.compared_bytes, b.rows * VOCAB * sizeof(float));
    assert_int_equal(b.differ, 0);
    own.logits[(OF_TEXT + 5) * VOCAB + 2] = nextafterf(own.logits[(OF_TEXT + 5) * VOCAB + 2], 9);
    own.logits[(2 * OF_TEXT + 9) * VOCAB] *= -1; /* a generated token's */
    b = kvg_quality_compare_bits(&base.answer, &own.answer);
    assert_int_equal(b.differ, 2);
    assert_true(b.text == 1 && b.row == 5 && b.token == 2 && b.bytes >= 2 && b.got != b.expected);
    base.logits[0] = 0.0f;
    own.logits[0] = -0.0f; /* equal numbers, other bits */
    b = kvg_quality_compare_bits(&base.answer, &own.answer);
    assert_int_equal(b.differ, 3);
    own.answer.texts = 1; /* only what both have */
    assert_int_equal(kvg_quality_compare_bits(&base.answer, &own.answer).rows, OF_TEXT - 1);
}

static void test_greedy(void **state)
{
    (void)state;
    made base, own;
    make_answer(&base);
    make_answer(&own);
    kvg_quality_greedy g = kvg_quality_compare_greedy(&base.answer, &own.answer);
    assert_true(g.same == TEXTS && g.first == GREEDY && g.median == GREEDY);
    own.generated[GREEDY + 1]++;                 /* text 1 differs from its second token on */
    own.generated[2 * GREEDY]++;                 /* text 2 from the first */
    own.generated[2 * GREEDY + 1] += 2;
    g = kvg_quality_compare_greedy(&base.answer, &own.answer);
    assert_true(g.same == 1 && g.first == 0 && g.median == 1 && g.texts == TEXTS && g.tokens == GREEDY);
}

static void test_texts(void **state)
{
    (void)state;
    static const char path[] = KVG_SOURCE_DIR "/golden/data/model/heldout.txt"; /* 65,500 bytes */
    kvg_quality_texts t;
    assert_int_equal(kvg_quality_texts_read(path, 0, 1024, 512, &t), KVG_OK);
    assert_int_equal(t.texts, (65500 - 1024) / 512 + 1);
    assert_memory_equal(&t.tokens[1024], &t.tokens[512], 512 * sizeof t.tokens[0]);
    kvg_quality_texts_free(&t);
    assert_int_equal(kvg_quality_texts_read(path, 64, 1024, 1024, &t), KVG_ERR_INVALID); /* 63 fit */
    assert_int_equal(kvg_quality_texts_read(path, 0, 65501, 1, &t), KVG_ERR_INVALID);
    assert_int_equal(kvg_quality_texts_read(path, 1, 65500, 1, &t), KVG_OK);
    kvg_quality_texts_free(&t);
    assert_int_equal(kvg_quality_texts_read(KVG_SOURCE_DIR "/no-such.txt", 1, 8, 8, &t), KVG_ERR_IO);
}

/* --- memory, planted defects --- */

static void test_memory(void **state)
{
    (void)state;
    const kvg_model_config model = {.layers = 6, .query_heads = 8, .kv_heads = 2, .head_dim = 64};
    kvg_model_setup setup = {.config = &model, .dtype = KVG_DTYPE_BF16, .layout = KVG_LAYOUT_HND, .block_tokens = 16};
    const struct {
        kvg_format format;
        uint32_t row; /* bytes of a row of 64: codes, scales */
    } rows[] = {{KVG_FORMAT_BF16, 128}, {KVG_FORMAT_E4M3, 64}, {KVG_FORMAT_INT4, 36}, {KVG_FORMAT_MXFP4, 34},
                {KVG_FORMAT_NVFP4, 36}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvg_generate_memory m;
        setup.storage[KVG_K] = setup.storage[KVG_V] = (kvg_storage){rows[i].format, "canonical"};
        assert_int_equal(kvg_generate_memory_of(&setup, 100, 1 << 30, &m), KVG_OK);
        assert_int_equal(m.block_bytes, 6 * 2 * 2 * 16 * rows[i].row);
        assert_int_equal(m.blocks, 7);
        assert_int_equal(m.request_bytes, 7 * m.block_bytes);
        assert_int_equal(m.requests, (1u << 30) / m.request_bytes);
        assert_true(m.token_bytes == 6 * 2 * 2 * (double)rows[i].row);
        assert_int_equal(kvg_generate_memory_of(&setup, 0, 1, &m), KVG_ERR_INVALID);
        assert_int_equal(kvg_generate_memory_of(&setup, UINT64_MAX, 1, &m), KVG_ERR_INVALID);
    }
}

static void test_planted_find(void **state)
{
    (void)state;
    const kvg_model_config model = {.layers = 2, .query_heads = 2, .kv_heads = 1, .head_dim = 32, .window = 4,
                                    .sliding = {true, false}};
    kvg_model_setup setup = {.config = &model, .dtype = KVG_DTYPE_BF16, .layout = KVG_LAYOUT_HND, .block_tokens = 4,
                             .blocks = 4, .max_tokens = 16,
                             .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_BF16, "canonical"}}};
    const kvg_model_step step = {.rows = 2, .sequences = 1, .longest = 8};
    const kvg_problem sliding = kvg_model_decode(&setup, 0, &step), full = kvg_model_decode(&setup, 1, &step);
    const kvg_problem append = kvg_model_append(&setup, 0, 2);
    const struct {
        const char *name;
        bool sliding, full, append;
    } rows[] = {{"window_short", true, false, false},    {"sink_per_split", false, false, false},
                {"stale_tail_page", true, true, false},  {"scales_shifted:k", true, true, false},
                {"scales_shifted:v", false, false, false}, {"prefix_scales_lost:k", true, true, false},
                {"prefix_scales_lost:v", false, false, false}, {"slot_zero", false, false, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kvg_planted planted;
        assert_int_equal(kvg_planted_find(rows[i].name, &planted), KVG_OK);
        if (kvg_planted_applies(&planted, &sliding) != rows[i].sliding) fail_msg("%s: sliding", rows[i].name);
        if (kvg_planted_applies(&planted, &full) != rows[i].full) fail_msg("%s: full", rows[i].name);
        if (kvg_planted_applies(&planted, &append) != rows[i].append) fail_msg("%s: append", rows[i].name);
    }
    kvg_planted planted;
    assert_int_equal(kvg_planted_find("no_such", &planted), KVG_ERR_NOT_FOUND);
    assert_int_equal(kvg_planted_find("window_short:x", &planted), KVG_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_known),       cmocka_unit_test(test_row_wrong_formulas),
        cmocka_unit_test(test_row_same_is_zero), cmocka_unit_test(test_row_far_apart),
        cmocka_unit_test(test_row_nan),         cmocka_unit_test(test_summary),
        cmocka_unit_test(test_bootstrap_draws_blocks), cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_nan_never_passes), cmocka_unit_test(test_scored_once),
        cmocka_unit_test(test_bits),            cmocka_unit_test(test_greedy),
        cmocka_unit_test(test_texts),           cmocka_unit_test(test_memory),
        cmocka_unit_test(test_planted_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
