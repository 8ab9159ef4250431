/* The tree above the pieces of a row, and its root (docs/decode-contract.md sections 8 and 9). */
#ifndef KVG_GPU_DECODE_MERGE_CUH
#define KVG_GPU_DECODE_MERGE_CUH

#include <cuda_bf16.h>

#include "gpu/decode_args.cuh"

enum { KVG_MERGE_LEVELS = 16 }; /* above the pieces that one round takes */

typedef kvg_node<8> kvg_quarter_node;

static __device__ kvg_quarter_node kvg_node_of(const float4 &a, const float4 &b, const float4 &h)
{
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, {h.x, h.y}, {h.z, h.w}};
}

/* As three arrays by lane. */
static __device__ void kvg_put_quarter(float4 (*to)[KVG_WARP], const kvg_quarter_node &x, int lane)
{
    to[0][lane] = make_float4(x.o[0], x.o[1], x.o[2], x.o[3]);
    to[1][lane] = make_float4(x.o[4], x.o[5], x.o[6], x.o[7]);
    to[2][lane] = make_float4(x.m[0], x.m[1], x.l[0], x.l[1]);
}
static __device__ kvg_quarter_node kvg_get_quarter(const float4 (*from)[KVG_WARP], int lane)
{
    return kvg_node_of(from[0][lane], from[1][lane], from[2][lane]);
}

static __device__ uint32_t kvg_round_pair(const kvg_decode_args &a, float x, float y)
{
    if (!a.bf16) return kvg_bits2(__floats2half2_rn(x, y));
    const __nv_bfloat162 pair = __floats2bfloat162_rn(x, y);
    return *(const uint32_t *)&pair;
}

static __device__ void kvg_finish(const kvg_decode_args &a, kvg_quarter_node &x, uint32_t query, uint32_t kv_head,
                                  int quarter, int lane)
{
    const float factor = __fmul_rn(*a.v_scale, 0x1p14f);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t in_group = lane % 4 * 2 + h, head = kv_head * a.group + in_group;
        const size_t row = (size_t)query * a.query_heads + head;
        if (in_group >= a.group) continue;
        if (a.sinks) kvg_add_sink(x, h, a.sinks[head]);
        float y[4]; /* dims 0, 2, 1, 3 of four */
#pragma unroll
        for (int i = 0; i < 4; i++) y[i] = kvg_output(x.o[2 * i + h], x.l[h], factor);
        *(uint2 *)(a.out + row * KVG_DECODE_DIM + quarter * 32 + lane / 4 * 4) =
            make_uint2(kvg_round_pair(a, y[0], y[2]), kvg_round_pair(a, y[1], y[3]));
        if (quarter == 0 && lane < 4) a.lse[row] = kvg_lse(x.m[h], x.l[h]);
    }
}

static __global__ void __launch_bounds__(KVG_WARP * KVG_DECODE_MOST_WARPS, 1) kvg_decode_merge(const kvg_decode_args a)
{
    __shared__ float4 shared[KVG_DECODE_MOST_WARPS][3][KVG_WARP], stack[KVG_MERGE_LEVELS][3][KVG_WARP];
    kvg_wait_for_kernel_before();
    const int lane = threadIdx.x % KVG_WARP, warp = threadIdx.x / KVG_WARP, warps = blockDim.x / KVG_WARP;
    const int quarter = blockIdx.x % 4;
    const uint32_t kv_head = blockIdx.x / 4 % a.kv_heads, query = blockIdx.x / 4 / a.kv_heads;
    const uint32_t piece = KVG_DECODE_LEAF * KVG_DECODE_WARPS * a.run, keys = a.rows[query].y;
    constexpr int ROUND = KVG_DECODE_BATCH * KVG_DECODE_MOST_WARPS; /* pieces */
    const int pieces = max((keys + piece - 1) / piece, 1u), rounds = (pieces + ROUND - 1) / ROUND;
    kvg_quarter_node x;
#pragma unroll 1
    for (int r = 0; r < rounds; r++) { /* aligned runs of pieces */
        const int first = (r * KVG_DECODE_MOST_WARPS + warp) * KVG_DECODE_BATCH;
        kvg_quarter_node y[KVG_DECODE_BATCH];
#pragma unroll
        for (int j = 0; j < KVG_DECODE_BATCH; j++) {
            if (first + j >= pieces) continue;
            const size_t index = ((size_t)(first + j) * a.queries + query) * a.kv_heads + kv_head;
            const float4 *from = a.nodes + index * (KVG_NODE_BYTES / 16);
            y[j] = kvg_node_of(__ldcg(from + quarter * 64 + lane), __ldcg(from + quarter * 64 + KVG_WARP + lane),
                           __ldcg(from + KVG_NODE_M / 16 + lane % 4));
        }
#pragma unroll
        for (int step = 1; step < KVG_DECODE_BATCH; step *= 2) {
#pragma unroll
            for (int j = 0; j < KVG_DECODE_BATCH; j += 2 * step) {
                if (first + j + step < pieces) kvg_merge_nodes(y[j], y[j + step]);
            }
        }
        x = y[0];
        if (warps > 1) {
            __syncthreads(); /* the round before has been read */
            kvg_put_quarter(shared[warp], x, lane);
            for (int step = 1; step < warps; step *= 2) {
                __syncthreads();
                if (warp % (2 * step) == 0 && warp + step < warps && first + step * KVG_DECODE_BATCH < pieces) {
                    kvg_merge_nodes(x, kvg_get_quarter(shared[warp + step], lane));
                    kvg_put_quarter(shared[warp], x, lane);
                }
            }
        }
        if (warp == 0 && r + 1 < rounds) {
            int level = 0;
            for (; r >> level & 1; level++) {
                kvg_quarter_node left = kvg_get_quarter(stack[level], lane);
                kvg_merge_nodes(left, x);
                x = left;
            }
            kvg_put_quarter(stack[level], x, lane);
        }
    }
    if (warp) return;
    for (int level = 0; level < KVG_MERGE_LEVELS; level++) {
        if (!((rounds - 1) >> level & 1)) continue;
        kvg_quarter_node left = kvg_get_quarter(stack[level], lane);
        kvg_merge_nodes(left, x);
        x = left;
    }
    kvg_finish(a, x, query, kv_head, quarter, lane);
}

#endif
