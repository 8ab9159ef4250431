/* How a run of leaves is cut into tiles and ends, and where a warp keeps them. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_SHAPE_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_SHAPE_CUH

#include "gpu/attention/few/few_lane.cuh"
#include "gpu/attention/shared/small_chip.cuh"

/* How a warp's stages and a multiprocessor's memory are shared out. Where tiles of both sides are large, or too large
 * for the chip, a stage holds one side of a tile, and K's and V's take turns. QUERIES: query tokens of a warp. */
template <class K, class V, int QUERIES, bool SMALL = KVG_SMALL_CHIP> struct kvg_decode_shape {
    static constexpr int MEMORY = (SMALL ? 100 : 228) * 1024, OF_CTA = MEMORY - 1024; /* a CTA takes 1 KiB on top */
    static constexpr int K_STAGE = K::CODES_STAGE + K::SCALES_STAGE, V_STAGE = V::CODES_STAGE + V::SCALES_STAGE;
    static constexpr int BOTH = K_STAGE + V_STAGE, NODE = kvg_node_bytes<K::DIM / 4>();
    static constexpr int NODES = QUERIES * NODE; /* of a warp, on a level */
    static constexpr int TEAM = QUERIES > 1 ? 128 : 0; /* for kvg_team */
    static_assert(QUERIES == 1 || QUERIES * sizeof(int4) <= TEAM, "a team in its place");
    static constexpr int fit(int stage) { return ((OF_CTA - TEAM) / KVG_DECODE_WARPS - NODES) / stage; }
    static constexpr bool SPLIT = BOTH > 10000 || fit(BOTH + V::PAIRS_STAGE) < 2;
    static constexpr int STAGE = !SPLIT ? BOTH + V::PAIRS_STAGE : K_STAGE > V_STAGE ? K_STAGE : V_STAGE;
    static constexpr int BEST = SPLIT && K::DIM == 128 && QUERIES == 1 ? 3 : 2;
    static constexpr int STAGES = fit(STAGE) < BEST ? fit(STAGE) : BEST;
    /* A lane has 168 registers with 12 warps on a multiprocessor, 255 with 8. */
    static constexpr int MOST = K::DIM == 256 || BOTH > 5000 || QUERIES > 1 ? 2 : 3;
    static constexpr int shared_with(int levels) { return KVG_DECODE_WARPS * (STAGES * STAGE + levels * NODES) + TEAM; }
    static constexpr int ctas_with(int levels)
    {
        const int most = MEMORY / (shared_with(levels) + 1024);
        return most < MOST ? most : MOST;
    }
    /* Runs as long as they cost no CTA. */
    static constexpr int MOST_LEVELS = KVG_DECODE_LEVELS;
    static constexpr bool LONG = ctas_with(MOST_LEVELS) == ctas_with(1);
    static constexpr int LEVELS = !SPLIT && LONG ? MOST_LEVELS : 1; /* of stretches, and so enough for leaves */
    static constexpr int SHARED = shared_with(LEVELS), CTAS = ctas_with(LEVELS);
    static_assert(CTAS >= 1, "a multiprocessor must hold a CTA");
    static_assert(STAGE % 128 == 0, "offsets in a stage are changed by xor");
};

/* Positions from ... to - 1 of a tile, at least one, without holes, as bits. */
static __device__ __forceinline__ uint32_t kvg_positions(int from, int to, uint32_t holes)
{
    const uint32_t before = from > 0 ? (1u << from) - 1 : 0, past = to < KVG_TILE ? ~0u << to : 0;
    return ~(before | past | holes);
}

/* Positions of a tile that each query token sees, as bits. */
template <int QUERIES> struct kvg_seen {
    uint32_t of[QUERIES];

    __device__ __forceinline__ uint32_t any() const
    {
        uint32_t all = 0;
#pragma unroll
        for (int i = 0; i < QUERIES; i++) all |= of[i];
        return all;
    }
};

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

/* The same for each query token of a warp. Of one it is no loop: one of a single turn changes the code around it. */
template <int LEVELS, class K, int QUERIES>
static __device__ __forceinline__ void kvg_end_leaves(kvg_warp_state<K> (&w)[QUERIES], int j, int first, bool last,
                                                      uint32_t slots, int lane)
{
    constexpr uint32_t SLOT = LEVELS * kvg_node_bytes<K::DIM / 4>();
    kvg_end_leaf<LEVELS>(w[0], j, first, last, slots, lane);
#pragma unroll
    for (int i = 1; i < QUERIES; i++) kvg_end_leaf<LEVELS>(w[i], j, first, last, slots + i * SLOT, lane);
}

