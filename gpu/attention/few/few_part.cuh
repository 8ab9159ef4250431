/* What a CTA takes: a part of a piece, and the keys that its query tokens see. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_PART_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_PART_CUH

#include "gpu/attention/few/few_plan.h"
#include "gpu/attention/shared/decode_args.cuh"

enum {
    KVG_STRETCH_TILES = KVG_DECODE_STRETCH / KVG_TILE,
    KVG_LEAF_STRETCHES = KVG_CONTRACT.leaf / KVG_DECODE_STRETCH,
};

/* Of a CTA that has a leaf: a warp for two tiles of it. */
static __host__ __device__ constexpr uint32_t kvg_leaf_threads(uint32_t leaf) { return leaf / KVG_TILE / 2 * KVG_WARP; }

/* A CTA's part of a piece: part `part` of 2^level. Pieces are numbered [pieces of a row, teams, units]. */
struct kvg_decode_part {
    uint32_t piece, level, part;
};
static __device__ kvg_decode_part kvg_part_of(const kvg_decode_args &a, uint32_t cta)
{
    uint32_t before = 0, level = 0;
    for (; cta >= a.ctas[level]; level++) cta -= a.ctas[level], before += a.ctas[level] >> level;
    return {before + (cta >> level), level, cta & ((1u << level) - 1)};
}
/* The CTA that has its first part, and the level. */
static __device__ uint32_t kvg_first_cta(const kvg_decode_args &a, uint32_t piece, uint32_t *level)
{
    uint32_t before = 0;
    for (*level = 0; piece >= a.ctas[*level] >> *level; ++*level) {
        piece -= a.ctas[*level] >> *level, before += a.ctas[*level];
    }
    return before + (piece << *level);
}
static_assert(sizeof(kvg_decode_args::ctas) == (KVG_DECODE_LEVELS + 1) * sizeof(uint32_t), "a count for each level");

/* From lane 0, so that the compiler knows that no loop over them parts the lanes. */
static __device__ __forceinline__ int kvg_uniform(int x)
{
    return __shfl_sync(~0u, x, 0);
}

/* What query `query` sees: for a few sequences the warp finds it itself, which is faster than a kernel before. */
static __device__ int4 kvg_row_of(const kvg_decode_args &a, uint32_t query, int lane)
{
    if (a.ranges.sequences <= KVG_DECODE_FEW) return kvg_decode_range_of(a.ranges, query, lane);
    kvg_wait_for_kernel_before();
    return a.ranges.rows[query];
}

/* What query tokens of one sequence see: `row`, and another one, which may be of another sequence. */
static __device__ __forceinline__ void kvg_widen(int4 &row, const int4 &other)
{
    if (other.x != row.x || other.y >= other.z) return;
    row = row.y < row.z ? make_int4(row.x, min(row.y, other.y), max(row.z, other.z), 0) : other;
}

#endif
