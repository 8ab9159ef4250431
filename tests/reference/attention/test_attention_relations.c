/* Problems that mean the same have the same bits; and all of them agree with a plain long double attention. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/reference/attention/attention_naive.h"
#include "tests/reference/attention/test_attention.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

/* A plan for layout `i` that uses what the layout can do. */
static world_plan plan_of(kvg_layout layout, kvg_format k, kvg_format v)
{
    const kvg_layout_info *info = kvg_layout_get(layout);
    const bool mla = layout == KVG_LAYOUT_MLA;
    world_plan plan = {.layout = layout, .storage = {{k, NULL}, {mla ? k : v, NULL}}, .shared_kv = mla, .padded = true,
                       .head_dim = 128, .block_tokens = 16, .lengths = {0, 1, 15, 16, 17, 45},
                       .queries = {1, 1, 2, 1, 1, 3}, .seed = layout};
    plan.v_scale_swizzle = info->swizzle && (v == KVG_FORMAT_NVFP4 || v == KVG_FORMAT_MX16);
    return plan;
}

/* How far the spec tier is from long double, as a share of the tightest bound. */
static double naive_share(const world_plan *plan)
{
    world w;
    world_open(plan, &w);
    kvg_attention_answer spec = answer_open(&w), naive = answer_open(&w);
    kvg_arithmetic class;
    kvg_arithmetic_init(&w.p, &class);
    class.q = class.k = class.p = class.v = KVG_OPERAND_F32;
    class.fraction_bits = 0;
    world_spec(&w, &class, &spec);
    naive_attention(&w, false, &naive);
    double worst = 0;
    for (size_t i = 0; i < w.outputs; i++)
        worst = fmax(worst, kvg_attention_ratio(spec.out[i], naive.out[i], spec.out_bound[i]));
    for (size_t i = 0; i < w.rows; i++)
        worst = fmax(worst, kvg_attention_ratio(spec.lse[i], naive.lse[i], spec.lse_bound[i]));
    answer_close(&spec);
    answer_close(&naive);
    world_close(&w);
    return worst;
}

void test_naive_agrees(void **state)
{
    (void)state;
    static const uint32_t groups[] = {1, 3, 4, 5, 6, 7, 8, 16}, dims[] = {64, 80, 96, 112, 128, 192, 256, 576};
    size_t layouts, formats, problems = 0;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    const kvg_format_info *format = kvg_format_table(&formats);
    double worst = 0;
    for (size_t l = 0; l < layouts; l++) {
        for (size_t f = 0; layout[l].paged && f < formats; f++, problems++) {
            world_plan plan = plan_of(layout[l].layout, format[f].format, format[(f * 3 + l) % formats].format);
            plan.dtype = f % 2 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
            plan.group = (uint32_t)(f + l) % 4 + 1;
            plan.window = f % 3 == 1 ? 13 : 0;
            plan.softcap = f % 4 == 2 ? 2 : 0;
            plan.sinks = l % 2;
            plan.drop_block = f % 5 == 3;
            worst = fmax(worst, naive_share(&plan));
        }
    }
    for (int i = 0; i < 8; i++, problems++) {
        world_plan plan = plan_of(KVG_LAYOUT_TRTLLM, KVG_FORMAT_E5M2, KVG_FORMAT_INT8);
        plan.group = groups[i];
        plan.head_dim = dims[i];
        plan.q_size = i % 2 ? 100 : 1;
        worst = fmax(worst, naive_share(&plan));
    }
    /* a latent of 512 with 128 heads */
    const world_plan latent = {.layout = KVG_LAYOUT_MLA,
                               STORE(NVFP4, NVFP4),
                               .shared_kv = true,
                               .head_dim = 576,
                               .group = 128,
                               .lengths = {21},
                               .queries = {1}};
    worst = fmax(worst, naive_share(&latent));
    print_message("%zu problems: at most %.2g of the f32 bound from long double\n", problems + 1, worst);
    assert_true(worst <= 0x1p-26); /* docs/spec/numerics.md section 6.10 */
}

/* Two plans have equal bits, and equal bounds. */
static void expect_same(const world_plan *a, const world_plan *b)
{
    const world_plan *plans[2] = {a, b};
    world w[2];
    kvg_attention_answer answer[2];
    for (int i = 0; i < 2; i++) {
        world_open(plans[i], &w[i]);
        kvg_arithmetic class;
        kvg_arithmetic_init(&w[i].p, &class);
        answer[i] = answer_open(&w[i]);
        world_spec(&w[i], &class, &answer[i]);
    }
    assert_true(answers_equal(&w[0], &answer[0], &answer[1]));
    assert_memory_equal(answer[0].out_bound, answer[1].out_bound, w[0].outputs * sizeof(double));
    assert_memory_equal(answer[0].lse_bound, answer[1].lse_bound, w[0].rows * sizeof(double));
    for (size_t i = 0; i < w[0].outputs; i++)
        assert_true(isfinite(answer[0].out[i]) && isfinite(answer[0].out_bound[i]));
    for (int i = 0; i < 2; i++) {
        answer_close(&answer[i]);
        world_close(&w[i]);
    }
}

void test_pages_do_not_matter(void **state)
{
    (void)state;
    size_t layouts;
    const kvg_layout_info *layout = kvg_layout_table(&layouts);
    for (size_t l = 0; l < layouts; l++) {
        if (!layout[l].paged) continue;
        world_plan a = plan_of(layout[l].layout, KVG_FORMAT_NVFP4, KVG_FORMAT_MX16), b = a;
        b.pages_from = 4;
        expect_same(&a, &b);
        /* nor does where the bytes of a page lie */
        if (layout[l].layout == KVG_LAYOUT_MLA || layout[l].layout == KVG_LAYOUT_RING) continue;
        b.layout = KVG_LAYOUT_NHD;
        b.block_tokens = 4;
        expect_same(&a, &b);
    }
}

