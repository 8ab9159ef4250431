/* From a tile of K in shared memory to the exponents of its weights (docs/spec/decode-contract.md sections 4, 5 and
 * 7). */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_SCORES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_SCORES_CUH

#include "gpu/attention/few/few_shape.cuh"
#include "gpu/attention/shared/score.cuh"

/* Scales of a K row for words of eight dims. */
template <class K, bool WIDE> struct kvg_k_scales {
    static constexpr int OF_LANE = K::BLOCK > 0 && K::SEGMENT / 4 / K::PER_BLOCK == 2 ? 2 : 1; /* blocks in its dims */
    kvg_multiplier m = {};

    __device__ __forceinline__ void load(uint32_t at, int segment)
    {
        uint32_t bytes;
        if constexpr (K::OPERAND == KVG_OPERAND_AFFINE) {
            kvg_load_shared<4>(&bytes, at);
            m = {__byte_perm(bytes, 0, 0x1010), __byte_perm(bytes, 0, 0x3232)};
        } else if constexpr (K::BLOCK > 0) {
            kvg_load_shared<OF_LANE>(&bytes, at + segment * (K::SEGMENT / K::BLOCK));
            m = kvg_block_scales<K, WIDE>(bytes, false);
        } else {
            m = {0x74007400u, 0}; /* 2^14 undoes how e2m1 is unpacked */
        }
    }
    __device__ __forceinline__ kvg_multiplier of(int word) const
    {
        if constexpr (K::BLOCK == 0) return m;
        const bool high = word * 8 / (K::SEGMENT / 4 / OF_LANE);
        return {kvg_half_twice(m.scale, high), WIDE ? kvg_half_twice(m.other, high) : 0};
    }
};

/* S' of a tile, seen or not: z[i][n] is tokens 16n + g (0, 1) and 16n + 8 + g (2, 3), heads 2c and 2c + 1 of query
 * token i. What else is to be asked for of memory is asked for after the first loads, which the rest waits for. */
template <class K, class V, bool WIDE, int QUERIES, class LANE, class ASK>
static __device__ __forceinline__ void kvg_score_tile(const kvg_decode_args &a, const kvg_warp_state<K> (&w)[QUERIES],
                                                      const LANE &at, uint32_t codes, uint32_t scales,
                                                      float (&z)[QUERIES][2][4], const ASK &ask)
{
    constexpr int LANE_BYTES = K::SEGMENT / 4 * K::BITS / 8;
#pragma unroll
    for (int n = 0; n < 2; n++) {
#pragma unroll
        for (int i = 0; i < 4 * QUERIES; i++) z[i / 4][n][i % 4] = 0;
#pragma unroll
        for (int segment = 0; segment < K::SEGMENTS; segment++) {
            const uint32_t from = codes + at.k[segment % 2] + segment / 2 * 128 + n * KVG_GROUP * K::ROW;
            if constexpr (kvg_has_neighbours<K>) { /* two sums, each of 32 bytes as they are stored */
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    uint32_t x[4];
                    kvg_load_matrices(x, from ^ j * 32);
                    if (n == 0 && segment == 0 && j == 0) ask();
#pragma unroll
                    for (int i = 0; i < QUERIES; i++) {
                        const uint32_t *q = w[i].q + segment * 4 + 2 * j;
                        kvg_multiply<K::BF16>(z[i][n], x[0], x[1], x[2], x[3], q[0], q[1]);
                    }
                }
                continue;
            }
            const uint32_t scales_from = scales + at.k_scales + n * KVG_GROUP * K::SCALES;
            uint32_t row_a[LANE_BYTES / 4], row_b[LANE_BYTES / 4];
            kvg_k_scales<K, WIDE> scale_a, scale_b;
            kvg_load_shared<LANE_BYTES>(row_a, from);
            kvg_load_shared<LANE_BYTES>(row_b, from + 8 * K::ROW);
            scale_a.load(scales_from, segment);
            scale_b.load(scales_from + 8 * K::SCALES, segment);
            if (n == 0 && segment == 0) ask();
#pragma unroll
            for (int j = 0; j < K::WORDS; j++) {
                const int first_q = (segment * K::WORDS + j) * 4;
                uint32_t x[4], y[4];
                kvg_unpack<K, false, WIDE>(a.factors, row_a + j * K::WORD_REGISTERS, scale_a.of(j), x);
                kvg_unpack<K, false, WIDE>(a.factors, row_b + j * K::WORD_REGISTERS, scale_b.of(j), y);
#pragma unroll
                for (int k = 0; k < 4; k += 2) {
#pragma unroll
                    for (int i = 0; i < QUERIES; i++) {
                        const uint32_t *q = w[i].q + first_q + k;
                        kvg_multiply<K::BF16>(z[i][n], x[k], y[k], x[k + 1], y[k + 1], q[0], q[1]);
                    }
                }
            }
        }
        if constexpr (K::ROW_SCALE) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float r = kvg_row_scale(scales + at.k_scales + (n * KVG_GROUP + half * 8) * K::SCALES);
#pragma unroll
                for (int i = 0; i < 2 * QUERIES; i++) {
                    float &score = z[i / 2][n][2 * half + i % 2];
                    score = __fmul_rn(score, r);
                }
            }
        }
    }
}

