/* Stored codes to operands of the matrix instruction (docs/spec/decode-contract.md section 2). A word of eight codes
 * becomes four pairs: for K, of one token, the pairs of two sums in the order of section 4; for V, of two tokens, a
 * pair per dim. 4-bit codes lie in the same places for both. */
#ifndef KVG_GPU_ATTENTION_SHARED_UNPACK_CUH
#define KVG_GPU_ATTENTION_SHARED_UNPACK_CUH

#include <cuda_bf16.h>

#include "gpu/attention/shared/operand.cuh"
#include "gpu/attention/shared/side.cuh"

/* What the codes of a word are multiplied by, pairs: (scale, before it), or an affine row's (scale, minimum). */
struct kvg_multiplier {
    uint32_t scale, other;
};

static __device__ __forceinline__ __nv_bfloat162 kvg_bfloat2(uint32_t pair)
{
    return *(const __nv_bfloat162 *)&pair;
}
static __device__ __forceinline__ uint32_t kvg_bits2(__nv_bfloat162 pair)
{
    return *(const uint32_t *)&pair;
}
/* One half of a pair, twice: a product of pairs takes it as it is. */
static __device__ __forceinline__ uint32_t kvg_half_twice(uint32_t pair, bool high)
{
    return kvg_bits2(high ? __high2half2(kvg_half2(pair)) : __low2half2(kvg_half2(pair)));
}
static __device__ __forceinline__ uint32_t kvg_fma2(bool bf16, uint32_t a, uint32_t b, uint32_t c)
{
    if (bf16) return kvg_bits2(__hfma2(kvg_bfloat2(a), kvg_bfloat2(b), kvg_bfloat2(c)));
    return kvg_bits2(__hfma2(kvg_half2(a), kvg_half2(b), kvg_half2(c)));
}
static __device__ __forceinline__ uint32_t kvg_add2(bool bf16, uint32_t a, uint32_t b)
{
    if (bf16) return kvg_bits2(__hadd2_rn(kvg_bfloat2(a), kvg_bfloat2(b)));
    return kvg_bits2(__hadd2_rn(kvg_half2(a), kvg_half2(b)));
}

/* Eight nibbles as 1024 + n in pairs 0 and 1, as 1024 + 16 n in pairs 2 and 3: an f16's fraction has ten bits. */
static __device__ __forceinline__ void kvg_spread_nibbles(uint32_t codes, uint32_t *pairs)
{
    constexpr uint32_t low = 0x000F000Fu, high = 0x00F000F0u, magic = 0x64006400u;
    const uint32_t far = codes >> 8;
    pairs[0] = (codes & low) | magic, pairs[1] = (far & low) | magic;
    pairs[2] = (codes & high) | magic, pairs[3] = (far & high) | magic;
}

/* n, exactly, as T. bf16's fraction has seven bits. */
template <bool BF16> static __device__ __forceinline__ void kvg_nibbles(uint32_t codes, uint32_t *pairs)
{
    if (BF16) {
        constexpr int shift[4] = {0, 8, 4, 12};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            pairs[i] = kvg_add2(true, (codes >> shift[i] & 0x000F000Fu) | 0x43004300u, 0xC300C300u); /* - 128 */
        }
        return;
    }
    kvg_spread_nibbles(codes, pairs);
#pragma unroll
    for (int i = 0; i < 2; i++) pairs[i] = kvg_add2(false, pairs[i], 0xE400E400u);                       /* - 1024 */
#pragma unroll
    for (int i = 2; i < 4; i++) pairs[i] = kvg_fma2(false, pairs[i], 0x2C002C00u, 0xD400D400u); /* / 16 - 64 */
}

/* Bytes 0 ... 255 as T, exactly. In bf16 128 is added to the low seven bits, and taken away again where the eighth
 * is 0: 0x80 * 0x186 are the bits of -128. */
template <bool BF16> static __device__ __forceinline__ uint32_t kvg_integers(uint32_t word, int first, int second)
{
    if (!BF16) {
        return kvg_add2(false, __byte_perm(word, 0x64646464u, first | 0x40 | second << 8 | 0x4000), 0xE400E400u);
    }
    const uint32_t y = __byte_perm(word, 0, first | 0x40 | second << 8 | 0x4000);
    return kvg_add2(true, (y & 0x007F007Fu) | 0x43004300u, (~y & 0x00800080u) * 0x186);
}

