/* Answers of the profile tier that are known bit for bit. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/formats/ref_codec.h"
#include "reference/numbers/ref_exp2.h"
#include "tests/reference/attention/test_profile.h"

#define STORE(K, V) .storage = {{KVG_FORMAT_##K, NULL}, {KVG_FORMAT_##V, NULL}}

static const float LOG2E = 0x1.715476p+0f, LN2 = 0x1.62e43p-1f;

static float normal(const world *w, kvg_role role, kvg_side side, uint32_t head, uint32_t position, uint32_t dim)
{
    return (float)kvg_rng_normal(w->plan.seed, role * 100u + side * 10u + head, (uint64_t)position * 1024 + dim);
}

/* V is 1 in every format that can hold it as a power of two. */
static float values_of_one(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                           uint32_t position, uint32_t dim)
{
    (void)sequence;
    if (role == KVG_ROLE_Q || side == KVG_K) return normal(w, role, side, head, position, dim);
    return 1;
}

void test_profile_values_of_one(void **state)
{
    (void)state;
    static const kvg_format formats[] = {KVG_FORMAT_F16,  KVG_FORMAT_BF16,  KVG_FORMAT_INT8, KVG_FORMAT_INT4,
                                         KVG_FORMAT_MX16, KVG_FORMAT_MXFP4, KVG_FORMAT_E4M3};
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        for (int i = 0; i < 2 * CONTRACTS; i++) {
            world w;
            decode_world_open(&(world_plan){.layout = KVG_LAYOUT_HND, .dtype = i % 2 ? KVG_DTYPE_BF16 : KVG_DTYPE_F16,
                                            .storage = {{KVG_FORMAT_NVFP4, NULL}, {formats[f], NULL}}, .q_size = 5,
                                            .v_tensor_scale = 0x1p-6f, .group = 2, .fill = values_of_one,
                                            .lengths = {700, 1, 129}, .queries = {1, 1, 2}, .seed = f},
                              profile_of_contract[i / 2], &w);
            decode_answer a = decode_open(&w);
            decode_profile(&w, &a);
            for (size_t n = 0; n < w.outputs; n++) assert_true(a.out[n] == 1);
            decode_close(&a);
            world_close(&w);
        }
    }
}

/* q = 0: every weight is 1, every sum an integer, and no merge rounds. */
static float integers(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                      uint32_t dim)
{
    if (role == KVG_ROLE_Q) return 0;
    if (side == KVG_K) return normal(w, role, side, head, position, dim);
    return (float)kvg_rng_below(w->plan.seed, sequence * 8 + head, (uint64_t)position * 1024 + dim, 41) - 20;
}

static void mean(kvg_profile profile)
{
    world w;
    decode_world_open(&(world_plan){.layout = KVG_LAYOUT_VLLM, STORE(E4M3, F16), .fill = integers, .group = 2,
                                    .lengths = {1, 33, 128, 1029, 300}, .queries = {1, 1, 1, 1, 1}}, profile, &w);
    decode_answer a = decode_open(&w);
    decode_profile(&w, &a);
    for (uint32_t row = 0; row < w.rows; row++) {
        uint32_t sequence;
        int64_t position;
        world_query(&w, row / 4, &sequence, &position);
        for (uint32_t d = 0; d < 64; d++) {
            float sum = 0, mean;
            for (uint32_t k = 0; k <= position; k++)
                sum += integers(&w, KVG_ROLE_VALUES, KVG_V, sequence, row % 4 / 2, k, d);
            mean = sum / (float)(position + 1) + 0.0f;
            assert_true(a.out[row * 64 + d] == ref_round_to(w.p.dtype, mean));
        }
        const float in_log2 = ref_log2((float)(position + 1)), lse = in_log2 * LN2;
        assert_int_equal(kvg_bits_of_f32(a.lse[row]), kvg_bits_of_f32(lse));
    }
    decode_close(&a);
    world_close(&w);
}

void test_profile_mean(void **state)
{
    (void)state;
    for_contracts(mean);
}

/* The key of each query stands out by more than 2^127: its V comes back. */
static float one_key(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                     uint32_t dim)
{
    if (role == KVG_ROLE_Q) return dim == 0 ? 100 : 0;
    if (side == KVG_K) return dim == 0 && position == 5 + 140 * sequence ? 60 : 0;
    return normal(w, role, side, head, position, dim);
}

static void one_hot(kvg_profile profile)
{
    static const kvg_format formats[] = {KVG_FORMAT_F16, KVG_FORMAT_NVFP4, KVG_FORMAT_MX16, KVG_FORMAT_INT8};
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        world w;
        decode_world_open(&(world_plan){.layout = KVG_LAYOUT_HND, .fill = one_key, .group = 3,
                                        .storage = {{KVG_FORMAT_F16, NULL}, {formats[f], NULL}},
                                        .lengths = {200, 600, 1400}, .queries = {1, 1, 1}}, profile, &w);
        decode_answer a = decode_open(&w);
        decode_profile(&w, &a);
        for (uint32_t row = 0; row < w.rows; row++) {
            double factor;
            const uint32_t sequence = row / 6;
            const double *v = world_row(&w, KVG_V, sequence, row % 6 / 3, 5 + 140 * sequence, &factor);
            for (uint32_t d = 0; d < 64; d++) {
                const float y = (float)(v[d] * factor) + 0.0f;
                assert_true(a.out[row * 64 + d] == ref_round_to(w.p.dtype, y));
            }
        }
        decode_close(&a);
        world_close(&w);
    }
}

