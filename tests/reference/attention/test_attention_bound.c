/* attention.v1: right kernels of each class stay within it and use some of it; kernels with one thing wrong leave it.
 * */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "harness/trial/wrong/flash.h"
#include "tests/reference/attention/attention_naive.h"
#include "tests/reference/attention/test_attention.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

/* Scores of about -1e5 that differ by some units. */
static float far_below(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                       uint32_t position, uint32_t dim)
{
    if (role == KVG_ROLE_Q) return -12500;
    const uint64_t x = kvg_rng_below(w->plan.seed, side * 64u + sequence * 8 + head, position * 1024 + dim, 3);
    return 1 + ((float)x - 1) * 0x1p-10f;
}

/* Values around 1, so that an output of 0 is wrong. */
static float around_1(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                      uint32_t dim)
{
    const uint64_t stream = role * 100u + side * 10u + head + sequence;
    return (float)kvg_rng_normal(w->plan.seed, stream, (uint64_t)position * 1024 + dim) + (side == KVG_V);
}

/* Products of one sign: what truncation takes from them adds up. */
static float one_sign(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                      uint32_t dim)
{
    const uint64_t stream = role * 100u + side * 10u + head + sequence;
    return 1 + (float)kvg_rng_below(w->plan.seed, stream, (uint64_t)position * 1024 + dim, 1 << 20) * 0x1p-20f;
}

/* One key of weight 1 beside many of 2^-11, which P in e4m3 loses though they are a third of the sum. */
static float one_above_many(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                            uint32_t position, uint32_t dim)
{
    if (role == KVG_ROLE_Q) return 1;
    if (side == KVG_K) return position == 3 ? 0 : -0.953f;
    return position == 3 ? -1 : around_1(w, role, side, sequence, head, position, dim);
}

/* Between them every feature, so that every wrong kernel meets one that it gets wrong. */
static const struct {
    const char *name;
    world_plan plan;
} battery[] = {
    {"f16 nhd G4 sinks",
     {.layout = KVG_LAYOUT_NHD,
      STORE(F16, F16),
      .group = 4,
      .sinks = 2,
      .lengths = {37, 1, 16, 17, 150, 0},
      .queries = {1, 1, 1, 1, 5, 1}}},
    {"nvfp4 hnd bf16 window cap",
     {.layout = KVG_LAYOUT_HND,
      .dtype = KVG_DTYPE_BF16,
      STORE(NVFP4, NVFP4),
      .group = 7,
      .head_dim = 128,
      .v_scale_swizzle = true,
      .window = 33,
      .softcap = 3,
      .lengths = {70, 129, 33},
      .queries = {4, 1, 3},
      .seed = 3}},
    {"int8/int4 turbomind",
     {.layout = KVG_LAYOUT_TURBOMIND,
      STORE(INT8, INT4),
      .group = 3,
      .head_dim = 128,
      .lengths = {65, 0, 200},
      .queries = {1, 1, 2},
      .seed = 4}},
    {"e4m3/rowint4 ring",
     {.layout = KVG_LAYOUT_RING,
      STORE(E4M3, ROWINT4),
      .group = 2,
      .block_tokens = 48,
      .lengths = {30, 200, 48},
      .queries = {1, 3, 1},
      .seed = 5}},
    {"mla f16",
     {.layout = KVG_LAYOUT_MLA,
      STORE(F16, F16),
      .group = 3,
      .head_dim = 576,
      .shared_kv = true,
      .block_tokens = 64,
      .lengths = {90, 64},
      .queries = {1, 2},
      .seed = 6}},
    {"peaked f16",
     {.layout = KVG_LAYOUT_VLLM,
      STORE(F16, F16),
      .group = 5,
      .q_size = 8,
      .head_dim = 128,
      .lengths = {250, 31},
      .queries = {1, 1},
      .seed = 7}},
    {"large q bf16",
     {.layout = KVG_LAYOUT_TRTLLM,
      .dtype = KVG_DTYPE_BF16,
      STORE(BF16, MX16),
      .group = 2,
      .q_size = 100,
      .head_dim = 128,
      .lengths = {140},
      .queries = {2},
      .seed = 8}},
    {"far below -5e4",
     {.layout = KVG_LAYOUT_SLOT,
      .dtype = KVG_DTYPE_F32,
      STORE(F16, F16),
      .fill = far_below,
      .lengths = {40, 2},
      .queries = {1, 1},
      .seed = 9}},
    {"wide values, flat weights",
     {.layout = KVG_LAYOUT_CONTIGUOUS, STORE(E5M2, E4M3), .q_size = 0.05f, .kv_heads = 1, .fill = around_1,
      .lengths = {1200, 17}, .queries = {1, 1}, .seed = 10}},
    {"one sign, long rows",
     {.layout = KVG_LAYOUT_SLOT,
      .dtype = KVG_DTYPE_F32,
      STORE(F16, F16),
      .head_dim = 1024,
      .kv_heads = 1,
      .fill = one_sign,
      .scale = 1,
      .lengths = {40, 3},
      .queries = {1, 1},
      .seed = 12}},
    {"one above many",
     {.layout = KVG_LAYOUT_NHD, STORE(F16, F16), .kv_heads = 1, .fill = one_above_many, .lengths = {900},
      .queries = {1}, .seed = 13}},
    {"rowfp4/mxfp4",
     {.layout = KVG_LAYOUT_VLLM_HND,
      STORE(ROWFP4, MXFP4),
      .head_dim = 96,
      .scale = 0.2f,
      .sinks = 1,
      .lengths = {77, 16, 15},
      .queries = {2, 16, 1},
      .seed = 11}},
};
enum { BATTERY = sizeof battery / sizeof battery[0] };

