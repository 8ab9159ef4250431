/* The kernels of gpu/bench/gpu_bench.cu: plain movement of bytes, fills and sums. */
#ifndef KVG_GPU_BENCH_GPU_BENCH_KERNELS_CUH
#define KVG_GPU_BENCH_GPU_BENCH_KERNELS_CUH

#include "core/bench_device.h"

enum { KVG_STREAM_THREADS = 512 };

/* Runs of 16-byte words that lie apart, cut into chunks. `start`: a part's first chunk. */
struct kvg_stream_parts {
    const uint4 *data[KVG_BENCH_PARTS];
    uint64_t words[KVG_BENCH_PARTS];
    uint32_t start[KVG_BENCH_PARTS], chunks;
};

/* Reads every word of the parts, a chunk at a time, each thread with all LOADS of its chunk under way at once, and
 * writes `writes` words, spread over the chunks, round and round in `to`. What was read decides what is written, so it
 * must be read. STREAMS: with the priority of lines that nobody needs again. */
template <int LOADS, bool STREAMS, bool WRITES> __global__ void __launch_bounds__(KVG_STREAM_THREADS)
kvg_stream_words(kvg_stream_parts parts, uint4 *to, uint64_t writes, uint64_t to_words)
{
    for (uint32_t chunk = blockIdx.x; chunk < parts.chunks; chunk += gridDim.x) {
        const uint4 *from = parts.data[0];
        uint64_t words = parts.words[0];
        uint32_t start = 0;
        #pragma unroll
        for (int i = 1; i < KVG_BENCH_PARTS; i++) { /* no index that the compiler does not know: it would take memory */
            if (chunk < parts.start[i]) continue;
            from = parts.data[i];
            words = parts.words[i];
            start = parts.start[i];
        }
        const uint64_t first = (uint64_t)(chunk - start) * (LOADS * KVG_STREAM_THREADS) + threadIdx.x;
        uint4 got[LOADS], all = {};
        #pragma unroll
        for (int i = 0; i < LOADS; i++) {
            const uint64_t at = first + (uint64_t)i * KVG_STREAM_THREADS;
            got[i] = at >= words ? uint4{} : STREAMS ? __ldcs(from + at) : from[at];
        }
        #pragma unroll
        for (int i = 0; i < LOADS; i++) {
            all.x ^= got[i].x;
            all.y ^= got[i].y;
            all.z ^= got[i].z;
            all.w ^= got[i].w;
        }
        if constexpr (WRITES) {
            const uint64_t place = writes * chunk / parts.chunks, begin = place % to_words;
            const uint64_t end = begin + writes * (chunk + 1) / parts.chunks - place;
            for (uint64_t at = begin + threadIdx.x; at < end; at += KVG_STREAM_THREADS) {
                uint4 *there = to + (at < to_words ? at : at - to_words);
                all.x += (uint32_t)at;
                if constexpr (STREAMS) __stcs(there, all);
                else *there = all;
            }
        } else if ((all.x & all.y & all.z & all.w) == 0xFFFFFFFF) {
            to[0] = all; /* hardly ever */
        }
    }
}

/* Fills the L2 with the lines of a buffer. Loads of the usual priority: lines of streaming loads, which go first, would
 * make room for each other and leave there what was there before. */
static __global__ void kvg_read_through(const uint4 *from, uint64_t words, uint4 *sink)
{
    const uint64_t step = (uint64_t)gridDim.x * blockDim.x;
    uint32_t all = 0xFFFFFFFF;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) all &= __ldcg(from + i).x;
    if (all == 0xFFFFFFFF) *sink = {};
}

/* Rows by a recipe, in pieces of UNIT bytes that divide every row's length and place. */
template <int UNIT> __global__ void kvg_fill_rows(uint8_t *buffer, kvg_bench_rows rows, kvg_recipe recipe)
{
    const uint64_t pieces = rows.bytes / UNIT, tokens = rows.count[2], heads = rows.count[1];
    const uint64_t all = pieces * tokens * heads * rows.count[0], step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        const uint64_t row = i / pieces, line = row / tokens;
        const uint64_t at = rows.base + line / heads * rows.stride[0] + line % heads * rows.stride[1] +
                            row % tokens * rows.stride[2] + i % pieces * UNIT;
        if constexpr (UNIT >= 8) {
            uint64_t words[UNIT / 8];
            for (int k = 0; k < UNIT / 8; k++) words[k] = kvg_recipe_word(recipe, at / 8 + k);
            if constexpr (UNIT == 16) *(ulonglong2 *)(buffer + at) = {words[0], words[1]};
            else *(uint64_t *)(buffer + at) = words[0];
        } else {
            for (int k = 0; k < UNIT; k++) buffer[at + k] = kvg_recipe_byte(recipe, at + k);
        }
    }
}

/* Adds to *sum a number that depends on each of `bytes` bytes and on its place. */
static __global__ void kvg_sum_bytes(const uint8_t *data, uint64_t bytes, uint64_t salt, unsigned long long *sum)
{
    const uint64_t words = bytes / 8, step = (uint64_t)gridDim.x * blockDim.x;
    uint64_t mine = 0;
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words + bytes % 8; i += step) {
        const uint64_t value = i < words ? ((const uint64_t *)data)[i] : data[8 * words + (i - words)];
        mine += kvg_recipe_word({value ^ salt, ~0ull, 0}, i);
    }
    for (int offset = 16; offset; offset /= 2) mine += __shfl_xor_sync(0xFFFFFFFFu, mine, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(sum, (unsigned long long)mine);
}

static __global__ void kvg_do_nothing() {}

#endif
