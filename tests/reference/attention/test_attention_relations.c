/* Problems that mean the same have the same bits under the spec tier and under the profile tier, whatever pages, batch,
 * chunks and threads. */
#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reference/attention_profile.h"
#include "tests/reference/attention/test_profile.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

/* An answer's bits: for each row of q and query head a record of out, LSE and, of the spec tier, their bounds. */
typedef struct records {
    uint8_t *bytes;
    size_t size, count;
    bool finite; /* out is, and its bounds are */
} records;

static void put(records *r, size_t *at, const void *numbers, size_t bytes)
{
    for (size_t i = 0; i < r->count; i++) {
        memcpy(r->bytes + i * r->size + *at, (const uint8_t *)numbers + i * bytes, bytes);
    }
    *at += bytes;
}

static records make_records(const world *w, size_t size)
{
    records r = {malloc(w->rows * size), size, w->rows, true};
    assert_non_null(r.bytes);
    return r;
}

static records spec_answer(const world *w)
{
    const size_t D = world_v_dim(w), one = sizeof(double);
    kvg_arithmetic class;
    kvg_arithmetic_init(&w->p, &class);
    kvg_attention_answer a = answer_open(w);
    world_spec(w, &class, &a);
    records r = make_records(w, (2 * D + 2) * one);
    size_t at = 0;
    put(&r, &at, a.out, D * one);
    put(&r, &at, a.out_bound, D * one);
    put(&r, &at, a.lse, one);
    put(&r, &at, a.lse_bound, one);
    for (size_t i = 0; i < w->outputs; i++) r.finite &= isfinite(a.out[i]) && isfinite(a.out_bound[i]);
    answer_close(&a);
    return r;
}

static records profile_answer(const world *w)
{
    const size_t D = world_v_dim(w), one = sizeof(float);
    decode_answer a = decode_open(w);
    decode_profile(w, &a);
    records r = make_records(w, (D + 1) * one);
    size_t at = 0;
    put(&r, &at, a.out, D * one);
    put(&r, &at, a.lse, one);
    for (size_t i = 0; i < w->outputs; i++) r.finite &= isfinite(a.out[i]);
    decode_close(&a);
    return r;
}

static records answer_of(const world *w)
{
    return w->p.profile ? profile_answer(w) : spec_answer(w);
}

static void open_under(kvg_profile profile, const world_plan *plan, world *w)
{
    world_open(plan, w);
    w->p.profile = profile;
}

/* The world's answer now. */
static bool is_answer(const world *w, const records *r)
{
    records now = answer_of(w);
    const bool same = memcmp(now.bytes, r->bytes, r->count * r->size) == 0;
    free(now.bytes);
    return same;
}

/* Records of `whole` from row `from` of q on are all that a world made from `plan` has. */
static void expect_part(kvg_profile profile, const world_plan *plan, const world *all, const records *whole,
                        size_t from)
{
    world part;
    open_under(profile, plan, &part);
    records own = answer_of(&part);
    const size_t first = from * all->p.attention.query_heads;
    assert_true(own.size == whole->size && first + own.count <= whole->count);
    assert_memory_equal(own.bytes, whole->bytes + first * whole->size, own.count * own.size);
    free(own.bytes);
    world_close(&part);
}

/* The spec tier, KVG_PROFILE_NONE, and a profile of each contract. */
static void for_tiers(void (*test)(kvg_profile profile))
{
    test(KVG_PROFILE_NONE);
    for_contracts(test);
}

static void expect_same_under(kvg_profile profile, const world_plan *a, const world_plan *b)
{
    world w;
    open_under(profile, a, &w);
    records whole = answer_of(&w);
    assert_true(whole.finite);
    expect_part(profile, b, &w, &whole, 0);
    free(whole.bytes);
    world_close(&w);
}

static void expect_same_under_contracts(const world_plan *a, const world_plan *b)
{
    for (int i = 0; i < CONTRACTS; i++) {
        const kvg_profile profile = profile_of_contract[i];
        const kvg_problem asked = {
            .op = KVG_OP_DECODE, .profile = profile, .storage = {a->storage[KVG_K], a->storage[KVG_V]}};
        if (kvg_problem_has_operands(&asked)) expect_same_under(profile, a, b);
    }
}

