/* Conversions between f32 and the small types, as the hardware makes them, with the rules of docs/spec/formats.md
 * section 2 where it has none. */
#ifndef KVG_GPU_NUMBERS_CONVERT_CUH
#define KVG_GPU_NUMBERS_CONVERT_CUH

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "core/format.h"

/* A model type or a 16-bit storage format: its bits, and what f32 makes of them. */
template <kvg_dtype T> struct kvg_scalar;

/* Two values of a 16-bit type in one word. */
template <typename PAIR> struct kvg_scalar_pair {
    /* On both halves of a word; one rounding. A NaN that comes out is 0x7FFF. */
    static __device__ uint32_t twice(uint16_t b) { return b | (uint32_t)b << 16; }
    static __device__ uint32_t add2(uint32_t a, uint32_t b) { return raw(__hadd2_rn(pair(a), pair(b))); }
    static __device__ uint32_t sub2(uint32_t a, uint32_t b) { return raw(__hsub2_rn(pair(a), pair(b))); }
    static __device__ uint32_t mul2(uint32_t a, uint32_t b) { return raw(__hmul2_rn(pair(a), pair(b))); }
    static __device__ uint32_t fma2(uint32_t a, uint32_t b, uint32_t c)
    {
        return raw(__hfma2(pair(a), pair(b), pair(c)));
    }
    /* The number where one of two is NaN; -0 is below +0. nan2: NaN where one is. */
    static __device__ uint32_t min2(uint32_t a, uint32_t b) { return raw(__hmin2(pair(a), pair(b))); }
    static __device__ uint32_t max2(uint32_t a, uint32_t b) { return raw(__hmax2(pair(a), pair(b))); }
    static __device__ uint32_t nan2(uint32_t a, uint32_t b) { return raw(__hmax2_nan(pair(a), pair(b))); }

protected:
    static __device__ PAIR pair(uint32_t p) { return *(const PAIR *)&p; }
    static __device__ uint32_t raw(PAIR p) { return *(const uint32_t *)&p; }
};

template <> struct kvg_scalar<KVG_DTYPE_F16> : kvg_scalar_pair<__half2> {
    typedef uint16_t bits;
    enum { FRACTION = 10, INF = 0x7C00, FIFTEEN = 0x4B80, N255 = 0x5BF8 };
    static __device__ float widen(bits b) { return __half2float(__ushort_as_half(b)); }
    static __device__ bits round(float x) { return __half_as_ushort(__float2half_rn(x)); }
    static __device__ uint32_t round2(float a, float b) { return raw(__floats2half2_rn(a, b)); }
    static __device__ float2 widen2(uint32_t p) { return __half22float2(pair(p)); }
    static __device__ float2 widen2_positive(uint32_t p) { return widen2(p); }
};

