/* The storage formats on a GPU, canonical dialect (docs/formats.md sections 3 to 8). Neighbouring lanes of a warp share
 * a row, each with pieces of 16 elements; the lanes agree on what belongs to the whole row.
 *
 *   BITS, BLOCK, PARAMS   of a code; elements of a block scale, 0 for none; bytes of row parameters
 *   extremes, row         what the lanes of a row find out and share, and the state of the row that follows from it
 *   params                the state of a row from its stored parameters
 *   scale, unit           the byte of a block from its amax; what its codes are worth
 *   divisor               what the elements of a row, or of a block, are divided by
 *   encode, decode        one element; f16 and bf16 have encode_bits instead */
#ifndef KVG_GPU_CODEC_CUH
#define KVG_GPU_CODEC_CUH

#include "gpu/codec_row.cuh"

/* --- f16, bf16 --- */

template <kvg_dtype STORED, kvg_dtype T> struct kvg_codec_wide {
    enum { BITS = 16, BLOCK = 0, PARAMS = 0 };
    static __device__ uint32_t encode_bits(typename kvg_scalar<T>::bits b) { return kvg_convert<T, STORED>(b); }
    static __device__ typename kvg_scalar<T>::bits decode(const kvg_row_state &, float, float, uint32_t code)
    {
        return kvg_convert<STORED, T>((uint16_t)code);
    }
};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_F16, T> : kvg_codec_wide<KVG_DTYPE_F16, T> {};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_BF16, T> : kvg_codec_wide<KVG_DTYPE_BF16, T> {};

/* --- one scale per tensor --- */

template <__nv_fp8_interpretation_t KIND, kvg_dtype T> struct kvg_codec_fp8 {
    enum { BITS = 8, BLOCK = 0, PARAMS = 0 };
    static __device__ kvg_divisor divisor(const kvg_row_state &, uint32_t, float g) { return kvg_divisor::of(g); }
    static __device__ uint32_t encode(const kvg_row_state &, const kvg_divisor &g, float x)
    {
        return kvg_fp8<KIND>(g.divide(x));
    }
    static __device__ typename kvg_scalar<T>::bits decode(const kvg_row_state &, float, float g, uint32_t code)
    {
        return kvg_scalar<T>::round(__fmul_rn(kvg_fp8_value<KIND>(code), g));
    }
};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_E4M3, T> : kvg_codec_fp8<__NV_E4M3, T> {};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_E5M2, T> : kvg_codec_fp8<__NV_E5M2, T> {};

/* --- E2M1 in blocks with a power of two --- */

template <int BLOCK_SIZE, kvg_dtype T> struct kvg_codec_mx {
    enum { BITS = 4, BLOCK = BLOCK_SIZE, PARAMS = 0 };

    /* clamp(ceil(log2(amax / 6)) + 127, 0, 254): with amax = m 2^k, 1 <= m < 2, k - 2 up to m = 1.5, else k - 1. */
    static __device__ uint32_t scale(float amax, float)
    {
        const uint32_t bits = __float_as_uint(amax);
        const int byte = (int)(bits >> 23) - ((bits & 0x7FFFFF) > 0x400000 ? 1 : 2);
        return bits >= 0x7F800000u ? 254 : byte < 0 ? 0 : (uint32_t)byte; /* subnormals give 0 */
    }
    static __device__ float unit(uint32_t byte, float) { return kvg_e8m0_value(byte); }
    static __device__ kvg_divisor divisor(const kvg_row_state &, uint32_t byte, float)
    {
        return {0, kvg_e8m0_value(254 - byte)}; /* 2^(127 - byte): the product is exact, or too small to matter */
    }
    static __device__ uint32_t encode(const kvg_row_state &, const kvg_divisor &unit, float x)
    {
        return kvg_e2m1(__fmul_rn(x, unit.r));
    }
    static __device__ typename kvg_scalar<T>::bits decode(const kvg_row_state &, float unit, float, uint32_t code)
    {
        return kvg_scalar<T>::round(__fmul_rn(kvg_e2m1_value(code), unit));
    }
};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_MX16, T> : kvg_codec_mx<16, T> {};
template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_MXFP4, T> : kvg_codec_mx<32, T> {};

/* --- E2M1 in blocks with an E4M3 scale, one scale per tensor --- */

template <kvg_dtype T> struct kvg_codec<KVG_FORMAT_NVFP4, T> {
    enum { BITS = 4, BLOCK = 16, PARAMS = 0 };

    static __device__ uint32_t scale(float amax, float g)
    {
        return kvg_fp8<__NV_E4M3>(__fdiv_rn(amax, __fmul_rn(6, g)));
    }
    static __device__ float unit(uint32_t byte, float) { return kvg_fp8_value<__NV_E4M3>(byte); }
    static __device__ kvg_divisor divisor(const kvg_row_state &, uint32_t byte, float g)
    {
        return kvg_divisor::of(__fmul_rn(unit(byte, g), g));
    }
    static __device__ uint32_t encode(const kvg_row_state &, const kvg_divisor &step, float x)
    {
        return kvg_e2m1(step.d == 0 && x == x ? copysignf(0, x) : step.divide(x));
    }
    static __device__ typename kvg_scalar<T>::bits decode(const kvg_row_state &, float unit, float g, uint32_t code)
    {
        return kvg_scalar<T>::round(__fmul_rn(__fmul_rn(kvg_e2m1_value(code), unit), g));
    }
};

#endif