/* Ways to run a right kernel. */
static const struct {
    const char *name;
    uint32_t tile, splits, fraction_bits;
    bool backward, decoded, rounded_sum;
} orders[] = {
    {"one key at a time", 1, 1, 0, false, false, false},
    {"f32, 3 splits", 16, 3, 0, false, true, true},
    {"25 bits", 32, 1, 25, false, false, false},
    {"24 bits, backward, 5 splits", 16, 5, 24, true, true, false},
    {"25 bits, 64 tiles, 2 splits", 64, 2, 25, true, false, true},
};
enum { ORDERS = sizeof orders / sizeof orders[0] };

/* Operand types beside the problem's own. */
static const struct {
    const char *name;
    kvg_operand q, k, p, v; /* 0: the problem's */
    float p_unit;
} types[] = {
    {"own", 0, 0, 0, 0, 0},
    {"f32", KVG_OPERAND_F32, KVG_OPERAND_F32, KVG_OPERAND_F32, KVG_OPERAND_F32, 0},
    {"bf16", KVG_OPERAND_BF16, KVG_OPERAND_BF16, KVG_OPERAND_BF16, KVG_OPERAND_BF16, 0},
    {"q and p in e4m3", KVG_OPERAND_E4M3, 0, KVG_OPERAND_E4M3, 0, 1.0f / 256},
    {"p in e4m3", 0, 0, KVG_OPERAND_E4M3, 0, 0},
};
enum { TYPES = sizeof types / sizeof types[0] };

static kvg_flash set_up(const world *w, int order, int type)
{
    kvg_flash f = {.tile = orders[order].tile, .splits = orders[order].splits, .backward = orders[order].backward};
    kvg_arithmetic_init(&w->p, &f.class);
    f.class.tile = f.tile;
    f.class.fraction_bits = orders[order].fraction_bits;
    f.class.folded = !orders[order].decoded;
    f.class.p_unit = types[type].p_unit;
    if (types[type].q) f.class.q = types[type].q;
    if (types[type].k) f.class.k = types[type].k;
    if (types[type].p) f.class.p = types[type].p;
    if (types[type].v) f.class.v = types[type].v;
    /* where P carries V's row scale its rounded sum is not one of weights */
    const bool carried = f.class.folded && (w->p.storage[KVG_V].format == KVG_FORMAT_ROWINT4 ||
                                            w->p.storage[KVG_V].format == KVG_FORMAT_ROWFP4);
    f.class.rounded_sum = orders[order].rounded_sum && !carried;
    return f;
}

