/* One warp, one run of leaves (docs/decode-contract.md sections 3 to 8): the loop in which op decode spends its
 * time. */
#ifndef KVG_GPU_DECODE_RUN_CUH
#define KVG_GPU_DECODE_RUN_CUH

#include "gpu/decode_load.cuh"
#include "gpu/decode_query.cuh"
#include "gpu/decode_scores.cuh"
#include "gpu/decode_shape.cuh"
#include "gpu/decode_values.cuh"

/* Stages of both sides of a tile. */
template <class K, class V, kvg_decode_rows ROWS>
static __device__ __forceinline__ void kvg_run_tiles(const kvg_decode_args &a, kvg_warp_state<K> &w,
                                                     const kvg_decode_run &run,
                                                     const kvg_lane<K, V, ROWS == KVG_ROWS_DENSE> &at,
                                                     kvg_decode_source<K, V, ROWS> &source,
                                                     const kvg_query_words<K> &q)
{
    constexpr uint32_t STAGE = kvg_decode_shape<K, V>::STAGE, V_CODES = K::CODES_STAGE;
    constexpr uint32_t K_SCALES = V_CODES + V::CODES_STAGE, V_SCALES = K_SCALES + K::SCALES_STAGE;
    constexpr uint32_t PAIRS = V_SCALES + V::SCALES_STAGE;
    const int first_tile = run.first_tile(), tiles = run.tiles(), lane = run.lane;
    const auto copy = [&](int t, bool go, uint32_t to) {
        source.copy_both(a, t, go, to, to + V_CODES, to + K_SCALES, to + V_SCALES, at.k_to, at.v_to, lane);
        kvg_copies_end();
    };
    copy(first_tile, true, run.stages);
    kvg_convert_query<K>(a, q, lane, w.q, w.factor);
    kvg_clear_leaf(w);
    /* Two bits a tile, the next one lowest: something is to be done besides; a leaf, or the run, ends. */
    const bool always = a.cap != 0 || (kvg_can_group<V> && a.v_swizzle);
    const auto special_of = [&](int leaf) {
        const uint32_t besides = always ? ~0u : run.partial(leaf) | source.groups_hidden(leaf);
        const uint32_t ends = 0x8000 | (kvg_decode_run::two_bits(tiles - 1, leaf) & 0xAAAA);
        return ((besides | besides >> 1) & 0x5555) | ends;
    };
    const int first_leaf = first_tile / KVG_LEAF_TILES;
    uint32_t special = (special_of(first_leaf) | special_of(first_leaf + 1) << 16) >> 2 * (first_tile % KVG_LEAF_TILES);
    const uint32_t both = 2 * run.stages + STAGE;
    uint32_t stage = run.stages;
    int t = first_tile;
    bool last, ends;
    const auto add_tile = [&] {
        last = t + 1 == tiles;
        kvg_copies_wait<0>();
        source.template settle<K, 0>(stage + K_SCALES, lane);
        source.template settle<V, 1>(stage + V_SCALES, lane);
        const uint32_t holes = ROWS == KVG_ROWS_ANY ? source.holes(t) : 0; /* in `special` else */
        const bool plain = !(special & 1 | holes);
        const auto ask = [&] {
            source.find(a, t + 1, lane);
            copy(t + 1, !last, both - stage);
        };
        const auto add = [&](auto wide, bool all, const auto &between) {
            constexpr bool WIDE = decltype(wide)::value;
            float z[2][4], x[2][4];
            kvg_score_tile<K, V, WIDE>(a, w, at, stage, stage + K_SCALES, z, between);
            kvg_scale_scores(w, z);
            if (__builtin_expect(!all, 0)) {
                __syncwarp(); /* scales that are changed now have been read */
                const uint32_t seen = run.seen(t, ROWS == KVG_ROWS_ANY ? holes : source.holes(t));
                kvg_ungroup_values<V>(a, stage + V_SCALES, lane);
                kvg_mask_scores(w, a.cap, seen, lane, z);
                kvg_hide_values<V>(seen, stage + V_CODES, stage + V_SCALES, lane);
            }
            if (!WIDE) kvg_make_pairs<V>(stage + V_SCALES, stage + PAIRS, lane);
            kvg_exponents<K, V>(w, z, run, t, x);
            kvg_add_tile_values<K, V, WIDE>(a.factors, w, at, stage + V_CODES, stage + V_SCALES, stage + PAIRS, x,
                                            lane);
        };
        if constexpr (K::POWERS || V::POWERS) {
            static_assert(K::POWERS && V::POWERS, "scales of both sides are tested as one");
            constexpr int BYTES = K::SCALES + V::SCALES;
            const bool common = kvg_are_common<BYTES>(stage + K_SCALES, lane) & plain;
            ask();
            bool near = __all_sync(~0u, common);
            if (!near) near = __all_sync(~0u, kvg_are_near<BYTES>(stage + K_SCALES, lane) & plain);
            if (near) add(std::false_type(), true, [] {});
            else add(std::true_type(), plain, [] {});
        } else if (K::BITS == 4 && ROWS == KVG_ROWS_DENSE && plain) { /* a body without the branch */
            add(std::false_type(), true, ask);
        } else {
            add(std::false_type(), plain, ask);
        }
        ends = special & 2;
        special >>= 2;
        stage = both - stage;
        t++;
    };
    do { /* leaves */
#pragma unroll 1
        do add_tile();
        while (!ends);
        const int leaf = (t - 1) / KVG_LEAF_TILES;
        if (tiles > (leaf + 2) * KVG_LEAF_TILES) {
            source.look_further(a, leaf + 2, lane);
            special |= special_of(leaf + 2) << 16;
        }
        kvg_end_leaf<kvg_decode_shape<K, V>::LEVELS>(w, leaf, first_leaf, last, run.slots, lane);
    } while (!last);
}

