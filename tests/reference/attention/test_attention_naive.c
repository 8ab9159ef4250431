/* The spec tier agrees with a plain long double attention. */
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
    const bool mla = kvg_layout_get(layout)->shared == KVG_SHARED_ALWAYS;
    world_plan plan = {.layout = layout, .storage = {{k, NULL}, {mla ? k : v, NULL}}, .shared_kv = mla, .padded = true,
                       .head_dim = 128, .block_tokens = 16, .lengths = {0, 1, 15, 16, 17, 45},
                       .queries = {1, 1, 2, 1, 1, 3}, .seed = layout};
    plan.v_scale_swizzle = info->groups && (v == KVG_FORMAT_NVFP4 || v == KVG_FORMAT_MX16);
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
            if (world_can(&plan)) worst = fmax(worst, naive_share(&plan));
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
