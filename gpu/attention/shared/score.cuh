/* From a row of q to its scores: elements as operands, and the factor and the cap of its products
 * (docs/spec/decode-contract.md sections 3 and 5). */
#ifndef KVG_GPU_ATTENTION_SHARED_SCORE_CUH
#define KVG_GPU_ATTENTION_SHARED_SCORE_CUH

#include "gpu/attention/shared/decode_args.cuh"

/* A pair of T as the operands' type, unit times as large. */
template <bool BF16> static __device__ uint32_t kvg_convert_q(bool from_bf16, uint32_t pair, float unit)
{
    if (from_bf16 == BF16) return pair;
    if (BF16) {
        const float2 x = __half22float2(kvg_half2(pair));
        return kvg_bits2(__floats2bfloat162_rn(x.x, x.y));
    }
    return kvg_bits2(__floats2half2_rn(__fmul_rn(__uint_as_float(pair << 16), unit),
                                       __fmul_rn(__uint_as_float(pair & 0xFFFF0000u), unit)));
}

/* The exponent of the largest element of a row of bf16, which four lanes have: 0 for zeros, Inf and NaN. */
template <int WORDS> static __device__ __forceinline__ int kvg_exponent_of_q(const uint4 *v)
{
    uint32_t amax = 0; /* as codes: NaN is above Inf, Inf above the rest */
#pragma unroll
    for (int j = 0; j < 4 * WORDS; j++) {
        const uint32_t pair = (&v[j / 4].x)[j % 4];
        amax = max(amax, max(pair & 0x7FFF, pair >> 16 & 0x7FFF));
    }
    amax = max(amax, __shfl_xor_sync(~0u, amax, 1));
    amax = max(amax, __shfl_xor_sync(~0u, amax, 2));
    const int field = amax >> 7;
    return field == 0 || field == 255 ? 0 : min(field - 127, 126);
}

/* The factor from a product of a row of that exponent to its score, or to twice the score over the cap. */
static __device__ __forceinline__ float kvg_score_factor(const kvg_decode_args &a, float k_scale, int exponent)
{
    const float scale = __fmul_rn(__fmul_rn(a.score_scale, k_scale), a.k_base);
    const float factor = __fmul_rn(scale, __int_as_float((127 + exponent) << 23));
    return a.cap != 0 ? __fdiv_rn(__fmul_rn(2, factor), a.cap) : factor;
}

/* z = sign(S') RN(RN(RN(1 - t) / RN(1 + t)) RN(cap log2 e)), t = exp2(-|u|), u = S' times the row's factor, whose sign
 * u has on top of its own. */
static __device__ __forceinline__ float kvg_cap_score(float u, float factor, float cap)
{
    const float s = __uint_as_float(__float_as_uint(u) ^ __float_as_uint(factor)), t = kvg_chip_exp2::of(-fabsf(u));
    const float z = __fmul_rn(kvg_divide_near_1(__fsub_rn(1, t), __fadd_rn(1, t)), __fmul_rn(cap, 0x1.715476p+0f));
    return u == u ? copysignf(z, s) : KVG_NAN;
}

#endif
