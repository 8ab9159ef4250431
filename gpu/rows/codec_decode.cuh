/* Stored rows back to the model type, eight codes at a time (docs/spec/formats.md sections 3 to 8 and 11 to 13): what
 * flatten and expand do with an octet of a row.
 *
 *   BITS, BLOCK, PARAMS   as codec_block.cuh has them
 *   SIGNED                codes are a sign and one of eight magnitudes, unless the dialect says otherwise
 *   decode                `words` are the octet's codes, `scale` its block's byte or its group's or row's numbers */
#ifndef KVG_GPU_ROWS_CODEC_DECODE_CUH
#define KVG_GPU_ROWS_CODEC_DECODE_CUH

#include "gpu/numbers/convert_fp4.cuh"
#include "gpu/rows/codec_piece.cuh"
#include "gpu/rows/row_rules.h"

enum { KVG_OCTET = 8 };

template <kvg_format FORMAT, kvg_dtype T> struct kvg_decoder;

/* --- f16, bf16 --- */

template <kvg_dtype STORED, kvg_dtype T> struct kvg_decoder_wide {
    enum { BITS = 16, BLOCK = 0, PARAMS = 0, SIGNED = false };
    typedef typename kvg_scalar<T>::bits bits;

    static __device__ void decode(const kvg_row_rule &, const uint32_t *words, uint32_t, float, bits *y)
    {
        for (int i = 0; i < KVG_OCTET; i++) y[i] = kvg_convert<STORED, T>((uint16_t)(words[i / 2] >> i % 2 * 16));
    }
};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_F16, T> : kvg_decoder_wide<KVG_DTYPE_F16, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_BF16, T> : kvg_decoder_wide<KVG_DTYPE_BF16, T> {};

/* --- one scale per tensor --- */

template <__nv_fp8_interpretation_t KIND, kvg_dtype T> struct kvg_decoder_fp8 {
    enum { BITS = 8, BLOCK = 0, PARAMS = 0, SIGNED = false };
    typedef typename kvg_scalar<T>::bits bits;

    static __device__ void decode(const kvg_row_rule &, const uint32_t *words, uint32_t, float g, bits *y)
    {
        float f[KVG_OCTET];
        for (int i = 0; i < KVG_OCTET; i += 2) {
            const float2 pair = kvg_fp8_pair<KIND>((uint16_t)(words[i / 4] >> i % 4 * 8));
            f[i] = __fmul_rn(pair.x, g);
            f[i + 1] = __fmul_rn(pair.y, g);
        }
        kvg_narrow<T>(f, y);
    }
};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_E4M3, T> : kvg_decoder_fp8<__NV_E4M3, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_E5M2, T> : kvg_decoder_fp8<__NV_E5M2, T> {};

/* --- integers --- */

/* The integer in byte `i` as a float: 2^23 + q has q in its last bits. */
static __device__ __forceinline__ float kvg_float_of_byte(uint32_t word, int i)
{
    return __fsub_rn(__uint_as_float(__byte_perm(word, 0x4B000000u, 0x7650u + i)), 0x1p23f);
}

/* Eight nibbles of a word, the lowest first. */
static __device__ __forceinline__ void kvg_floats_of_nibbles(uint32_t word, float *q)
{
    const uint32_t even = word & 0x0F0F0F0Fu, odd = word >> 4 & 0x0F0F0F0Fu;
    for (int i = 0; i < KVG_OCTET; i++) q[i] = kvg_float_of_byte(i % 2 ? odd : even, i / 2);
}

/* Affine: two numbers in T, of a row or, as MLX has it, of a group. Where TurboMind packs int4, nibble n holds element
 * 0 2 4 6 1 3 5 7 of eight; PyTorch's halves come as bytes, as int8 does. */
template <int LARGEST, bool GROUPS, kvg_dtype T> struct kvg_decoder_affine {
    enum {
        BITS = LARGEST == 15 ? 4 : 8,
        BLOCK = GROUPS ? (int)KVG_BLOCK_OF_RULE : 0,
        PARAMS = GROUPS ? 0 : 4,
        SIGNED = false
    };
    typedef kvg_scalar<T> model;
    typedef typename model::bits bits;

    static __device__ void decode(const kvg_row_rule &rule, const uint32_t *words, uint32_t scale, float, bits *y)
    {
        const bits first = (bits)scale, second = (bits)(scale >> 16);
        float q[KVG_OCTET];
        if (BITS == 4 && GROUPS) {
            kvg_floats_of_nibbles(words[0], q);
        } else if (BITS == 4 && rule.affine != KVG_AFFINE_PYTORCH) {
            float n[KVG_OCTET];
            kvg_floats_of_nibbles(words[0], n);
            for (int i = 0; i < KVG_OCTET; i++) q[i] = n[i % 2 * 4 + i / 2];
        } else {
            for (int i = 0; i < KVG_OCTET; i++) q[i] = kvg_float_of_byte(words[i / 4], i % 4);
        }
        if (rule.affine == KVG_AFFINE_PYTORCH) {
            const float s = model::widen(first), zero = model::widen(second);
            for (int i = 0; i < KVG_OCTET; i++) q[i] = __fmul_rn(__fsub_rn(q[i], zero), s);
            kvg_narrow<T>(q, y);
            return;
        }
        kvg_narrow<T>(q, y); /* exact */
        uint32_t *pairs = (uint32_t *)y;
        for (int i = 0; i < KVG_OCTET / 2; i++) {
            pairs[i] = rule.affine == KVG_AFFINE_FMA
                           ? model::fma2(pairs[i], model::twice(first), model::twice(second))
                           : model::add2(model::mul2(pairs[i], model::twice(first)), model::twice(second));
        }
    }
};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_INT8, T> : kvg_decoder_affine<255, false, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_INT4, T> : kvg_decoder_affine<15, false, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_MLX8, T> : kvg_decoder_affine<255, true, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_MLX4, T> : kvg_decoder_affine<15, true, T> {};

