/* The profile tier against the contract read literally, bit for bit; and how many bits each small deviation changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/rng.h"
#include "tests/attention/test_profile.h"

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

void test_profile_defects(void **state)
{
    (void)state;
    size_t changed[DECODE_DEFECTS] = {0}, outputs = 0;
    int seen_in[DECODE_DEFECTS] = {0};
    for (int b = 0; b < BATTERY; b++) {
        world w;
        decode_world_open(&battery[b].plan, battery[b].profile, &w);
        decode_answer profile = decode_open(&w), got = decode_open(&w);
        decode_profile(&w, &profile);
        outputs += w.outputs + w.rows;
        for (int d = DECODE_RIGHT + 1; d < DECODE_DEFECTS; d++) {
            decode_naive(&w, (decode_defect)d, &got);
            const size_t differ = decode_differences(&w, &profile, &got);
            changed[d] += differ;
            seen_in[d] += differ > 0;
        }
        decode_close(&profile);
        decode_close(&got);
        world_close(&w);
    }
    int missed = 0;
    for (int d = DECODE_RIGHT + 1; d < DECODE_DEFECTS; d++) {
        print_message("  %-62s %6zu of %zu numbers, in %2d of %d problems\n", decode_defect_name((decode_defect)d),
                      changed[d], outputs, seen_in[d], (int)BATTERY);
        missed += changed[d] == 0;
    }
    print_message("%d of %d deviations seen\n", DECODE_DEFECTS - 1 - missed, DECODE_DEFECTS - 1);
    assert_int_equal(missed, 0);
}
