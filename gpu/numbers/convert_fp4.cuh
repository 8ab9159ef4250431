/* E2M1 and E8M0 (docs/spec/formats.md section 2): in hardware on the Blackwell targets that have such conversions, in
 * software elsewhere. tests/gpu/test_gpu_convert.cu holds both to one definition, for every input. */
#ifndef KVG_GPU_NUMBERS_CONVERT_FP4_CUH
#define KVG_GPU_NUMBERS_CONVERT_FP4_CUH

#include "gpu/numbers/convert.cuh"

/* ptxas takes them for the targets with an `a` or an `f`, not for plain sm_100 and sm_120. */
#if defined(__CUDA_ARCH_FAMILY_SPECIFIC__) || defined(__CUDA_ARCH_SPECIFIC__)
#define KVG_HARDWARE_FP4 (__CUDA_ARCH__ >= 1000)
#else
#define KVG_HARDWARE_FP4 0
#endif

/* --- software --- */

/* Eight magnitudes below 7 to E2M1 in eight nibbles, ties to even: the codes count steps of 0.5 up to 2, of 1 from 2
 * to 4, of 2 from 4 to 6, so the code is the least of v / 0.5, v / 1 + 2 and v / 2 + 4, each rounded to an integer: the
 * lines meet at 2 and at 4, and adding an even number moves no tie. A sum with 2^23 rounds so, once, and positive
 * floats are in order as integers. */
__device__ __forceinline__ uint32_t kvg_e2m1_by_lines(const float *v)
{
    uint32_t codes = 0;
#pragma unroll
    for (int i = 7; i >= 0; i--) {
        const float halves = __fmaf_rn(v[i], 2, 0x1p23f), ones = __fadd_rn(v[i], 0x1p23f + 2);
        const float twos = __fmaf_rn(v[i], 0.5f, 0x1p23f + 4);
        codes = codes * 16 + __vimin3_u32(__float_as_uint(halves), __float_as_uint(ones), __float_as_uint(twos));
    }
    return codes - 0xFB000000u; /* the bits of 2^23, eight times */
}

/* Eight codes, the lowest nibble first, times a scale: exact if the products are f16 numbers. Byte by byte 2 (s e e m)
 * + 0x70 is 0111eem0 for s = 0 and, by the carry, 1000eem0 for s = 1: masked with 0x8E the high byte of an f16 that is
 * 2^-14 of the value. */
__device__ __forceinline__ void kvg_e2m1_by_bytes(uint32_t codes, __half2 scale, float *f)
{
    const uint32_t even = (codes & 0x0F0F0F0Fu) * 2 + 0x70707070u, odd = (codes >> 3 & 0x1E1E1E1Eu) + 0x70707070u;
    const uint32_t pairs[] = {even << 8, even, odd << 8, odd}; /* elements 0 and 4, 2 and 6, 1 and 5, 3 and 7 */
    const __half2 unit = __float2half2_rn(0x1p14f);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t high = pairs[i] & 0x8E008E00u;
        const float2 product = __half22float2(__hmul2_rn(__hmul2_rn(*(const __half2 *)&high, unit), scale));
        const int first = i % 2 * 2 + i / 2;
        f[first] = product.x, f[first + 4] = product.y;
    }
}

/* 2^(b - 127) for b 0 ... 254, NaN for 255. */
__device__ __forceinline__ float kvg_e8m0_by_bits(uint32_t b)
{
    return __uint_as_float(b == 0 ? 0x00400000u : b == 255 ? 0x7FC00000u : b << 23);
}

/* The exponent of the least power of two that is at least a normal x, plus 127; 255 above 2^127. */
__device__ __forceinline__ uint32_t kvg_e8m0_ceil_by_bits(float x)
{
    return (__float_as_uint(x) + 0x7FFFFF) >> 23;
}

/* --- hardware: compiled for Blackwell, run by nobody yet --- */

#if KVG_HARDWARE_FP4
__device__ __forceinline__ uint32_t kvg_e2m1_by_hardware(const float *v)
{
    uint32_t codes;
    asm("{.reg .b8 a, b, c, d;\n"
        "cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;\n"
        "cvt.rn.satfinite.e2m1x2.f32 b, %4, %3;\n"
        "cvt.rn.satfinite.e2m1x2.f32 c, %6, %5;\n"
        "cvt.rn.satfinite.e2m1x2.f32 d, %8, %7;\n"
        "mov.b32 %0, {a, b, c, d};}"
        : "=r"(codes)
        : "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "f"(v[4]), "f"(v[5]), "f"(v[6]), "f"(v[7]));
    return codes;
}

__device__ __forceinline__ void kvg_e2m1_products_by_hardware(uint32_t codes, __half2 scale, float *f)
{
    uint32_t pairs[4];
    asm("{.reg .b8 a, b, c, d;\n"
        "mov.b32 {a, b, c, d}, %4;\n"
        "cvt.rn.f16x2.e2m1x2 %0, a;\n"
        "cvt.rn.f16x2.e2m1x2 %1, b;\n"
        "cvt.rn.f16x2.e2m1x2 %2, c;\n"
        "cvt.rn.f16x2.e2m1x2 %3, d;}"
        : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3]) : "r"(codes));
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 product = __half22float2(__hmul2_rn(*(const __half2 *)&pairs[i], scale));
        f[2 * i] = product.x, f[2 * i + 1] = product.y;
    }
}

__device__ __forceinline__ float kvg_e8m0_by_hardware(uint32_t b)
{
    uint32_t pair;
    asm("cvt.rn.bf16x2.ue8m0x2 %0, %1;" : "=r"(pair) : "h"((uint16_t)b));
    return __uint_as_float(pair << 16);
}

__device__ __forceinline__ uint32_t kvg_e8m0_ceil_by_hardware(float x)
{
    uint16_t bytes;
    asm("cvt.rp.ue8m0x2.f32 %0, %1, %2;" : "=h"(bytes) : "f"(0.0f), "f"(x));
    return bytes & 0xFF;
}
#endif

/* --- what the kernels call --- */

__device__ __forceinline__ uint32_t kvg_e2m1_magnitudes(const float *v)
{
#if KVG_HARDWARE_FP4
    return kvg_e2m1_by_hardware(v);
#else
    return kvg_e2m1_by_lines(v);
#endif
}

__device__ __forceinline__ void kvg_e2m1_products(uint32_t codes, __half2 scale, float *f)
{
#if KVG_HARDWARE_FP4
    kvg_e2m1_products_by_hardware(codes, scale, f);
#else
    kvg_e2m1_by_bytes(codes, scale, f);
#endif
}
__device__ __forceinline__ void kvg_e2m1_values(uint32_t codes, float *f)
{
    kvg_e2m1_products(codes, __float2half2_rn(1), f);
}

__device__ __forceinline__ float kvg_e8m0_value(uint32_t b)
{
#if KVG_HARDWARE_FP4
    return kvg_e8m0_by_hardware(b);
#else
    return kvg_e8m0_by_bits(b);
#endif
}

__device__ __forceinline__ uint32_t kvg_e8m0_ceil(float x)
{
#if KVG_HARDWARE_FP4
    return kvg_e8m0_ceil_by_hardware(x);
#else
    return kvg_e8m0_ceil_by_bits(x);
#endif
}

#endif
