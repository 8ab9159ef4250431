/* What a warp of op decode keeps in registers through a run. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_LANE_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_LANE_CUH

#include "gpu/attention/few/few_part.cuh"
#include "gpu/attention/few/few_state.cuh"

/* Where 16-byte chunks of scales are worth it: 8 bytes a row, so that a tile has one for each lane, or 2, which no
 * cp.async copies. A lane copies one chunk of K or of V. */
template <class K, class V>
static constexpr bool kvg_can_be_dense = K::FORMAT == V::FORMAT && K::BLOCK > 0 && (K::SCALES == 8 || K::SCALES == 2);

/* Whether a whole leaf with nothing besides has a loop of its own, without tests, which ptxas orders better. What else
 * depends on it (the largest exponent, shift or product) was measured to go well with it, or without. */
template <class K, class V> static constexpr bool kvg_has_leaf_loop = kvg_can_be_dense<K, V> && K::BLOCK == 16;

/* Whether that loop takes its scales on trust, and says at the leaf's end that it should not have. */
template <class K, class V> static constexpr bool kvg_trusts_scales = kvg_has_leaf_loop<K, V> && K::POWERS;

/* Whether half a warp copies from each of a tile's two groups of 16 rows, and so computes one address for both of its
 * parts: where two offsets in a stage are enough. */
template <class SIDE, bool DENSE> static constexpr bool kvg_copies_by_halves = DENSE && SIDE::ROW <= 64;

/* Whether sums of scores have 16 neighbouring dims, which a matrix of the codes as they are stored has. */
template <class K> static constexpr bool kvg_has_neighbours = KVG_CONTRACT.neighbours && K::BITS == 16;

/* A lane's offsets in a stage. They come from a shuffle so that they stay in registers: what the compiler can compute
 * it computes again in every tile. So do the ones, operand a of the sum of weights. */
template <class K, class V, bool DENSE> struct kvg_lane {
    uint32_t k[2], k_scales, v[2], v_scales, v_pairs, scale_bytes, ones[4];
    uint32_t k_to[3], v_to[3]; /* of copies, the second one for odd copies; of scales */

    __device__ explicit kvg_lane(int lane)
    {
        const uint32_t g = lane / 4, c = lane % 4;
        const uint32_t matrix_row = V::CHUNKS == 2 ? lane / 16 * 8 + lane % 8 : lane % 8;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) { /* odd segments of K; odd quadruples of V's chunks */
            k[i] = keep(kvg_has_neighbours<K> ? K::place(lane % 16, i * 4 + lane / 16)
                        : K::ROW == 32        ? K::place(g, c / 2) + c % 2 * 8
                                              : K::place(g, i * 4 + c));
            v[i] = keep(V::place(matrix_row, V::CHUNKS == 2 ? lane / 8 % 2 : i * 4 + lane / 8));
            k_to[i] = keep(place_of_copy<K>(i, lane));
            v_to[i] = keep(place_of_copy<V>(i, lane));
        }
        if constexpr (kvg_copies_by_halves<K, DENSE>) {
            constexpr int CHUNKS = K::SCALES; /* of a group: 16 rows of scales */
            k_to[2] = keep((lane % 16 / CHUNKS * 2 + lane / 16) * CHUNKS * 16 + lane % CHUNKS * 16);
        } else {
            k_to[2] = keep(lane * (DENSE ? 16 : K::SCALES));
        }
        v_to[2] = K::SCALES == V::SCALES ? k_to[2] : keep(lane * V::SCALES);
        k_scales = keep(g * K::SCALES + (K::BLOCK ? c * (K::SEGMENT / 4) / K::PER_BLOCK : 0));
        v_scales = keep(c * 2 * V::SCALES);
        v_pairs = keep(c * (V::PAIRS_STAGE / 16) + (V::BLOCK == 16 ? g / 4 * V::LANE_PAIRS * 4 : 0));
        scale_bytes = keep(g / 4 ? 0x7351 : 0x6240); /* odd or even blocks of two tokens */
        for (int i = 0; i < 4; i++) ones[i] = hide(V::BF16 ? 0x3F803F80u : 0x3C003C00u, i + 1);
    }
    template <class SIDE> static __device__ uint32_t place_of_copy(uint32_t odd, uint32_t lane)
    {
        if constexpr (kvg_copies_by_halves<SIDE, DENSE>) {
            constexpr uint32_t ROWS = SIDE::COPY_ROWS / 2;
            return SIDE::place(lane / 16 * KVG_GROUP + odd * ROWS + lane % 16 / SIDE::ROW_LANES,
                               lane % SIDE::ROW_LANES) - odd * ROWS * SIDE::ROW;
        }
        return SIDE::place(odd * SIDE::COPY_ROWS + lane / SIDE::ROW_LANES, lane % SIDE::ROW_LANES) -
               odd * SIDE::COPY_ROWS * SIDE::ROW;
    }
    /* 0, which the compiler does not know. */
    static __device__ uint32_t zero()
    {
        uint32_t id;
        asm("mov.u32 %0, %%laneid;" : "=r"(id));
        return id / KVG_WARP;
    }
    /* x, the same in all lanes, as what the compiler can neither compute again nor, with another `by`, find equal. */
    static __device__ uint32_t hide(uint32_t x, int by) { return __shfl_xor_sync(~0u, x + zero(), by); }
    static __device__ uint32_t keep(uint32_t x) { return __shfl_sync(~0u, x, threadIdx.x % KVG_WARP); }
};

/* Of eight rows: heads of one query token. */
template <class K> struct kvg_warp_state {
    kvg_node<K::DIM / 4> node;
    float l[4]; /* the sum of weights as the matrix instruction leaves it, twice */
    uint32_t q[K::DIM / 8];
    float factor[2];
};

/* The largest score of head 2c + h; NaN if one is. */
static __device__ __forceinline__ float kvg_top_of(const float (*z)[4], int h)
{
    float top = kvg_max_or_nan(kvg_max_or_nan(z[0][h], z[0][h + 2]), kvg_max_or_nan(z[1][h], z[1][h + 2]));
#pragma unroll
    for (int other = 4; other < KVG_WARP; other *= 2) top = kvg_max_or_nan(top, __shfl_xor_sync(~0u, top, other));
    return top;
}

/* A row's scale of the tokens that the lane has scores of: token g, then g + 8 of a half. */
static __device__ __forceinline__ float kvg_row_scale(uint32_t scales)
{
    uint32_t bits;
    kvg_load_shared<2>(&bits, scales);
    return __half2float(__ushort_as_half((uint16_t)bits));
}

#endif
