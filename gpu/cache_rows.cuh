/* How the kernels of append, flatten and probe reach the rows of a paged cache. */
#ifndef KVG_GPU_CACHE_ROWS_CUH
#define KVG_GPU_CACHE_ROWS_CUH

#include "gpu/codec.cuh"
#include "gpu/gpu_layout.h"

/* kvg_gpu_rows with the pool's address: what a kernel needs. */
struct kvg_cache_rows {
    uint8_t *start; /* of the pool plus base */
    uint64_t block, head, token;
    uint32_t block_tokens, bytes, group, align; /* align: 16, 8, 4, 2 or 1 bytes, of every row */

    __device__ uint8_t *row(int64_t slot, uint32_t at_head) const
    {
        return start + (uint64_t)slot / block_tokens * block + at_head * head + (uint64_t)slot % block_tokens * token;
    }
    /* Scale byte s of a row, in 4-token groups where the layout has them (docs/layouts.md section 4). */
    __device__ uint8_t *scale(int64_t slot, uint32_t at_head, uint32_t s) const
    {
        if (group == 0) return row(slot, at_head) + s;
        const int64_t t = slot % block_tokens;
        return row(slot - t % 4 + s / group, at_head) + s % group * 4 + t % 4;
    }
};

/* The rows of one kind of bytes; `tensors` are the op's, in the order of `roles`. */
static inline kvg_cache_rows kvg_cache_rows_of(const kvg_problem *p, const kvg_gpu_rows &rows, const kvg_role *roles,
                                               const kvg_tensor *tensors)
{
    const kvg_tensor &pool = tensors[kvg_roles_index(roles, rows.pool, rows.pool_side)];
    uint8_t *start = (uint8_t *)pool.data + rows.base;
    const uint64_t all = (uint64_t)start | rows.block | rows.head | rows.token | 16;
    return {start, rows.block, rows.head, rows.token, p->paging.block_tokens, rows.bytes, rows.group,
            (uint32_t)(all & (0 - all))};
}

/* N bytes, a multiple of 8, between registers and a row. */
template <int N> __device__ void kvg_store(uint8_t *to, const uint32_t *words, uint32_t align)
{
    if (align >= 16 && N % 16 == 0) {
        for (int i = 0; i < N / 16; i++) ((uint4 *)to)[i] = ((const uint4 *)words)[i];
    } else if (align >= 8) {
        for (int i = 0; i < N / 8; i++) ((uint2 *)to)[i] = ((const uint2 *)words)[i];
    } else if (align >= 4) {
        for (int i = 0; i < N / 4; i++) ((uint32_t *)to)[i] = words[i];
    } else {
        for (int i = 0; i < N; i++) to[i] = (uint8_t)(words[i / 4] >> i % 4 * 8);
    }
}

template <int N> __device__ void kvg_load(const uint8_t *from, uint32_t *words, uint32_t align)
{
    if (align >= 16 && N % 16 == 0) {
        for (int i = 0; i < N / 16; i++) ((uint4 *)words)[i] = ((const uint4 *)from)[i];
    } else if (align >= 8) {
        for (int i = 0; i < N / 8; i++) ((uint2 *)words)[i] = ((const uint2 *)from)[i];
    } else if (align >= 4) {
        for (int i = 0; i < N / 4; i++) words[i] = ((const uint32_t *)from)[i];
    } else {
        for (int i = 0; i < N / 4; i++) words[i] = 0;
        for (int i = 0; i < N; i++) words[i / 4] |= (uint32_t)from[i] << i % 4 * 8;
    }
}

/* Where the code of element i of a piece stands: word and shift. TurboMind's int4 interleaves even and odd elements of
 * every eight (docs/formats.md section 5); else element after element. */
template <kvg_format FORMAT, int BITS> struct kvg_packing {
    static __device__ constexpr int place(int i)
    {
        return FORMAT == KVG_FORMAT_INT4 ? i / 8 * 8 + i % 2 * 4 + i % 8 / 2 : i;
    }
    static __device__ constexpr int word(int i) { return place(i) * BITS / 32; }
    static __device__ constexpr int shift(int i) { return place(i) * BITS % 32; }
};

/* Lanes that share a row of `dim` elements: a power of two, enough for a piece each, or a warp. */
static inline uint32_t kvg_row_lanes(uint32_t dim)
{
    uint32_t lanes = 1;
    while (lanes < 32 && lanes * KVG_PIECE < dim) lanes *= 2;
    return lanes;
}

#endif