/* Stages of one side: K and V take turns. */
template <class K, class V, kvg_decode_rows ROWS>
static __device__ __forceinline__ void kvg_run_sides(const kvg_decode_args &a, kvg_warp_state<K> &w,
                                                     const kvg_decode_run &run,
                                                     const kvg_lane<K, V, ROWS == KVG_ROWS_DENSE> &at,
                                                     kvg_decode_source<K, V, ROWS> &source,
                                                     const kvg_query_words<K> &q)
{
    static_assert(kvg_decode_shape<K, V>::LEVELS == 1, "two leaves of 16 bits in one word");
    static_assert(K::SCALES != 2 && V::SCALES != 2 && !V::PAIRS_STAGE && !K::POWERS && !V::POWERS, "for large tiles");
    constexpr int STAGES = kvg_decode_shape<K, V>::STAGES, AHEAD = STAGES - 1;
    const int first_tile = run.first_tile(), tiles = run.tiles(), lane = run.lane;
    uint32_t stage[STAGES];
#pragma unroll
    for (int i = 0; i < STAGES; i++) stage[i] = run.stages + i * kvg_decode_shape<K, V>::STAGE;
    const auto copy_k = [&](int t, bool go, uint32_t to) {
        source.template copy<K, 0>(a, t, go, to, to + K::CODES_STAGE, at.k_to, lane);
        kvg_copies_end();
    };
    const auto copy_v = [&](int t, bool go, uint32_t to) {
        source.template copy<V, 1>(a, t, go, to, to + V::CODES_STAGE, at.v_to, lane);
        kvg_copies_end();
    };
    const auto turn = [&] {
        const uint32_t done = stage[0];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) stage[i] = stage[i + 1];
        stage[AHEAD] = done;
    };
    copy_k(first_tile, true, stage[0]);
    if (AHEAD == 2) copy_v(first_tile, true, stage[1]);
    kvg_convert_query<K>(a, q, lane, w.q, w.factor);
    kvg_clear_leaf(w);
    const auto special_of = [&](int leaf) { return run.partial(leaf) | source.groups_hidden(leaf); };
    const uint32_t special = a.cap != 0 ? ~0u : special_of(0) | special_of(1) << 16;
