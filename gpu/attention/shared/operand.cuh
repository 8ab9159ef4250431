/* What one warp does with codes in shared memory: e2m1 to f16, and the matrix instruction.
 *
 * Unpacking fills the ALU (logic, shifts, permutes, conversions, one per two clocks and scheduler), while the integer
 * multiplier beside it is idle. So shifts to the left, and some additions, are products with factors that come from the
 * kernel's parameters: a constant the compiler would turn into a shift again. */
#ifndef KVG_GPU_ATTENTION_SHARED_OPERAND_CUH
#define KVG_GPU_ATTENTION_SHARED_OPERAND_CUH

#include <cstdint>

#include <cuda_fp16.h>

struct kvg_factors {
    uint32_t by2, by256, by23; /* 2, 2^8, 2^23 */
    uint32_t nibble[4]; /* pairs of f16 that make n - 8, or half of it, of 1024 + n (0, 1) and of 1024 + 16 n (2, 3) */
};

static __device__ __forceinline__ uint32_t kvg_mad(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t r;
    asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}

/* a & b, out of sight of LLVM, which would move it through the sums below. */
static __device__ __forceinline__ uint32_t kvg_and(uint32_t a, uint32_t b)
{
    uint32_t r;
    asm("lop3.b32 %0, %1, %2, 0, 0xC0;" : "=r"(r) : "r"(a), "r"(b));
    return r;
}

static __device__ __forceinline__ __half2 kvg_half2(uint32_t pair)
{
    return *(const __half2 *)&pair;
}
static __device__ __forceinline__ uint32_t kvg_bits2(__half2 pair)
{
    return *(const uint32_t *)&pair;
}

/* Eight e2m1 codes, nibble 0 lowest, to pairs (0, 4), (2, 6), (1, 5), (3, 7) of f16: value * 2^-14 (times `before`, if
 * WIDE) * scale. Byte by byte 2 (s e e m) + 0x70 is 0111eem0 for s = 0 and, by the carry, 1000eem0 for s = 1; masked
 * with 0x8E it is the high byte of the f16 that has the value times 2^-14. */
template <bool WIDE>
static __device__ __forceinline__ void kvg_unpack_e2m1(const kvg_factors &k, uint32_t codes, __half2 scale,
                                                       __half2 before, uint32_t *pairs)
{
    constexpr uint32_t carry = 0x70707070u, mask = 0x8E008E00u;
    const uint32_t even = kvg_and(codes, 0x0F0F0F0Fu), odd = kvg_and(codes, 0xF0F0F0F0u);
    const uint32_t e = kvg_mad(even, k.by2, carry), o = (odd >> 3) + carry;
    const uint32_t x[4] = {e * k.by256 & mask, e & mask, o * k.by256 & mask, o & mask};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const __half2 value = WIDE ? __hmul2_rn(kvg_half2(x[i]), before) : kvg_half2(x[i]);
        pairs[i] = kvg_bits2(__hmul2_rn(value, scale));
    }
}

/* Two bytes of e4m3 as a pair of f16. */
static __device__ __forceinline__ __half2 kvg_e4m3_pair(uint16_t bytes)
{
    uint32_t r;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(r) : "h"(bytes));
    return kvg_half2(r);
}

/* d += a b, m16n8k16: a's rows g, g + 8 of columns 2c (a0, a1) and 2c + 8 (a2, a3), lane 4g + c. */
template <bool BF16>
static __device__ __forceinline__ void kvg_multiply(float *d, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                                    uint32_t b0, uint32_t b1)
{
    if constexpr (BF16) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    } else {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
    }
}

/* An 8x8 matrix of 16-bit elements, two of a row in each lane, transposed. */
static __device__ __forceinline__ uint32_t kvg_transpose(uint32_t pair)
{
    uint32_t r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(pair));
    return r;
}

/* --- shared memory, by its own addresses --- */

static __device__ __forceinline__ void kvg_load_transposed(uint32_t *r, uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
static __device__ __forceinline__ void kvg_load_matrices(uint32_t *r, uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
/* N bytes, 1, 2 or a multiple of 4; up to 16 at once. */
template <int N> static __device__ __forceinline__ void kvg_load_shared(uint32_t *to, uint32_t at)
{
    if constexpr (N == 1) {
        asm volatile("ld.shared.u8 %0, [%1];" : "=r"(to[0]) : "r"(at) : "memory");
    } else if constexpr (N == 2) {
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(to[0]) : "r"(at) : "memory");
    } else if constexpr (N == 4) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(to[0]) : "r"(at) : "memory");
    } else if constexpr (N == 8) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "r"(at) : "memory");
    } else {
        static_assert(N % 16 == 0, "whole words of 16 bytes");
#pragma unroll
        for (int i = 0; i < N / 4; i += 4) {
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(to[i]), "=r"(to[i + 1]), "=r"(to[i + 2]), "=r"(to[i + 3]) : "r"(at + i * 4) : "memory");
        }
    }
}
static __device__ __forceinline__ void kvg_store_shared8(uint32_t at, uint32_t v)
{
    asm volatile("st.shared.u8 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}
static __device__ __forceinline__ void kvg_store_shared16(uint32_t at, uint16_t v)
{
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(v) : "memory");
}
/* 4, 8 or 16 bytes. */
template <int N> static __device__ __forceinline__ void kvg_store_shared(uint32_t at, const uint32_t *v)
{
    static_assert(N == 4 || N == 8 || N == 16, "a word, two or four");
    if constexpr (N == 4) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v[0]) : "memory");
    } else if constexpr (N == 8) {
        asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(at), "r"(v[0]), "r"(v[1]) : "memory");
    } else {
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};"
                     ::"r"(at), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3]) : "memory");
    }
}
template <int N> static __device__ __forceinline__ void kvg_clear_shared(uint32_t at)
{
    if constexpr (N == 2) {
        kvg_store_shared16(at, 0);
    } else if constexpr (N % 16) {
#pragma unroll
        for (int i = 0; i < N; i += 4) asm volatile("st.shared.u32 [%0], %1;" ::"r"(at + i), "r"(0) : "memory");
    } else {
#pragma unroll 4
        for (int i = 0; i < N; i += 16) {
            asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(at + i), "r"(0) : "memory");
        }
    }
}
static __device__ __forceinline__ float4 kvg_load_shared_f32(uint32_t at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
    return v;
}
static __device__ __forceinline__ void kvg_store_shared_f32(uint32_t at, float x, float y, float z, float w)
{
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(x), "f"(y), "f"(z), "f"(w) : "memory");
}

#endif
