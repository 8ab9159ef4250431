/* One warp, one run of leaves (docs/decode-contract.md sections 3 to 8): the loop in which op decode spends its
 * time. */
#ifndef KVG_GPU_DECODE_RUN_CUH
#define KVG_GPU_DECODE_RUN_CUH

#include "gpu/decode_query.cuh"

enum { KVG_LEAF_TILES = KVG_DECODE_LEAF / KVG_TILE };

/* A lane's offsets in a stage. They come from a shuffle so that they stay in registers: what the compiler can compute
 * it computes again in every tile. So do the ones, operand a of the sum of weights. */
struct kvg_lane {
    uint32_t k, k_scales, v, v_scales, scale_bytes, ones[4];

    __device__ explicit kvg_lane(int lane)
    {
        const uint32_t g = lane / 4, c = lane % 4, v_chunk = lane / 8 ^ (lane / 2 & 3);
        k = keep(lane * 16);
        k_scales = keep(KVG_STAGE_K_SCALES + g * 8 + c * 2);
        v = keep(KVG_STAGE_V + lane % 8 * 64 + v_chunk * 16);
        v_scales = keep(KVG_STAGE_V_SCALES + c * 16);
        scale_bytes = keep(g / 4 ? 0x7351 : 0x6240); /* odd or even blocks of two tokens */
        for (int i = 0; i < 4; i++) ones[i] = keep(0x3C003C00u);
    }
    static __device__ uint32_t keep(uint32_t x) { return __shfl_sync(~0u, x, threadIdx.x % KVG_WARP); }
};

struct kvg_warp_state {
    kvg_warp_node node;
    float l[4];  /* the sum of weights as the matrix instruction leaves it, twice */
    uint32_t q[16];
    float factor[2];
};

/* z of a tile: S[n] is tokens 16n + g (0, 1) and 16n + 8 + g (2, 3), heads 2c and 2c + 1. */
static __device__ __forceinline__ void kvg_score_tile(const kvg_factors &k, const kvg_warp_state &w, const kvg_lane &at,
                                                      uint32_t stage, float (*z)[4])
{
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const uint4 row_a = kvg_load_shared(stage + at.k + n * 1024);
        const uint4 row_b = kvg_load_shared(stage + at.k + n * 1024 + 512);
        const __half2 scale_a = kvg_e4m3_pair(kvg_load_shared16(stage + at.k_scales + n * 128));
        const __half2 scale_b = kvg_e4m3_pair(kvg_load_shared16(stage + at.k_scales + n * 128 + 64));
        const uint32_t *codes_a = &row_a.x, *codes_b = &row_b.x;
#pragma unroll
        for (int i = 0; i < 4; i++) z[n][i] = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t x[4], y[4];
            kvg_unpack_e2m1(k, codes_a[j], j < 2 ? __low2half2(scale_a) : __high2half2(scale_a), x);
            kvg_unpack_e2m1(k, codes_b[j], j < 2 ? __low2half2(scale_b) : __high2half2(scale_b), y);
            kvg_mma_f16(z[n], x[0], y[0], x[1], y[1], w.q[4 * j], w.q[4 * j + 1]);
            kvg_mma_f16(z[n], x[2], y[2], x[3], y[3], w.q[4 * j + 2], w.q[4 * j + 3]);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) z[n][i] = __fmul_rn(z[n][i], w.factor[i % 2]);
    }
}

/* Takes what is hidden out of a tile: tokens from `keys` on, groups by the bits of `hidden`. A weight of 0 does not
 * help against a V that is NaN, so V's scales become 0. */
static __device__ void kvg_hide(uint32_t stage, int keys, uint32_t hidden, int lane, float (*z)[4])
{
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const int token = i / 2 * 8 + lane / 4;
        if (token >= keys || hidden >> token / KVG_GROUP & 1) z[i / 4][i % 4] = -KVG_INF;
    }
    if (lane >= keys || hidden >> lane / KVG_GROUP & 1) kvg_clear_shared8(stage + KVG_STAGE_V_SCALES + lane * 8);
    __syncwarp();
}

/* Section 7, step 2, for the rows of a warp of which one needs it. */
static __device__ __forceinline__ void kvg_rescale(kvg_warp_state &w, const float (*z)[4], bool first)
{
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = kvg_max_or_nan(kvg_max_or_nan(z[0][h], z[0][h + 2]), kvg_max_or_nan(z[1][h], z[1][h + 2]));
#pragma unroll
        for (int other = 4; other < KVG_WARP; other *= 2) top = kvg_max_or_nan(top, __shfl_xor_sync(~0u, top, other));
        const bool stays = __fsub_rn(top, w.node.m[h]) <= 8.0f, broken = !(top < KVG_INF);
        if (first) factor[h] = broken ? KVG_NAN : 0; /* EMPTY's l is 0 */
        else factor[h] = stays ? 1.0f : broken ? KVG_NAN : kvg_exp2(__fsub_rn(w.node.m[h], top));
        if (!stays) w.node.m[h] = top;
    }
    if (first) { /* o is 0 already */
        for (int i = 0; i < 4; i++) w.l[i] = factor[i % 2];
        return;
    }
#pragma unroll
    for (int i = 0; i < 32; i++) w.node.o[i] = __fmul_rn(w.node.o[i], factor[i % 2]);
    for (int i = 0; i < 4; i++) w.l[i] = __fmul_rn(w.l[i], factor[i % 2]);
}