/* One f16 scale per row. */
template <bool E2M1, kvg_dtype T> struct kvg_decoder_symmetric {
    enum { BITS = 4, BLOCK = 0, PARAMS = 2, SIGNED = E2M1 };
    typedef typename kvg_scalar<T>::bits bits;

    static __device__ void decode(const kvg_row_rule &rule, const uint32_t *words, uint32_t scale, float, bits *y)
    {
        const float s = kvg_scalar<KVG_DTYPE_F16>::widen((uint16_t)scale);
        float f[KVG_OCTET];
        if (E2M1 && !rule.linear) {
            kvg_e2m1_values(words[0], f);
        } else {
            kvg_floats_of_nibbles(words[0], f);
            for (int i = 0; i < KVG_OCTET; i++) f[i] = (f[i] - 8) * (E2M1 ? 0.5f : 1.0f); /* exact */
        }
        for (int i = 0; i < KVG_OCTET; i++) f[i] = __fmul_rn(f[i], s);
        kvg_narrow<T>(f, y);
    }
};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_ROWINT4, T> : kvg_decoder_symmetric<false, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_ROWFP4, T> : kvg_decoder_symmetric<true, T> {};

/* One f32 scale per row: integers in two's complement, or E4M3. */
template <bool E4M3, kvg_dtype T> struct kvg_decoder_token_head {
    enum { BITS = 8, BLOCK = 0, PARAMS = 4, SIGNED = false };
    typedef typename kvg_scalar<T>::bits bits;

    static __device__ void decode(const kvg_row_rule &rule, const uint32_t *words, uint32_t scale, float, bits *y)
    {
        const float s = __uint_as_float(scale);
        if constexpr (E4M3) {
            kvg_decoder<KVG_FORMAT_E4M3, T>::decode(rule, words, 0, s, y);
        } else {
            float f[KVG_OCTET];
            for (int i = 0; i < KVG_OCTET; i++) {
                const uint32_t offset_binary = words[i / 4] ^ 0x80808080u;
                f[i] = __fmul_rn(kvg_float_of_byte(offset_binary, i % 4) - 128, s);
            }
            kvg_narrow<T>(f, y);
        }
    }
};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_INT8_TOKEN_HEAD, T> : kvg_decoder_token_head<false, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_FP8_TOKEN_HEAD, T> : kvg_decoder_token_head<true, T> {};

/* --- E2M1 in blocks --- */

template <int BLOCK_SIZE, kvg_dtype T> struct kvg_decoder_mx {
    enum { BITS = 4, BLOCK = BLOCK_SIZE, PARAMS = 0, SIGNED = true };
    typedef typename kvg_scalar<T>::bits bits;

    static __device__ void decode(const kvg_row_rule &, const uint32_t *words, uint32_t byte, float, bits *y)
    {
        const float unit = kvg_e8m0_value(byte);
        float f[KVG_OCTET];
        kvg_e2m1_values(words[0], f);
        for (int i = 0; i < KVG_OCTET; i++) f[i] = __fmul_rn(f[i], unit);
        kvg_narrow<T>(f, y);
    }
};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_MX16, T> : kvg_decoder_mx<16, T> {};
template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_MXFP4, T> : kvg_decoder_mx<32, T> {};

template <kvg_dtype T> struct kvg_decoder<KVG_FORMAT_NVFP4, T> {
    enum { BITS = 4, BLOCK = 16, PARAMS = 0, SIGNED = true };
    typedef typename kvg_scalar<T>::bits bits;

    static __device__ void decode(const kvg_row_rule &rule, const uint32_t *words, uint32_t byte, float g, bits *y)
    {
        const float2 unit = kvg_fp8_pair<__NV_E4M3>((uint16_t)byte);
        float f[KVG_OCTET];
        if (rule.decode_scale_first) {
            const float d = __fmul_rn(unit.x, g);
            kvg_e2m1_values(words[0], f);
            for (int i = 0; i < KVG_OCTET; i++) f[i] = __fmul_rn(__fadd_rn(f[i], 0.0f), d); /* -0 becomes +0 */
        } else {
            /* the product of four bits and two is exact in f16 too: at least 2^-10, at most 2688 */
            kvg_e2m1_products(words[0], __float2half2_rn(unit.x), f);
            for (int i = 0; i < KVG_OCTET; i++) f[i] = __fmul_rn(f[i], g);
        }
        kvg_narrow<T>(f, y);
    }
};

#endif
