/* The order of K's elements in a stage and of q's (docs/spec/decode-contract.md section 4), and of V's in
 * rows that K and V share. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_ORDER_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_ORDER_CUH

#include "gpu/attention/many/many_args.cuh"
#include "gpu/attention/many/many_multiply.cuh"

/* Where the operands of a sum lie in a stage, and in q: as eight words of two each. Lane c' of
 * docs/spec/decode-contract.md section 4 has pair 0, i = 0 and 1, and pair 1, i = 2 and 3. Words are in
 * the order of places. Hopper adds all 16 products at once: there a lane's pairs lie together, as they
 * are stored. */
static __host__ __device__ constexpr uint32_t many_word(uint32_t lane, uint32_t pair)
{
    return KVG_HAS_WGMMA ? 2 * lane + pair : 4 * pair + lane;
}
static __host__ __device__ constexpr uint32_t many_lane_of(uint32_t word)
{
    return KVG_HAS_WGMMA ? word / 2 : word % 4;
}
static __host__ __device__ constexpr uint32_t many_pair_of(uint32_t word)
{
    return KVG_HAS_WGMMA ? word % 2 : word / 4;
}

/* The widest segment of 16-bit codes. */
enum { MANY_WIDEST_16 = KVG_CONTRACT.neighbours ? 16 : 32 };

/* Which dim element `at` of a row in K's order is: half at mod 2 of word at mod 16 div 2 of sum at div
 * 16. Example: head_dim 80 in 4 bits has segments of 64 and 16. Element 71 on Hopper is half 1 of word 3
 * of sum 4, so c' = 1 and i = 3 in the segment of 16: dim 64 + 4 + 3. Of rows that K and V share V is
 * whole segments of the widest, and int4 is not among their formats. */
template <bool PADDED> static __device__ uint32_t many_dim_of(const many_args &a, uint32_t at)
{
    const uint32_t widest = a.order == MANY_ORDER_16 ? MANY_WIDEST_16 : a.order == MANY_ORDER_8 ? 64 : 128;
    uint32_t segment = at / widest * widest, width = widest;
    for (uint32_t left = a.out_dim - segment; PADDED && (left < width || at >= segment + width);) {
        if (left >= width) segment += width, left -= width;
        width /= 2;
    }
    const uint32_t s = (at - segment) / 16, word = at % 16 / 2;
    const uint32_t c = many_lane_of(word), i = many_pair_of(word) * 2 + at % 2;
    const uint32_t mine = segment + width / 4 * c;
    if (widest < 128) return mine + 4 * s + i;
    const uint32_t place = PADDED && width == 16 ? mine + i % 2 * 2 + i / 2
                                                 : mine + s / 2 * 8 + s % 2 + i % 2 * 4 + i / 2 * 2;
    const uint32_t in = place % 8; /* TurboMind's int4 has dims 0, 2, 4, 6, 1, 3, 5, 7 in its nibbles */
    return !PADDED || a.order == MANY_ORDER_4 ? place : place - in + (in < 4 ? 2 * in : 2 * in - 7);
}

/* Where in a row in K's order a piece of 16-bit codes goes: `at` and the result in bytes. It is as much as
 * docs/spec/decode-contract.md section 4 keeps together, or less; segments have `width` elements. Hopper's sums
 * have 16 neighbours, which stay as they are. Example: bytes 24 to 31 of a row on other chips are elements 12 to
 * 15. Of their segment of 32 these are lane 1's of sum 1; the first two are its pair 0, word 1 of that sum, whose
 * first byte is 32: they go to bytes 36 to 39, and the other two to bytes 52 to 55. */
enum { MANY_K_PIECE = KVG_CONTRACT.neighbours ? 16 : 4 };
static __device__ __forceinline__ uint32_t many_k_place(uint32_t at, uint32_t width)
{
    if constexpr (KVG_CONTRACT.neighbours) return at;
    const uint32_t segment = at / (2 * width) * (2 * width), of_lane = width / 2; /* bytes */
    const uint32_t lane = (at - segment) / of_lane, sum = (at - segment) % of_lane / 8, pair = at % 8 / 4;
    return segment + sum * 2 * MANY_SUM + many_word(lane, pair) * 4;
}
/* Where byte `at` of a row of operands lies in a stage. */
static __device__ __forceinline__ uint32_t many_place_of(uint32_t row, uint32_t at)
{
    return at / MANY_ROW_BYTES * MANY_PART_BYTES + many_place(row, at / 16 % 8) + at % 16;
}

#endif