/* Keys that the last query of a windowed sequence cannot see are NaN. */
static float hidden_nan(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position, uint32_t dim)
{
    const bool hidden = (int64_t)position + w->plan.window < w->plan.lengths[sequence];
    if (role == KVG_ROLE_VALUES && hidden && w->plan.poison == 0x7F) return NAN;
    return world_by_content(w, role, side, sequence, head, position, dim);
}

void test_unowned_bytes_do_not_matter(void **state)
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
    world_plan a = {.layout = KVG_LAYOUT_HND,
                    STORE(F16, BF16),
                    .window = 16,
                    .fill = hidden_nan,
                    .lengths = {16, 17, 60},
                    .queries = {1, 1, 1}},
               b = a;
    b.poison = 0x7F;
    expect_same(&a, &b);
}

/* Each sequence alone, and all in the other order, gives the bits that it had in the batch. */
void test_batch_does_not_matter(void **state)
{
    (void)state;
    static const int32_t lengths[3] = {33, 80, 7}, queries[3] = {2, 1, 3};
    world_plan plan = {.layout = KVG_LAYOUT_TURBOMIND,
                       STORE(INT4, NVFP4),
                       .dtype = KVG_DTYPE_BF16,
                       .group = 5,
                       .sinks = 1,
                       .fill = world_by_content,
                       .window = 50};
    world all, part;
    kvg_attention_answer whole, own;
    memcpy(plan.lengths, lengths, sizeof lengths);
    memcpy(plan.queries, queries, sizeof queries);
    world_open(&plan, &all);
    whole = answer_open(&all);
    world_spec(&all, NULL, &whole);
    size_t row = 0;
    for (int s = 0; s < 3; s++) {
        world_plan one = plan;
        memset(one.lengths, 0, sizeof one.lengths);
        memset(one.queries, 0, sizeof one.queries);
        one.lengths[0] = lengths[s];
        one.queries[0] = queries[s];
        world_open(&one, &part);
        own = answer_open(&part);
        world_spec(&part, NULL, &own);
        assert_memory_equal(own.out, whole.out + row * 10 * 64, part.outputs * sizeof(double));
        assert_memory_equal(own.lse, whole.lse + row * 10, part.rows * sizeof(double));
        row += (size_t)queries[s];
        answer_close(&own);
        world_close(&part);
    }
    world_plan other = plan;
    for (int s = 0; s < 3; s++) {
        other.lengths[s] = lengths[2 - s];
        other.queries[s] = queries[2 - s];
    }
    world_open(&other, &part);
    own = answer_open(&part);
    world_spec(&part, NULL, &own);
    assert_memory_equal(own.out, whole.out + 3 * 640, 3 * 640 * sizeof(double));     /* the one of 7 */
    assert_memory_equal(own.out + 3 * 640, whole.out + 2 * 640, 640 * sizeof(double)); /* the one of 80 */
    assert_memory_equal(own.out + 4 * 640, whole.out, 2 * 640 * sizeof(double));     /* the one of 33 */
    answer_close(&own);
    answer_close(&whole);
    world_close(&part);
    world_close(&all);
}

/* 16 queries at once, in chunks of 5, and one by one. */
void test_chunks_do_not_matter(void **state)
{
    (void)state;
    enum { LENGTH = 40, QUERIES = 16 };
    static const int32_t chunks[] = {5, 1};
    world_plan plan = {.layout = KVG_LAYOUT_VLLM,
                       STORE(NVFP4, INT8),
                       .group = 2,
                       .window = 21,
                       .softcap = 5,
                       .fill = world_by_content,
                       .lengths = {LENGTH},
                       .queries = {QUERIES}};
    world w, part;
    world_open(&plan, &w);
    kvg_attention_answer whole = answer_open(&w);
    world_spec(&w, NULL, &whole);
    for (size_t c = 0; c < 2; c++) {
        for (int32_t from = 0; from < QUERIES; from += chunks[c]) {
            world_plan chunk = plan;
            chunk.queries[0] = QUERIES - from < chunks[c] ? QUERIES - from : chunks[c];
            chunk.lengths[0] = LENGTH - QUERIES + from + chunk.queries[0];
            world_open(&chunk, &part);
            kvg_attention_answer own = answer_open(&part);
            world_spec(&part, NULL, &own);
            assert_memory_equal(own.out, whole.out + (size_t)from * 4 * 64, part.outputs * sizeof(double));
            assert_memory_equal(own.lse, whole.lse + (size_t)from * 4, part.rows * sizeof(double));
            answer_close(&own);
            world_close(&part);
        }
    }
    answer_close(&whole);
    world_close(&w);
}

/* Two sequences with one prefix: reading it from the other's pages changes nothing. */
void test_aliased_prefix(void **state)
{
    (void)state;
    world w;
    world_open(&(world_plan){.layout = KVG_LAYOUT_HND, STORE(MX16, E4M3), .group = 3, .fill = world_by_content,
                             .lengths = {60, 45}, .queries = {1, 2}}, &w);
    kvg_attention_answer before = answer_open(&w), after = answer_open(&w);
    world_spec(&w, NULL, &before);
    int32_t *table = world_input(&w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    assert_int_not_equal(table[4], table[0]);
    table[4] = table[0];
    table[5] = table[1];
    world_spec(&w, NULL, &after);
    assert_true(answers_equal(&w, &before, &after));
    table[4] = table[1]; /* and other pages are noticed */
    world_spec(&w, NULL, &after);
    assert_false(answers_equal(&w, &before, &after));
    answer_close(&before);
    answer_close(&after);
    world_close(&w);
}