template <int QUERIES> static __device__ __forceinline__ kvg_seen<QUERIES> kvg_all_seen()
{
    kvg_seen<QUERIES> seen;
#pragma unroll
    for (int i = 0; i < QUERIES; i++) seen.of[i] = ~0u;
    return seen;
}

/* What each query token of a team sees, as kvg_row_of says it: in shared memory, for it is seldom asked for. Of one
 * alone a run's ends say it. */
template <int QUERIES> struct kvg_team {
    uint32_t rows;

    __device__ __forceinline__ int4 row(int i) const
    {
        uint32_t v[4];
        kvg_load_shared<16>(v, rows + i * sizeof(int4));
        return make_int4(v[0], v[1], v[2], v[3]);
    }
    __device__ __forceinline__ void set(int i, const int4 &row) const
    {
        const uint32_t v[4] = {(uint32_t)row.x, (uint32_t)row.y, (uint32_t)row.z, 0};
        kvg_store_shared<16>(rows + i * sizeof(int4), v);
    }
};
template <> struct kvg_team<1> {};

/* A run from position `first` on: keys begin ... end - 1 of it, at least one. Tile t is positions first + 32 t on.
 * Query tokens query ... query + QUERIES - 1, of which those of other sequences see nothing here. */
template <int QUERIES> struct kvg_decode_run {
    uint32_t query, unit, stages, slots; /* the last two: of the warp's shared memory */
    int sequence, keys, first, begin, end, lane;
    kvg_team<QUERIES> team;

    __device__ int first_tile() const { return (begin - first) / KVG_TILE; }
    __device__ int tiles() const { return (end - first + KVG_TILE - 1) / KVG_TILE; }
    /* The keys of the run that query token i sees, from position `first` on: x ... y - 1. */
    __device__ __forceinline__ int2 keys_of(int i) const
    {
        if constexpr (QUERIES == 1) {
            return make_int2(begin - first, end - first);
        } else {
            const int4 row = team.row(i);
            const int low = (int)max((uint32_t)row.y, (uint32_t)begin), high = (int)min((uint32_t)row.z, (uint32_t)end);
            return row.x == sequence && low < high ? make_int2(low - first, high - first) : make_int2(0, 0);
        }
    }
    /* What is seen of tile t. */
    __device__ __forceinline__ kvg_seen<QUERIES> seen(int t, uint32_t holes) const
    {
        kvg_seen<QUERIES> seen;
#pragma unroll
        for (int i = 0; i < QUERIES; i++) {
            const int2 keys = keys_of(i);
            const int from = keys.x - t * KVG_TILE, to = keys.y - t * KVG_TILE;
            const bool none = QUERIES > 1 && (from >= KVG_TILE || to <= 0);
            seen.of[i] = none ? 0 : kvg_positions(from, to, holes);
        }
        return seen;
    }
    /* Two bits for tile t, of those of a stretch; 0 for others. */
    static __device__ uint32_t two_bits(int t, int stretch)
    {
        return t / KVG_STRETCH_TILES == stretch ? 3u << 2 * (t % KVG_STRETCH_TILES) : 0;
    }
    /* The tiles of a stretch of which a row does not see all, for its ends alone. */
    __device__ uint32_t partial(int stretch) const
    {
        const uint32_t low = begin % KVG_TILE ? two_bits(first_tile(), stretch) : 0;
        uint32_t ends = low | (end % KVG_TILE ? two_bits(tiles() - 1, stretch) : 0);
        if constexpr (QUERIES > 1) {
#pragma unroll
            for (int i = 0; i < QUERIES; i++) { /* more than the ends where they see different keys */
                const int2 seen = keys_of(i);
                const int from = (seen.x + KVG_TILE - 1) / KVG_TILE - stretch * KVG_STRETCH_TILES;
                const int to = min(seen.y / KVG_TILE - stretch * KVG_STRETCH_TILES, KVG_STRETCH_TILES);
                ends |= from < to ? ~kvg_positions(2 * from, 2 * to, 0) : ~0u;
            }
            ends &= 0xFFFF;
        }
        return ends;
    }
    __device__ bool is_fresh(int t) const { return (uint32_t)t % KVG_LEAF_TILES == 0 || t == first_tile(); }
};
static_assert(KVG_STRETCH_TILES == 8, "16 bits for a stretch, 16 groups of tokens");

#endif
