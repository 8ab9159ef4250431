/* Problems whose answer is known without arithmetic. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "tests/core/whole_blocks.h"
#include "tests/reference/attention/attention_world.h"
#include "tests/reference/attention/test_attention.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

/* A small multiple of 1/8. */
static float eighths(uint32_t position, uint32_t dim)
{
    return (float)((int)(position * 7 + dim * 3) % 33 - 16) / 8;
}

static float zero_queries(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                          uint32_t position, uint32_t dim)
{
    (void)w, (void)sequence, (void)head;
    if (role == KVG_ROLE_Q) return 0;
    return side == KVG_K ? 3.5f : eighths(position, dim);
}

/* First position that a query sees. */
static int64_t first_seen(const world *w, int64_t position)
{
    const int64_t window = w->plan.window;
    return window && position >= window ? position - window + 1 : 0;
}

/* Every row is the mean of eighths over first .. position, and its LSE ln of their number plus `score`. */
static void check_means(const world *w, const kvg_attention_answer *a, double score)
{
    const uint32_t Dv = world_v_dim(w), heads = w->p.attention.query_heads;
    for (uint32_t row = 0; row < w->p.attention.queries; row++) {
        uint32_t sequence;
        int64_t position;
        world_query(w, row, &sequence, &position);
        const int64_t first = first_seen(w, position);
        const double n = (double)(position - first + 1);
        for (uint32_t i = 0; i < heads * Dv; i++) {
            double sum = 0;
            for (int64_t k = first; k <= position; k++) sum += eighths((uint32_t)k, i % Dv);
            assert_true(a->out[(size_t)row * heads * Dv + i] == (n > 0 ? sum / n : 0));
        }
        for (uint32_t h = 0; h < heads; h++) {
            const double lse = a->lse[(size_t)row * heads + h];
            assert_true(n > 0 ? fabs(lse - (score + log(n))) <= 0x1p-50 * (fabs(score) + 10) : lse == -INFINITY);
        }
    }
}

void test_mean_of_visible_values(void **state)
{
    (void)state;
    static const uint32_t dims[] = {64, 80, 96, 112, 128, 192, 256, 576}, groups[] = {1, 3, 4, 5, 6, 7, 8, 16};
    for (int i = 0; i < 8; i++) {
        world w;
        world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, STORE(F16, BF16), .head_dim = dims[i], .group = groups[i],
                                 .kv_heads = i % 2 + 1, .window = i % 3 * 9, .fill = zero_queries,
                                 .lengths = {0, 1, 15, 16, 17, 40}, .queries = {1, 1, 15, 2, 1, 3}}, &w);
        kvg_attention_answer a = answer_open(&w);
        kvg_arithmetic class;
        kvg_arithmetic_init(&w.p, &class);
        world_spec(&w, &class, &a);
        check_means(&w, &a, 0);
        for (size_t j = 0; j < w.outputs; j++) assert_true(a.out_bound[j] >= 0 && a.out_bound[j] < 0.01);
        answer_close(&a);
        world_close(&w);
    }
}

static float constant_values(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                             uint32_t position, uint32_t dim)
{
    if (role == KVG_ROLE_VALUES && side == KVG_V) return 1;
    return (float)kvg_rng_normal(w->plan.seed, role * 97 + side,
                                 (sequence * 131 + head) * 100000 + position * 1000 + dim);
}

/* Exactly 1 where the format holds a 1; elsewhere what the format makes of it, to the last bit or two. */
void test_values_of_one(void **state)
{
    (void)state;
    size_t count, exact_ones = 0;
    const kvg_format_info *formats = kvg_format_table(&count);
    for (size_t f = 0; f < count; f++) {
        world w;
        world_open(&(world_plan){.layout = KVG_LAYOUT_HND,
                                 .storage = {{KVG_FORMAT_F16, NULL}, {formats[f].format, NULL}},
                                 .group = 3,
                                 .head_dim = whole_blocks(64, formats[f].format),
                                 .fill = constant_values,
                                 .lengths = {1, 16, 17, 150},
                                 .queries = {1, 1, 1, 4},
                                 .sinks = 0},
                   &w);
        kvg_attention_answer a = answer_open(&w);
        world_spec(&w, NULL, &a);
        double factor;
        const double one = world_row(&w, KVG_V, 0, 0, 0, &factor)[0] * factor;
        for (size_t i = 0; i < w.outputs; i++) {
            if (one == 1) assert_true(a.out[i] == 1);
            else assert_true(fabs(a.out[i] - one) <= 0x1p-51 * one);
        }
        exact_ones += one == 1;
        answer_close(&a);
        world_close(&w);
    }
    assert_true(exact_ones >= 6);
}

