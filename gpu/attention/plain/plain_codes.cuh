/* The codes of a row, from memory of any alignment. They travel in linear order, element after element from the lowest
 * bit, whatever the packing. */
#ifndef KVG_GPU_ATTENTION_PLAIN_PLAIN_CODES_CUH
#define KVG_GPU_ATTENTION_PLAIN_PLAIN_CODES_CUH

#include <cstdint>

#include <cuda_runtime.h>

#include "core/format.h"

/* The numbers of core/formats.def; a block of all elements where a format has none. */
template <kvg_format FORMAT> struct kvg_simt_numbers;
#define FORMAT(ENUM, name, id, bits, codes, block, scale_bytes, param_bytes, scales, tensor_scale, summary) \
    template <> struct kvg_simt_numbers<KVG_FORMAT_##ENUM> {                                \
        enum { BITS = bits, SCALED = block > 0, BLOCK = SCALED ? block : KVG_MAX_HEAD_DIM, PARAMS = param_bytes, \
               F32_SCALE = KVG_SCALES_##scales == KVG_SCALES_F32 };                         \
    };
#include "core/formats.def"
#undef FORMAT

/* One kind of bytes of one side: where the row of (block, head, offset) starts. */
struct kvg_simt_rows {
    const uint8_t *start; /* of head 0 */
    uint64_t block, head, token;
    uint32_t group; /* as kvg_gpu_rows */
    uint32_t unit;  /* a power of two up to 16 that every row starts at and has its bytes in; 0: element by element */
};

/* The code of one element; halves: int4 of dialect pytorch. */
template <kvg_format FORMAT>
static __device__ uint32_t kvg_simt_code(const uint8_t *row, uint32_t element, uint32_t dim, bool halves)
{
    constexpr uint32_t BITS = kvg_simt_numbers<FORMAT>::BITS;
    if (BITS == 16) return row[2 * element] | (uint32_t)row[2 * element + 1] << 8;
    if (BITS == 8) return row[element];
    if (FORMAT == KVG_FORMAT_INT4 && halves) {
        const uint32_t half = dim / 2, high = element >= half;
        return row[element - high * half] >> 4 * high & 15;
    }
    const uint32_t place = FORMAT == KVG_FORMAT_INT4 ? element / 8 * 8 + element % 2 * 4 + element % 8 / 2 : element;
    return row[place / 2] >> place % 2 * 4 & 15;
}

/* Up to 32 bits of neighbouring codes from element `first` on; 0 beyond the row. */
template <kvg_format FORMAT>
static __device__ uint32_t kvg_simt_gather(const uint8_t *row, uint32_t first, uint32_t count, uint32_t dim,
                                           bool halves)
{
    constexpr uint32_t BITS = kvg_simt_numbers<FORMAT>::BITS;
    uint32_t word = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < count && first + i < dim; i++) {
        word |= kvg_simt_code<FORMAT>(row, first + i, dim, halves) << i * BITS;
    }
    return word;
}

/* Two lots of four nibbles in TurboMind's order (0 2 4 6 1 3 5 7) as they should be; `half` picks one. */
static __device__ __forceinline__ uint32_t kvg_simt_interleaved(uint32_t word, uint32_t half)
{
    const uint32_t w = word >> 8 * half;
    return (w & 0xF) | (w >> 12 & 0xF0) | (w << 4 & 0xF00) | (w >> 8 & 0xF000);
}

/* 16 bytes of codes from element `first` on, which starts 16 bytes of the row; 0 beyond the row. */
template <kvg_format FORMAT>
static __device__ __forceinline__ uint4 kvg_simt_chunk(const kvg_simt_rows &rows, const uint8_t *row, uint32_t first,
                                                       uint32_t dim, bool halves)
{
    constexpr uint32_t BITS = kvg_simt_numbers<FORMAT>::BITS;
    const uint32_t at = first * BITS / 8, left = dim * BITS / 8 - at;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (rows.unit >= 16) {
        v = __ldg((const uint4 *)(row + at));
    } else if (rows.unit >= 8) {
        const uint2 low = __ldg((const uint2 *)(row + at));
        uint2 high = make_uint2(0, 0);
        if (left > 8) high = __ldg((const uint2 *)(row + at + 8));
        v = make_uint4(low.x, low.y, high.x, high.y);
    } else {
        uint32_t *words = &v.x;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            if (rows.unit >= 4) words[i] = 4 * i < left ? __ldg((const uint32_t *)(row + at) + i) : 0;
            else words[i] = kvg_simt_gather<FORMAT>(row, first + i * 32 / BITS, 32 / BITS, dim, halves);
        }
    }
    if (FORMAT == KVG_FORMAT_INT4 && rows.unit) {
        uint32_t *words = &v.x;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            words[i] = kvg_simt_interleaved(words[i], 0) | kvg_simt_interleaved(words[i], 1) << 16;
        }
    }
    return v;
}

/* Four codes from element `first`, a multiple of 4; 0 beyond the row. TurboMind's int4 comes as the eight that hold
 * them: whoever takes them apart waits for the load. */
template <kvg_format FORMAT>
static __device__ __forceinline__ uint2 kvg_simt_quad(const kvg_simt_rows &rows, const uint8_t *row, uint32_t first,
                                                      uint32_t dim, bool halves)
{
    constexpr uint32_t BITS = kvg_simt_numbers<FORMAT>::BITS;
    if (rows.unit == 0) {
        if (BITS != 16) return make_uint2(kvg_simt_gather<FORMAT>(row, first, 4, dim, halves), 0);
        return make_uint2(kvg_simt_gather<FORMAT>(row, first, 2, dim, halves),
                          kvg_simt_gather<FORMAT>(row, first + 2, 2, dim, halves));
    }
    if (BITS == 16) return __ldg((const uint2 *)(row + 2 * first));
    if (BITS == 8) return make_uint2(__ldg((const uint32_t *)(row + first)), 0);
    if (FORMAT == KVG_FORMAT_INT4) return make_uint2(__ldg((const uint32_t *)(row + first / 8 * 4)), 0);
    return make_uint2(__ldg((const uint16_t *)(row + first / 2)), 0);
}

#endif
