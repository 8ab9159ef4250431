/* Conversions between f32 and the small types, as the hardware makes them, with the rules of docs/formats.md section 2
 * where it has none. */
#ifndef KVG_GPU_CONVERT_CUH
#define KVG_GPU_CONVERT_CUH

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "core/format.h"

/* A model type or a 16-bit storage format: its bits, and what f32 makes of them. */
template <kvg_dtype T> struct kvg_scalar;

template <> struct kvg_scalar<KVG_DTYPE_F16> {
    typedef uint16_t bits;
    enum { FRACTION = 10 };
    static __device__ float widen(bits b) { return __half2float(__ushort_as_half(b)); }
    static __device__ bits round(float x) { return __half_as_ushort(__float2half_rn(x)); }
    static __device__ bits fma(float a, float b, float c) /* one rounding; operands are values of the type */
    {
        return __half_as_ushort(__hfma(__float2half_rn(a), __float2half_rn(b), __float2half_rn(c)));
    }
};

template <> struct kvg_scalar<KVG_DTYPE_BF16> {
    typedef uint16_t bits;
    enum { FRACTION = 7 };
    static __device__ float widen(bits b) { return __uint_as_float((uint32_t)b << 16); }
    static __device__ bits round(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
    static __device__ bits fma(float a, float b, float c)
    {
        return __bfloat16_as_ushort(__hfma(__float2bfloat16_rn(a), __float2bfloat16_rn(b), __float2bfloat16_rn(c)));
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

/* x / d rounded once, for many x: with r = RN(1 / d), q = RN(x r) and one step q + r (x - q d) in fused operations give
 * the quotient correctly rounded (Markstein 1990) where nothing leaves the range of normal numbers; what does comes out
 * as NaN, or too small to matter for a code, and NaN is divided again. */
struct kvg_divisor {
    float d, r;

    static __device__ kvg_divisor of(float d)
    {
        const bool moderate = d > 0x1p-60f && d < 0x1p60f;
        return {d, moderate ? __frcp_rn(d) : NAN};
    }
    __device__ float divide(float x) const
    {
        const float q = __fmul_rn(x, r), better = __fmaf_rn(__fmaf_rn(-q, d, x), r, q);
        return better == better ? copysignf(better, x) : __fdiv_rn(x, d);
    }
};

/* E2M1, section 2.1: ties to even, sign bit kept, NaN 7. Adding 2^22, 2^23 or 2^24 leaves multiples of 0.5, 1 or 2, the
 * steps of E2M1 below 2, below 4 and above, rounded to even, in the last bits of the sum. */
__device__ inline uint32_t kvg_e2m1(float v)
{
    const float t = fminf(fabsf(v), 6.0f);
    const float magic = t < 2 ? 0x1p22f : t < 4 ? 0x1p23f : 0x1p24f;
    const uint32_t first = t < 2 ? 0 : t < 4 ? 2 : 4;
    const uint32_t magnitude = (__float_as_uint(__fadd_rn(t, magic)) & 7) + first;
    return v != v ? 7 : magnitude | __float_as_uint(v) >> 31 << 3;
}

/* The code's two bits of exponent and one of fraction lie at the top of an f16 whose value is 2^-14 times too small. */
__device__ inline float kvg_e2m1_value(uint32_t code)
{
    return __half2float(__ushort_as_half((uint16_t)((code & 8) << 12 | (code & 7) << 9))) * 16384.0f;
}

/* FP8, section 2.2: saturating, NaN 0x7F. */
template <__nv_fp8_interpretation_t KIND> __device__ uint32_t kvg_fp8(float x)
{
    return x != x ? 0x7F : __nv_cvt_float_to_fp8(x, __NV_SATFINITE, KIND);
}

template <__nv_fp8_interpretation_t KIND> __device__ float kvg_fp8_value(uint32_t code)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)code, KIND)));
}

/* 2^(b - 127) for b 0 ... 254, NaN for 255. */
__device__ inline float kvg_e8m0_value(uint32_t b)
{
    return __uint_as_float(b == 0 ? 0x00400000u : b == 255 ? 0x7FC00000u : b << 23);
}

#endif
