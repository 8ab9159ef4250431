/* Operands of docs/spec/simt-contract.md section 1: codes of a row to f32, four neighbouring elements at a time. */
#ifndef KVG_GPU_ATTENTION_PLAIN_PLAIN_OPERAND_CUH
#define KVG_GPU_ATTENTION_PLAIN_PLAIN_OPERAND_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "gpu/attention/plain/plain_codes.cuh"
#include "gpu/rows/row_rules.h"

/* In what the numbers of int8 and int4, and of rowfp4, depend on the dialect. */
struct kvg_simt_dialect {
    kvg_affine_rule affine;
    bool linear;
};

/* --- scales --- */

template <kvg_format FORMAT> static __device__ __forceinline__ float kvg_simt_block_scale(uint32_t byte)
{
    if (FORMAT == KVG_FORMAT_NVFP4) {
        return __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)byte, __NV_E4M3)));
    }
    return __uint_as_float(byte == 0 ? 0x00400000u : byte == 255 ? 0x7FC00000u : byte << 23); /* 2^(byte - 127) */
}

static __device__ __forceinline__ float kvg_simt_widen(uint32_t bits, bool bf16)
{
    return bf16 ? __uint_as_float(bits << 16) : __half2float(__ushort_as_half((uint16_t)bits));
}
static __device__ __forceinline__ float kvg_simt_narrow(float x, bool bf16) /* RN_T, as f32 */
{
    return bf16 ? __bfloat162float(__float2bfloat16_rn(x)) : __half2float(__float2half_rn(x));
}

/* The parameters of a row: scale, and minimum or zero point. */
template <kvg_format FORMAT> static __device__ float2 kvg_simt_params(const uint8_t *row, bool bf16)
{
    constexpr uint32_t PARAMS = kvg_simt_numbers<FORMAT>::PARAMS;
    if (PARAMS == 0) return make_float2(1, 0);
    const uint32_t scale = row[0] | row[1] << 8;
    if (kvg_simt_numbers<FORMAT>::F32_SCALE) {
        return make_float2(__uint_as_float(scale | row[2] << 16 | (uint32_t)row[3] << 24), 0);
    }
    if (PARAMS == 2) return make_float2(kvg_simt_widen(scale, false), 0);
    return make_float2(kvg_simt_widen(scale, bf16), kvg_simt_widen(row[2] | row[3] << 8, bf16));
}

/* --- values --- */

static __device__ __forceinline__ void kvg_simt_halves(uint32_t pair, float *x)
{
    const float2 v = __half22float2(*(const __half2 *)&pair);
    x[0] = v.x, x[1] = v.y;
}

/* Four e2m1 codes: the upper 16 bits of a value are two bytes out of tables. */
static __device__ __forceinline__ void kvg_simt_e2m1(uint32_t codes, float *x)
{
    const uint32_t which = codes & 0x7777;
    const uint32_t high = __byte_perm(0x3F3F3F00u, 0x40404040u, which); /* 0, 0.5, 1, 1.5; 2, 3, 4, 6 */
    const uint32_t low = __byte_perm(0xC0800000u, 0xC0804000u, which);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint32_t magnitude = __byte_perm(low, high, (4 + i) << 12 | i << 8) & 0xFFFF0000u;
        x[i] = __uint_as_float(magnitude | (codes << (28 - 4 * i) & 0x80000000u));
    }
}

/* Codes of up to 8 bits as numbers: 2^23 + code is exact, so is what remains. */
static __device__ __forceinline__ float kvg_simt_count(uint32_t code, uint32_t zero)
{
    return __fsub_rn(__uint_as_float(0x4B000000u | code), (float)(0x800000 + zero));
}

/* Four operands; `scale` is the row's or, in x, the block's. */
template <kvg_format FORMAT>
static __device__ __forceinline__ void kvg_simt_values(uint2 codes, float2 scale, kvg_simt_dialect dialect, bool bf16,
                                                       float *x)
{
    if (FORMAT == KVG_FORMAT_F16) {
        kvg_simt_halves(codes.x, x), kvg_simt_halves(codes.y, x + 2);
        return;
    }
    if (FORMAT == KVG_FORMAT_BF16) {
        x[0] = __uint_as_float(codes.x << 16), x[1] = __uint_as_float(codes.x & 0xFFFF0000u);
        x[2] = __uint_as_float(codes.y << 16), x[3] = __uint_as_float(codes.y & 0xFFFF0000u);
        return;
    }
    if (FORMAT == KVG_FORMAT_E4M3 || FORMAT == KVG_FORMAT_E5M2 || FORMAT == KVG_FORMAT_FP8_TOKEN_HEAD) {
        const __nv_fp8_interpretation_t kind = FORMAT == KVG_FORMAT_E5M2 ? __NV_E5M2 : __NV_E4M3;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const __half2_raw pair = __nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)(codes.x >> 16 * i), kind);
            kvg_simt_halves(pair.x | (uint32_t)pair.y << 16, x + 2 * i);
        }
        if (FORMAT == KVG_FORMAT_FP8_TOKEN_HEAD) {
#pragma unroll
            for (int i = 0; i < 4; i++) x[i] = __fmul_rn(x[i], scale.x);
        }
        return;
    }
    constexpr bool AFFINE = FORMAT == KVG_FORMAT_INT8 || FORMAT == KVG_FORMAT_INT4;
    if (AFFINE || FORMAT == KVG_FORMAT_ROWINT4) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t code = FORMAT == KVG_FORMAT_INT8 ? codes.x >> 8 * i & 0xFF : codes.x >> 4 * i & 0xF;
            x[i] = kvg_simt_count(code, AFFINE ? 0 : 8);
        }
    } else if (FORMAT == KVG_FORMAT_INT8_TOKEN_HEAD) { /* two's complement as offset binary */
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = kvg_simt_count((codes.x ^ 0x80808080u) >> 8 * i & 0xFF, 128);
    } else if (FORMAT == KVG_FORMAT_ROWFP4 && dialect.linear) {
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = __fmul_rn(kvg_simt_count(codes.x >> 4 * i & 0xF, 8), 0.5f);
    } else {
        kvg_simt_e2m1(codes.x, x);
    }
    if (!AFFINE) {
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = __fmul_rn(x[i], scale.x);
    } else if (dialect.affine == KVG_AFFINE_PYTORCH) {
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = __fmul_rn(__fsub_rn(x[i], scale.y), scale.x);
    } else if (dialect.affine == KVG_AFFINE_MULADD) {
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = __fadd_rn(kvg_simt_narrow(__fmul_rn(x[i], scale.x), bf16), scale.y);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = fmaf(x[i], scale.x, scale.y);
    }
}

#endif
