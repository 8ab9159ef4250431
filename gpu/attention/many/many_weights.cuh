/* What a warp does with the scores of its 16 rows and a tile of 32 keys: scale, mask, maximum, weights
 * (docs/spec/decode-contract.md sections 3 and 5 to 7). */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_WEIGHTS_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_WEIGHTS_CUH

#include "gpu/attention/many/many_args.cuh"
#include "gpu/attention/shared/score.cuh"

/* What a lane knows of rows g and g + 8. */
template <int DIM> struct many_state {
    many_node<DIM> node;
    float l[4];      /* the sums of weights, as the matrix instruction leaves them: row g twice, row g + 8 twice */
    float factor[2]; /* of section 3, or with a cap of section 5 */
    uint32_t low[2], high[2];  /* keys that the rows see; all, where there is no row */
    uint32_t all_from, all_to; /* keys that all rows of the warp see */
};

/* Registers that a matrix instruction may have been at work with until here: nothing of them is
 * moved over this place. */
template <int N> static __device__ __forceinline__ void many_hold(float *x)
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(x[i])::"memory");
}
template <int N> static __device__ __forceinline__ void many_hold(uint32_t *x)
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(x[i])::"memory");
}

/* Of 32 positions from `from` on: those before `to`, as bits. */
static __device__ __forceinline__ uint32_t many_before(uint32_t from, uint32_t to)
{
    const uint32_t n = to > from ? min(to - from, 32u) : 0;
    return (uint32_t)((1ull << n) - 1);
}

/* S' to z: z[4 j + i] is of row g + 8 (i / 2), key 8 j + 2 c + i % 2 of a tile that begins with key
 * `first`. `present`: its tokens that are there, as bits. */
template <int DIM>
static __device__ __forceinline__ void many_scale(const many_args &a, const many_state<DIM> &w, uint32_t first,
                                                  uint32_t present, int lane, float *z)
{
#pragma unroll
    for (int i = 0; i < 16; i++) z[i] = __fmul_rn(z[i], w.factor[i / 2 % 2]);
    const bool plain = present == ~0u && first >= w.all_from && first + KVG_TILE <= w.all_to && a.d.cap == 0;
    if (__builtin_expect(plain, 1)) return;
    if (a.d.cap != 0) {
#pragma unroll
        for (int i = 0; i < 16; i++) z[i] = kvg_cap_score(z[i], w.factor[i / 2 % 2], a.d.cap);
    }
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const uint32_t seen = many_before(first, w.high[row]) & ~many_before(first, w.low[row]) & present;
        const uint32_t mine = seen >> lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < 8; i++) {
            if (!(mine >> (i / 2 * 8 + i % 2) & 1)) z[i / 2 * 4 + 2 * row + i % 2] = -KVG_INF;
        }
    }
}

/* The largest z of each row, NaN if one is. */
static __device__ __forceinline__ void many_top(const float *z, float *top)
{
#pragma unroll
    for (int row = 0; row < 2; row++) {
        float x = kvg_max_or_nan(z[2 * row], z[2 * row + 1]);
#pragma unroll
        for (int j = 4; j < 16; j += 4) x = kvg_max_or_nan(x, kvg_max_or_nan(z[j + 2 * row], z[j + 2 * row + 1]));
        x = kvg_max_or_nan(x, __shfl_xor_sync(~0u, x, 1));
        top[row] = kvg_max_or_nan(x, __shfl_xor_sync(~0u, x, 2));
    }
}

/* Section 7, step 2: m, and what l and o are multiplied by; 1 for a row that stays as it is. */
template <int DIM>
static __device__ __forceinline__ void many_raise(many_state<DIM> &w, const float *z, float limit, float *factor)
{
    float top[2];
    many_top(z, top);
#pragma unroll
    for (int row = 0; row < 2; row++) {
        const bool stays = __fsub_rn(top[row], w.node.m[row]) <= limit, broken = !(top[row] < KVG_INF);
        factor[row] = stays ? 1.0f : broken ? KVG_NAN : kvg_chip_exp2::of(__fsub_rn(w.node.m[row], top[row]));
        if (!stays) w.node.m[row] = top[row];
    }
}