static void expect_same(const world_plan *a, const world_plan *b)
{
    expect_same_under(KVG_PROFILE_NONE, a, b);
    expect_same_under_contracts(a, b);
}

static world_plan plan_of(kvg_layout layout, kvg_format k, kvg_format v)
{
    const bool mla = kvg_layout_get(layout)->shared == KVG_SHARED_ALWAYS;
    return (world_plan){.layout = layout, .storage = {{k, NULL}, {mla ? k : v, NULL}}, .shared_kv = mla, .padded = true,
                        .head_dim = 128, .group = 2, .lengths = {0, 1, 31, 33, 170}, .queries = {1, 1, 2, 1, 3},
                        .v_scale_swizzle = kvg_layout_get(layout)->groups &&
                                           (v == KVG_FORMAT_NVFP4 || v == KVG_FORMAT_MX16)};
}

/* Each layout is asked with every so many formats, each format with another of so many layouts. */
enum { STEP = 7 };

void test_same_pages(void **state)
{
    (void)state;
    size_t layouts, formats;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    const kvg_format_info *format = kvg_format_table(&formats);
    for (size_t l = 0; l < layouts; l++) {
        for (size_t f = l % STEP; layout[l].paged && f < formats; f += STEP) {
            world_plan a = plan_of(layout[l].layout, format[f].format, format[(f + l) % formats].format), b = a;
            b.pages_from = 4;
            if (!world_can(&a)) continue;
            expect_same(&a, &b);
            if (layout[l].shared == KVG_SHARED_ALWAYS || layout[l].layout == KVG_LAYOUT_RING) continue;
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

void test_same_unowned_bytes(void **state)
{
    (void)state;
    static const uint8_t poisons[] = {0x00, 0x7F, 0x3C, 0x81};
    size_t layouts, formats;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    const kvg_format_info *format = kvg_format_table(&formats);
    for (size_t l = 0; l < layouts; l++) {
        for (size_t f = l % STEP; layout[l].paged && f < formats; f += STEP) {
            world_plan a = plan_of(layout[l].layout, format[f].format, format[formats - 1 - f].format), b = a;
            a.drop_block = b.drop_block = 1;
            b.poison = poisons[(l + f) % 4];
            if (world_can(&a)) expect_same(&a, &b);
        }
    }
    world_plan a = {.layout = KVG_LAYOUT_HND, STORE(F16, BF16), .window = 16, .fill = hidden_nan,
                    .lengths = {16, 17, 200}, .queries = {1, 1, 5}}, b = a;
    b.poison = 0x7F;
    expect_same(&a, &b);
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
    open_under(profile, &plan, &all);
    records whole = answer_of(&all), turned = make_records(&all, whole.size);
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
    const size_t row_bytes = all.p.attention.query_heads * whole.size;
    memcpy(turned.bytes, whole.bytes + 3 * row_bytes, 3 * row_bytes);
    memcpy(turned.bytes + 3 * row_bytes, whole.bytes + 2 * row_bytes, row_bytes);
    memcpy(turned.bytes + 4 * row_bytes, whole.bytes, 2 * row_bytes);
    expect_part(profile, &other, &all, &turned, 0);
    free(whole.bytes);
    free(turned.bytes);
    world_close(&all);
}

void test_same_batch(void **state)
{
    (void)state;
    for_tiers(batch);
}

/* 40 queries at once, in chunks of 7, and one by one. */
static void chunks(kvg_profile profile)
{
    enum { LENGTH = 150, QUERIES = 40 };
    static const int32_t chunks[] = {7, 1};
    const world_plan plan = {.layout = KVG_LAYOUT_VLLM, STORE(NVFP4, INT8), .group = 2, .window = 121, .softcap = 5,
                             .fill = world_by_content, .lengths = {LENGTH}, .queries = {QUERIES}};
    world w;
    open_under(profile, &plan, &w);
    records whole = answer_of(&w);
    for (size_t c = 0; c < 2; c++) {
        for (int32_t from = 0; from < QUERIES; from += chunks[c]) {
            world_plan chunk = plan;
            chunk.queries[0] = QUERIES - from < chunks[c] ? QUERIES - from : chunks[c];
            chunk.lengths[0] = LENGTH - QUERIES + from + chunk.queries[0];
            expect_part(profile, &chunk, &w, &whole, (size_t)from);
        }
    }
    free(whole.bytes);
    world_close(&w);
}

void test_same_chunks(void **state)
{
    (void)state;
    for_tiers(chunks);
}

/* A window that holds all keys is none; blocks behind a window may be missing. */
void test_same_window(void **state)
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
    open_under(profile, &(world_plan){.layout = KVG_LAYOUT_RING, STORE(NVFP4, INT8), .block_tokens = 256, .group = 2,
                                      .lengths = {1000, 70, 300}, .queries = {2, 1, 1}, .sinks = 1}, &w);
    records young = answer_of(&w);
    int32_t *lengths = world_input(&w, KVG_ROLE_LENGTHS, KVG_K)->data;
    lengths[0] += 1 << 30;
    lengths[2] += 1 << 30;
    assert_true(is_answer(&w, &young));
    free(young.bytes);
    world_close(&w);
}

void test_same_old_ring(void **state)
{
    (void)state;
    for_tiers(old_ring);
}

/* Scores of -Inf have no weight: a leaf of them is EMPTY, and gives the bits of a leaf that is not there. (The bound of
 * the spec tier counts keys that are there.) */
static float no_weight(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                       uint32_t position, uint32_t dim)
{
    const float x = world_by_content(w, role, side, sequence, head, position, dim);
    if (role == KVG_ROLE_Q) return fabsf(x) + 0.01f;
    return side == KVG_K && position / 256 == w->plan.seed ? -INFINITY : x;
}

void test_same_empty_leaves(void **state)
{
    (void)state;
    for (uint32_t leaf = 1; leaf < 11; leaf++) {
        world_plan a = {.layout = KVG_LAYOUT_NHD, STORE(F16, BF16), .group = 2, .sinks = leaf % 2, .block_tokens = 256,
                        .fill = no_weight, .lengths = {2800}, .queries = {1}, .seed = leaf}, b = a;
        b.drop_block = leaf;
        expect_same_under_contracts(&a, &b);
    }
}

/* A prefix read from another sequence's pages. */
static void aliased(kvg_profile profile)
{
    world w;
    open_under(profile, &(world_plan){.layout = KVG_LAYOUT_HND, STORE(MX16, E4M3), .group = 3, .fill = world_by_content,
                                      .lengths = {60, 45}, .queries = {1, 2}}, &w);
    records before = answer_of(&w);
    int32_t *table = world_input(&w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    assert_int_not_equal(table[4], table[0]);
    table[4] = table[0];
    table[5] = table[1];
    assert_true(is_answer(&w, &before));
    table[4] = table[1]; /* and other pages are noticed */
    assert_false(is_answer(&w, &before));
    free(before.bytes);
    world_close(&w);
}

void test_same_aliased(void **state)
{
    (void)state;
    for_tiers(aliased);
}

static void threads(kvg_profile profile)
{
    const int most = omp_get_max_threads();
    world w;
    open_under(profile, &(world_plan){.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .group = 3, .sinks = 1,
                                      .lengths = {2500, 90, 1024}, .queries = {2, 1, 1}}, &w);
    omp_set_num_threads(1);
    records one = answer_of(&w);
    for (int threads = 2; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        assert_true(is_answer(&w, &one));
    }
    omp_set_num_threads(most);
    free(one.bytes);
    world_close(&w);
}

void test_same_threads(void **state)
{
    (void)state;
    for_tiers(threads);
}

/* Which rows of q and query heads are wanted, to be freed. */
static bool *want_some(size_t rows)
{
    bool *wanted = malloc(rows * sizeof *wanted);
    for (size_t i = 0; i < rows; i++) wanted[i] = i * i % 7 == 2;
    return wanted;
}

/* Rows of q and query heads that are wanted have the bits that they have among all; the others keep theirs. */
static bool some_rows(kvg_profile profile, const world_plan *plan)
{
    enum { BEFORE = 0xA5 };
    world w;
    open_under(profile, plan, &w);
    bool *wanted = want_some(w.rows);
    kvg_tensor all[2], some[2];
    for (int i = 0; i < 2; i++) {
        all[i] = some[i] = kvg_problem_tensor(&w.p, kvg_op_get(KVG_OP_DECODE)->outputs[i], KVG_K);
        all[i].data = malloc(all[i].bytes);
        some[i].data = malloc(some[i].bytes);
        memset(some[i].data, BEFORE, some[i].bytes);
    }
    const kvg_status s = kvg_attention_some(&w.p, NULL, w.in, all);
    assert_int_equal(kvg_attention_some(&w.p, wanted, w.in, some), s);
    for (int i = 0; i < 2; i++) {
        const size_t bytes = all[i].bytes / w.rows;
        for (size_t row = 0; row < w.rows && !s; row++) {
            uint8_t *right = (uint8_t *)all[i].data + row * bytes;
            if (!wanted[row]) memset(right, BEFORE, bytes);
            assert_memory_equal((uint8_t *)some[i].data + row * bytes, right, bytes);
        }
        free(all[i].data);
        free(some[i].data);
    }
    free(wanted);
    world_close(&w);
    return s == KVG_OK;
}

/* The same of the spec tier's numbers and bounds. */
static void some_bounds(const world_plan *plan)
{
    world w;
    kvg_arithmetic class;
    world_open(plan, &w);
    kvg_arithmetic_init(&w.p, &class);
    kvg_attention_answer all = answer_open(&w), some = answer_open(&w);
    bool *wanted = want_some(w.rows);
    world_spec(&w, &class, &all);
    some.wanted = wanted;
    world_spec(&w, &class, &some);
    const size_t D = world_v_dim(&w);
    for (size_t i = 0; i < w.rows; i++) {
        if (!wanted[i]) continue;
        assert_memory_equal(some.out + i * D, all.out + i * D, D * sizeof *all.out);
        assert_memory_equal(some.out_bound + i * D, all.out_bound + i * D, D * sizeof *all.out);
        assert_memory_equal(&some.lse[i], &all.lse[i], sizeof *all.lse);
        assert_memory_equal(&some.lse_bound[i], &all.lse_bound[i], sizeof *all.lse);
    }
    free(wanted);
    answer_close(&all);
    answer_close(&some);
    world_close(&w);
}

/* Profiles are of kernels that have other layouts, formats and types. */
void test_some_rows(void **state)
{
    (void)state;
    static const world_plan plans[] = {
        {.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .group = 12, .seed = 60, .sinks = 1,
         .lengths = {300, 90, 33}, .queries = {2, 3, 1}},
        {.layout = KVG_LAYOUT_NHD, STORE(F16, F16), .group = 4, .head_dim = 128, .q_size = 8,
         .lengths = {6000, 90, 33}, .queries = {1, 1, 1}},
        {.layout = KVG_LAYOUT_NHD, STORE(BF16, BF16), .dtype = KVG_DTYPE_BF16, .group = 1, .head_dim = 128,
         .lengths = {300, 90, 33}, .queries = {1, 1, 1}},
        {.layout = KVG_LAYOUT_NHD, STORE(E4M3, E4M3), .dtype = KVG_DTYPE_BF16, .group = 8, .head_dim = 128,
         .lengths = {300, 90, 33}, .queries = {1, 1, 1}},
        {.layout = KVG_LAYOUT_MLA, STORE(BF16, BF16), .dtype = KVG_DTYPE_BF16, .shared_kv = true, .kv_heads = 1,
         .group = 16, .head_dim = 576, .block_tokens = 64, .lengths = {300, 90, 33}, .queries = {1, 1, 1}},
    };
    size_t count;
    const kvg_profile_info *profiles = kvg_profile_table(&count);
    assert_true(some_rows(KVG_PROFILE_NONE, &plans[0]));
    some_bounds(&plans[0]);
    for (size_t i = 0; i < count; i++) {
        bool any = false;
        for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++) any |= some_rows(profiles[i].profile, &plans[k]);
        if (!any) fail_msg("no plan is for %s: %s", profiles[i].name, kvg_error_text());
    }
}
