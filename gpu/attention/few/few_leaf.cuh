/* In place of few_pieces.cuh where a call has few leaves: a CTA for each. All tiles of a leaf are asked for at once.
 * Each warp makes the scores of two of them, and then their weights: the largest scores of all tiles say what those
 * are relative to. Then each takes all tiles in turn, for its share of the dims: sums have the order that one warp
 * alone gives them. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_LEAF_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_LEAF_CUH

#include "gpu/attention/few/few_leaf_tile.cuh"
#include "gpu/attention/few/few_load.cuh"
#include "gpu/attention/few/few_query.cuh"

/* Section 7, steps 1 and 2, of all tiles, for heads 2c and 2c + 1: m after the last one. `take(t, m, before)` is given
 * m of tile t, and that of the tile before it. */
template <class K, class V, class TAKE>
static __device__ __forceinline__ void kvg_follow_tops(uint32_t start, int first_tile, int tiles, int lane, float *m,
                                                       const TAKE &take)
{
    typedef kvg_leaf_shape<K, V> shape;
    constexpr float limit = V::ROW_SCALE ? 0.0f : 8.0f;
#pragma unroll 4
    for (int t = first_tile; t < tiles; t++) {
        uint32_t top[2];
        float before[2] = {m[0], m[1]};
        kvg_load_shared<8>(top, start + shape::tops(t) + lane % 4 * 8);
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float x = __uint_as_float(top[h]);
            if (!(__fsub_rn(x, m[h]) <= limit)) m[h] = x;
        }
        take(t, m, before);
    }
}

/* The leaf of a CTA. Tiles are numbered from its first one on. */
template <class K, class V>
static __device__ __forceinline__ void kvg_take_leaf(const kvg_decode_args &a, const kvg_decode_run<1> &run, int warp,
                                                     float *m, kvg_leaf_share<K> &s)
{
    typedef kvg_leaf_shape<K, V> shape;
    const int lane = run.lane, first_tile = run.first_tile(), tiles = run.tiles(), first = 2 * warp;
    const kvg_lane<K, V, false> at(lane);
    kvg_decode_source<K, V, KVG_ROWS_ANY, false> source[2];
    kvg_seen<1> seen[2];
    kvg_warp_state<K> w[1];
    kvg_query_words<K> q[1];
    float z[2][1][2][4], relative[2][2] = {};
    const auto has = [&](int t) { return t >= first_tile && t < tiles; };
    const auto stage_of = [&](int t) { return run.stages + t * shape::STAGE; };
    const auto copy_v = [&](int i) {
        const uint32_t stage = stage_of(first + i);
        source[i].template copy<V, 1>(a, first + i, has(first + i), stage + shape::V_CODES, stage + shape::V_SCALES,
                                      at.v_to, lane);
    };
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
        seen[i] = run.seen(first + i, source[i].holes(first + i));
        source[i].template copy<K, 0>(a, first + i, has(first + i), stage, stage + shape::K_SCALES, at.k_to, lane);
        if constexpr (!shape::TURNS) copy_v(i);
        kvg_copies_end();
    }
    kvg_start_rows<K>(a, w, q, lane);
    kvg_copies_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; i++) source[i].template settle<K, 0>(stage_of(first + i) + shape::K_SCALES, lane);
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t stage = stage_of(first + i);
        if (has(first + i)) {
            uint32_t top[2];
            kvg_score_tile<K, V, false>(a, w, at, stage, stage + shape::K_SCALES, z[i], [] {});
            kvg_scale_scores(w, z[i]);
            if (a.cap != 0 || seen[i].any() != ~0u) kvg_mask_rows(w, a.cap, seen[i], lane, z[i]);
#pragma unroll
            for (int h = 0; h < 2; h++) top[h] = __float_as_uint(kvg_top_of(z[i][0], h));
            if (lane < 4) kvg_store_shared<8>(run.stages + shape::tops(first + i) + lane * 8, top);
        }
        if constexpr (shape::TURNS) {
            __syncwarp(); /* K's codes have been read */
            copy_v(i);
            kvg_copies_end();
        }
    }
    __syncthreads();
    kvg_follow_tops<K, V>(run.stages, first_tile, tiles, lane, m, [&](int t, const float *now, const float *before) {
        if (t / 2 != warp) return;
        uint32_t factor[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const float raised = now[h] < KVG_INF ? kvg_chip_exp2::of(__fsub_rn(before[h], now[h])) : KVG_NAN;
            factor[h] = __float_as_uint(__float_as_uint(now[h]) == __float_as_uint(before[h]) ? 1.0f : raised);
            if (t % 2) relative[1][h] = now[h];
            else relative[0][h] = now[h];
        }
        if (lane < 4) kvg_store_shared<8>(run.stages + shape::factors(t) + lane * 8, factor);
    });
    kvg_copies_wait<0>();
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int t = first + i;
        const uint32_t stage = stage_of(t), scales = stage + shape::V_SCALES;
        const uint32_t weights = run.stages + shape::weights(t) + lane * 16;
        source[i].template settle<V, 1>(scales, lane);
        if (!has(t)) continue;
        __syncwarp();
        kvg_ungroup_values<V>(a, scales, lane);
        if (seen[i].any() != ~0u) kvg_hide_values<V>(seen[i].any(), stage + shape::V_CODES, scales, lane);
        kvg_make_pairs<V>(scales, stage + shape::PAIRS, lane);
        uint32_t b[4], scaled[4]; /* weights as operands */
        const auto operand = kvg_weight_operand<V>;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float p[2];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const float x = __fsub_rn(z[i][0][j / 2][j % 2 * 2 + h], relative[i][h]);
                p[h] = kvg_chip_exp2::of(x, a.factors.by23);
            }
            b[j] = operand(p[0], p[1]);
            if constexpr (V::ROW_SCALE) {
                const float r = kvg_row_scale(scales + (j * 8 + lane / 4) * V::SCALES);
                scaled[j] = operand(__fmul_rn(p[0], r), __fmul_rn(p[1], r));
            }
        }
        kvg_store_shared<16>(weights, b);
        if constexpr (V::ROW_SCALE) kvg_store_shared<16>(weights + KVG_WARP * 16, scaled);
    }
    __syncthreads();
    kvg_weighted_tile<K, V> tile, next;
    tile.load(at, run.stages, first_tile, warp, lane);
