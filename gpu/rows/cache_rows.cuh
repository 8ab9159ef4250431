/* How the kernels of append, flatten and probe reach the rows of a paged cache. */
#ifndef KVG_GPU_ROWS_CACHE_ROWS_CUH
#define KVG_GPU_ROWS_CACHE_ROWS_CUH

#include <cstdint>

#include "gpu/rows/gpu_layout.h"

/* n / d for n below 2^31 and any d > 0 by a product and a shift: Granlund and Montgomery 1994, theorem 4.2, with 31
 * bits for n, so that the factor has 32. */
struct kvg_quotient {
    uint32_t divisor, factor, shift;

    static kvg_quotient by(uint32_t d)
    {
        uint32_t log = 0;
        while (((uint64_t)1 << log) < d) log++;
        return {d, (uint32_t)(((uint64_t)1 << (31 + log)) / d + 1), 31 + log};
    }
    __device__ uint32_t of(uint32_t n) const { return (uint32_t)((uint64_t)n * factor >> shift); }
};

/* A token's place in a paged cache. */
struct kvg_place {
    uint32_t block, offset;
};

/* kvg_gpu_rows with the pool's address: what a kernel needs. */
struct kvg_cache_rows {
    uint8_t *start; /* of the pool plus base */
    uint64_t block, head, token;
    uint32_t bytes, group, align; /* align: 16, 8, 4, 2 or 1 bytes, of every row */

    __device__ uint8_t *row(kvg_place at, uint32_t of_head) const
    {
        return start + at.block * block + of_head * head + at.offset * token;
    }
    /* Where the scales of a row are counted from: its own start, or in 4-token groups (docs/spec/layouts.md section
     * 4) the token's byte in the first one. */
    __device__ uint8_t *scales(kvg_place at, uint32_t of_head) const
    {
        const uint32_t t = group ? at.offset % 4 : 0;
        return row({at.block, at.offset - t}, of_head) + t;
    }
    /* Where scale byte s lies, from there. */
    __device__ uint64_t scale_place(uint32_t s) const { return group == 0 ? s : s / group * token + s % group * 4; }
    __device__ uint8_t *scale(uint8_t *scales, uint32_t s) const { return scales + scale_place(s); }
};

/* A row's codes and scales, for the threads that share it; codes null: it is not there. */
struct alignas(16) kvg_row_target {
    uint8_t *codes, *scales;
};

/* The rows of one kind of bytes; `tensors` are the op's, in the order of `roles`. */
static inline kvg_cache_rows kvg_cache_rows_of(const kvg_gpu_rows &rows, const kvg_role *roles,
                                               const kvg_tensor *tensors)
{
    if (rows.bytes == 0) return {}; /* a format without scales, V in K's row: its pool may be missing too */
    const kvg_tensor &pool = tensors[kvg_roles_index(roles, rows.pool, rows.pool_side)];
    uint8_t *start = (uint8_t *)pool.data + rows.base;
    const uint64_t all = (uint64_t)start | rows.block | rows.head | rows.token | 16;
    return {start, rows.block, rows.head, rows.token, rows.bytes, rows.group, (uint32_t)(all & (0 - all))};
}

/* Slots to places: a slot of append and probe is any number, a negative or too large one has no place. */
struct kvg_slots {
    const int64_t *slots;
    int64_t all;
    kvg_quotient by_block;

    static kvg_slots of(const kvg_problem *p, const kvg_tensor &slots)
    {
        return {(const int64_t *)slots.data, (int64_t)p->paging.blocks * p->paging.block_tokens,
                kvg_quotient::by(p->paging.block_tokens)};
    }
    __device__ bool place(int64_t slot, kvg_place *at) const
    {
        if (slot < 0 || slot >= all) return false;
        const uint32_t B = by_block.divisor;
        at->block = slot <= INT32_MAX ? by_block.of((uint32_t)slot) : (uint32_t)(slot / B);
        at->offset = (uint32_t)(slot - (int64_t)at->block * B);
        return true;
    }
};

/* A scale, or two, of 2 or 4 bytes: between a register and its row. */
template <int BYTES> __device__ __forceinline__ void kvg_put_scale(uint8_t *to, uint32_t scale, uint32_t align)
{
    if (BYTES == 4 && align >= 4) {
        *(uint32_t *)to = scale;
    } else if (BYTES == 2 && align >= 2) {
        *(uint16_t *)to = (uint16_t)scale;
    } else {
        for (int k = 0; k < BYTES; k++) to[k] = (uint8_t)(scale >> 8 * k);
    }
}
template <int BYTES> __device__ __forceinline__ uint32_t kvg_get_scale(const uint8_t *from, uint32_t align)
{
    uint32_t scale = 0;
    if (BYTES == 4 && align >= 4) return *(const uint32_t *)from;
    for (int k = 0; k < BYTES; k++) scale |= (uint32_t)from[k] << 8 * k;
    return scale;
}

/* N bytes, a power of two from 4 to 16, between registers and a row. */
template <int N> __device__ __forceinline__ void kvg_store(uint8_t *to, const uint32_t *words, uint32_t align)
{
    if (N == 16 && align >= 16) {
        *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
    } else if (N >= 8 && align >= 8) {
        for (int i = 0; i < N / 8; i++) ((uint2 *)to)[i] = make_uint2(words[2 * i], words[2 * i + 1]);
    } else if (align >= 4) {
        for (int i = 0; i < N / 4; i++) ((uint32_t *)to)[i] = words[i];
    } else {
        for (int i = 0; i < N; i++) to[i] = (uint8_t)(words[i / 4] >> i % 4 * 8);
    }
}

template <int N> __device__ __forceinline__ void kvg_load(const uint8_t *from, uint32_t *words, uint32_t align)
{
    if (N == 16 && align >= 16) {
        const uint4 v = *(const uint4 *)from;
        words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
    } else if (N >= 8 && align >= 8) {
        for (int i = 0; i < N / 8; i++) {
            const uint2 v = ((const uint2 *)from)[i];
            words[2 * i] = v.x, words[2 * i + 1] = v.y;
        }
    } else if (align >= 4) {
        for (int i = 0; i < N / 4; i++) words[i] = ((const uint32_t *)from)[i];
    } else {
        for (int i = 0; i < N / 4; i++) words[i] = 0;
        for (int i = 0; i < N; i++) words[i / 4] |= (uint32_t)from[i] << i % 4 * 8;
    }
}

#endif
