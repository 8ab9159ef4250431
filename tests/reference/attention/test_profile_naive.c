/* The profile tier against the contract read literally, bit for bit; and how many bits each small deviation changes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "tests/reference/attention/test_profile.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

enum { PERIOD = 200 };

/* Each key comes back after PERIOD positions with its value turned round, but for a little: outputs are what the sums
 * left over, so that their own roundings show. */
static float cancelling(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position, uint32_t dim)
{
    if (role == KVG_ROLE_Q) return world_by_content(w, role, side, sequence, head, position, dim);
    const float x = world_by_content(w, role, side, sequence, head, position % PERIOD, dim);
    if (side == KVG_K) return x;
    const float rest = world_by_content(w, role, side, sequence, head, position, dim) * 0.01f;
    return (position / PERIOD % 2 ? -1000 : 1000) * x + rest;
}

/* Elements of q of many sizes over keys below the smallest normal operand. */
static float wide_q(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                    uint32_t dim)
{
    const float x = world_by_content(w, role, side, sequence, head, position, dim);
    if (role != KVG_ROLE_Q) return x;
    return x / (float)(1u << kvg_rng_below(w->plan.seed, head, (uint64_t)position * 1024 + dim, 22));
}

/* Scores of about 1500 that differ by little. */
static float far_from_0(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position, uint32_t dim)
{
    const float x = world_by_content(w, role, side, sequence, head, position, dim);
    if (role == KVG_ROLE_Q) return 4;
    return side == KVG_K ? 4 + 0.02f * x : x;
}

/* With a score factor of 1 the largest score of each tile is exactly 8 above that of the one before, and its value is
 * 0: the output is that of the others, whose weights are subnormal operands if the row is rescaled, and not if it
 * stays. */
static float steps_of_8(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position, uint32_t dim)
{
    const float x = world_by_content(w, role, side, sequence, head, position, dim);
    if (role != KVG_ROLE_Q && side == KVG_V) return position % 32 ? 1000 * x : 0;
    if (dim > 0 || role == KVG_ROLE_Q) return dim == 0;
    return 8.0f * (float)(position / 32) - (position % 32 ? 16 + x : 0);
}

/* V is NaN at keys that the first of several queries does not see. */
static float nan_beyond_first(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                              uint32_t position, uint32_t dim)
{
    const int64_t first_query = w->plan.lengths[sequence] - w->plan.queries[sequence];
    const bool hidden = role != KVG_ROLE_Q && side == KVG_V && (int64_t)position > first_query;
    return hidden && dim % 8 == 3 ? NAN : world_by_content(w, role, side, sequence, head, position, dim);
}

/* A key whose weight is 0 has infinite values. */
static float weightless(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position, uint32_t dim)
{
    const float x = world_by_content(w, role, side, sequence, head, position, dim);
    if (role == KVG_ROLE_Q) return dim == 0 ? 8 : x;
    if (position != 3) return x;
    return side == KVG_K ? (dim == 0 ? -30000.0f : 0) : dim % 8 == 5 ? INFINITY : x;
}

