/* The loop in which op decode spends its time: one warp, one run of leaves, whose tiles come whole into one of two
 * stages. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_RUN_TILES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_RUN_TILES_CUH

#include "gpu/attention/few/few_load.cuh"
#include "gpu/attention/few/few_near_scales.cuh"
#include "gpu/attention/few/few_query.cuh"
#include "gpu/attention/few/few_scores.cuh"
#include "gpu/attention/few/few_shape.cuh"
#include "gpu/attention/few/few_values.cuh"

/* Whether it was done: false where scales that were trusted are too far from 1; then nothing of it counts. */
template <class K, class V, kvg_decode_rows ROWS, int QUERIES>
static __device__ __forceinline__ bool kvg_run_tiles(const kvg_decode_args &a, kvg_warp_state<K> (&w)[QUERIES],
                                                     const kvg_decode_run<QUERIES> &run,
                                                     const kvg_lane<K, V, ROWS == KVG_ROWS_DENSE> &at,
                                                     kvg_decode_source<K, V, ROWS> &source,
                                                     const kvg_query_words<K> (&q)[QUERIES])
{
    typedef kvg_decode_shape<K, V, QUERIES> shape;
    constexpr uint32_t STAGE = shape::STAGE, V_CODES = K::CODES_STAGE;
    constexpr uint32_t K_SCALES = V_CODES + V::CODES_STAGE, V_SCALES = K_SCALES + K::SCALES_STAGE;
    constexpr uint32_t PAIRS = V_SCALES + V::SCALES_STAGE;
    constexpr bool APART = kvg_has_leaf_loop<K, V> && ROWS == KVG_ROWS_DENSE, TRUST = kvg_trusts_scales<K, V>;
    const int first_tile = run.first_tile(), tiles = run.tiles(), lane = run.lane;
    const uint32_t both = 2 * run.stages + STAGE;
    uint32_t stage = run.stages;
    const auto copy = [&](int t, bool go, uint32_t to) {
        source.copy_both(a, t, go, to, to + V_CODES, to + K_SCALES, to + V_SCALES, at.k_to, at.v_to, lane);
        kvg_copies_end();
    };
    copy(first_tile, true, stage);
    kvg_start_rows<K>(a, w, q, lane);
    /* Two bits a tile, the next one lowest: something is to be done besides; a stretch, or the run, ends. */
    const bool always = a.cap != 0 || (kvg_can_group<V> && a.v_swizzle);
    const auto special_of = [&](int stretch) {
        const uint32_t besides = always ? ~0u : run.partial(stretch) | source.groups_hidden(stretch);
        const uint32_t ends = 0x8000 | (kvg_decode_run<QUERIES>::two_bits(tiles - 1, stretch) & 0xAAAA);
        return ((besides | besides >> 1) & 0x5555) | ends;
    };
    const int first_stretch = first_tile / KVG_STRETCH_TILES, first_leaf = first_tile / KVG_LEAF_TILES;
    uint32_t special = (special_of(first_stretch) | special_of(first_stretch + 1) << 16)
                       >> 2 * (first_tile % KVG_STRETCH_TILES);
    const auto is_whole = [&] { return (special & 0xFFFF) == 0x8000; }; /* nothing besides; ends where stretches do */
    if constexpr (APART && TRUST) { /* where many scales are far, the first ones are */
        kvg_copies_wait<0>();
        const bool far = is_whole() && kvg_far_scales(stage + K_SCALES, lane);
        __syncwarp(); /* they have been read, by all lanes */
        if (__any_sync(~0u, far)) return false;
    }
    int t = first_tile;
    bool last, ends;
    /* Tile t, which is there; the one after it is asked for in between, or has been. */
    const auto add = [&](auto wide, bool all, uint32_t holes, const auto &between) {
        constexpr bool WIDE = decltype(wide)::value;
        float z[QUERIES][2][4], x[QUERIES][2][4];
        kvg_score_tile<K, V, WIDE>(a, w, at, stage, stage + K_SCALES, z, between);
        kvg_scale_scores(w, z);
        if (__builtin_expect(!all, 0)) {
            __syncwarp(); /* scales that are changed now have been read */
            const kvg_seen<QUERIES> seen = run.seen(t, ROWS == KVG_ROWS_ANY ? holes : source.holes(t));
            kvg_ungroup_values<V>(a, stage + V_SCALES, lane);
            kvg_mask_rows(w, a.cap, seen, lane, z);
            kvg_hide_values<V>(seen.any(), stage + V_CODES, stage + V_SCALES, lane);
        }
        if (!WIDE) kvg_make_pairs<V>(stage + V_SCALES, stage + PAIRS, lane);
        kvg_exponents<K, V>(w[0], z[0], run, t, x[0]);
#pragma unroll
        for (int i = 1; i < QUERIES; i++) kvg_exponents<K, V>(w[i], z[i], run, t, x[i]);
        kvg_add_tile_values<K, V, WIDE>(a.factors, w, at, stage + V_CODES, stage + V_SCALES, stage + PAIRS, x, lane);
    };
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
        if constexpr (K::POWERS || V::POWERS) {
            static_assert(K::POWERS && V::POWERS, "scales of both sides are tested as one");
            constexpr int BYTES = K::SCALES + V::SCALES;
            const bool common = kvg_are_common<BYTES>(stage + K_SCALES, lane) & plain;
            ask();
            bool near = __all_sync(~0u, common);
            if (!near) near = __all_sync(~0u, kvg_are_near<BYTES>(stage + K_SCALES, lane) & plain);
            if (near) add(std::false_type(), true, holes, [] {});
            else add(std::true_type(), plain, holes, [] {});
        } else {
            add(std::false_type(), plain, holes, ask);
        }
        ends = special & 2;
        special >>= 2;
        stage = both - stage;
        t++;
    };
    const auto add_stretch = [&] { /* the next tiles, without tests; whether they needed none */
        uint32_t far = 0;
#pragma unroll 1
        do {
            kvg_copies_wait<0>();
            add(std::false_type(), true, 0, [&] {
                if constexpr (TRUST) far |= kvg_far_scales(stage + K_SCALES, lane);
                copy(t + 1, t + 1 != tiles, both - stage);
            });
            stage = both - stage;
        } while (++t % KVG_STRETCH_TILES);
        special >>= 16;
        last = t == tiles, ends = true;
        return !TRUST || !__any_sync(~0u, far);
    };
    do { /* leaves */
        do { /* stretches */
#pragma unroll 1
            do {
                if (APART && is_whole()) {
                    if (!add_stretch()) {
                        kvg_copies_wait<0>();
                        return false;
                    }
                } else {
                    add_tile();
                }
            } while (!ends);
            const int stretch = (t - 1) / KVG_STRETCH_TILES;
            if (tiles > (stretch + 2) * KVG_STRETCH_TILES) {
                source.look_further(a, stretch + 2, lane);
                special |= special_of(stretch + 2) << 16;
            }
        } while (KVG_LEAF_STRETCHES > 1 && !last && t % KVG_LEAF_TILES);
        kvg_end_leaves<shape::LEVELS>(w, (t - 1) / KVG_LEAF_TILES, first_leaf, last, run.slots, lane);
    } while (!last);
    return true;
}

#endif