/* Fragments of two sums of 16 keys: weights, of which l is the sum, and with row scales of V those times the
 * scales. */
template <bool ROW_SCALES> struct many_fragments {
    uint32_t weights[8], scaled[ROW_SCALES ? 8 : 1];

    __device__ __forceinline__ uint32_t *of_values()
    {
        return ROW_SCALES ? scaled : weights;
    }
};

/* From exponents to fragments; the weights are added to l, unless wgmma does that. */
template <bool BF16> static __device__ __forceinline__ uint32_t many_pair(float x, float y)
{
    return BF16 ? kvg_bits2(__floats2bfloat162_rn(x, y)) : kvg_bits2(__floats2half2_rn(x, y));
}
template <int DIM, bool BF16, bool ROW_SCALES>
static __device__ __forceinline__ void many_weights(const float *x, uint32_t scales, int lane, float *l,
                                                    many_fragments<ROW_SCALES> &p)
{
    constexpr uint32_t ones = many_ones<BF16>;
#pragma unroll
    for (int step = 0; step < 2; step++) {
#pragma unroll
        for (int i = 0; i < 4; i++) { /* row g + 8 (i % 2), keys 16 step + 8 (i / 2) + 2 c and + 1 */
            const float *y = x + 8 * step + 2 * i;
            const float first = kvg_chip_exp2::of(y[0]), second = kvg_chip_exp2::of(y[1]);
            p.weights[4 * step + i] = many_pair<BF16>(first, second);
            if constexpr (ROW_SCALES) {
                uint32_t r[2];
                kvg_load_shared<8>(r, scales + (step * 16 + i / 2 * 8 + lane % 4 * 2) * 4);
                p.scaled[4 * step + i] = many_pair<BF16>(__fmul_rn(first, __uint_as_float(r[0])),
                                                         __fmul_rn(second, __uint_as_float(r[1])));
            }
        }
        const uint32_t *y = p.weights + 4 * step;
        if constexpr (!many_l_beside<DIM>) kvg_multiply<BF16>(l, y[0], y[1], y[2], y[3], ones, ones);
    }
}

/* A tile's scores to weights; m may change, and with it o and l. z is used up. `fresh`: it is a
 * leaf's first tile. */
template <int DIM, bool BF16, bool ROW_SCALES>
static __device__ __forceinline__ void many_weigh(many_state<DIM> &w, float *z, uint32_t scales, bool fresh,
                                                  int lane, many_fragments<ROW_SCALES> &p)
{
    constexpr float limit = ROW_SCALES ? 0.0f : 8.0f;
    float x[16];
    const auto subtract = [&] {
#pragma unroll
        for (int i = 0; i < 16; i++) x[i] = __fsub_rn(z[i], w.node.m[i / 2 % 2]);
    };
    subtract();
    /* The largest by its bits: negative numbers are negative, and the NaN that arithmetic makes is
     * 0x7FFFFFFF. In a leaf's first tile m is EMPTY's, which a row that sees a key is far above. */
    int top = __float_as_int(x[0]);
#pragma unroll
    for (int i = 1; i < 15; i += 2) top = __vimax3_s32(top, __float_as_int(x[i]), __float_as_int(x[i + 1]));
    if (__any_sync(~0u, max(top, __float_as_int(x[15])) > __float_as_int(limit)) || fresh) {
        float factor[2];
        many_raise(w, z, limit, factor);
        if (fresh) { /* o is not read; l was 0 */
#pragma unroll
            for (int i = 0; i < 4; i++) w.l[i] = factor[i / 2] == factor[i / 2] ? 0.0f : KVG_NAN;
        } else {
#pragma unroll
            for (int i = 0; i < DIM / 2; i++) w.node.o[i] = __fmul_rn(w.node.o[i], factor[i / 2 % 2]);
#pragma unroll
            for (int i = 0; i < 4; i++) w.l[i] = __fmul_rn(w.l[i], factor[i / 2]);
        }
        subtract();
    }
    many_weights<DIM, BF16, ROW_SCALES>(x, scales, lane, w.l, p);
}

#endif
