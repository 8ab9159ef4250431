/* A tile of a leaf that the warps of a CTA share (few_leaf.cuh), once its weights are in shared memory. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_LEAF_TILE_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_LEAF_TILE_CUH

#include "gpu/attention/few/few_scores.cuh"
#include "gpu/attention/few/few_shape.cuh"
#include "gpu/attention/few/few_values.cuh"

/* Shared memory of a CTA: all tiles of a leaf, each with codes, scales and pairs as in a stage of few_run_tiles.cuh;
 * then each tile's weights as operands; then its heads' largest scores, and what o is multiplied by before it. Where
 * the codes of both sides do not fit, V's come into the places of K's. */
template <class K, class V, uint32_t LEAF_ = KVG_CONTRACT.leaf> struct kvg_leaf_shape {
    static constexpr uint32_t LEAF = LEAF_, TILES = LEAF / KVG_TILE, OF_CTA = kvg_decode_shape<K, V, 1, false>::OF_CTA;
    static constexpr uint32_t SCALES = K::SCALES_STAGE + V::SCALES_STAGE, HEADS = KVG_DECODE_HEADS * 4;
    static constexpr uint32_t WEIGHTS = KVG_WARP * 16 * (V::ROW_SCALE ? 2 : 1), REST = WEIGHTS + 2 * HEADS;
    static constexpr uint32_t BOTH = K::CODES_STAGE + V::CODES_STAGE;
    static constexpr uint32_t LARGER = K::CODES_STAGE > V::CODES_STAGE ? K::CODES_STAGE : V::CODES_STAGE;
    static constexpr bool TURNS = TILES * (BOTH + SCALES + V::PAIRS_STAGE + REST) > OF_CTA;
    static constexpr uint32_t V_CODES = TURNS ? 0 : K::CODES_STAGE, K_SCALES = TURNS ? LARGER : BOTH;
    static constexpr uint32_t V_SCALES = K_SCALES + K::SCALES_STAGE, PAIRS = V_SCALES + V::SCALES_STAGE;
    static constexpr uint32_t STAGE = PAIRS + V::PAIRS_STAGE, SHARED = TILES * (STAGE + REST);
    /* Formats whose scales need a test for each tile, and tiles that are too large, are left to few_pieces.cuh. */
    static constexpr bool FITS = !K::POWERS && !V::POWERS && SHARED <= OF_CTA;
    static __host__ __device__ constexpr uint32_t weights(uint32_t t) { return TILES * STAGE + t * WEIGHTS; }
    static __host__ __device__ constexpr uint32_t tops(uint32_t t) { return TILES * (STAGE + WEIGHTS) + t * HEADS; }
    static __host__ __device__ constexpr uint32_t factors(uint32_t t) { return tops(TILES + t); }
};

/* What a warp has of o: whole blocks of 32 dims, or half of one. */
template <class K> struct kvg_leaf_share {
    static constexpr int WARPS = kvg_leaf_threads(KVG_CONTRACT.leaf) / KVG_WARP, ALL = K::DIM / 32;
    static constexpr int HALVES = 2 * ALL > WARPS ? 2 : 1, BLOCKS = HALVES == 2 ? (ALL - 1) / WARPS + 1 : 1;
    static constexpr int SUMS = 4 * HALVES; /* of a lane and block */
    float l[4], o[BLOCKS][SUMS]; /* l: of the first warp alone */

    static __device__ int block(int warp, int i) { return HALVES == 2 ? warp * BLOCKS + i : warp / 2; }
    /* The first of its sums in a node. */
    static __device__ int first(int warp, int i) { return 8 * block(warp, i) + (HALVES == 2 ? 0 : 4 * (warp % 2)); }
};

/* What V's codes of block `block` and tokens 2c and 2c + 1 of an eighth of the tile are multiplied by. */
template <class K, class V>
static __device__ __forceinline__ kvg_multiplier kvg_leaf_multiplier(const kvg_lane<K, V, false> &at, uint32_t stage,
                                                                     int eight, int block)
{
    typedef kvg_leaf_shape<K, V> shape;
    const uint32_t rows = stage + shape::V_SCALES + at.v_scales + eight * 8 * V::SCALES;
    if constexpr (V::PAIRS_STAGE > 0) {
        kvg_multiplier m = {};
        kvg_load_shared<4>(&m.scale, stage + shape::PAIRS + at.v_pairs + eight * (V::PAIRS_STAGE / 4) + block * 4);
        return m;
    } else if constexpr (V::BLOCK > 0) {
        static_assert(V::BLOCK == 16, "two scales of a token");
        uint32_t two[2];
        kvg_load_shared<2>(two, rows + block * 2);
        kvg_load_shared<2>(two + 1, rows + V::SCALES + block * 2);
        return kvg_block_scales<V, false>(__byte_perm(two[0], two[1], at.scale_bytes), false);
    } else {
        kvg_v_scales<V, false> scales;
        scales.load(rows, 0);
        return scales.of(0);
    }
}

