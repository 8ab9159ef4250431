/* Problems that mean the same have the same bits under the profile tier, whatever pages, batch, chunks and threads. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reference/attention_profile.h"
#include "tests/reference/attention/test_profile.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

static bool all_numbers(const world *w, const decode_answer *a)
{
    for (size_t i = 0; i < w->outputs; i++) {
        if (!isfinite(a->out[i])) return false;
    }
    return true;
}

static void expect_same_under(kvg_profile profile, const world_plan *a, const world_plan *b)
{
    const world_plan *plans[2] = {a, b};
    world w[2];
    decode_answer answer[2];
    for (int i = 0; i < 2; i++) {
        decode_world_open(plans[i], profile, &w[i]);
        answer[i] = decode_open(&w[i]);
        decode_profile(&w[i], &answer[i]);
    }
    assert_int_equal(decode_differences(&w[0], &answer[0], &answer[1]), 0);
    assert_true(all_numbers(&w[0], &answer[0]));
    for (int i = 0; i < 2; i++) {
        decode_close(&answer[i]);
        world_close(&w[i]);
    }
}

static void expect_same(const world_plan *a, const world_plan *b)
{
    for (int i = 0; i < CONTRACTS; i++) {
        const kvg_profile profile = profile_of_contract[i];
        const kvg_problem asked = {
            .op = KVG_OP_DECODE, .profile = profile, .storage = {a->storage[KVG_K], a->storage[KVG_V]}};
        if (kvg_problem_has_operands(&asked)) expect_same_under(profile, a, b);
    }
}

static world_plan plan_of(kvg_layout layout, kvg_format k, kvg_format v)
{
    const bool mla = layout == KVG_LAYOUT_MLA;
    return (world_plan){.layout = layout, .storage = {{k, NULL}, {mla ? k : v, NULL}}, .shared_kv = mla, .padded = true,
                        .head_dim = 128, .group = 2, .lengths = {0, 1, 31, 33, 170}, .queries = {1, 1, 2, 1, 3},
                        .v_scale_swizzle = kvg_layout_get(layout)->swizzle &&
                                           (v == KVG_FORMAT_NVFP4 || v == KVG_FORMAT_MX16)};
}

void test_profile_pages(void **state)
{
    (void)state;
    size_t layouts, formats;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    const kvg_format_info *format = kvg_format_table(&formats);
    for (size_t l = 0; l < layouts; l++) {
        for (size_t f = l % 3; layout[l].paged && f < formats; f += 3) {
            world_plan a = plan_of(layout[l].layout, format[f].format, format[(f + l) % formats].format), b = a;
            b.pages_from = 4;
            expect_same(&a, &b);
            if (layout[l].layout == KVG_LAYOUT_MLA || layout[l].layout == KVG_LAYOUT_RING) continue;
            b.layout = KVG_LAYOUT_NHD;
            b.block_tokens = 4;
            expect_same(&a, &b);
        }
    }
}

/* Keys that no query can see behind its window are NaN. */
static float hidden_nan(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position, uint32_t dim)
{
    const int64_t first_query = w->plan.lengths[sequence] - w->plan.queries[sequence];
    const bool hidden = role == KVG_ROLE_VALUES && (int64_t)position + w->plan.window <= first_query;
    if (hidden && w->plan.poison == 0x7F) return NAN;
    return world_by_content(w, role, side, sequence, head, position, dim);
}

void test_profile_unowned_bytes(void **state)
{
    (void)state;
    static const uint8_t poisons[] = {0x00, 0x7F, 0x3C, 0x81};
    size_t layouts, formats;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    const kvg_format_info *format = kvg_format_table(&formats);
    for (size_t l = 0; l < layouts; l++) {
        for (size_t f = l % 2; layout[l].paged && f < formats; f += 2) {
            world_plan a = plan_of(layout[l].layout, format[f].format, format[formats - 1 - f].format), b = a;
            a.drop_block = b.drop_block = 1;
            b.poison = poisons[(l + f) % 4];
            expect_same(&a, &b);
        }
    }
    world_plan a = {.layout = KVG_LAYOUT_HND, STORE(F16, BF16), .window = 16, .fill = hidden_nan,
                    .lengths = {16, 17, 200}, .queries = {1, 1, 5}}, b = a;
    b.poison = 0x7F;
    expect_same(&a, &b);
}