static const char *const flash_names[] = {
    "right",
#define FLASH_DEFECT(id, control, applies, ENUM, summary, seen_in) summary,
#include "harness/trial/wrong/flash_defects.def"
#undef FLASH_DEFECT
};

static kvg_tensor open_output(const world *w, kvg_role role)
{
    kvg_tensor t = kvg_problem_tensor(&w->p, role, KVG_K);
    t.data = malloc(t.bytes);
    assert_non_null(t.data);
    memset(t.data, 0xFF, t.bytes); /* NaN: what is not written shows */
    return t;
}

/* The plain kernel's out and lse as numbers. */
static void run_flash(const world *w, const kvg_flash *how, kvg_attention_answer *answer)
{
    kvg_tensor out[2] = {open_output(w, KVG_ROLE_OUT), open_output(w, KVG_ROLE_LSE)};
    if (kvg_flash_run(&w->p, w->in, how, out)) fail_msg("flash: %s", kvg_error_text());
    for (size_t i = 0; i < w->outputs; i++) {
        float x;
        const size_t bytes = kvg_dtype_bytes(out[0].dtype);
        kvg_reference_load(out[0].dtype, (const uint8_t *)out[0].data + i * bytes, 1, &x);
        answer->out[i] = x;
    }
    for (size_t i = 0; i < w->rows; i++) answer->lse[i] = ((const float *)out[1].data)[i];
    free(out[0].data);
    free(out[1].data);
}

typedef struct ratios {
    double worst_out, worst_lse, median;
    size_t promised, count;
} ratios;

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static ratios compare(const world *w, const kvg_attention_answer *got, const kvg_attention_answer *exact)
{
    ratios r = {.count = w->outputs};
    double *all = malloc(w->outputs * sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < w->outputs; i++) {
        all[i] = kvg_attention_ratio(got->out[i], exact->out[i], exact->out_bound[i]);
        r.promised += exact->out_bound[i] < INFINITY;
        r.worst_out = fmax(r.worst_out, all[i]);
    }
    for (size_t i = 0; i < w->rows; i++)
        r.worst_lse = fmax(r.worst_lse, kvg_attention_ratio(got->lse[i], exact->lse[i], exact->lse_bound[i]));
    qsort(all, w->outputs, sizeof *all, by_size);
    r.median = all[w->outputs / 2];
    free(all);
    return r;
}

void test_right_kernels(void **state)
{
    (void)state;
    double worst = 0, lowest_worst = INFINITY, medians[BATTERY * ORDERS * TYPES];
    size_t runs = 0, unpromised = 0;
    for (int b = 0; b < BATTERY; b++) {
        world w;
        world_open(&battery[b].plan, &w);
        kvg_attention_answer exact = answer_open(&w), got = answer_open(&w);
        for (int t = 0; t < TYPES; t++) {
            double worst_out = 0, worst_lse = 0, median = 0;
            for (int o = 0; o < ORDERS; o++) {
                if (t > 1 && o != t) continue;
                const kvg_flash f = set_up(&w, o, t);
                world_spec(&w, &f.class, &exact);
                run_flash(&w, &f, &got);
                const ratios r = compare(&w, &got, &exact);
                if (r.worst_out > 1 || r.worst_lse > 1) {
                    fail_msg("%s, operands %s, %s: a right kernel is outside: out %g, lse %g", battery[b].name,
                             types[t].name, orders[o].name, r.worst_out, r.worst_lse);
                }
                unpromised += r.count - r.promised;
                worst_out = fmax(worst_out, r.worst_out);
                worst_lse = fmax(worst_lse, r.worst_lse);
                median = fmax(median, r.median);
                medians[runs++] = r.median;
                if (t == 0) lowest_worst = fmin(lowest_worst, r.worst_out);
            }
            print_message("  %-26s %-16s worst out %.3f, lse %.3f, median %.4f\n", battery[b].name, types[t].name,
                          worst_out, worst_lse, median);
            worst = fmax(worst, worst_out);
        }
        answer_close(&exact);
        answer_close(&got);
        world_close(&w);
    }
    qsort(medians, runs, sizeof medians[0], by_size);
    print_message(
        "%zu runs of right kernels: worst ratio %.3f, median of medians %.4f, least worst with own types %.3f, "
        "%zu elements without a bound\n",
        runs, worst, medians[runs / 2], lowest_worst, unpromised);
    assert_true(worst <= 1);
    assert_int_equal(unpromised, 0);
}

