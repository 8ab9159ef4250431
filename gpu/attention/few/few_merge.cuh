/* The tree above the pieces of a row, and its root (docs/spec/decode-contract.md sections 8 and 9). */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_MERGE_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_MERGE_CUH

#include "gpu/attention/few/few_part.cuh"
#include "gpu/attention/few/few_state.cuh"

/* Nodes that wait for their right half: no more with up to KVG_MERGE_ROUNDS rounds, wherever they begin. */
enum { KVG_MERGE_ROUNDS = 256, KVG_MERGE_WAITING = 16 };

/* A slice: 32 dims. */
typedef kvg_node<8> kvg_slice_node;

static __device__ kvg_slice_node kvg_node_of(const float4 &a, const float4 &b, const float4 &h)
{
    return {{a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w}, {h.x, h.y}, {h.z, h.w}};
}

/* As three arrays by lane. */
typedef float4 kvg_slice[3][KVG_WARP];

/* Dynamic shared memory of a CTA: as little as it takes, so that many are resident. */
static __host__ __device__ constexpr uint32_t kvg_shared_slices(uint32_t warps) { return warps > 1 ? warps : 0; }
static constexpr uint32_t kvg_merge_bytes(uint32_t warps, bool one_round)
{
    return (kvg_shared_slices(warps) + (one_round ? 0 : KVG_MERGE_WAITING)) * (uint32_t)sizeof(kvg_slice);
}
static_assert(kvg_merge_bytes(KVG_DECODE_MOST_WARPS, false) <= 48 * 1024, "what a CTA has without asking for more");

static __device__ void kvg_put_slice(float4 (*to)[KVG_WARP], const kvg_slice_node &x, int lane)
{
    to[0][lane] = make_float4(x.o[0], x.o[1], x.o[2], x.o[3]);
    to[1][lane] = make_float4(x.o[4], x.o[5], x.o[6], x.o[7]);
    to[2][lane] = make_float4(x.m[0], x.m[1], x.l[0], x.l[1]);
}
static __device__ kvg_slice_node kvg_get_slice(const float4 (*from)[KVG_WARP], int lane)
{
    return kvg_node_of(from[0][lane], from[1][lane], from[2][lane]);
}

static __device__ void kvg_finish(const kvg_decode_args &a, kvg_slice_node &x, float factor, uint32_t query,
                                  uint32_t unit, uint32_t dim, int slice, int lane)
{
    const uint32_t kv_head = a.chunks.into(unit), g = lane / 4;
    const uint32_t first = slice * 32 + g / 2 * a.out_lane[0] + g % 2 * a.out_lane[1];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const uint32_t in_group = a.chunks.rest(unit) * KVG_DECODE_HEADS + lane % 4 * 2 + h;
        const uint32_t head = kv_head * a.group + in_group;
        const size_t row = (size_t)query * a.query_heads + head;
        if (in_group >= a.group) continue;
        if (a.sinks) kvg_add_sink(x, h, a.sinks[head]);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float y = kvg_output(x.o[2 * i + h], x.l[h], factor);
            uint16_t *to = a.out + row * dim + first + a.out_sum[i];
            if (a.bf16) *(__nv_bfloat16 *)to = __float2bfloat16_rn(y);
            else *(__half *)to = __float2half_rn(y);
        }
        if (slice == 0 && lane < 4) a.lse[row] = kvg_lse(x.m[h], x.l[h]);
    }
}