void test_profile_one_hot(void **state)
{
    (void)state;
    for_contracts(one_hot);
}

/* Length 0, queries before the first token, all blocks missing: +0 and -Inf, or the sink. A sink of -Inf is none. */
static void without_keys(kvg_profile profile)
{
    for (int sinks = 0; sinks < 3; sinks++) {
        world w;
        decode_world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, STORE(NVFP4, ROWINT4), .group = 2,
                                        .sinks = sinks ? 4 : 0, .lengths = {0, 1, 60}, .queries = {2, 3, 1}},
                          profile, &w);
        int32_t *table = world_input(&w, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
        float *sink = world_input(&w, KVG_ROLE_SINKS, KVG_K)->data;
        for (int i = 0; i < 4; i++) table[8 + i] = -1; /* of sequence 2 */
        for (int i = 0; sinks == 2 && i < 4; i++) sink[i] = -INFINITY;
        decode_answer a = decode_open(&w);
        decode_profile(&w, &a);
        for (uint32_t row = 0; row < w.rows; row++) {
            const uint32_t token = row / 4;
            if (token == 4) continue; /* the one that sees a key: itself */
            const float x = sinks == 1 ? sink[row % 4] * LOG2E : 0, lse = sinks == 1 ? x * LN2 : -INFINITY;
            for (uint32_t d = 0; d < 64; d++) assert_int_equal(kvg_bits_of_f32(a.out[row * 64 + d]), 0);
            assert_int_equal(kvg_bits_of_f32(a.lse[row]), kvg_bits_of_f32(lse));
        }
        decode_close(&a);
        world_close(&w);
    }
}

void test_profile_without_keys(void **state)
{
    (void)state;
    for_contracts(without_keys);
}

/* A NaN in a visible key makes exactly the rows NaN that see it; soft-cap or not. */
static float nan_at_60(const world *w, kvg_role role, kvg_side side, uint32_t sequence, uint32_t head,
                       uint32_t position, uint32_t dim)
{
    (void)sequence;
    if (role == KVG_ROLE_VALUES && side == w->plan.seed && position == 60 && head == 1 && dim == 7) return NAN;
    return normal(w, role, side, head, position, dim);
}

void test_profile_nan(void **state)
{
    (void)state;
    for (uint32_t side = KVG_K; side <= KVG_V; side++) {
        for (int i = 0; i < 2 * CONTRACTS; i++) {
            world w;
            decode_world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, STORE(F16, F16), .fill = nan_at_60,
                                            .seed = side, .softcap = i % 2 ? 5 : 0, .window = 20,
                                            .lengths = {90}, .queries = {40}}, profile_of_contract[i / 2], &w);
            decode_answer a = decode_open(&w);
            decode_profile(&w, &a);
            for (uint32_t row = 0; row < w.rows; row++) {
                const uint32_t position = 50 + row / 2, head = row % 2;
                const bool sees = head == 1 && position >= 60 && position < 80;
                assert_int_equal(isnan(a.lse[row]) != 0, sees && side == KVG_K);
                for (uint32_t d = 0; d < 64; d++)
                    assert_int_equal(isnan(a.out[row * 64 + d]) != 0, sees && (side == KVG_K || d == 7));
            }
            decode_close(&a);
            world_close(&w);
        }
    }
}

/* The scale of V's row at position 60, head 1 becomes NaN: no encoder writes that. */
static void spoil_scale(world *w)
{
    const kvg_role *inputs = kvg_op_get(KVG_OP_DECODE)->inputs;
    const int32_t *blocks = w->in[kvg_roles_index(inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)].data;
    uint8_t *pool = w->in[kvg_roles_index(inputs, KVG_ROLE_SCALE_POOL, KVG_V)].data;
    const kvg_paging *g = &w->p.paging;
    kvg_layout_map map;
    kvg_rows_map(&w->p, &map);
    for (uint32_t i = 0; i < 2; i++) {
        pool[kvg_rows_place(&map.scales[KVG_V], g->layer, (uint32_t)blocks[60 / g->block_tokens], 1,
                                 60 % g->block_tokens, i)] = 0xFF;
    }
}

/* Rows that share a tile of keys do not share what they see of it. */
void test_profile_nan_scale(void **state)
{
    (void)state;
    for (int i = 0; i < CONTRACTS; i++) {
        world w;
        decode_world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, STORE(F16, ROWFP4), .window = 20,
                                        .lengths = {90}, .queries = {40}}, profile_of_contract[i], &w);
        spoil_scale(&w);
        decode_answer a = decode_open(&w);
        decode_profile(&w, &a);
        for (uint32_t row = 0; row < w.rows; row++) {
            const uint32_t position = 50 + row / 2, head = row % 2;
            const bool sees = head == 1 && position >= 60 && position < 80;
            assert_false(isnan(a.lse[row]));
            for (uint32_t d = 0; d < 64; d++) assert_int_equal(isnan(a.out[row * 64 + d]) != 0, sees);
        }
        decode_close(&a);
        world_close(&w);
    }
}
