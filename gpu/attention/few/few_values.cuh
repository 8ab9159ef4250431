/* From the exponents of a tile's weights and its V in shared memory to l and o (docs/spec/decode-contract.md section
 * 7). */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_VALUES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_VALUES_CUH

#include <type_traits>

#include "gpu/attention/few/few_lane.cuh"
#include "gpu/attention/shared/copy.cuh"

/* V's scales out of groups of four tokens (docs/spec/layouts.md section 4). */
template <class V>
static __device__ __forceinline__ void kvg_ungroup_values(const kvg_decode_args &a, uint32_t scales, int lane)
{
    if constexpr (kvg_can_group<V>) {
        if (a.v_swizzle) kvg_ungroup_scales<V::SCALES>(scales, lane);
    }
}

/* A weight of 0 does not help against a V that is NaN: its scale becomes 0, or else its codes. */
template <class V> static __device__ void kvg_hide_values(uint32_t seen, uint32_t codes, uint32_t scales, int lane)
{
    if (!(seen >> lane & 1)) {
        if constexpr (V::SCALES > 0) kvg_clear_shared<V::SCALES>(scales + lane * V::SCALES);
        else kvg_clear_shared<V::ROW>(codes + lane * V::ROW);
    }
    __syncwarp();
}

/* Scales of V for two tokens: blocks of 32 dims, or an affine row's. */
template <class V, bool WIDE> struct kvg_v_scales {
    static constexpr int ROWS = V::BLOCK > 0 || V::OPERAND == KVG_OPERAND_AFFINE ? V::SCALES / 2 : 1;
    uint32_t words[ROWS]; /* two rows; then pairs of bytes, two in a word */

    __device__ __forceinline__ void load(uint32_t at, uint32_t bytes)
    {
        if constexpr (V::BLOCK == 0) {
            if constexpr (V::OPERAND == KVG_OPERAND_AFFINE) kvg_load_shared<8>(words, at);
        } else if constexpr (V::SCALES == 2) {
            kvg_load_shared<4>(words, at);
            words[0] = __byte_perm(words[0], 0, 0x3120);
        } else {
            uint32_t rows[ROWS];
            kvg_load_shared<V::SCALES * 2>(rows, at);
#pragma unroll
            for (int i = 0; i < ROWS / 2; i++) {
                if (V::BLOCK == 16) {
                    words[i] = __byte_perm(rows[i], rows[ROWS / 2 + i], bytes);
                } else {
                    words[2 * i] = __byte_perm(rows[i], rows[ROWS / 2 + i], 0x5140);
                    words[2 * i + 1] = __byte_perm(rows[i], rows[ROWS / 2 + i], 0x7362);
                }
            }
        }
    }
    __device__ __forceinline__ kvg_multiplier of(int block) const /* of 32 dims */
    {
        if constexpr (V::OPERAND == KVG_OPERAND_AFFINE) {
            return {__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[0], words[1], 0x7632)};
        } else if constexpr (V::BLOCK > 0) {
            return kvg_block_scales<V, WIDE>(words[block / 2], block % 2);
        } else {
            return {0x74007400u, 0};
        }
    }
};

/* Block scales of a row of 64 or 128 dims are few enough for a warp to make each pair of them, of two tokens, once:
 * lane i those of tokens i / 2 * 2 and + 1, for the even or the odd blocks of 16 dims, or the first or last half of
 * those of 32. A lane of kvg_add_values finds its pairs together. Only where kvg_powers takes all scales. */
template <class V>
static __device__ __forceinline__ void kvg_make_pairs(uint32_t scales, uint32_t pairs, int lane)
{
    if constexpr (V::PAIRS_STAGE > 0) {
        constexpr int WORDS = V::SCALES / 4, LANE_BYTES = V::PAIRS_STAGE / KVG_WARP;
        uint32_t rows[V::SCALES / 2], made[LANE_BYTES / 4];
        kvg_load_shared<2 * V::SCALES>(rows, scales + lane / 2 * 2 * V::SCALES);
        const uint32_t pick = V::BLOCK == 16 ? lane % 2 ? 0x7351 : 0x6240 : lane % 2 ? 0x7362 : 0x5140;
        if constexpr (WORDS == 0) {
            made[0] = kvg_block_scales<V, false>(__byte_perm(rows[0], 0, lane % 2 ? 0x4431 : 0x4420), false).scale;
        }
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            const uint32_t bytes = __byte_perm(rows[i], rows[WORDS + i], pick);
            made[2 * i] = kvg_block_scales<V, false>(bytes, false).scale;
            made[2 * i + 1] = kvg_block_scales<V, false>(bytes, true).scale;
        }
        kvg_store_shared<LANE_BYTES>(pairs + lane * LANE_BYTES, made);
        __syncwarp();
    }
}
template <class V> struct kvg_made_pairs {
    uint32_t pairs[V::LANE_PAIRS];

    __device__ __forceinline__ void load(uint32_t at) { kvg_load_shared<V::LANE_PAIRS * 4>(pairs, at); }
    __device__ __forceinline__ kvg_multiplier of(int block) const { return {pairs[block], 0}; }
};