/* The key at position seed answers every query; V tells the position. */
static float one_hot(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                     uint32_t dim)
{
    (void)sequence, (void)head, (void)dim;
    if (role == KVG_ROLE_Q) return 32;
    if (side == KVG_K) return position == w->plan.seed ? 32 : 0;
    return eighths(position, dim);
}

/* A score of 8,192 beside zeros leaves weights of exactly 0: the output is V at the hot key, or, if that is not seen, a
 * mean. Hot keys at and beside the edges of pages, of the window and of causality. */
void test_one_hot_keys(void **state)
{
    (void)state;
    enum { B = 16, LENGTH = 50, WINDOW = 20 };
    static const kvg_layout layouts[] = {KVG_LAYOUT_NHD, KVG_LAYOUT_TURBOMIND, KVG_LAYOUT_RING, KVG_LAYOUT_SLOT};
    static const uint32_t hot[] = {0, 14, 15, 16, 17, 26, 27, 28, 29, 30, 31, 32, 33, 46, 47, 48, 49};
    for (size_t i = 0; i < 4 * sizeof hot / sizeof hot[0] * 2; i++) {
        const uint32_t at = hot[i / 8];
        world w;
        world_open(&(world_plan){.layout = layouts[i % 4],
                                 STORE(F16, F16),
                                 .kv_heads = 1,
                                 .block_tokens = i % 4 == 2 ? 64 : B,
                                 .window = i / 4 % 2 ? WINDOW : 0,
                                 .fill = one_hot,
                                 .seed = at,
                                 .lengths = {LENGTH},
                                 .queries = {3}},
                   &w);
        kvg_attention_answer a = answer_open(&w);
        world_spec(&w, NULL, &a);
        for (uint32_t row = 0; row < 3; row++) {
            const int64_t position = LENGTH - 3 + row, first = first_seen(&w, position);
            const double *out = a.out + row * 64;
            const bool seen = at >= first && at <= position;
            for (uint32_t c = 0; c < 64; c++) {
                double sum = 0;
                for (int64_t k = first; k <= position; k++) sum += eighths((uint32_t)k, c);
                assert_true(out[c] == (seen ? eighths(at, c) : sum / (double)(position - first + 1)));
            }
            assert_true(seen ? a.lse[row] == 8192 : fabs(a.lse[row] - log((double)(position - first + 1))) <= 0x1p-50);
        }
        answer_close(&a);
        world_close(&w);
    }
}

static float same_scores(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                         uint32_t position, uint32_t dim)
{
    (void)sequence, (void)head;
    if (role == KVG_ROLE_Q) return w->plan.seed ? -12496 : 12496;
    return side == KVG_K ? 1 : eighths(position, dim);
}

/* All scores are -99,968, or all +99,968: the mean again, and an LSE beyond every sentinel. A cap of 50 brings it to
 * -50. */
void test_extreme_scores(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2; seed++) {
        for (int capped = 0; capped < 2; capped++) {
            world w;
            world_open(&(world_plan){.layout = KVG_LAYOUT_VLLM, STORE(F16, F16), .fill = same_scores, .seed = seed,
                                     .softcap = capped ? 50 : 0, .lengths = {33, 1}, .queries = {2, 1}}, &w);
            kvg_attention_answer a = answer_open(&w);
            kvg_arithmetic class;
            kvg_arithmetic_init(&w.p, &class);
            world_spec(&w, &class, &a);
            check_means(&w, &a, (seed ? -1 : 1) * (capped ? 50.0 : 99968.0));
            for (size_t i = 0; i < w.outputs; i++) assert_true(a.out_bound[i] < INFINITY);
            answer_close(&a);
            world_close(&w);
        }
    }
}