#pragma unroll 2
    for (int t = first_tile; t < tiles; t++) {
        if (t + 1 < tiles) next.load(at, run.stages, t + 1, warp, lane);
        tile.add(a, s, at, warp);
        tile = next;
    }
}

/* SHARED, V2_SHARED: bytes of dynamic shared memory, under mma16816.v2 the latter; there for reports, which see a
 * kernel's name. Leaves of 256 have 128 threads: told that a CTA for each multiprocessor will do, ptxas spills none. */
template <class K, class V, int SHARED, int V2_SHARED>
static __global__ void __launch_bounds__(kvg_leaf_threads(KVG_CONTRACT.leaf), KVG_CONTRACT.leaf == 512 ? 0 : 1)
    kvg_decode_leaf(const __grid_constant__ kvg_decode_args a)
{
    if constexpr (!kvg_leaf_shape<K, V>::FITS) return;
    typedef kvg_leaf_share<K> share;
    extern __shared__ __align__(128) uint8_t shared[];
    constexpr uint32_t LEAF = KVG_CONTRACT.leaf;
    const int lane = threadIdx.x % KVG_WARP, warp = kvg_uniform(threadIdx.x / KVG_WARP);
    const uint32_t rest = a.units.into(blockIdx.x), unit = blockIdx.x - rest * a.units.divisor;
    const uint32_t leaf = a.teams.into(rest), query = rest - leaf * a.teams.divisor;
    int4 row = kvg_row_of(a, query, lane);
    row.x = kvg_uniform(row.x), row.y = kvg_uniform(row.y), row.z = kvg_uniform(row.z);
    kvg_start_kernel_after();
    const uint32_t first = ((uint32_t)row.y / LEAF + leaf) * LEAF;
    const uint32_t begin = max((uint32_t)row.y, first), end = min((uint32_t)row.z, first + LEAF);
    if (leaf && begin >= end) return; /* the row has no such leaf */
    const uint32_t start = (uint32_t)__cvta_generic_to_shared(shared);
    const kvg_decode_run<1> run = {query, unit, start, 0, row.x, row.z, (int)first, (int)begin, (int)end, lane, {}};
    float m[2] = {KVG_EMPTY, KVG_EMPTY};
    share s = {};
    if (begin < end) kvg_take_leaf<K, V>(a, run, warp, m, s);
#pragma unroll
    for (int i = 0; i < share::BLOCKS; i++) {
        constexpr int ALL = K::DIM / 4, SUMS = share::SUMS;
        if (share::block(warp, i) >= share::ALL) continue;
        kvg_node<SUMS> x = {{}, {m[0], m[1]}, {s.l[0], s.l[1]}};
#pragma unroll
        for (int j = 0; j < SUMS; j++) x.o[j] = s.o[i][j];
        kvg_put_share<ALL>(a.nodes + (size_t)blockIdx.x * (kvg_node_bytes<ALL>() / 16), share::first(warp, i), x, lane);
    }
}

#endif
