/* Sixteen elements of a row in registers, as words of one (f32) or two (f16, bf16) elements: what the encoders ask of
 * them all at once, and the slow way, one by one. */
#ifndef KVG_GPU_ROWS_CODEC_PIECE_CUH
#define KVG_GPU_ROWS_CODEC_PIECE_CUH

#include "gpu/numbers/convert.cuh"

enum { KVG_PIECE = 16 };
/* As BLOCK of a codec: its blocks are groups of kvg_row_rule.block elements with two numbers of T each. */
enum { KVG_BLOCK_OF_RULE = -1 };

template <kvg_dtype T> struct kvg_piece {
    typedef kvg_scalar<T> scalar;
    enum { WORDS = KVG_PIECE * sizeof(typename scalar::bits) / 4, PER_WORD = KVG_PIECE / WORDS };

    uint32_t words[WORDS];

    /* Elements 2i and 2i + 1. */
    __device__ __forceinline__ float2 two(int i) const
    {
        if constexpr (PER_WORD == 1) return {__uint_as_float(words[2 * i]), __uint_as_float(words[2 * i + 1])};
        else return scalar::widen2(words[i]);
    }
    __device__ __forceinline__ float2 two_magnitudes(int i) const
    {
        if constexpr (PER_WORD == 1) return {fabsf(two(i).x), fabsf(two(i).y)};
        else return scalar::widen2_positive(words[i] & 0x7FFF7FFFu);
    }
    /* The sign bits of elements 8i ... 8i + 7 as the top bits of eight nibbles. */
    __device__ __forceinline__ uint32_t nibble_signs(int i) const
    {
        if constexpr (PER_WORD == 1) {
            uint32_t signs = 0;
            for (int j = 0; j < 8; j++) signs |= words[8 * i + j] >> 31 << (4 * j + 3);
            return signs;
        } else { /* bytes full of the signs of elements 0 2 1 3 and 4 6 5 7; then even elements, and odd ones */
            const uint32_t a = sign_bytes(words[4 * i], words[4 * i + 1], 0xFBD9);
            const uint32_t b = sign_bytes(words[4 * i + 2], words[4 * i + 3], 0xFBD9);
            return (__byte_perm(a, b, 0x5410) & 0x08080808u) | (__byte_perm(a, b, 0x7632) & 0x80808080u);
        }
    }
    /* The sign bits of elements 4i ... 4i + 3 as the top bits of four bytes. */
    __device__ __forceinline__ uint32_t byte_signs(int i) const
    {
        if constexpr (PER_WORD == 1) {
            uint32_t signs = 0;
            for (int j = 0; j < 4; j++) signs |= words[4 * i + j] >> 31 << (8 * j + 7);
            return signs;
        } else {
            return __byte_perm(words[2 * i], words[2 * i + 1], 0x7531) & 0x80808080u;
        }
    }

    /* The largest magnitude: NaN elements left out, or NaN if there is one. */
    __device__ __forceinline__ float amax() const { return magnitude<false>(); }
    __device__ __forceinline__ float amax_or_nan() const { return magnitude<true>(); }

    /* codes of BITS bits from encode(x), element after element. */
    template <int BITS, typename ENCODE> __device__ void one_by_one(uint32_t *codes, ENCODE encode) const
    {
        enum { LAST = KVG_PIECE * BITS / 32 - 1 };
        kvg_piece rest = *this;
        for (int k = 0; k <= LAST; k++) codes[k] = 0;
#pragma unroll 1
        for (int i = 0; i < KVG_PIECE; i++) {
            const typename scalar::bits element = (typename scalar::bits)rest.words[0];
            const uint32_t sign = (uint32_t)(element >> (8 * sizeof element - 1)) << 31; /* widen may drop a NaN's */
            const uint32_t code = encode(__uint_as_float(__float_as_uint(scalar::widen(element)) | sign));
#pragma unroll
            for (int k = 0; k < WORDS - 1; k++) {
                const uint32_t next = rest.words[k + 1];
                rest.words[k] = PER_WORD == 1 ? next : __funnelshift_r(rest.words[k], next, 16);
            }
            rest.words[WORDS - 1] >>= 16;
#pragma unroll
            for (int k = 0; k < LAST; k++) codes[k] = __funnelshift_r(codes[k], codes[k + 1], BITS);
            codes[LAST] = codes[LAST] >> BITS | code << (32 - BITS);
        }
    }

private:
    static __device__ __forceinline__ uint32_t sign_bytes(uint32_t a, uint32_t b, uint32_t selector)
    {
        uint32_t r; /* __byte_perm does not pass the bit on that repeats a sign */
        asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(selector));
        return r;
    }
    template <bool OR_NAN> __device__ __forceinline__ float magnitude() const
    {
        if constexpr (PER_WORD == 1) {
            float most = 0;
            for (int i = 0; i < KVG_PIECE; i++) {
                const float x = fabsf(__uint_as_float(words[i]));
                most = OR_NAN ? kvg_larger_or_nan(most, x) : fmaxf(most, x);
            }
            return most;
        } else {
            uint32_t most = 0;
#pragma unroll
            for (int i = 0; i < WORDS; i++) {
                const uint32_t x = words[i] & 0x7FFF7FFFu;
                most = OR_NAN ? scalar::nan2(most, x) : scalar::max2(most, x);
            }
            most = OR_NAN ? scalar::nan2(most, most >> 16) : scalar::max2(most, most >> 16);
            return scalar::widen((typename scalar::bits)most);
        }
    }
};

#endif