/* Length 0, a length whose only block is missing, more queries than keys: 0 and -Inf, or 0 and the sink. */
void test_rows_without_keys(void **state)
{
    (void)state;
    for (int sinks = 0; sinks < 2; sinks++) {
        world w;
        world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, STORE(NVFP4, F16), .group = 2, .sinks = (float)sinks * 3,
                                 .lengths = {0, 20, 40, 2}, .queries = {2, 1, 1, 4}}, &w);
        int32_t *table = world_input(&w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
        table[3] = -1; /* both blocks of sequence 1, one of them by a block that the pool lacks */
        table[4] = (int32_t)w.p.paging.blocks;
        kvg_attention_answer a = answer_open(&w);
        kvg_arithmetic class;
        kvg_arithmetic_init(&w.p, &class);
        world_spec(&w, &class, &a);
        const float *sink = world_input(&w, KVG_ROLE_SINKS, KVG_K)->data;
        static const bool empty[8] = {true, true, true, false, true, true, false, false};
        for (uint32_t row = 0; row < 8; row++) {
            for (uint32_t h = 0; h < 4; h++) {
                const size_t at = row * 4 + h;
                for (uint32_t c = 0; c < 64; c++) {
                    const size_t i = at * 64 + c;
                    assert_true(empty[row] ? a.out[i] == 0 && a.out_bound[i] == 0
                                           : a.out[i] != 0 && a.out_bound[i] > 0);
                }
                if (empty[row]) assert_true(a.lse[at] == (sinks ? sink[h] : -INFINITY));
                else assert_true(isfinite(a.lse[at]));
                if (empty[row] && !sinks) assert_true(a.lse_bound[at] == 0);
            }
        }
        answer_close(&a);
        world_close(&w);
    }
}

static uint32_t shard_from(const world *w)
{
    return (uint32_t)w->plan.seed;
}

/* Keys seed .. of one long sequence; a query that depends on nothing. */
static float sharded(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                     uint32_t dim)
{
    (void)sequence;
    if (role == KVG_ROLE_Q) return (float)kvg_rng_normal(3, head, dim);
    return (float)kvg_rng_normal(4 + side, head, (position + shard_from(w)) * 1024 + dim);
}

/* Two shards merged by their LSE are the whole. */
void test_two_shards(void **state)
{
    (void)state;
    enum { WHOLE = 100, CUT = 37, D = 64 };
    static const int32_t lengths[3] = {WHOLE, CUT, WHOLE - CUT};
    static const uint64_t from[3] = {0, 0, CUT};
    world w[3];
    kvg_attention_answer a[3];
    for (int i = 0; i < 3; i++) {
        world_open(&(world_plan){.layout = KVG_LAYOUT_HND,
                                 STORE(E4M3, E4M3),
                                 .group = 4,
                                 .fill = sharded,
                                 .seed = from[i],
                                 .lengths = {lengths[i]},
                                 .queries = {1}},
                   &w[i]);
        a[i] = answer_open(&w[i]);
        world_spec(&w[i], NULL, &a[i]);
    }
    for (size_t h = 0; h < w[0].rows; h++) {
        const double x = exp(a[1].lse[h] - a[0].lse[h]), y = exp(a[2].lse[h] - a[0].lse[h]);
        assert_true(fabs(x + y - 1) <= 1e-14);
        for (size_t c = 0; c < D; c++) {
            const double merged = x * a[1].out[h * D + c] + y * a[2].out[h * D + c];
            assert_true(fabs(merged - a[0].out[h * D + c]) <= 1e-14);
        }
    }
    for (int i = 0; i < 3; i++) {
        answer_close(&a[i]);
        world_close(&w[i]);
    }
}