template <class SIDE, bool TOKENS, bool WIDE>
static __device__ __forceinline__ void kvg_unpack(const kvg_factors &k, const uint32_t *codes, kvg_multiplier m,
                                                  uint32_t *pairs)
{
    if constexpr (SIDE::OPERAND == KVG_OPERAND_CODE) {
#pragma unroll
        for (int i = 0; i < 4; i++) pairs[i] = codes[i];
    } else if constexpr (SIDE::OPERAND == KVG_OPERAND_E2M1) {
        kvg_unpack_e2m1<WIDE>(k, codes[0], kvg_half2(m.scale), kvg_half2(m.other), pairs);
    } else if constexpr (SIDE::OPERAND == KVG_OPERAND_INT) {
        kvg_spread_nibbles(codes[0], pairs);
#pragma unroll
        for (int i = 0; i < 4; i++) pairs[i] = kvg_fma2(false, pairs[i], k.nibble[i / 2 * 2], k.nibble[i / 2 * 2 + 1]);
    } else if constexpr (SIDE::BITS == 4) {
        kvg_nibbles<SIDE::BF16>(codes[0], pairs);
#pragma unroll
        for (int i = 0; i < 4; i++) pairs[i] = kvg_fma2(SIDE::BF16, pairs[i], m.scale, m.other);
    } else {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t word = codes[i / 2];
            /* bytes of neighbouring dims, (0 1) (2 3), or of one dim of two tokens, (0 2) (1 3) */
            const int first = TOKENS ? i % 2 : i % 2 * 2, second = TOKENS ? i % 2 + 2 : i % 2 * 2 + 1;
            if constexpr (SIDE::OPERAND == KVG_OPERAND_AFFINE) {
                pairs[i] = kvg_fma2(SIDE::BF16, kvg_integers<SIDE::BF16>(word, first, second), m.scale, m.other);
            } else if constexpr (SIDE::FORMAT == KVG_FORMAT_E5M2) { /* the high byte of an f16 */
                pairs[i] = __byte_perm(word, 0, 0x4 | first << 4 | 0x400 | second << 12);
            } else {
                pairs[i] = kvg_bits2(kvg_e4m3_pair((uint16_t)__byte_perm(word, 0, first | second << 4)));
            }
        }
    }
}

/* --- scales --- */

/* Two bytes of E8M0, of the low or the high half, as what unpacked e2m1 is multiplied by: 2^(E - 127 - 5 + 14), whose
 * high byte as f16 is 4 (E - 103), its low byte 0. E is 104 ... 133, or 103, where that is 0 and so is the operand, at
 * most 6 * 2^-29, as f16. All four bytes of a word at once borrow nothing. */
static __device__ __forceinline__ uint32_t kvg_powers(uint32_t bytes, bool high)
{
    return __byte_perm(bytes * 4u - 4u * 0x67676767u, 0, high ? 0x3424 : 0x1404);
}
/* Any E: in two steps, 2^8 first where E is above 133; what is above 141 is read as 141, and 255 as NaN. */
static __device__ __forceinline__ kvg_multiplier kvg_wide_powers(uint32_t bytes)
{
    const uint32_t e = __byte_perm(bytes, 0, 0x4140), most = __vminu2(e, 141u * 0x10001u);
    const uint32_t above = (most + (0x8000u - 134u) * 0x10001u) & 0x80008000u;
    const uint32_t near = __vmaxu2(most - (above >> 12), 103u * 0x10001u) * 1024u - 103u * 1024u * 0x10001u;
    const uint32_t nan = ((e + 0x10001u) & 0x01000100u) * 0x7Fu;
    return {near | nan, 0x3C003C00u + (above >> 2)};
}

/* Block scales of two bytes, the low or the high ones. */
template <class SIDE, bool WIDE>
static __device__ __forceinline__ kvg_multiplier kvg_block_scales(uint32_t bytes, bool high)
{
    if constexpr (SIDE::POWERS && !WIDE) {
        return {kvg_powers(bytes, high), 0};
    } else {
        uint16_t half[2];
        asm("mov.b32 {%0, %1}, %2;" : "=h"(half[0]), "=h"(half[1]) : "r"(bytes));
        if constexpr (SIDE::POWERS) return kvg_wide_powers(half[high]);
        else return {kvg_bits2(kvg_e4m3_pair(half[high])), 0};
    }
}

#endif