/* Two weights, of neighbouring heads, as V's operand b. */
template <class V> static __device__ __forceinline__ uint32_t kvg_weight_operand(float x, float y)
{
    return kvg_transpose(V::BF16 ? kvg_bits2(__floats2bfloat162_rn(x, y)) : kvg_bits2(__floats2half2_rn(x, y)));
}

/* l and o of half n of a tile, weights p[i][n]: tokens g and g + 8, heads 2c and 2c + 1 of query token i. */
template <class K, class V, bool WIDE, int QUERIES, class LANE>
static __device__ __forceinline__ void kvg_add_values(const kvg_factors &k, kvg_warp_state<K> (&w)[QUERIES],
                                                      const LANE &at, uint32_t codes, uint32_t scales, uint32_t pairs,
                                                      const float (&p)[QUERIES][2][4], int n, const float *r)
{
    const auto operand = kvg_weight_operand<V>;
    uint32_t b[QUERIES][2];
#pragma unroll
    for (int i = 0; i < QUERIES; i++) {
        const float *mine = p[i][n];
        b[i][0] = operand(mine[0], mine[1]), b[i][1] = operand(mine[2], mine[3]);
        kvg_multiply<V::BF16>(w[i].l, at.ones[0], at.ones[1], at.ones[2], at.ones[3], b[i][0], b[i][1]);
        if constexpr (V::ROW_SCALE) {
            b[i][0] = operand(__fmul_rn(mine[0], r[0]), __fmul_rn(mine[1], r[0]));
            b[i][1] = operand(__fmul_rn(mine[2], r[1]), __fmul_rn(mine[3], r[1]));
        }
    }
    constexpr bool MADE = V::PAIRS_STAGE > 0 && !WIDE;
    std::conditional_t<MADE, kvg_made_pairs<V>, kvg_v_scales<V, WIDE>> scale[2]; /* of tokens 2c, 2c + 1, and + 8 */
#pragma unroll
    for (int half = 0; half < 2; half++) {
        if constexpr (MADE) scale[half].load(pairs + at.v_pairs + half * V::PAIRS_STAGE / 4);
        else scale[half].load(scales + at.v_scales + half * 8 * V::SCALES, at.scale_bytes);
    }
    constexpr int LOADS = V::CHUNKS == 2 ? 1 : V::CHUNKS / 4; /* of four matrices, or two of each half */
    constexpr int BLOCK_WORDS = V::BITS / 4, BLOCKS = (V::CHUNKS == 2 ? 2 : 4) / BLOCK_WORDS;
#pragma unroll
    for (int load = 0; load < LOADS; load++) {
        uint32_t v[2][4];
        const uint32_t from = codes + at.v[load % 2] + load / 2 * 128;
        if constexpr (V::CHUNKS == 2) {
            uint32_t both[4];
            kvg_load_transposed(both, from);
            v[0][0] = both[0], v[0][1] = both[1], v[1][0] = both[2], v[1][1] = both[3];
        } else {
            kvg_load_transposed(v[0], from);
            kvg_load_transposed(v[1], from + 8 * V::ROW);
        }
#pragma unroll
        for (int i = 0; i < BLOCKS; i++) { /* of 32 dims */
            const int block = load * BLOCKS + i;
            uint32_t x[4], y[4];
            kvg_unpack<V, true, WIDE>(k, v[0] + i * BLOCK_WORDS, scale[0].of(block), x);
            kvg_unpack<V, true, WIDE>(k, v[1] + i * BLOCK_WORDS, scale[1].of(block), y);
#pragma unroll
            for (int j = 0; j < QUERIES; j++) {
                float *o = w[j].node.o + 8 * block;
                kvg_multiply<V::BF16>(o, x[0], x[1], y[0], y[1], b[j][0], b[j][1]);
                kvg_multiply<V::BF16>(o + 4, x[2], x[3], y[2], y[3], b[j][0], b[j][1]);
            }
        }
    }
}

template <class K, class V, bool WIDE, int QUERIES, class LANE>
static __device__ __forceinline__ void kvg_add_tile_values(const kvg_factors &k, kvg_warp_state<K> (&w)[QUERIES],
                                                           const LANE &at, uint32_t codes, uint32_t scales,
                                                           uint32_t pairs, float (&x)[QUERIES][2][4], int lane)
{
#pragma unroll
    for (int n = 0; n < 2; n++) {
        float r[2] = {};
        if constexpr (V::ROW_SCALE) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                r[half] = kvg_row_scale(scales + (n * KVG_GROUP + half * 8 + lane / 4) * V::SCALES);
            }
        }
#pragma unroll
        for (int i = 0; i < 4 * QUERIES; i++) {
            float &weight = x[i / 4][n][i % 4];
            weight = kvg_chip_exp2::of(weight, kvg_has_leaf_loop<K, V> ? 1u << 23 : k.by23);
        }
        kvg_add_values<K, V, WIDE>(k, w, at, codes + n * KVG_GROUP * V::ROW, scales + n * KVG_GROUP * V::SCALES,
                                   pairs + n * V::PAIRS_STAGE / 2, x, n, r);
    }
}

#endif
