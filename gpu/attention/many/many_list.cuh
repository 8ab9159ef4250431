/* The first kernel of op decode for many query rows: the bands, by the lengths of the sequences. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_LIST_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_LIST_CUH

#include "gpu/attention/many/many_args.cuh"

enum { MANY_LIST_THREADS = 1024 };

/* Sums of `x` over the threads up to this one; *all over all of them. */
static __device__ uint2 many_sum_to_thread(uint2 x, uint2 *all)
{
    __shared__ uint2 sums[MANY_LIST_THREADS / KVG_WARP];
    const int lane = threadIdx.x % KVG_WARP, warp = threadIdx.x / KVG_WARP;
    x = make_uint2(kvg_sum_to_lane(x.x, lane), kvg_sum_to_lane(x.y, lane));
    if (lane == KVG_WARP - 1) sums[warp] = x;
    __syncthreads();
    const uint2 to_warp = make_uint2(kvg_sum_to_lane(sums[lane].x, lane), kvg_sum_to_lane(sums[lane].y, lane));
    const int before = max(warp - 1, 0);
    const uint2 others = make_uint2(__shfl_sync(~0u, to_warp.x, before), __shfl_sync(~0u, to_warp.y, before));
    *all = make_uint2(__shfl_sync(~0u, to_warp.x, KVG_WARP - 1), __shfl_sync(~0u, to_warp.y, KVG_WARP - 1));
    __syncthreads(); /* `sums` has been read */
    return warp ? make_uint2(x.x + others.x, x.y + others.y) : x;
}

/* One CTA, a thread for each of THREADS sequences at a time. q has `queries` rows: what the
 * sequences have beyond them is left out, and those that no sequence has make a band, or several,
 * of no sequence. */
static __global__ void __launch_bounds__(MANY_LIST_THREADS) kvg_decode_many_list(const __grid_constant__ many_args a)
{
    const uint32_t rows = a.band_rows, group = a.d.group, queries = a.d.ranges.queries;
    const auto put = [&](uint32_t at, int sequence, uint32_t query, uint32_t count) {
        for (uint32_t row = 0; row < count * group; row += rows) {
            a.list[++at] = make_int4(sequence, (int)row, (int)query, (int)count);
        }
    };
    uint32_t bands = 0, left = queries; /* queries of no sequence yet */
    kvg_start_kernel_after();
    for (uint32_t first = 0; first < a.d.ranges.sequences; first += MANY_LIST_THREADS) {
        const uint32_t sequence = first + threadIdx.x;
        const int32_t given = sequence < a.d.ranges.sequences ? a.d.ranges.query_lengths[sequence] : 0;
        /* Shares of `left` that cannot overflow when they are summed: beyond it all are 0. */
        const uint32_t wanted = min((uint32_t)max(given, 0), left);
        uint32_t count = wanted;
        uint2 all, sum;
        bool over = __syncthreads_or(wanted > UINT32_MAX / (2 * MANY_LIST_THREADS));
        if (!over) {
            sum = many_sum_to_thread(make_uint2(count, 0), &all);
            over = all.x > left;
        }
        if (over) { /* one after another */
            __shared__ uint32_t taken[MANY_LIST_THREADS];
            taken[threadIdx.x] = wanted;
            __syncthreads();
            if (threadIdx.x == 0) {
                for (uint32_t i = 0, rest = left; i < MANY_LIST_THREADS; i++) {
                    taken[i] = min(taken[i], rest);
                    rest -= taken[i];
                }
            }
            __syncthreads();
            count = taken[threadIdx.x];
            __syncthreads();
        }
        const uint32_t mine = (count * group + rows - 1) / rows;
        sum = many_sum_to_thread(make_uint2(count, mine), &all);
        put(bands + sum.y - mine, (int)sequence, queries - left + sum.x - count, count);
        bands += all.y, left -= all.x;
    }
    if (threadIdx.x == 0) {
        put(bands, -1, queries - left, left);
        a.list[0].x = (int)(bands + (left * group + rows - 1) / rows);
    }
}

#endif
