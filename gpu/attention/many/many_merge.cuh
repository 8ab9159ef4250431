/* The last kernel of op decode for many query rows, where bands have several pieces: the tree above
 * them, and the root. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_MERGE_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_MERGE_CUH

#include "gpu/attention/many/many_tree.cuh"

/* A warp takes 32 dims of 16 rows. Nodes that wait: one for each bit of the count of pieces. */
enum { MANY_MERGE_WARPS = 2 };

static __global__ void __launch_bounds__(KVG_WARP *MANY_MERGE_WARPS)
    kvg_decode_many_merge(const __grid_constant__ many_args a)
{
    constexpr uint32_t NODE = many_warp_node<MANY_SLICE>();
    const int lane = threadIdx.x % KVG_WARP;
    float4 *const mine = a.stack + (size_t)(blockIdx.x * MANY_MERGE_WARPS + threadIdx.x / KVG_WARP) *
                                       MANY_MERGE_WAITING * NODE;
    const many_waiting waiting = {mine, NODE, 0, 0, 0};
    kvg_wait_for_kernel_before();
    const uint32_t bands = (uint32_t)a.list[0].x, slices = a.columns / MANY_SLICE, warps = a.groups * 4;
    const uint32_t all = bands * a.kv_heads;
    uint32_t index = blockIdx.x * MANY_MERGE_WARPS + threadIdx.x / KVG_WARP;
    const uint32_t slice = index % slices;
    index /= slices;
    const uint32_t warp = index % warps, band = a.cut.whole + index / warps;
    const uint32_t first_column = warp / (a.band_rows / 16) * a.columns + slice * MANY_SLICE;
    if (band >= all || first_column >= a.out_dim) return;
    const many_item item = many_find_item(a, {band, 0, a.cut.leaves_log, 0}, bands);
    const uint32_t first = item.band_low / KVG_CONTRACT.leaf >> a.cut.leaves_log;
    const uint32_t last = max(item.band_high, item.band_low + 1) - 1;
    const uint32_t last_piece = last / KVG_CONTRACT.leaf >> a.cut.leaves_log;
    uint32_t tokens[2], rows[2], count = 0;
    many_find_rows(a, item, warp % (a.band_rows / 16), lane, tokens, rows);
    if (__shfl_sync(~0u, rows[0], 0) == MANY_NO_ROW) return;
    many_node<MANY_SLICE> x;
    for (uint32_t piece = first; piece <= last_piece; piece++) {
        const size_t node = (size_t)many_node_of(&a.cut, all, band, piece - first) * warps + warp;
        const float4 *from = a.nodes + node * ((a.columns / 8 + 1) * KVG_WARP) + lane;
#pragma unroll
        for (int i = 0; i < MANY_SLICE / 8; i++) {
            const float4 v = from[(slice * (MANY_SLICE / 8) + i) * KVG_WARP];
            x.o[4 * i] = v.x, x.o[4 * i + 1] = v.y, x.o[4 * i + 2] = v.z, x.o[4 * i + 3] = v.w;
        }
        const float4 h = from[a.columns / 8 * KVG_WARP];
        x.m[0] = h.x, x.m[1] = h.y, x.l[0] = h.z, x.l[1] = h.w;
        many_end_leaf<MANY_SLICE>(waiting, x, piece, first, piece == last_piece, &count, lane);
    }
    many_finish<MANY_SLICE>(a, x, rows, first_column, a.out_dim - first_column, a.shared_row, lane);
}

#endif