void test_measure(void **state)
{
    (void)state;
    assert_true(kvg_attention_ratio(1.5, 1, 0.25) == 2 && kvg_attention_ratio(1, 1, 0) == 0);
    assert_true(kvg_attention_ratio(NAN, 1, 0.25) == INFINITY && kvg_attention_ratio(NAN, 1, 0) == INFINITY);
    assert_true(kvg_attention_ratio(1, 0, 0) == INFINITY && kvg_attention_ratio(NAN, NAN, INFINITY) == 0);
    assert_true(kvg_attention_ratio(-INFINITY, -INFINITY, 0) == 0 &&
                kvg_attention_ratio(-1e30, -INFINITY, 0) == INFINITY);
    assert_true(kvg_attention_ratio(-INFINITY, 3, 1) == INFINITY);
    const double got[4] = {3, 4, NAN, 7}, exact[4] = {3, 8, 1, 9}, bound[4] = {1, 1, INFINITY, 4};
    kvg_attention_error e;
    kvg_attention_measure(got, exact, bound, 4, &e);
    assert_true(e.worst == 4 && e.worst_at == 1 && e.outside == 1 && e.unpromised == 1);
    assert_true(fabs(e.relative_l2 - sqrt(20.0 / 154)) < 1e-15);
}

static void expect_refusal(world *w, const kvg_arithmetic *class, const char *text)
{
    kvg_attention_answer a = answer_open(w);
    assert_int_equal(kvg_attention_spec(&w->p, w->in, class, &a), KVG_ERR_INVALID);
    if (!strstr(kvg_error_text(), text)) fail_msg("'%s' does not say '%s'", kvg_error_text(), text);
    answer_close(&a);
}

void test_refusals(void **state)
{
    (void)state;
    world w;
    world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, STORE(E4M3, F16), .group = 2, .sinks = 1, .lengths = {5, 20},
                             .queries = {1, 2}}, &w);
    const kvg_problem good = w.p;
    kvg_arithmetic class;
    kvg_arithmetic_init(&w.p, &class);
    int32_t *lengths = world_input(&w, KVG_ROLE_LENGTHS, KVG_K)->data;
    int32_t *queries = world_input(&w, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data;
    float *sinks = world_input(&w, KVG_ROLE_SINKS, KVG_K)->data,
          *g = world_input(&w, KVG_ROLE_TENSOR_SCALE, KVG_K)->data;

    w.p.attention.query_heads = 3, expect_refusal(&w, NULL, "query heads a multiple"), w.p = good;
    w.p.attention.queries = 0, expect_refusal(&w, NULL, "at least 1 query"), w.p = good;
    w.p.attention.softcap = -1, expect_refusal(&w, NULL, "softcap"), w.p = good;
    w.p.attention.scale = NAN, expect_refusal(&w, NULL, "scale"), w.p = good;
    w.p.paging.sequences = 0, expect_refusal(&w, NULL, "at least 1 sequence"), w.p = good;
    lengths[1] = 21, expect_refusal(&w, NULL, "lengths[1] is 21"), lengths[1] = 20;
    lengths[0] = -1, expect_refusal(&w, NULL, "lengths[0] is -1"), lengths[0] = 5;
    queries[1] = 1, expect_refusal(&w, NULL, "add up to 2"), queries[1] = 2;
    queries[0] = 2, expect_refusal(&w, NULL, "query_lengths[1] is 2"), queries[0] = 1;
    queries[0] = -1, expect_refusal(&w, NULL, "query_lengths[0] is -1"), queries[0] = 1;
    sinks[3] = NAN, expect_refusal(&w, NULL, "sinks[3]"), sinks[3] = 1;
    *g = 0, expect_refusal(&w, NULL, "k_tensor_scale"), *g = 1;
    class.p = 9, expect_refusal(&w, &class, "operand type 9 of 'p'"), class.p = KVG_OPERAND_F16;
    class.tile = 0, expect_refusal(&w, &class, "tile 0"), class.tile = 16;
    class.fraction_bits = 7, expect_refusal(&w, &class, "fraction_bits 7");
    w.p.op = KVG_OP_FLATTEN;
    assert_int_equal(kvg_problem_check(&w.p), KVG_ERR_INVALID); /* other ops have no queries */
    w.p = good;
    world_close(&w);
}
