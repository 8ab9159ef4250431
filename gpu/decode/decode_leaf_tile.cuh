/* A tile of a leaf that the warps of a CTA share (decode_leaf.cuh), once its scores are in shared memory. */
#ifndef KVG_GPU_DECODE_DECODE_LEAF_TILE_CUH
#define KVG_GPU_DECODE_DECODE_LEAF_TILE_CUH

#include "gpu/decode/decode_scores.cuh"
#include "gpu/decode/decode_shape.cuh"
#include "gpu/decode/decode_values.cuh"

/* The dims that a warp has of o, of 32 each; they stand for a head_dim in what depends on nothing else of it. */
template <class K> struct kvg_leaf_share : K {
    static constexpr int BLOCKS = K::DIM / 32, MINE = (BLOCKS - 1) / KVG_DECODE_WARPS + 1, DIM = 32 * MINE;
};

/* Shared memory of a CTA: all tiles of a leaf, each with codes, scales and pairs as in a stage of decode_run_tiles.cuh;
 * then their scores. */
template <class K, class V> struct kvg_leaf_shape {
    static constexpr uint32_t V_CODES = K::CODES_STAGE, K_SCALES = V_CODES + V::CODES_STAGE;
    static constexpr uint32_t V_SCALES = K_SCALES + K::SCALES_STAGE, PAIRS = V_SCALES + V::SCALES_STAGE;
    static constexpr uint32_t STAGE = PAIRS + V::PAIRS_STAGE, HALF_SCORES = KVG_WARP * 16;
    static constexpr uint32_t SHARED = KVG_LEAF_TILES * (STAGE + 2 * HALF_SCORES);
};

/* Formats whose scales need a test for each tile, and tiles that are too large, are left to decode_pieces.cuh. */
template <class K, class V> static constexpr bool kvg_can_share_leaf =
    !K::POWERS && !V::POWERS && kvg_leaf_shape<K, V>::SHARED <= kvg_decode_shape<K, V, 1, false>::OF_CTA;

/* What V's codes of block `block` and tokens 2c and 2c + 1 of an eighth of the tile are multiplied by. */
template <class K, class V>
static __device__ __forceinline__ kvg_multiplier kvg_leaf_multiplier(const kvg_lane<K, V, false> &at, uint32_t stage,
                                                                     int eight, int block)
{
    typedef kvg_leaf_shape<K, V> shape;
    const uint32_t rows = stage + shape::V_SCALES + at.v_scales + eight * 8 * V::SCALES;
    if constexpr (V::PAIRS_STAGE > 0) {
        kvg_multiplier m = {};
        kvg_load_shared<4>(&m.scale, stage + shape::PAIRS + at.v_pairs + eight * (V::PAIRS_STAGE / 4) + block * 4);
        return m;
    } else if constexpr (V::BLOCK > 0) {
        static_assert(V::BLOCK == 16, "two scales of a token");
        uint32_t two[2];
        kvg_load_shared<2>(two, rows + block * 2);
        kvg_load_shared<2>(two + 1, rows + V::SCALES + block * 2);
        return kvg_block_scales<V, false>(__byte_perm(two[0], two[1], at.scale_bytes), false);
    } else {
        kvg_v_scales<V, false> scales;
        scales.load(rows, 0);
        return scales.of(0);
    }
}

/* Tile t of the leaf: l, and the warp's blocks of o. */
template <class K, class V>
static __device__ __forceinline__ void kvg_add_scored_tile(const kvg_decode_args &a,
                                                           kvg_warp_state<kvg_leaf_share<K>> &w,
                                                           const kvg_lane<K, V, false> &at,
                                                           const kvg_decode_run<1> &run, int t, int warp)
{
    typedef kvg_leaf_shape<K, V> shape;
    typedef kvg_leaf_share<K> share;
    constexpr int CHUNKS = V::BITS / 4; /* of 16 bytes, in a block */
    const int lane = run.lane;
    const uint32_t stage = run.stages + t * shape::STAGE;
    float z[2][4], x[2][4];
    uint32_t b[2][2]; /* weights as operands */
#pragma unroll
    for (int n = 0; n < 2; n++) {
        const float4 v = kvg_load_shared_f32(run.slots + (2 * t + n) * shape::HALF_SCORES + lane * 16);
        z[n][0] = v.x, z[n][1] = v.y, z[n][2] = v.z, z[n][3] = v.w;
    }
    kvg_exponents<share, V>(w, z, run, t, x);
    const auto operand = kvg_weight_operand<V>;
#pragma unroll
    for (int n = 0; n < 2; n++) {
        float *p = x[n];
#pragma unroll
        for (int i = 0; i < 4; i++) p[i] = kvg_exp2(p[i], a.factors.by23);
#pragma unroll
        for (int half = 0; half < 2; half++) b[n][half] = operand(p[2 * half], p[2 * half + 1]);
        kvg_multiply<V::BF16>(w.l, at.ones[0], at.ones[1], at.ones[2], at.ones[3], b[n][0], b[n][1]);
#pragma unroll
        for (int half = 0; half < 2 && V::ROW_SCALE; half++) {
            const int token = n * KVG_GROUP + half * 8 + lane / 4;
            const float r = kvg_row_scale(stage + shape::V_SCALES + token * V::SCALES);
            b[n][half] = operand(__fmul_rn(p[2 * half], r), __fmul_rn(p[2 * half + 1], r));
        }
    }
#pragma unroll
    for (int mine = 0; mine < share::MINE; mine++) {
        const int block = warp + mine * KVG_DECODE_WARPS;
        if (block >= share::BLOCKS) continue;
        uint32_t v[CHUNKS][4]; /* of tokens 0 ... 7, 8 ... 15 and so on */
#pragma unroll
        for (int i = 0; i < CHUNKS; i++) {
            const uint32_t chunk = block * CHUNKS + i;
            kvg_load_transposed(v[i], stage + shape::V_CODES + V::place(lane, chunk % 8) + chunk / 8 * 128);
        }
        float *o = w.node.o + 8 * mine;
#pragma unroll
        for (int n = 0; n < 2; n++) {
            uint32_t pairs[2][4];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                uint32_t codes[CHUNKS];
#pragma unroll
                for (int i = 0; i < CHUNKS; i++) codes[i] = v[i][2 * n + half];
                kvg_unpack<V, true, false>(a.factors, codes, kvg_leaf_multiplier<K>(at, stage, 2 * n + half, block),
                                           pairs[half]);
            }
            const uint32_t *p = pairs[0], *q = pairs[1];
            kvg_multiply<V::BF16>(o, p[0], p[1], q[0], q[1], b[n][0], b[n][1]);
            kvg_multiply<V::BF16>(o + 4, p[2], p[3], q[2], q[3], b[n][0], b[n][1]);
        }
    }
}

#endif
