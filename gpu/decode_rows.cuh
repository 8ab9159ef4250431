/* Which keys each query of op decode sees (docs/attention.md section 2): a range of positions. Whether a position of it
 * has a block is for the table to say. */
#ifndef KVG_GPU_DECODE_ROWS_CUH
#define KVG_GPU_DECODE_ROWS_CUH

#include <cstdint>

#include <cuda_runtime.h>

struct kvg_decode_ranges {
    const int32_t *lengths, *query_lengths; /* [sequences] */
    int4 *rows;                             /* [queries]: sequence, first position, one after the last; 0 */
    uint32_t sequences, queries;
    uint32_t tokens;  /* no sequence has more; 0: no limit */
    uint32_t window;  /* keys; 0: all */
    uint32_t ring;    /* tokens that a ring holds; 0: no ring */
};

enum { KVG_DECODE_ROWS_THREADS = 1024 };

static __device__ int4 kvg_decode_range(const kvg_decode_ranges &a, uint32_t sequence, uint32_t query)
{
    const uint32_t given = max(a.lengths[sequence], 0);
    const int64_t length = a.tokens ? min(given, a.tokens) : given;
    const int64_t position = length - a.query_lengths[sequence] + query;
    int64_t low = 0;
    if (a.window) low = max(low, position + 1 - (int64_t)a.window);
    if (a.ring) low = max(low, length - (int64_t)a.ring);
    return position < low ? make_int4((int)sequence, 0, 0, 0)
                          : make_int4((int)sequence, (int)low, (int)position + 1, 0);
}

/* One CTA: the sums of query_lengths, THREADS sequences at a time, then a thread per query. Queries that no sequence
 * has see nothing. */
static __global__ void __launch_bounds__(KVG_DECODE_ROWS_THREADS) kvg_decode_rows(const kvg_decode_ranges a)
{
    constexpr uint32_t THREADS = KVG_DECODE_ROWS_THREADS;
    __shared__ uint32_t ends[THREADS]; /* queries of a sequence and of all before it */
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;"); /* a kernel that was launched for it may begin, and waits */
#endif
    uint32_t base = 0;
    for (uint32_t first = 0; first < a.sequences; first += THREADS) {
        const uint32_t mine = first + threadIdx.x;
        ends[threadIdx.x] = mine < a.sequences ? max(a.query_lengths[mine], 0) : 0;
        for (uint32_t step = 1; step < THREADS; step *= 2) {
            __syncthreads();
            const uint32_t before = threadIdx.x >= step ? ends[threadIdx.x - step] : 0;
            __syncthreads();
            ends[threadIdx.x] += before;
        }
        __syncthreads();
        const uint32_t count = min(ends[THREADS - 1], a.queries - base);
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            uint32_t s = 0; /* sequences that end at or before i */
            for (uint32_t step = THREADS / 2; step > 0; step /= 2) s += ends[s + step - 1] <= i ? step : 0;
            a.rows[base + i] = kvg_decode_range(a, first + s, i - (s ? ends[s - 1] : 0));
        }
        base += count;
        __syncthreads();
    }
    for (uint32_t i = base + threadIdx.x; i < a.queries; i += THREADS) a.rows[i] = make_int4(0, 0, 0, 0);
}

#endif
