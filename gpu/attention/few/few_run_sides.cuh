/* The same for tiles that are large: one warp, one run of leaves, where K and V take turns in stages of one side. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_RUN_SIDES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_RUN_SIDES_CUH

#include "gpu/attention/few/few_load.cuh"
#include "gpu/attention/few/few_query.cuh"
#include "gpu/attention/few/few_scores.cuh"
#include "gpu/attention/few/few_shape.cuh"
#include "gpu/attention/few/few_values.cuh"

template <class K, class V, kvg_decode_rows ROWS, int QUERIES>
static __device__ __forceinline__ void kvg_run_sides(const kvg_decode_args &a, kvg_warp_state<K> (&w)[QUERIES],
                                                     const kvg_decode_run<QUERIES> &run,
                                                     const kvg_lane<K, V, ROWS == KVG_ROWS_DENSE> &at,
                                                     kvg_decode_source<K, V, ROWS> &source,
                                                     const kvg_query_words<K> (&q)[QUERIES])
{
    typedef kvg_decode_shape<K, V, QUERIES> shape;
    static_assert(shape::LEVELS == 1, "two stretches of 16 bits in one word");
    static_assert(K::SCALES != 2 && V::SCALES != 2 && !V::PAIRS_STAGE, "for large tiles");
    constexpr bool WIDE = K::POWERS || V::POWERS; /* takes any scales */
    constexpr int STAGES = shape::STAGES, AHEAD = STAGES - 1, LEFT = AHEAD == 2 ? 1 : 0;
    const int first_tile = run.first_tile(), tiles = run.tiles(), lane = run.lane;
    uint32_t stage[STAGES];
#pragma unroll
    for (int i = 0; i < STAGES; i++) stage[i] = run.stages + i * shape::STAGE;
    const auto copy_k = [&](int t, bool go, uint32_t to) {
        source.template copy<K, 0>(a, t, go, to, to + K::CODES_STAGE, at.k_to, lane);
        kvg_copies_end();
    };
    const auto copy_v = [&](int t, bool go, uint32_t to) {
        source.template copy<V, 1>(a, t, go, to, to + V::CODES_STAGE, at.v_to, lane);
        kvg_copies_end();
    };
    const auto find_k = [&](int t, bool go, uint32_t to) {
        source.find(a, t, lane);
        copy_k(t, go, to);
    };
    const auto turn = [&] {
        const uint32_t done = stage[0];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) stage[i] = stage[i + 1];
        stage[AHEAD] = done;
    };
    copy_k(first_tile, true, stage[0]);
    if (AHEAD == 2) copy_v(first_tile, true, stage[1]);
    kvg_start_rows<K>(a, w, q, lane);
    const auto special_of = [&](int stretch) { return run.partial(stretch) | source.groups_hidden(stretch); };
    const uint32_t special = a.cap != 0 ? ~0u : special_of(0) | special_of(1) << 16;
#pragma unroll 1
    for (int t = first_tile; t < tiles; t++) {
        const bool last = t + 1 == tiles;
        const uint32_t holes = source.holes(t);
        const bool plain = !(special >> 2 * t & 3) && !holes;
        const kvg_seen<QUERIES> seen = plain ? kvg_all_seen<QUERIES>() : run.seen(t, holes);
        float z[QUERIES][2][4], x[QUERIES][2][4];
        kvg_copies_wait<LEFT>();
        if (AHEAD == 2) find_k(t + 1, !last, stage[AHEAD]);
        if (AHEAD == 1) copy_v(t, true, stage[AHEAD]);
        kvg_score_tile<K, V, WIDE>(a, w, at, stage[0], stage[0] + K::CODES_STAGE, z, [] {});
        kvg_scale_scores(w, z);
        if (!plain) kvg_mask_rows(w, a.cap, seen, lane, z);
        kvg_exponents<K, V>(w[0], z[0], run, t, x[0]);
#pragma unroll
        for (int i = 1; i < QUERIES; i++) kvg_exponents<K, V>(w[i], z[i], run, t, x[i]);
        turn();
        if (AHEAD == 0) {
            __syncwarp(); /* the only stage has been read */
            copy_v(t, true, stage[0]);
        }
        kvg_copies_wait<LEFT>();
        kvg_ungroup_values<V>(a, stage[0] + V::CODES_STAGE, lane);
        if (AHEAD == 2) copy_v(t + 1, !last, stage[AHEAD]);
        if (AHEAD == 1) find_k(t + 1, !last, stage[AHEAD]);
        if (seen.any() != ~0u) kvg_hide_values<V>(seen.any(), stage[0], stage[0] + V::CODES_STAGE, lane);
        kvg_add_tile_values<K, V, WIDE>(a.factors, w, at, stage[0], stage[0] + V::CODES_STAGE, 0, x, lane);
        turn();
        if (AHEAD == 0) {
            __syncwarp();
            find_k(t + 1, !last, stage[AHEAD]);
        }
        if ((uint32_t)t % KVG_LEAF_TILES == KVG_LEAF_TILES - 1 || last) {
            kvg_end_leaves<1>(w, t / KVG_LEAF_TILES, first_tile / KVG_LEAF_TILES, last, run.slots, lane);
        }
    }
}

#endif
