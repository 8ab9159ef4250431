/* In place of decode_pieces.cuh where a call has few leaves: a CTA for each. All tiles of a leaf are asked for at once.
 * Each of the four warps makes the scores of two of them, and leaves them in shared memory. Then each takes the weights
 * of all eight in turn, for its blocks of 32 dims: sums have the order that one warp alone gives them. */
#ifndef KVG_GPU_DECODE_DECODE_LEAF_CUH
#define KVG_GPU_DECODE_DECODE_LEAF_CUH

#include "gpu/decode/decode_leaf_tile.cuh"
#include "gpu/decode/decode_load.cuh"
#include "gpu/decode/decode_query.cuh"

/* The leaf of a CTA: all of m and l, and the warp's blocks of o. */
template <class K, class V>
static __device__ __forceinline__ void kvg_take_leaf(const kvg_decode_args &a, const kvg_decode_run<1> &run, int warp,
                                                     kvg_warp_state<kvg_leaf_share<K>> &s)
{
    typedef kvg_leaf_shape<K, V> shape;
    const int lane = run.lane, first_tile = run.first_tile(), tiles = run.tiles(), first = 2 * warp;
    const kvg_lane<K, V, false> at(lane);
    kvg_decode_source<K, V, KVG_ROWS_ANY, false> source[2];
    uint32_t holes[2];
    kvg_warp_state<K> w[1];
    kvg_query_words<K> q[1];
    const auto has = [&](int t) { return t >= first_tile && t < tiles; };
    const auto stage_of = [&](int t) { return run.stages + t * shape::STAGE; };
#pragma unroll
    for (int i = 0; i < 2; i++) {
        source[i].open(a, a.table + (size_t)run.sequence * a.width, a.chunks.into(run.unit), run.first, first + i,
                       run.keys, lane);
    }
    kvg_load_q<K>(a, run.query, run.unit, lane, q);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t stage = stage_of(first + i);
        source[i].find(a, first + i, lane);
        holes[i] = source[i].holes(first + i);
        source[i].copy_both(a, first + i, has(first + i), stage, stage + shape::V_CODES, stage + shape::K_SCALES,
                            stage + shape::V_SCALES, at.k_to, at.v_to, lane);
        kvg_copies_end();
    }
    kvg_start_rows<K>(a, w, q, lane);
    kvg_copies_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        source[i].template settle<K, 0>(stage_of(first + i) + shape::K_SCALES, lane);
        source[i].template settle<V, 1>(stage_of(first + i) + shape::V_SCALES, lane);
    }
#pragma unroll 1
    for (int t = first; t < first + 2; t++) {
        if (!has(t)) continue;
        const uint32_t stage = stage_of(t);
        float z[1][2][4];
        kvg_score_tile<K, V, false>(a, w, at, stage, stage + shape::K_SCALES, z, [] {});
        kvg_scale_scores(w, z);
        const kvg_seen<1> seen = run.seen(t, t == first ? holes[0] : holes[1]);
        kvg_ungroup_values<V>(a, stage + shape::V_SCALES, lane);
        if (a.cap != 0 || seen.any() != ~0u) {
            __syncwarp(); /* scales that are changed now have been read */
            kvg_mask_rows(w, a.cap, seen, lane, z);
            kvg_hide_values<V>(seen.any(), stage + shape::V_CODES, stage + shape::V_SCALES, lane);
        }
        kvg_make_pairs<V>(stage + shape::V_SCALES, stage + shape::PAIRS, lane);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            kvg_store_shared_f32(run.slots + (2 * t + n) * shape::HALF_SCORES + lane * 16, z[0][n][0], z[0][n][1],
                                 z[0][n][2], z[0][n][3]);
        }
    }
    __syncthreads();
#pragma unroll 1
    for (int t = first_tile; t < tiles; t++) kvg_add_scored_tile<K, V>(a, s, at, run, t, warp);
    s.node.l[0] = s.l[0], s.node.l[1] = s.l[1];
}

/* SHARED: bytes of dynamic shared memory, for reports, which see a kernel's name. */
template <class K, class V, int SHARED>
static __global__ void __launch_bounds__(KVG_WARP *KVG_DECODE_WARPS)
    kvg_decode_leaf(const __grid_constant__ kvg_decode_args a)
{
    typedef kvg_leaf_shape<K, V> shape;
    typedef kvg_leaf_share<K> share;
    extern __shared__ __align__(128) uint8_t shared[];
    const int lane = threadIdx.x % KVG_WARP, warp = kvg_uniform(threadIdx.x / KVG_WARP);
    const uint32_t rest = a.units.into(blockIdx.x), unit = blockIdx.x - rest * a.units.divisor;
    const uint32_t leaf = a.teams.into(rest), query = rest - leaf * a.teams.divisor;
    int4 row = kvg_row_of(a, query, lane);
    row.x = kvg_uniform(row.x), row.y = kvg_uniform(row.y), row.z = kvg_uniform(row.z);
    kvg_start_kernel_after();
    const uint32_t first = ((uint32_t)row.y / KVG_DECODE_LEAF + leaf) * KVG_DECODE_LEAF;
    const uint32_t begin = max((uint32_t)row.y, first), end = min((uint32_t)row.z, first + KVG_DECODE_LEAF);
    if (leaf && begin >= end) return; /* the row has no such leaf */
    const uint32_t start = (uint32_t)__cvta_generic_to_shared(shared);
    const kvg_decode_run<1> run = {query, unit, start, start + KVG_LEAF_TILES * shape::STAGE, row.x, row.z,
                                   (int)first, (int)begin, (int)end, lane, {}};
    kvg_warp_state<share> s;
    kvg_clear_leaf(s);
    if (begin < end) kvg_take_leaf<K, V>(a, run, warp, s);
#pragma unroll
    for (int mine = 0; mine < share::MINE; mine++) {
        constexpr int ALL = K::DIM / 4;
        const int block = warp + mine * KVG_DECODE_WARPS;
        if (block >= share::BLOCKS) continue;
        kvg_node<8> x = {{}, {s.node.m[0], s.node.m[1]}, {s.node.l[0], s.node.l[1]}};
#pragma unroll
        for (int i = 0; i < 8; i++) x.o[i] = s.node.o[8 * mine + i];
        kvg_put_share<ALL>(a.nodes + (size_t)blockIdx.x * (kvg_node_bytes<ALL>() / 16), 8 * block, x, lane);
    }
}

#endif
