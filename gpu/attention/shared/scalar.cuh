/* The f32 arithmetic of docs/spec/decode-contract.md on single numbers: exponentials (section 6), merges (8), root
 * (9). One written operation is one rounding; --fmad=false keeps it so. */
#ifndef KVG_GPU_ATTENTION_SHARED_SCALAR_CUH
#define KVG_GPU_ATTENTION_SHARED_SCALAR_CUH

#include <cuda_runtime.h>

#include "gpu/attention/shared/contract.cuh"

static constexpr float KVG_EMPTY = -0x1.fffffep+127f; /* m of a state without tokens; its l and o are +0 */
#define KVG_INF __int_as_float(0x7F800000)
#define KVG_NAN __int_as_float(0x7FFFFFFF)

/* The polynomial, for x up to 8. At -127 and below, and for NaN, n = -127 and f = 0: the exponent field and all else
 * becomes 0. Adding 1.5 * 2^23 with rounding down leaves floor(x) in the last bits. */
static __device__ __forceinline__ float kvg_exp2(float x, uint32_t by23 = 1u << 23)
{
    x = fmaxf(x, -127.0f);
    const float shifted = __fadd_rd(x, 0x1.8p+23f), f = __fsub_rn(x, __fsub_rn(shifted, 0x1.8p+23f));
    float p = fmaf(0x1.bc31b2p-7f, f, 0x1.aa3fd8p-5f);
    p = fmaf(p, f, 0x1.ee587ep-3f);
    p = fmaf(p, f, 0x1.62d51cp-1f);
    p = fmaf(p, f, 1.0f);
    return __uint_as_float(__float_as_uint(shifted) * by23 + __float_as_uint(p));
}

/* exp2 of docs/spec/simt-contract.md, and of the chip's contract. */
struct kvg_simt_exp2 {
    static __device__ __forceinline__ float of(float x) { return kvg_exp2(x); }
};
struct kvg_chip_exp2 {
    static __device__ __forceinline__ float of(float x, uint32_t by23 = 1u << 23)
    {
        if constexpr (!KVG_CONTRACT.approx) return kvg_exp2(x, by23);
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
};

/* a / b rounded once, for a = 0 or 2^-24 ... 1 and b = 1 ... 2: as __fdiv_rn does it where nothing leaves the range of
 * normal numbers, but without its call, across which the loop would keep nothing in uniform registers. The
 * reciprocal of 2 - 2^-23 is a hair above a tie, where a step from below stays: no b below 2 has a smaller one. */
static __device__ __forceinline__ float kvg_divide_near_1(float a, float b)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(b));
    r = fmaxf(fmaf(r, fmaf(-b, r, 1.0f), r), 0x1.000002p-1f);
    float q = __fmul_rn(a, r);
    q = fmaf(r, fmaf(-b, q, a), q);
    return fmaf(r, fmaf(-b, q, a), q);
}

static __device__ __forceinline__ float kvg_max_or_nan(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

/* log2 of a normal l > 0. */
static __device__ __forceinline__ float kvg_log2(float l)
{
    const float b[9] = {0x1.715476p+0f,   -0x1.71547p-1f,  0x1.ec73d6p-2f,  -0x1.715c4ep-2f, 0x1.26d394p-2f,
                        -0x1.e95c7ep-3f,  0x1.b9c8aap-3f,  -0x1.a877c8p-3f, 0x1.01b07cp-3f};
    const int k = (__float_as_int(l) - 0x3F3504F3) >> 23;
    const float t = __fsub_rn(__int_as_float(__float_as_int(l) - (k << 23)), 1.0f);
    float p = b[8];
#pragma unroll
    for (int i = 7; i >= 0; i--) p = fmaf(p, t, b[i]);
    return fmaf(t, p, (float)k);
}

/* The weights of two nodes: one of them is exactly 1. */
template <class EXP2 = kvg_chip_exp2>
static __device__ __forceinline__ float kvg_merge_weights(float a_m, float b_m, float *a_weight, float *b_weight)
{
    const float m = fmaxf(a_m, b_m), w = EXP2::of(__fsub_rn(fminf(a_m, b_m), m));
    *a_weight = a_m >= b_m ? 1.0f : w;
    *b_weight = a_m >= b_m ? w : 1.0f;
    return m;
}
/* a: the smaller positions. */
static __device__ __forceinline__ float kvg_merge(float a, float a_weight, float b, float b_weight)
{
    return fmaf(b, b_weight, __fmul_rn(a, a_weight));
}

static __device__ __forceinline__ float kvg_output(float o, float l, float factor)
{
    return l == 0 ? 0.0f : __fadd_rn(__fdiv_rn(__fmul_rn(o, factor), l), 0.0f);
}

static __device__ __forceinline__ float kvg_lse(float m, float l)
{
    if (l == 0) return -KVG_INF;
    return l != l ? l : __fmul_rn(__fadd_rn(m, kvg_log2(l)), 0x1.62e43p-1f);
}

#endif