/* A CTA per slice of eight heads of a query. Rounds take aligned runs of pieces, from the first that the row has. */
static __global__ void __launch_bounds__(KVG_WARP *KVG_DECODE_MOST_WARPS, 1)
    kvg_decode_merge(const __grid_constant__ kvg_decode_args a, uint32_t dim)
{
    extern __shared__ float4 kvg_merge_slices[];
    kvg_slice *const shared = (kvg_slice *)kvg_merge_slices; /* of each warp, unless there is one */
    kvg_slice *const stack = shared + kvg_shared_slices(blockDim.x / KVG_WARP);
    const int lane = threadIdx.x % KVG_WARP, warp = threadIdx.x / KVG_WARP, warps = blockDim.x / KVG_WARP;
    const uint32_t slices = dim / 32, slice = blockIdx.x % slices;
    const uint32_t above = blockIdx.x / slices, query = a.units.into(above), unit = above - query * a.units.divisor;
    const uint32_t team = query / a.team, nth = query - team * a.team;
    int4 row = kvg_row_of(a, query, lane); /* and what its CTAs saw besides: EMPTY nodes of it change nothing */
    for (uint32_t i = query - nth; i < min(query - nth + a.team, a.ranges.queries); i++) {
        if (i != query) kvg_widen(row, kvg_row_of(a, i, lane));
    }
    const float factor = a.v_scale ? __fmul_rn(*a.v_scale, a.v_base) : a.v_base;
    const uint32_t round = KVG_DECODE_BATCH * warps; /* pieces of one */
    const uint32_t first_piece = (uint32_t)row.y >> a.piece_log;
    const uint32_t end = max(((uint32_t)row.z + (1u << a.piece_log) - 1) >> a.piece_log, first_piece + 1);
    const uint32_t first_round = first_piece / round, last_round = (end - 1) / round;
    const auto load = [&](uint32_t cta) {
        const float4 *from = a.nodes + ((size_t)cta * a.team + nth) * (dim * 2 + 4);
        return kvg_node_of(__ldcg(from + slice * 64 + lane), __ldcg(from + slice * 64 + KVG_WARP + lane),
                           __ldcg(from + dim * 2 + lane % 4));
    };
    int waiting = 0;
    kvg_slice_node x;
    kvg_wait_for_kernel_before();
#pragma unroll 1
    for (uint32_t r = first_round; r <= last_round; r++) {
        const uint32_t first = (r * warps + warp) * KVG_DECODE_BATCH;
        kvg_slice_node y[KVG_DECODE_BATCH], second[KVG_DECODE_BATCH], third[KVG_DECODE_BATCH], fourth[KVG_DECODE_BATCH];
        uint32_t parts[KVG_DECODE_BATCH]; /* of a piece: those that have keys */
#pragma unroll
        for (int j = 0; j < KVG_DECODE_BATCH; j++) {
            kvg_clear(y[j]);
            parts[j] = 0;
            if (first + j < first_piece || first + j >= end) continue;
            uint32_t level;
            const uint32_t index = ((first + j - first_piece) * a.teams.divisor + team) * a.units.divisor + unit;
            const uint32_t cta = kvg_first_cta(a, index, &level);
            const uint32_t start = (first + j) << a.piece_log, keys = max((uint32_t)row.z, start + 1) - start;
            parts[j] = min(((keys - 1) >> (a.piece_log - level)) + 1, 1u << level);
            y[j] = load(cta);
            if (parts[j] > 1) second[j] = load(cta + 1);
            if (parts[j] > 2) third[j] = load(cta + 2);
            if (parts[j] > 3) fourth[j] = load(cta + 3);
        }
#pragma unroll
        for (int j = 0; j < KVG_DECODE_BATCH; j++) { /* ((0 1) (2 3)) */
            static_assert(KVG_DECODE_LEVELS == 2, "up to four parts");
            if (parts[j] > 1) kvg_merge_nodes(y[j], second[j]);
            if (parts[j] > 3) kvg_merge_nodes(third[j], fourth[j]);
            if (parts[j] > 2) kvg_merge_nodes(y[j], third[j]);
        }
#pragma unroll
        for (int step = 1; step < KVG_DECODE_BATCH; step *= 2) {
#pragma unroll
            for (int j = 0; j < KVG_DECODE_BATCH; j += 2 * step) {
                if (first + j + step < end) kvg_merge_nodes(y[j], y[j + step]);
            }
        }
        x = y[0];
        if (warps > 1) {
            __syncthreads(); /* the round before has been read */
            kvg_put_slice(shared[warp], x, lane);
            for (int step = 1; step < warps; step *= 2) {
                __syncthreads();
                if (warp % (2 * step) == 0 && first + step * KVG_DECODE_BATCH < end) {
                    kvg_merge_nodes(x, kvg_get_slice(shared[warp + step], lane));
                    kvg_put_slice(shared[warp], x, lane);
                }
            }
        }
        if (warp) continue;
        for (uint32_t level = 0; r >> level; level++) { /* round r ends the nodes below the lowest bit of r that is 0 */
            const bool right = r >> level & 1;
            if (!right && r < last_round) break;
            if (!right || r >> level << level <= first_round) continue; /* the other half is absent */
            kvg_slice_node left = kvg_get_slice(stack[--waiting], lane);
            kvg_merge_nodes(left, x);
            x = left;
        }
        if (r < last_round) kvg_put_slice(stack[waiting++], x, lane);
    }
    if (warp == 0) kvg_finish(a, x, factor, query, unit, dim, slice, lane);
}

#endif