/* Each wrong kernel, otherwise as the problem's class says, over the battery: one element outside is enough. */
void test_wrong_kernels(void **state)
{
    (void)state;
    double worst[KVG_FLASH_DEFECTS] = {0};
    int caught_by[KVG_FLASH_DEFECTS] = {0};
    for (int b = 0; b < BATTERY; b++) {
        world w;
        world_open(&battery[b].plan, &w);
        kvg_attention_answer exact = answer_open(&w), got = answer_open(&w);
        const int type = b == 8 ? 3 : 0; /* the flat one has P in e4m3 */
        kvg_flash f = set_up(&w, 3, type);
        if (type == 3) f.class.p_unit = 0;
        world_spec(&w, &f.class, &exact);
        for (int d = KVG_FLASH_RIGHT; d < KVG_FLASH_DEFECTS; d++) {
            f.defect = (kvg_flash_defect)d;
            run_flash(&w, &f, &got);
            const ratios r = compare(&w, &got, &exact);
            caught_by[d] += r.worst_out > 1 || r.worst_lse > 1;
            worst[d] = fmax(worst[d], fmax(r.worst_out, r.worst_lse));
        }
        answer_close(&exact);
        answer_close(&got);
        world_close(&w);
    }
    int missed = 0;
    for (int d = KVG_FLASH_RIGHT; d < KVG_FLASH_DEFECTS; d++) {
        print_message("  %-62s %10.3g x bound, in %d of %d\n", flash_names[d], worst[d],
                      caught_by[d], BATTERY);
        missed += d != KVG_FLASH_RIGHT && !(worst[d] > 1);
    }
    print_message("%d of %d wrong kernels caught\n", KVG_FLASH_DEFECTS - 1 - missed, KVG_FLASH_DEFECTS - 1);
    assert_true(worst[KVG_FLASH_RIGHT] <= 1);
    assert_int_equal(missed, 0);
}

/* The answer over the cache lies within the codec's bound of the answer over the rows before quantisation; with V's
 * scale lost it does not. */
void test_codec_bound(void **state)
{
    (void)state;
    double worst = 0;
    for (int b = 0; b < BATTERY; b++) {
        world w;
        world_plan plan = battery[b].plan;
        if (plan.q_size > 1) plan.q_size = 1; /* else scores of quantised keys say nothing */
        world_open(&plan, &w);
        kvg_attention_answer cache = answer_open(&w), flat = answer_open(&w), naive = answer_open(&w);
        world_spec(&w, NULL, &cache);
        assert_int_equal(kvg_attention_unquantised(&w.p, w.in, w.flat, &flat), KVG_OK);
        naive_attention(&w, true, &naive);
        kvg_attention_error codec, kernel;
        kvg_attention_measure(cache.out, flat.out, flat.out_bound, w.outputs, &codec);
        assert_int_equal(codec.outside, 0);
        assert_int_equal(codec.unpromised, 0);
        for (size_t i = 0; i < w.outputs; i++) assert_true(fabs(naive.out[i] - flat.out[i]) <= 1e-12);
        for (size_t i = 0; i < w.rows; i++)
            assert_true(kvg_attention_ratio(cache.lse[i], flat.lse[i], flat.lse_bound[i]) <= 1);

        kvg_flash f = set_up(&w, 2, 0);
        world_spec(&w, &f.class, &cache);
        kvg_attention_answer got = answer_open(&w);
        run_flash(&w, &f, &got);
        kvg_attention_measure(got.out, cache.out, cache.out_bound, w.outputs, &kernel);
        print_message("  %-26s codec: relative L2 %.2e, worst %.3f of its bound; kernel: %.2e, %.3f\n", battery[b].name,
                      codec.relative_l2, codec.worst, kernel.relative_l2, kernel.worst);
        worst = fmax(worst, codec.worst);
        answer_close(&cache);
        answer_close(&flat);
        answer_close(&naive);
        answer_close(&got);
        world_close(&w);
    }
    assert_true(worst > 0.01 && worst <= 1);
}