/* Between them every rule, so that every deviation meets one that it breaks. */
static const struct {
    const char *name;
    kvg_profile profile; /* 0: sm90 */
    world_plan plan;
} battery[] = {
    {"nvfp4 G4 sinks", 0,
     {.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .kv_heads = 1, .group = 4, .head_dim = 128, .sinks = 2,
      .lengths = {333, 1, 130}, .queries = {1, 1, 1}, .seed = 21}},
    {"nvfp4 bf16 peaked", 0,
     {.layout = KVG_LAYOUT_TRTLLM, STORE(NVFP4, NVFP4), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 3,
      .head_dim = 64, .q_size = 12, .lengths = {700}, .queries = {2}, .seed = 22}},
    {"f16 window, long", 0,
     {.layout = KVG_LAYOUT_NHD, STORE(F16, F16), .kv_heads = 1, .group = 2, .window = 410, .lengths = {1300},
      .queries = {2}, .seed = 23}},
    {"bf16 G5 cap", 0,
     {.layout = KVG_LAYOUT_VLLM, STORE(BF16, BF16), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 5, .softcap = 3,
      .lengths = {290, 40}, .queries = {2, 3}, .seed = 24}},
    {"e4m3/rowint4 80 sm89", KVG_PROFILE_SM89_MMA16816_V1,
     {.layout = KVG_LAYOUT_CONTIGUOUS, STORE(E4M3, ROWINT4), .kv_heads = 1, .group = 2, .head_dim = 80,
      .lengths = {270}, .queries = {1}, .seed = 25}},
    {"rowfp4/e5m2 bf16 cap", 0,
     {.layout = KVG_LAYOUT_SLOT, STORE(ROWFP4, E5M2), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 2,
      .head_dim = 96, .softcap = 20, .q_size = 6, .lengths = {200}, .queries = {1}, .seed = 26}},
    {"rowint4/rowfp4", 0,
     {.layout = KVG_LAYOUT_VLLM_HND, STORE(ROWINT4, ROWFP4), .kv_heads = 1, .group = 2, .head_dim = 112,
      .q_size = 4, .lengths = {260}, .queries = {1}, .seed = 27}},
    {"int4/int8 window", 0,
     {.layout = KVG_LAYOUT_TURBOMIND, STORE(INT4, INT8), .kv_heads = 1, .group = 2, .head_dim = 64, .window = 77,
      .lengths = {300}, .queries = {3}, .seed = 28}},
    {"mx16/mxfp4 bf16 small q", 0,
     {.layout = KVG_LAYOUT_HND, STORE(MX16, MXFP4), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 2,
      .head_dim = 96, .q_size = 0x1p-20f, .scale = 0x1p18f, .sinks = 3, .lengths = {180}, .queries = {1}, .seed = 29}},
    {"mla nvfp4", 0,
     {.layout = KVG_LAYOUT_MLA, STORE(NVFP4, NVFP4), .group = 2, .head_dim = 576, .shared_kv = true,
      .block_tokens = 64, .lengths = {150}, .queries = {1}, .seed = 30}},
    {"ring f16", 0,
     {.layout = KVG_LAYOUT_RING, STORE(F16, MX16), .kv_heads = 1, .group = 2, .block_tokens = 300, .lengths = {1000},
      .queries = {1}, .seed = 31}},
    {"f16 leaf without keys", 0,
     {.layout = KVG_LAYOUT_NHD, STORE(F16, BF16), .kv_heads = 1, .block_tokens = 256, .drop_block = 2, .scale = 2,
      .lengths = {1200}, .queries = {1}, .seed = 32}},
    {"f16 cancelling, window", 0,
     {.layout = KVG_LAYOUT_HND, STORE(F16, F16), .fill = cancelling, .kv_heads = 1, .group = 2, .window = 400,
      .lengths = {530}, .queries = {2}, .seed = 33}},
    {"f16 cancelling, sm89", KVG_PROFILE_SM89_MMA16816_V1,
     {.layout = KVG_LAYOUT_HND, STORE(E4M3, F16), .fill = cancelling, .kv_heads = 1, .group = 2, .lengths = {1600},
      .queries = {1}, .seed = 34}},
    {"nvfp4 bf16 wide q, small k", 0,
     {.layout = KVG_LAYOUT_HND, STORE(NVFP4, F16), .dtype = KVG_DTYPE_BF16, .fill = wide_q, .kv_heads = 1, .group = 8,
      .k_size = 0x1p-14f, .scale = 0x1p12f, .lengths = {5, 40}, .queries = {3, 1}, .seed = 35}},
    {"single keys, rowint4", 0,
     {.layout = KVG_LAYOUT_HND, STORE(ROWINT4, ROWFP4), .kv_heads = 1, .group = 16, .head_dim = 112,
      .lengths = {1, 1, 1, 1, 1}, .queries = {1, 1, 1, 1, 1}, .scale = 0.3f, .q_size = 3, .seed = 36}},
    {"single keys, e5m2", 0,
     {.layout = KVG_LAYOUT_HND, STORE(E5M2, E4M3), .kv_heads = 1, .group = 16, .head_dim = 48, .scale = 0.7f,
      .lengths = {1, 1, 1, 1, 1}, .queries = {1, 1, 1, 1, 1}, .q_size = 3, .seed = 37}},
    {"scores far from 0", 0,
     {.layout = KVG_LAYOUT_NHD, STORE(F16, E5M2), .fill = far_from_0, .kv_heads = 1, .group = 4, .scale = 1,
      .lengths = {300}, .queries = {1}, .seed = 38}},
    {"many outputs", 0,
     {.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .kv_heads = 1, .group = 128, .head_dim = 256, .lengths = {3},
      .queries = {1}, .seed = 39}},
    {"rises of exactly 8", 0,
     {.layout = KVG_LAYOUT_HND, STORE(F16, F16), .fill = steps_of_8, .kv_heads = 2, .scale = 0x1.62e43p-1f,
      .lengths = {128, 64, 100}, .queries = {1, 1, 1}, .seed = 42}},
    {"sums beyond f32", 0,
     {.layout = KVG_LAYOUT_HND, STORE(F16, E4M3), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .q_size = 0.1f,
      .v_tensor_scale = 0x1p123f, .v_size = 0x1p125f, .lengths = {300}, .queries = {1}, .seed = 41}},
    {"several spans", 0,
     {.layout = KVG_LAYOUT_NHD, STORE(BF16, INT4), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .head_dim = 16,
      .lengths = {4700}, .queries = {1}, .seed = 40}},

    {"simt nvfp4 G4 sinks", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .kv_heads = 1, .group = 4, .head_dim = 128, .sinks = 2,
      .lengths = {333, 1, 130}, .queries = {1, 1, 1}, .seed = 51}},
    {"simt nvfp4/mx16 bf16 peaked, 80", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_TRTLLM, STORE(NVFP4, MX16), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 3,
      .head_dim = 80, .q_size = 12, .lengths = {700}, .queries = {2}, .seed = 52}},
    {"simt f16 window, long, 96", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_NHD, STORE(F16, F16), .kv_heads = 1, .group = 2, .head_dim = 96, .window = 410,
      .lengths = {1300}, .queries = {2}, .seed = 53}},
    {"simt bf16 G5 cap, 112", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_VLLM, STORE(BF16, BF16), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 5,
      .head_dim = 112, .softcap = 3, .lengths = {290, 40}, .queries = {2, 3}, .seed = 54}},
    {"simt e4m3/rowint4 f32", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_CONTIGUOUS, STORE(E4M3, ROWINT4), .dtype = KVG_DTYPE_F32, .kv_heads = 1, .group = 2,
      .head_dim = 80, .k_tensor_scale = 0.02f, .lengths = {270}, .queries = {1}, .seed = 55}},
    {"simt rowfp4/e5m2 f32 cap", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_SLOT, STORE(ROWFP4, E5M2), .dtype = KVG_DTYPE_F32, .kv_heads = 1, .group = 2,
      .softcap = 20, .q_size = 6, .lengths = {200}, .queries = {1}, .seed = 56}},
    {"simt rowint4/rowfp4", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_VLLM_HND, STORE(ROWINT4, ROWFP4), .kv_heads = 1, .group = 2, .head_dim = 112,
      .q_size = 4, .lengths = {260}, .queries = {1}, .seed = 57}},
    {"simt int4/int8 window", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_TURBOMIND, STORE(INT4, INT8), .kv_heads = 1, .group = 2, .head_dim = 64, .window = 77,
      .lengths = {300}, .queries = {3}, .seed = 58}},
    {"simt int8/int4 muladd bf16", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, .storage = {{KVG_FORMAT_INT8, "turbomind-muladd"},
                                            {KVG_FORMAT_INT4, "turbomind-muladd"}},
      .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .group = 2, .lengths = {150}, .queries = {1}, .seed = 59}},
    {"simt mx16/mxfp4 f32, 192", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(MX16, MXFP4), .dtype = KVG_DTYPE_F32, .kv_heads = 1, .group = 2,
      .head_dim = 192, .q_size = 0x1p-20f, .scale = 0x1p18f, .sinks = 3, .lengths = {180}, .queries = {1},
      .seed = 60}},
    {"simt mla nvfp4", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_MLA, STORE(NVFP4, NVFP4), .group = 2, .head_dim = 576, .shared_kv = true,
      .block_tokens = 64, .lengths = {150}, .queries = {1}, .seed = 61}},
    {"simt ring f16", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_RING, STORE(F16, MX16), .kv_heads = 1, .group = 2, .block_tokens = 300, .lengths = {1000},
      .queries = {1}, .seed = 62}},
    {"simt f16 leaf without keys", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_NHD, STORE(F16, BF16), .kv_heads = 1, .block_tokens = 256, .drop_block = 2, .scale = 2,
      .lengths = {1200}, .queries = {1}, .seed = 63}},
    {"simt f16 cancelling, window", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(F16, F16), .fill = cancelling, .kv_heads = 1, .group = 2, .window = 400,
      .lengths = {530, 1600}, .queries = {2, 1}, .seed = 64}},
    {"simt single keys", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(ROWINT4, ROWFP4), .kv_heads = 1, .group = 16, .head_dim = 48,
      .lengths = {1, 1, 1, 1, 1}, .queries = {1, 1, 1, 1, 1}, .scale = 0.7f, .q_size = 3, .seed = 65}},
    {"simt scores far from 0", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_NHD, STORE(F16, E5M2), .fill = far_from_0, .kv_heads = 1, .group = 4, .scale = 1,
      .lengths = {300}, .queries = {1}, .seed = 66}},
    {"simt many outputs", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(NVFP4, NVFP4), .kv_heads = 1, .group = 128, .head_dim = 256, .lengths = {3},
      .queries = {1}, .seed = 67}},
    {"simt rises of exactly 8", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(F16, F16), .fill = steps_of_8, .kv_heads = 2, .scale = 0x1.62e43p-1f,
      .lengths = {128, 64, 100}, .queries = {1, 1, 1}, .seed = 68}},
    {"simt sums beyond f32", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(F16, E4M3), .dtype = KVG_DTYPE_F32, .kv_heads = 1, .q_size = 0.1f,
      .v_tensor_scale = 0x1p123f, .v_size = 0x1p125f, .lengths = {300}, .queries = {1}, .seed = 69}},
    {"simt several spans", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_NHD, STORE(BF16, INT4), .dtype = KVG_DTYPE_BF16, .kv_heads = 1, .head_dim = 16,
      .lengths = {4700}, .queries = {1}, .seed = 70}},
    {"simt NaN that others see", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(F16, F16), .fill = nan_beyond_first, .kv_heads = 1, .group = 2,
      .lengths = {40}, .queries = {4}, .seed = 71}},
    {"simt Inf without weight", KVG_PROFILE_SIMT_FMA_V1,
     {.layout = KVG_LAYOUT_HND, STORE(F16, F16), .fill = weightless, .kv_heads = 1, .group = 2, .lengths = {40},
      .queries = {2}, .seed = 72}},
};
enum { BATTERY = sizeof battery / sizeof battery[0] };