/* Rows `from` of `whole` are all rows of a world made from `plan`. */
static void expect_part(kvg_profile profile, const world_plan *plan, const world *all, const decode_answer *whole,
                        size_t from)
{
    world part;
    decode_world_open(plan, profile, &part);
    decode_answer own = decode_open(&part);
    decode_profile(&part, &own);
    const size_t at = from * all->p.attention.query_heads;
    const decode_answer same = {whole->out + at * world_v_dim(all), whole->lse + at};
    assert_int_equal(decode_differences(&part, &own, &same), 0);
    decode_close(&own);
    world_close(&part);
}

/* Each sequence alone, and all in the other order, gives the bits that it had in the batch. */
static void batch(kvg_profile profile)
{
    static const int32_t lengths[3] = {133, 1180, 7}, queries[3] = {2, 1, 3};
    world_plan plan = {.layout = KVG_LAYOUT_TURBOMIND, STORE(INT4, NVFP4), .dtype = KVG_DTYPE_BF16, .group = 5,
                       .sinks = 1, .fill = world_by_content, .window = 550};
    memcpy(plan.lengths, lengths, sizeof lengths);
    memcpy(plan.queries, queries, sizeof queries);
    world all;
    decode_world_open(&plan, profile, &all);
    decode_answer whole = decode_open(&all), turned = decode_open(&all);
    decode_profile(&all, &whole);
    size_t row = 0;
    for (int s = 0; s < 3; s++) {
        world_plan one = plan;
        memset(one.lengths, 0, sizeof one.lengths);
        memset(one.queries, 0, sizeof one.queries);
        one.lengths[0] = lengths[s];
        one.queries[0] = queries[s];
        expect_part(profile, &one, &all, &whole, row);
        row += (size_t)queries[s];
    }
    /* the last sequence first: its rows, and then the others', as the whole batch in the other order has them */
    world_plan other = plan;
    for (int s = 0; s < 3; s++) {
        other.lengths[s] = lengths[2 - s];
        other.queries[s] = queries[2 - s];
    }
    const size_t heads = 10, D = 64;
    memcpy(turned.out, whole.out + 3 * heads * D, 3 * heads * D * sizeof *whole.out);
    memcpy(turned.out + 3 * heads * D, whole.out + 2 * heads * D, heads * D * sizeof *whole.out);
    memcpy(turned.out + 4 * heads * D, whole.out, 2 * heads * D * sizeof *whole.out);
    memcpy(turned.lse, whole.lse + 3 * heads, 3 * heads * sizeof *whole.lse);
    memcpy(turned.lse + 3 * heads, whole.lse + 2 * heads, heads * sizeof *whole.lse);
    memcpy(turned.lse + 4 * heads, whole.lse, 2 * heads * sizeof *whole.lse);
    expect_part(profile, &other, &all, &turned, 0);
    decode_close(&whole);
    decode_close(&turned);
    world_close(&all);
}

void test_profile_batch(void **state)
{
    (void)state;
    for_contracts(batch);
}

/* 40 queries at once, in chunks of 7, and one by one. */
static void chunks(kvg_profile profile)
{
    enum { LENGTH = 150, QUERIES = 40 };
    static const int32_t chunks[] = {7, 1};
    const world_plan plan = {.layout = KVG_LAYOUT_VLLM, STORE(NVFP4, INT8), .group = 2, .window = 121, .softcap = 5,
                             .fill = world_by_content, .lengths = {LENGTH}, .queries = {QUERIES}};
    world w;
    decode_world_open(&plan, profile, &w);
    decode_answer whole = decode_open(&w);
    decode_profile(&w, &whole);
    for (size_t c = 0; c < 2; c++) {
        for (int32_t from = 0; from < QUERIES; from += chunks[c]) {
            world_plan chunk = plan;
            chunk.queries[0] = QUERIES - from < chunks[c] ? QUERIES - from : chunks[c];
            chunk.lengths[0] = LENGTH - QUERIES + from + chunk.queries[0];
            expect_part(profile, &chunk, &w, &whole, (size_t)from);
        }
    }
    decode_close(&whole);
    world_close(&w);
}

void test_profile_chunks(void **state)
{
    (void)state;
    for_contracts(chunks);
}