/* S' to z where all is seen and there is no cap; then what is left to do in general. */
template <class K, int QUERIES>
static __device__ __forceinline__ void kvg_scale_scores(const kvg_warp_state<K> (&w)[QUERIES],
                                                        float (&z)[QUERIES][2][4])
{
#pragma unroll
    for (int i = 0; i < 8 * QUERIES; i++) {
        float &score = z[i / 8][i / 4 % 2][i % 4];
        score = __fmul_rn(score, w[i / 8].factor[i % 2]);
    }
}
template <class K>
static __device__ __forceinline__ void kvg_mask_scores(const kvg_warp_state<K> &w, float cap, uint32_t seen, int lane,
                                                       float (*z)[4])
{
    if (cap != 0) {
#pragma unroll
        for (int i = 0; i < 8; i++) z[i / 4][i % 4] = kvg_cap_score(z[i / 4][i % 4], w.factor[i % 2], cap);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        if (!(seen >> (i / 2 * 8 + lane / 4) & 1)) z[i / 4][i % 4] = -KVG_INF;
    }
}

/* The same by what each query token sees. */
template <class K, int QUERIES>
static __device__ __forceinline__ void kvg_mask_rows(const kvg_warp_state<K> (&w)[QUERIES], float cap,
                                                     const kvg_seen<QUERIES> &seen, int lane,
                                                     float (&z)[QUERIES][2][4])
{
    kvg_mask_scores(w[0], cap, seen.of[0], lane, z[0]);
#pragma unroll
    for (int i = 1; i < QUERIES; i++) kvg_mask_scores(w[i], cap, seen.of[i], lane, z[i]);
}

/* Section 7, step 2, for the rows of a warp of which one needs it. */
template <class K>
static __device__ __forceinline__ void kvg_rescale(kvg_warp_state<K> &w, const float (*z)[4], bool first, float limit)
{
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const float top = kvg_top_of(z, h);
        const bool stays = __fsub_rn(top, w.node.m[h]) <= limit, broken = !(top < KVG_INF);
        if (first) factor[h] = broken ? KVG_NAN : 0; /* EMPTY's l is 0 */
        else factor[h] = stays ? 1.0f : broken ? KVG_NAN : kvg_chip_exp2::of(__fsub_rn(w.node.m[h], top));
        if (!stays) w.node.m[h] = top;
    }
    if (first) { /* o is 0 already */
#pragma unroll
        for (int i = 0; i < 4; i++) w.l[i] = factor[i % 2];
        return;
    }
#pragma unroll
    for (int i = 0; i < K::DIM / 4; i++) w.node.o[i] = __fmul_rn(w.node.o[i], factor[i % 2]);
#pragma unroll
    for (int i = 0; i < 4; i++) w.l[i] = __fmul_rn(w.l[i], factor[i % 2]);
}

/* x = RN(z - m), after steps 1 and 2. In a leaf's first tile m is EMPTY's, and l is 0: there, too, a row that does not
 * ask for step 2 is left as it is by it. */
template <class K, class V, class RUN>
static __device__ __forceinline__ void kvg_exponents(kvg_warp_state<K> &w, const float (*z)[4], const RUN &run, int t,
                                                     float (*x)[4])
{
    constexpr float limit = V::ROW_SCALE ? 0.0f : 8.0f;
    const auto subtract = [&] {
#pragma unroll
        for (int i = 0; i < 8; i++) x[i / 4][i % 4] = __fsub_rn(z[i / 4][i % 4], w.node.m[i % 2]);
    };
    subtract();
    /* The largest by its bits: negative numbers are negative, and the NaN that arithmetic makes is 0x7FFFFFFF. */
    const auto bits = [&](int i) { return __float_as_int(x[i / 4][i % 4]); };
    const int first = __vimax3_s32(bits(0), bits(1), bits(2));
    const int top = kvg_has_leaf_loop<K, V>
                        ? __vimax3_s32(first, __vimax3_s32(bits(3), bits(4), bits(5)), max(bits(6), bits(7)))
                        : max(__vimax3_s32(first, bits(3), bits(4)), __vimax3_s32(bits(5), bits(6), bits(7)));
    if (__any_sync(~0u, top > __float_as_int(limit))) {
        kvg_rescale(w, z, run.is_fresh(t), limit);
        subtract();
    }
}

#endif