void test_profile_naive(void **state)
{
    (void)state;
    size_t outputs = 0;
    for (int b = 0; b < BATTERY; b++) {
        world w;
        decode_world_open(&battery[b].plan, battery[b].profile, &w);
        decode_answer profile = decode_open(&w), naive = decode_open(&w);
        decode_profile(&w, &profile);
        decode_naive(&w, DECODE_RIGHT, &naive);
        const size_t differ = decode_differences(&w, &profile, &naive);
        if (differ) fail_msg("%s: %zu of %zu numbers differ", battery[b].name, differ, w.outputs + w.rows);
        outputs += w.outputs + w.rows;
        decode_close(&profile);
        decode_close(&naive);
        world_close(&w);
    }
    print_message("%d problems, %zu numbers: equal bits\n", (int)BATTERY, outputs);
}

/* What one deviation changed in the problems of one contract. */
typedef struct damage {
    size_t numbers;
    int problems;
} damage;

void test_profile_defects(void **state)
{
    (void)state;
    damage changed[CONTRACTS][DECODE_DEFECTS] = {0}, all[CONTRACTS] = {0};
    for (int b = 0; b < BATTERY; b++) {
        world w;
        const int contract = battery[b].profile == profile_of_contract[1];
        decode_world_open(&battery[b].plan, battery[b].profile, &w);
        decode_answer profile = decode_open(&w), got = decode_open(&w);
        decode_profile(&w, &profile);
        all[contract].numbers += w.outputs + w.rows;
        all[contract].problems++;
        for (int d = DECODE_RIGHT + 1; d < DECODE_DEFECTS; d++) {
            if (!decode_defect_is_of((decode_defect)d, w.p.profile)) continue;
            decode_naive(&w, (decode_defect)d, &got);
            const size_t differ = decode_differences(&w, &profile, &got);
            changed[contract][d].numbers += differ;
            changed[contract][d].problems += differ > 0;
        }
        decode_close(&profile);
        decode_close(&got);
        world_close(&w);
    }
    int missed = 0, count = 0;
    for (int i = 0; i < CONTRACTS * DECODE_DEFECTS; i++) {
        const int contract = i / DECODE_DEFECTS, d = i % DECODE_DEFECTS;
        const damage *seen = &changed[contract][d];
        if (d == DECODE_RIGHT || !decode_defect_is_of((decode_defect)d, profile_of_contract[contract])) continue;
        print_message("  %s %-62s %6zu of %zu numbers, in %2d of %d problems\n", contract ? "simt" : "sm90",
                      decode_defect_name((decode_defect)d), seen->numbers, all[contract].numbers, seen->problems,
                      all[contract].problems);
        missed += seen->numbers == 0;
        count++;
    }
    print_message("%d of %d deviations seen\n", count - missed, count);
    assert_int_equal(missed, 0);
}