template <> struct kvg_scalar<KVG_DTYPE_BF16> : kvg_scalar_pair<__nv_bfloat162> {
    typedef uint16_t bits;
    enum { FRACTION = 7, INF = 0x7F80, FIFTEEN = 0x4170, N255 = 0x437F };
    static __device__ float widen(bits b) { return __uint_as_float((uint32_t)b << 16); }
    static __device__ bits round(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
    static __device__ uint32_t round2(float a, float b) { return raw(__floats2bfloat162_rn(a, b)); }
    static __device__ float2 widen2(uint32_t p) { return {widen((bits)p), __uint_as_float(p & 0xFFFF0000u)}; }
    static __device__ float2 widen2_positive(uint32_t p)
    {
        float low;
        asm("prmt.b32 %0, %1, 0, 0x1044;" : "=f"(low) : "r"(p));
        return {low, __uint_as_float(p & 0xFFFF0000u)};
    }
};

template <> struct kvg_scalar<KVG_DTYPE_F32> {
    typedef uint32_t bits;
    enum { FRACTION = 23 };
    static __device__ float widen(bits b) { return __uint_as_float(b); }
    static __device__ bits round(float x) { return __float_as_uint(x); }
};

/* T -> U that keeps a NaN's sign and the top bits of its payload (section 2.4), which the hardware does not. */
template <kvg_dtype T, kvg_dtype U> __device__ typename kvg_scalar<U>::bits kvg_convert(typename kvg_scalar<T>::bits b)
{
    enum {
        FROM = kvg_scalar<T>::FRACTION,
        TO = kvg_scalar<U>::FRACTION,
        FROM_WIDTH = 8 * sizeof(typename kvg_scalar<T>::bits),
        TO_WIDTH = 8 * sizeof(typename kvg_scalar<U>::bits)
    };
    const float x = kvg_scalar<T>::widen(b);
    if (T == U) return (typename kvg_scalar<U>::bits)b;
    if (x == x) return kvg_scalar<U>::round(x);
    const uint32_t payload = (uint32_t)b & ((1u << FROM) - 1);
    const uint32_t sign = (uint32_t)b >> (FROM_WIDTH - 1) << (TO_WIDTH - 1);
    const uint32_t exponent = ((1u << (TO_WIDTH - 1)) - 1) >> TO << TO;
    uint32_t kept = TO >= FROM ? payload << (TO >= FROM ? TO - FROM : 0) : payload >> (FROM > TO ? FROM - TO : 0);
    if (kept == 0) kept = 1u << (TO - 1);
    return (typename kvg_scalar<U>::bits)(sign | exponent | kept);
}

/* Eight f32 to T. */
template <kvg_dtype T> __device__ __forceinline__ void kvg_narrow(const float *f, void *y)
{
    for (int i = 0; i < 8; i += 2) {
        if constexpr (T == KVG_DTYPE_F32) ((float *)y)[i] = f[i], ((float *)y)[i + 1] = f[i + 1];
        else ((uint32_t *)y)[i / 2] = kvg_scalar<T>::round2(f[i], f[i + 1]);
    }
}

/* The larger of two, NaN where one is. */
__device__ __forceinline__ float kvg_larger_or_nan(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

/* x / d for many x as x r + x low: r = RN(1 / d), and low = RN(r (1 - d r)) what it lacks. The product x low first, the
 * sum in one rounding. It is the correctly rounded quotient next to every number of five bits, so at all ties of the
 * small formats, but for a d whose fraction is all ones, which it leaves to others: tests/gpu/test_gpu_convert.cu tries
 * every d. */
struct kvg_divisor {
    float r, low;

    static __device__ __forceinline__ kvg_divisor of(float d)
    {
        return d > 0x1p-60f && d < 0x1p60f ? of_or_zero(d) : kvg_divisor{NAN, NAN};
    }
    /* d within these bounds, NaN, or 0: everything becomes 0. */
    static __device__ __forceinline__ kvg_divisor of_or_zero(float d)
    {
        float near;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(near) : "f"(d));
        near = __fmaf_rn(near, __fmaf_rn(-d, near, 1), near); /* RN(1 / d): Markstein 1990 */
        const float r = d == 0 ? 0 : ~__float_as_uint(d) & 0x7FFFFF ? near : NAN;
        return {r, __fmul_rn(r, __fmaf_rn(-d, r, 1))};
    }
    /* By 6 or 7: rounded to f16, every finite quotient is right. */
    static __device__ __forceinline__ kvg_divisor by_integer(int d)
    {
        const float r = 1.0f / (float)d;
        return {r, (float)(1.0 / d - r)};
    }

    /* About x / d, NaN if it cannot do that. Up to 2^100 nothing on the way leaves the range of f32, and what is too
     * small for a normal quotient is too small for a code as well. */
    __device__ __forceinline__ float about(float x) const { return __fmul_rn(x, r); }
    __device__ __forceinline__ bool divides(float amax) const { return about(amax) < 0x1p100f; }

    __device__ __forceinline__ float divide(float x) const { return __fmaf_rn(x, r, __fmul_rn(x, low)); }
};

/* Two numbers to FP8, the first in the low byte: section 2.2, saturating, NaN 0x7F. */
template <__nv_fp8_interpretation_t KIND> __device__ __forceinline__ uint16_t kvg_fp8_codes(float x, float y)
{
    return __nv_cvt_float2_to_fp8x2(make_float2(x, y), __NV_SATFINITE, KIND);
}

/* The values of two codes, the one in the low byte first. */
template <__nv_fp8_interpretation_t KIND> __device__ __forceinline__ float2 kvg_fp8_pair(uint16_t codes)
{
    return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(codes, KIND)));
}

#endif
