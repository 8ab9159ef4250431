/* One warp, one run of leaves (docs/spec/decode-contract.md sections 3 to 8): which of the loops takes it. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_RUN_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_RUN_CUH

#include "gpu/attention/few/few_run_sides.cuh"
#include "gpu/attention/few/few_run_tiles.cuh"

/* Whether it was done (few_run_tiles.cuh). */
template <class K, class V, kvg_decode_rows ROWS, int QUERIES>
static __device__ __forceinline__ bool kvg_run_rows(const kvg_decode_args &a, kvg_warp_state<K> (&w)[QUERIES],
                                                    const kvg_decode_run<QUERIES> &run)
{
    kvg_decode_source<K, V, ROWS> source;
    const int32_t *table = a.table + (size_t)run.sequence * a.width;
    source.open(a, table, a.chunks.into(run.unit), run.first, run.first_tile(), run.keys, run.lane);
    const kvg_lane<K, V, ROWS == KVG_ROWS_DENSE> at(run.lane);
    kvg_query_words<K> q[QUERIES];
    kvg_load_q<K>(a, run.query, run.unit, run.lane, q);
#pragma unroll
    for (int i = 1; i < QUERIES; i++) { /* past the last one: the last one again */
        kvg_load_q<K>(a, min(run.query + i, a.ranges.queries - 1), run.unit, run.lane, q + i);
    }
    source.look_up(a);
    source.find(a, run.first_tile(), run.lane);
    if constexpr (!kvg_decode_shape<K, V, QUERIES>::SPLIT) return kvg_run_tiles<K, V>(a, w, run, at, source, q);
    else kvg_run_sides<K, V>(a, w, run, at, source, q);
    return true;
}

template <class K, class V, int QUERIES>
static __device__ __forceinline__ void kvg_run_leaves(const kvg_decode_args &a, kvg_warp_state<K> (&w)[QUERIES],
                                                      const kvg_decode_run<QUERIES> &run)
{
    /* What is written here, and how, decides the order of the code in memory. Where the dense loop is first there,
     * nvfp4 and mx16 take 0.5 % less than where it is second, and 3 % less than where it is last. */
    constexpr bool DENSE = kvg_can_be_dense<K, V> && !kvg_decode_shape<K, V, QUERIES>::SPLIT;
    constexpr bool TRUST = kvg_trusts_scales<K, V>;
    if constexpr (TRUST) {
        if (a.rows_lie == KVG_ROWS_DENSE && kvg_run_rows<K, V, KVG_ROWS_DENSE>(a, w, run)) return;
    }
    if constexpr (DENSE && !TRUST) {
        switch (a.rows_lie) {
        case KVG_ROWS_DENSE: kvg_run_rows<K, V, KVG_ROWS_DENSE>(a, w, run); break;
        case KVG_ROWS_PAGES: kvg_run_rows<K, V, KVG_ROWS_PAGES>(a, w, run); break;
        case KVG_ROWS_TOGETHER: kvg_run_rows<K, V, KVG_ROWS_TOGETHER>(a, w, run); break;
        default: kvg_run_rows<K, V, KVG_ROWS_ANY>(a, w, run);
        }
    } else if (a.rows_lie >= KVG_ROWS_TOGETHER) {
        kvg_run_rows<K, V, KVG_ROWS_TOGETHER>(a, w, run);
    } else if (a.rows_lie == KVG_ROWS_PAGES) {
        kvg_run_rows<K, V, KVG_ROWS_PAGES>(a, w, run);
    } else {
        kvg_run_rows<K, V, KVG_ROWS_ANY>(a, w, run);
    }
}

#endif