#pragma unroll 1
    for (int t = first_tile; t < tiles; t++) {
        const bool last = t + 1 == tiles;
        const uint32_t holes = source.holes(t);
        const bool plain = !(special >> 2 * t & 3) && !holes;
        const uint32_t seen = plain ? ~0u : run.seen(t, holes);
        float z[2][4], x[2][4];
        kvg_copies_wait<AHEAD - 1>();
        if (AHEAD == 2) source.find(a, t + 1, lane), copy_k(t + 1, !last, stage[AHEAD]);
        else copy_v(t, true, stage[AHEAD]);
        kvg_score_tile<K, V, false>(a, w, at, stage[0], stage[0] + K::CODES_STAGE, z, [] {});
        kvg_scale_scores(w, z);
        if (!plain) kvg_mask_scores(w, a.cap, seen, lane, z);
        kvg_exponents<K, V>(w, z, run, t, x);
        turn();
        kvg_copies_wait<AHEAD - 1>();
        kvg_ungroup_values<V>(a, stage[0] + V::CODES_STAGE, lane);
        if (AHEAD == 2) copy_v(t + 1, !last, stage[AHEAD]);
        else source.find(a, t + 1, lane), copy_k(t + 1, !last, stage[AHEAD]);
        if (seen != ~0u) kvg_hide_values<V>(seen, stage[0], stage[0] + V::CODES_STAGE, lane);
        kvg_add_tile_values<K, V, false>(a.factors, w, at, stage[0], stage[0] + V::CODES_STAGE, 0, x, lane);
        turn();
        run.template end_tile<kvg_decode_shape<K, V>::LEVELS>(w, t, last);
    }
}

template <class K, class V, kvg_decode_rows ROWS>
static __device__ __forceinline__ void kvg_run_rows(const kvg_decode_args &a, kvg_warp_state<K> &w,
                                                    const kvg_decode_run &run)
{
    kvg_decode_source<K, V, ROWS> source;
    const int32_t *table = a.table + (size_t)run.sequence * a.width;
    source.open(a, table, a.chunks.into(run.unit), run.first, run.first_tile(), run.keys, run.lane);
    const kvg_lane<K, V, ROWS == KVG_ROWS_DENSE> at(run.lane);
    kvg_query_words<K> q;
    kvg_load_q<K>(a, run.query, run.unit, run.lane, &q);
    source.look_up(a);
    source.find(a, run.first_tile(), run.lane);
    if constexpr (kvg_decode_shape<K, V>::SPLIT) kvg_run_sides<K, V>(a, w, run, at, source, q);
    else kvg_run_tiles<K, V>(a, w, run, at, source, q);
}

template <class K, class V>
static __device__ __forceinline__ void kvg_run_leaves(const kvg_decode_args &a, kvg_warp_state<K> &w,
                                                      const kvg_decode_run &run)
{
    /* The order is that of the code in memory, as ptxas leaves it: with the dense loop last nvfp4 and mx16 take one or
     * two per cent longer. */
    constexpr bool DENSE = kvg_can_be_dense<K, V>;
    const bool together = DENSE ? a.rows_lie == KVG_ROWS_TOGETHER : a.rows_lie >= KVG_ROWS_TOGETHER;
    if (together) return kvg_run_rows<K, V, KVG_ROWS_TOGETHER>(a, w, run);
    if (a.rows_lie == KVG_ROWS_PAGES) return kvg_run_rows<K, V, KVG_ROWS_PAGES>(a, w, run);
    if constexpr (DENSE) {
        if (a.rows_lie == KVG_ROWS_DENSE) return kvg_run_rows<K, V, KVG_ROWS_DENSE>(a, w, run);
    }
    kvg_run_rows<K, V, KVG_ROWS_ANY>(a, w, run);
}

#endif