/* A window that holds all keys is none; blocks behind a window may be missing. */
void test_profile_window(void **state)
{
    (void)state;
    world_plan a = {.layout = KVG_LAYOUT_HND, STORE(F16, NVFP4), .group = 2, .lengths = {200, 64, 333},
                    .queries = {1, 1, 2}}, b = a;
    a.window = 333;
    expect_same(&a, &b);
    a = (world_plan){.layout = KVG_LAYOUT_HND, STORE(E4M3, MXFP4), .head_dim = 128, .block_tokens = 64, .window = 70,
                     .lengths = {600}, .queries = {3}};
    b = a;
    b.drop_block = 5; /* positions 320 to 383; the first one seen is 528 */
    expect_same(&a, &b);
}

/* A ring that has turned 2^22 times more: the same places, the same leaves, 2^30 positions further on. */
static void old_ring(kvg_profile profile)
{
    world w;
    decode_world_open(&(world_plan){.layout = KVG_LAYOUT_RING, STORE(NVFP4, INT8), .block_tokens = 256, .group = 2,
                                    .lengths = {1000, 70, 300}, .queries = {2, 1, 1}, .sinks = 1}, profile, &w);
    decode_answer young = decode_open(&w), old = decode_open(&w);
    decode_profile(&w, &young);
    int32_t *lengths = world_input(&w, KVG_ROLE_LENGTHS, KVG_K)->data;
    lengths[0] += 1 << 30;
    lengths[2] += 1 << 30;
    decode_profile(&w, &old);
    assert_int_equal(decode_differences(&w, &young, &old), 0);
    decode_close(&young);
    decode_close(&old);
    world_close(&w);
}

void test_profile_old_ring(void **state)
{
    (void)state;
    for_contracts(old_ring);
}

/* Scores of -Inf have no weight: a leaf of them is EMPTY, and gives the bits of a leaf that is not there. */
static float no_weight(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                       uint32_t position, uint32_t dim)
{
    const float x = world_by_content(w, role, side, sequence, head, position, dim);
    if (role == KVG_ROLE_Q) return fabsf(x) + 0.01f;
    return side == KVG_K && position / 256 == w->plan.seed ? -INFINITY : x;
}

void test_profile_empty_leaves(void **state)
{
    (void)state;
    for (uint32_t leaf = 1; leaf < 11; leaf++) {
        world_plan a = {.layout = KVG_LAYOUT_NHD, STORE(F16, BF16), .group = 2, .sinks = leaf % 2, .block_tokens = 256,
                        .fill = no_weight, .lengths = {2800}, .queries = {1}, .seed = leaf}, b = a;
        b.drop_block = leaf;
        expect_same(&a, &b);
    }
}

/* A prefix read from another sequence's pages. */
static void aliased(kvg_profile profile)
{
    world w;
    decode_world_open(&(world_plan){.layout = KVG_LAYOUT_HND, STORE(MX16, E4M3), .group = 3, .fill = world_by_content,
                                    .lengths = {60, 45}, .queries = {1, 2}}, profile, &w);
    decode_answer before = decode_open(&w), after = decode_open(&w);
    decode_profile(&w, &before);
    int32_t *table = world_input(&w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    table[4] = table[0];
    table[5] = table[1];
    decode_profile(&w, &after);
    assert_int_equal(decode_differences(&w, &before, &after), 0);
    table[4] = table[1]; /* and other pages are noticed */
    decode_profile(&w, &after);
    assert_int_not_equal(decode_differences(&w, &before, &after), 0);
    decode_close(&before);
    decode_close(&after);
    world_close(&w);
}

void test_profile_aliased(void **state)
{
    (void)state;
    for_contracts(aliased);
}

static void threads(kvg_profile profile)
{
    const int most = omp_get_max_threads();
    world w;
    decode_world_open(&(world_plan){.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .group = 3, .sinks = 1,
                                    .lengths = {2500, 90, 1024}, .queries = {2, 1, 1}}, profile, &w);
    decode_answer one = decode_open(&w), more = decode_open(&w);
    omp_set_num_threads(1);
    decode_profile(&w, &one);
    for (int threads = 2; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        decode_profile(&w, &more);
        assert_memory_equal(one.out, more.out, w.outputs * sizeof *one.out);
        assert_memory_equal(one.lse, more.lse, w.rows * sizeof *one.lse);
    }
    omp_set_num_threads(most);
    decode_close(&one);
    decode_close(&more);
    world_close(&w);
}

void test_profile_threads(void **state)
{
    (void)state;
    for_contracts(threads);
}
