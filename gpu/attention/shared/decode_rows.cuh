/* Which keys each query of op decode sees, where there are many sequences (range.cuh). */
#ifndef KVG_GPU_ATTENTION_SHARED_DECODE_ROWS_CUH
#define KVG_GPU_ATTENTION_SHARED_DECODE_ROWS_CUH

#include "gpu/attention/shared/range.cuh"

enum { KVG_DECODE_ROWS_THREADS = 1024 };

/* One CTA: the sums of query_lengths, THREADS sequences at a time, then a thread per query. Queries that no sequence
 * has see nothing. */
static __global__ void __launch_bounds__(KVG_DECODE_ROWS_THREADS) kvg_decode_rows(const kvg_decode_ranges a)
{
    constexpr uint32_t THREADS = KVG_DECODE_ROWS_THREADS;
    __shared__ uint32_t ends[THREADS]; /* queries of a sequence and of all before it */
    __shared__ uint32_t sums[32];      /* of a warp's sequences */
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;"); /* a kernel that was launched for it may begin, and waits */
#endif
    uint32_t base = 0;
    for (uint32_t first = 0; first < a.sequences; first += THREADS) {
        const uint32_t mine = first + threadIdx.x;
        const uint32_t end = kvg_sum_to_lane(mine < a.sequences ? max(a.query_lengths[mine], 0) : 0, lane);
        if (lane == 31) sums[warp] = end;
        __syncthreads();
        const uint32_t warps_end = kvg_sum_to_lane(sums[lane], lane);
        const uint32_t before = __shfl_sync(~0u, warps_end, max(warp - 1, 0));
        ends[threadIdx.x] = end + (warp ? before : 0);
        __syncthreads();
        const uint32_t count = min(ends[THREADS - 1], a.queries - base);
        for (uint32_t i = threadIdx.x; i < count; i += THREADS) {
            uint32_t s = 0; /* sequences that end at or before i */
            for (uint32_t step = THREADS / 2; step > 0; step /= 2) s += ends[s + step - 1] <= i ? step : 0;
            const uint32_t of = first + s, others = s ? ends[s - 1] : 0;
            a.rows[base + i] = kvg_decode_range(a, of, a.lengths[of], a.query_lengths[of], i - others);
        }
        base += count;
        __syncthreads();
    }
    for (uint32_t i = base + threadIdx.x; i < a.queries; i += THREADS) a.rows[i] = make_int4(0, 0, 0, 0);
}

#endif