/* What a warp reads of tile t of the leaf: weights as operands, what o is multiplied by before, its blocks of V. */
template <class K, class V> struct kvg_weighted_tile {
    typedef kvg_leaf_shape<K, V> shape;
    typedef kvg_leaf_share<K> share;
    static constexpr int CHUNKS = V::BITS / 4; /* of 16 bytes, in a block */
    uint32_t p[4], scaled[V::ROW_SCALE ? 4 : 1], factor[2];
    uint32_t v[share::BLOCKS][CHUNKS][4]; /* of tokens 0 ... 7, 8 ... 15 and so on */
    kvg_multiplier m[share::BLOCKS][4];

    __device__ __forceinline__ void load(const kvg_lane<K, V, false> &at, uint32_t start, int t, int warp, int lane)
    {
        const uint32_t stage = start + t * shape::STAGE, weights = start + shape::weights(t) + lane * 16;
        kvg_load_shared<8>(factor, start + shape::factors(t) + lane % 4 * 8);
        kvg_load_shared<16>(p, weights);
        if constexpr (V::ROW_SCALE) kvg_load_shared<16>(scaled, weights + KVG_WARP * 16);
#pragma unroll
        for (int i = 0; i < share::BLOCKS; i++) {
            const int block = share::block(warp, i);
            if (block >= share::ALL) continue;
#pragma unroll
            for (int j = 0; j < CHUNKS; j++) {
                const uint32_t chunk = block * CHUNKS + j;
                kvg_load_transposed(v[i][j], stage + shape::V_CODES + V::place(lane, chunk % 8) + chunk / 8 * 128);
            }
#pragma unroll
            for (int eight = 0; eight < 4; eight++) m[i][eight] = kvg_leaf_multiplier<K>(at, stage, eight, block);
        }
    }

    /* The tile joins the warp's share of o, and l. */
    __device__ __forceinline__ void add(const kvg_decode_args &a, kvg_leaf_share<K> &s, const kvg_lane<K, V, false> &at,
                                        int warp) const
    {
        const uint32_t *const b = V::ROW_SCALE ? scaled : p, one = __float_as_uint(1.0f);
        if (__any_sync(~0u, factor[0] != one || factor[1] != one)) {
#pragma unroll
            for (int i = 0; i < 4; i++) s.l[i] = __fmul_rn(s.l[i], __uint_as_float(factor[i % 2]));
#pragma unroll
            for (int i = 0; i < share::BLOCKS * share::SUMS; i++) {
                float &o = s.o[i / share::SUMS][i % share::SUMS];
                o = __fmul_rn(o, __uint_as_float(factor[i % 2]));
            }
        }
        if (warp == 0) {
#pragma unroll
            for (int n = 0; n < 2; n++) {
                kvg_multiply<V::BF16>(s.l, at.ones[0], at.ones[1], at.ones[2], at.ones[3], p[2 * n], p[2 * n + 1]);
            }
        }
#pragma unroll
        for (int i = 0; i < share::BLOCKS; i++) {
            if (share::block(warp, i) >= share::ALL) continue;
#pragma unroll
            for (int n = 0; n < 2; n++) {
                uint32_t pairs[2][4];
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    uint32_t codes[CHUNKS];
#pragma unroll
                    for (int j = 0; j < CHUNKS; j++) codes[j] = v[i][j][2 * n + half];
                    kvg_unpack<V, true, false>(a.factors, codes, m[i][2 * n + half], pairs[half]);
                }
                const uint32_t *x = pairs[0], *y = pairs[1], *const w = b + 2 * n;
                if constexpr (share::HALVES == 2) {
                    kvg_multiply<V::BF16>(s.o[i], x[0], x[1], y[0], y[1], w[0], w[1]);
                    kvg_multiply<V::BF16>(s.o[i] + 4, x[2], x[3], y[2], y[3], w[0], w[1]);
                } else {
                    const bool high = warp % 2;
                    kvg_multiply<V::BF16>(s.o[i], high ? x[2] : x[0], high ? x[3] : x[1], high ? y[2] : y[0],
                                          high ? y[3] : y[1], w[0], w[1]);
                }
            }
        }
    }
};

#endif