/* l and o of one half of a tile, weights p: tokens g and g + 8, heads 2c and 2c + 1. */
static __device__ __forceinline__ void kvg_add_values(const kvg_factors &k, kvg_warp_state &w, const kvg_lane &at,
                                                      uint32_t codes, uint32_t scales, const float *p)
{
    const uint32_t b0 = kvg_transpose(kvg_bits2(__floats2half2_rn(p[0], p[1])));
    const uint32_t b1 = kvg_transpose(kvg_bits2(__floats2half2_rn(p[2], p[3])));
    kvg_mma_f16(w.l, at.ones[0], at.ones[1], at.ones[2], at.ones[3], b0, b1);
    uint32_t v[2][4];
    __half2 scale[2][4]; /* of tokens 2c and 2c + 1 (and + 8): the block of the lane's dims in each quarter */
#pragma unroll
    for (int half = 0; half < 2; half++) {
        kvg_load_transposed(v[half], codes + half * 512);
        const uint4 bytes = kvg_load_shared(scales + half * 64);
        const uint32_t low = __byte_perm(bytes.x, bytes.z, at.scale_bytes);
        const uint32_t high = __byte_perm(bytes.y, bytes.w, at.scale_bytes);
        scale[half][0] = kvg_e4m3_pair((uint16_t)low), scale[half][1] = kvg_e4m3_pair((uint16_t)(low >> 16));
        scale[half][2] = kvg_e4m3_pair((uint16_t)high), scale[half][3] = kvg_e4m3_pair((uint16_t)(high >> 16));
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        uint32_t x[4], y[4];
        kvg_unpack_e2m1(k, v[0][i], scale[0][i], x);
        kvg_unpack_e2m1(k, v[1][i], scale[1][i], y);
        kvg_mma_f16(w.node.o + 8 * i, x[0], x[1], y[0], y[1], b0, b1);
        kvg_mma_f16(w.node.o + 8 * i + 4, x[2], x[3], y[2], y[3], b0, b1);
    }
}

static __device__ __forceinline__ void kvg_add_tile(const kvg_factors &k, kvg_warp_state &w, const kvg_lane &at,
                                                    uint32_t stage, int keys, uint32_t hidden, bool first, int lane)
{
    float z[2][4], x[2][4];
    kvg_score_tile(k, w, at, stage, z);
    if (keys < KVG_TILE || hidden) kvg_hide(stage, keys, hidden, lane, z);
    const auto exponents = [&] {
#pragma unroll
        for (int i = 0; i < 8; i++) x[i / 4][i % 4] = __fsub_rn(z[i / 4][i % 4], w.node.m[i % 2]);
    };
    exponents();
    /* The largest by its bits: negative numbers are negative, and the NaN that arithmetic makes is 0x7FFFFFFF. */
    const auto bits = [&](int i) { return __float_as_int(x[i / 4][i % 4]); };
    const int top = max(__vimax3_s32(__vimax3_s32(bits(0), bits(1), bits(2)), bits(3), bits(4)),
                        __vimax3_s32(bits(5), bits(6), bits(7)));
    if (first || __any_sync(~0u, top > __float_as_int(8.0f))) {
        kvg_rescale(w, z, first);
        exponents();
    }
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) x[n][i] = kvg_exp2(x[n][i], k.by23);
        kvg_add_values(k, w, at, stage + at.v + n * 1024, stage + at.v_scales + n * 128, x[n]);
    }
}

/* After leaf j of the run: the bits of j are the levels whose left node waits in a slot. */
static __device__ void kvg_end_leaf(kvg_warp_state &w, int j, bool last, uint32_t slots, int lane)
{
    w.node.l[0] = w.l[0], w.node.l[1] = w.l[1];
#pragma unroll 1
    for (int level = 0; level < KVG_DECODE_LEVELS; level++) {
        if (j >> level & 1) {
            kvg_merge_shared<true>(slots + level * KVG_NODE_BYTES, w.node, lane);
        } else if (!last) {
            kvg_put_shared(slots + level * KVG_NODE_BYTES, w.node, lane);
            __syncwarp();
            break;
        }
    }
    if (!last) kvg_clear(w.node);
}

template <int PAGE>
static __device__ __forceinline__ void kvg_run_leaves(const kvg_decode_args &a, kvg_warp_state &w, const int2 &row,
                                                      uint32_t query, uint32_t kv_head, int first_token, int tokens,
                                                      uint32_t stages, uint32_t slots, int lane)
{
    static_assert(KVG_DECODE_STAGES == 2, "the stages take turns");
    const int tiles = (tokens + KVG_TILE - 1) / KVG_TILE, v_chunk = lane % 4 ^ (lane / 8 & 3);
    const uint32_t k_to = lane * 16, v_to = KVG_STAGE_V + lane / 4 * 64 + v_chunk * 16;
    kvg_decode_source<PAGE> source;
    source.open(a.pools, a.table + (size_t)row.x * a.width, a.blocks, kv_head, first_token, row.y, lane);
    source.copy(0, true, stages + k_to, stages + v_to, lane);
    kvg_copies_end();
    kvg_load_q(a, query, kv_head, lane, w.q, w.factor);
    const kvg_lane at(lane);
    uint32_t stage = stages, next = stages + KVG_STAGE;
#pragma unroll 1
    for (int t = 0; t < tiles; t++) {
        kvg_copies_wait<KVG_DECODE_STAGES - 2>();
        source.copy(t + 1, t + 1 < tiles, next + k_to, next + v_to, lane);
        kvg_copies_end();
        kvg_add_tile(a.factors, w, at, stage, tokens - t * KVG_TILE, source.hidden >> 2 * t & 3,
                     t % KVG_LEAF_TILES == 0, lane);
        const bool last = t + 1 == tiles;
        if (t % KVG_LEAF_TILES == KVG_LEAF_TILES - 1 || last) kvg_end_leaf(w, t / KVG_LEAF_TILES, last, slots, lane);
        const uint32_t done = stage;
        stage = next, next = done;
    }
}

#endif
