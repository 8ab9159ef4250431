/* How far from 1 a tile's scales are, which decides between loops (docs/spec/decode-contract.md section 3). */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_NEAR_SCALES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_NEAR_SCALES_CUH

#include "gpu/attention/shared/copy.cuh"

/* Whether kvg_powers takes all of the lane's part of a tile's scales. Common ones are bytes of 112 ... 127, whose upper
 * four bits are 7; all that it takes are 103 ... 133: with 121 or 122 more the upper three bits are set, and a carry
 * comes only from a byte that is beyond. */
template <int BYTES> static __device__ __forceinline__ bool kvg_are_common(uint32_t scales, int lane)
{
    uint32_t words[BYTES / 4], other = 0;
    kvg_load_shared<BYTES>(words, scales + lane * BYTES);
#pragma unroll
    for (int i = 0; i < BYTES / 4; i++) other |= words[i] ^ 0x70707070u;
    return (other & 0xF0F0F0F0u) == 0;
}
template <int BYTES> static __device__ __forceinline__ bool kvg_are_near(uint32_t scales, int lane)
{
    uint32_t words[BYTES / 4], all = ~0u;
    kvg_load_shared<BYTES>(words, scales + lane * BYTES);
#pragma unroll
    for (int i = 0; i < BYTES / 4; i++) all &= (words[i] + 0x79797979u) & (words[i] + 0x7A7A7A7Au);
    return (~all & 0xE0E0E0E0u) == 0;
}
/* Not 0 unless all bytes are 118 ... 133, those of scales of 2^-9 ... 2^6: with 122 more the upper four bits are set.
 * The lowest byte of a word that is beyond has no carry to hide it. */
static __device__ __forceinline__ uint32_t kvg_far_scales(uint32_t scales, int lane)
{
    constexpr uint32_t more = 0x7A7A7A7Au;
    uint32_t words[4];
    kvg_load_shared<16>(words, scales + lane * 16);
    return ~((words[0] + more) & (words[1] + more) & (words[2] + more) & (words[3] + more)) & 0xF0F0F0F0u;
}

#endif
