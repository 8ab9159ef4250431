/* How a run of leaves is cut into tiles and ends, and where a warp keeps them. */
#ifndef KVG_GPU_DECODE_DECODE_SHAPE_CUH
#define KVG_GPU_DECODE_DECODE_SHAPE_CUH

#include "gpu/decode/decode_lane.cuh"

/* Chips with 100 KiB of shared memory, of which a CTA has 99; the others have 228 and 227, sm_80 164 and 163 (CUDA
 * Programming Guide, "Technical Specifications per Compute Capability"). KVG_ALL_CHIPS_SMALL is for tests. */
constexpr bool kvg_is_small_chip(int sm)
{
#ifdef KVG_ALL_CHIPS_SMALL
    return sm > 0;
#else
    return sm == 86 || sm == 89 || sm >= 120;
#endif
}
#ifdef __CUDA_ARCH__ /* of the code that is being made */
constexpr bool KVG_SMALL_CHIP = kvg_is_small_chip(__CUDA_ARCH__ / 10);
#else
constexpr bool KVG_SMALL_CHIP = false; /* the host asks for both */
#endif

/* How a warp's stages and a multiprocessor's memory are shared out. Where tiles of both sides are large, or too large
 * for the chip, a stage holds one side of a tile, and K's and V's take turns. */
template <class K, class V, bool SMALL = KVG_SMALL_CHIP> struct kvg_decode_shape {
    static constexpr int MEMORY = (SMALL ? 100 : 228) * 1024, OF_CTA = MEMORY - 1024; /* a CTA takes 1 KiB on top */
    static constexpr int K_STAGE = K::CODES_STAGE + K::SCALES_STAGE, V_STAGE = V::CODES_STAGE + V::SCALES_STAGE;
    static constexpr int BOTH = K_STAGE + V_STAGE, NODE = kvg_node_bytes<K::DIM / 4>();
    static constexpr int fit(int stage) { return (OF_CTA / KVG_DECODE_WARPS - NODE) / stage; }
    static constexpr bool SPLIT = BOTH > 10000 || fit(BOTH + V::PAIRS_STAGE) < 2;
    static constexpr int STAGE = !SPLIT ? BOTH + V::PAIRS_STAGE : K_STAGE > V_STAGE ? K_STAGE : V_STAGE;
    static constexpr int BEST = SPLIT && K::DIM == 128 ? 3 : 2, STAGES = fit(STAGE) < BEST ? fit(STAGE) : BEST;
    /* A lane has 168 registers with 12 warps on a multiprocessor, 255 with 8. */
    static constexpr int MOST = K::DIM == 256 || BOTH > 5000 ? 2 : 3;
    static constexpr int shared_with(int levels) { return KVG_DECODE_WARPS * (STAGES * STAGE + levels * NODE); }
    static constexpr int ctas_with(int levels)
    {
        const int most = MEMORY / (shared_with(levels) + 1024);
        return most < MOST ? most : MOST;
    }
    /* Runs as long as they cost no CTA. */
    static constexpr int MOST_LEVELS = KVG_DECODE_LEVELS;
    static constexpr bool LONG = ctas_with(MOST_LEVELS) == ctas_with(1);
    static constexpr int LEVELS = !SPLIT && LONG ? MOST_LEVELS : 1;
    static constexpr int SHARED = shared_with(LEVELS), CTAS = ctas_with(LEVELS);
    static_assert(CTAS >= 1, "a multiprocessor must hold a CTA");
    static_assert(STAGE % 128 == 0, "offsets in a stage are changed by xor");
};

/* Positions of a tile that the row sees, as bits; keys: from ... to - 1. */
static __device__ __forceinline__ uint32_t kvg_seen(int from, int to, uint32_t holes)
{
    const uint32_t before = from > 0 ? (1u << from) - 1 : 0, past = to < KVG_TILE ? ~0u << to : 0;
    return ~(before | past | holes);
}

template <class K> static __device__ __forceinline__ void kvg_clear_leaf(kvg_warp_state<K> &w)
{
    kvg_clear(w.node);
    w.l[0] = w.l[1] = w.l[2] = w.l[3] = 0;
}

/* After leaf j of a run that has leaves from `first` on: the bits of j are the levels whose left node waits in a slot,
 * if there is one. */
template <int LEVELS, class K>
static __device__ void kvg_end_leaf(kvg_warp_state<K> &w, int j, int first, bool last, uint32_t slots, int lane)
{
    constexpr uint32_t NODE = kvg_node_bytes<K::DIM / 4>();
    w.node.l[0] = w.l[0], w.node.l[1] = w.l[1];
#pragma unroll 1
    for (int level = 0; level < LEVELS; level++) {
        if (j >> level & 1) {
            if (j >> level << level > first) kvg_merge_shared(slots + level * NODE, w.node, lane);
        } else if (!last) {
            kvg_put_shared(slots + level * NODE, w.node, lane);
            __syncwarp();
            break;
        }
    }
    if (!last) kvg_clear_leaf(w);
}

/* A run from position `first` on: keys begin ... end - 1 of it, at least one. Tile t is positions first + 32 t on. */
struct kvg_decode_run {
    uint32_t query, unit, stages, slots; /* the last two: of the warp's shared memory */
    int sequence, keys, first, begin, end, lane;

    __device__ int first_tile() const { return (begin - first) / KVG_TILE; }
    __device__ int tiles() const { return (end - first + KVG_TILE - 1) / KVG_TILE; }
    __device__ uint32_t seen(int t, uint32_t holes) const
    {
        return kvg_seen(begin - first - t * KVG_TILE, end - first - t * KVG_TILE, holes);
    }
    /* Two bits for tile t, of those of leaf `leaf`; 0 for others. */
    static __device__ uint32_t two_bits(int t, int leaf)
    {
        return t / KVG_LEAF_TILES == leaf ? 3u << 2 * (t % KVG_LEAF_TILES) : 0;
    }
    /* The tiles of a leaf of which the row does not see all, for its ends alone. */
    __device__ uint32_t partial(int leaf) const
    {
        const uint32_t low = begin % KVG_TILE ? two_bits(first_tile(), leaf) : 0;
        return low | (end % KVG_TILE ? two_bits(tiles() - 1, leaf) : 0);
    }
    __device__ bool is_fresh(int t) const { return (uint32_t)t % KVG_LEAF_TILES == 0 || t == first_tile(); }
    template <int LEVELS, class K>
    __device__ __forceinline__ void end_tile(kvg_warp_state<K> &w, int t, bool last) const
    {
        if ((uint32_t)t % KVG_LEAF_TILES == KVG_LEAF_TILES - 1 || last) {
            kvg_end_leaf<LEVELS>(w, t / KVG_LEAF_TILES, first_tile() / KVG_LEAF_TILES, last, slots, lane);
        }
    }
};
static_assert(KVG_LEAF_TILES == 8, "16 bits for a leaf, 16 groups of tokens");

#endif
