/* The loads of op decode: a warp copies its own tiles of 32 tokens from the pages of one KV head into its own stages of
 * shared memory, and waits for nobody else. Rows of codes come in chunks of 16 bytes to the places of side.cuh;
 * row i of scales, or of parameters, comes by lane i, if they do not come in chunks, too. Where the rows lie is for
 * few_places.cuh to say. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_LOAD_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_LOAD_CUH

#include "gpu/attention/few/few_lane.cuh"
#include "gpu/attention/few/few_places.cuh"
#include "gpu/attention/shared/copy.cuh"

/* A lane's part of the source. POLICY: whether copies have one (copy.cuh). */
template <class K, class V, kvg_decode_rows ROWS, bool POLICY = true>
class kvg_decode_source : public kvg_decode_places<K, V, ROWS> {
    typedef kvg_decode_places<K, V, ROWS> places;
    using places::INDEXES, places::GROUPED, places::code_index, places::scale_index;
    static constexpr bool TOGETHER = ROWS >= KVG_ROWS_TOGETHER, DENSE = ROWS == KVG_ROWS_DENSE;
    static constexpr int SIDE_CHUNKS = DENSE ? KVG_TILE * K::SCALES / 16 : 2, GROUP_CHUNKS = SIDE_CHUNKS / 2;
    static_assert(!DENSE || kvg_can_be_dense<K, V>, "chunks of scales");
    /* Half a warp copies from each of the two groups: a lane needs the index of one. */
    static constexpr bool HALVES = kvg_copies_by_halves<K, DENSE>;
    uint64_t codes[2], scales[2];
    uint32_t code_row[INDEXES], scale_row[INDEXES];
    uint32_t small[2]; /* scales of two bytes on their way */

    template <int BYTES> static __device__ __forceinline__ void copy_piece(uint32_t to, uint64_t from, bool go)
    {
        if constexpr (POLICY) kvg_copy<BYTES>(to, from, go, kvg_streaming());
        else kvg_copy<BYTES>(to, from, go);
    }
    /* Of the rows that the lane has parts of. */
    template <class SIDE, int I>
    __device__ __forceinline__ void code_indexes(const kvg_decode_args &a, int t, int lane, uint32_t *index) const
    {
        uint32_t half[2] = {};
        if constexpr (HALVES) {
            half[0] = half[1] = __shfl_sync(~0u, code_index[I], 2 * t + lane / 16);
        } else if constexpr (GROUPED) {
            const uint32_t part = TOGETHER ? 0 : code_row[I]; /* else it is in the base */
            half[0] = __shfl_sync(~0u, code_index[I], 2 * t) + part;
            half[1] = __shfl_sync(~0u, code_index[I], 2 * t + 1) + part;
        }
#pragma unroll
        for (int i = 0; i < SIDE::COPIES; i++) {
            const int row = i * SIDE::COPY_ROWS;
            if (TOGETHER) index[i] = half[row / KVG_GROUP];
            else if (GROUPED) index[i] = half[row / KVG_GROUP] + row % KVG_GROUP * a.codes[I].token;
            else index[i] = __shfl_sync(~0u, code_index[I], row + lane / SIDE::ROW_LANES);
        }
    }
    template <int I> __device__ __forceinline__ uint32_t scale_index_of(const kvg_decode_args &a, int t, int lane) const
    {
        if constexpr (!GROUPED) return scale_index[I];
        return __shfl_sync(~0u, scale_index[I], 2 * t + lane / KVG_GROUP) + scale_row[I];
    }

    template <class SIDE, int WHICH>
    __device__ __forceinline__ void copy_codes(const kvg_decode_args &a, const uint32_t *index, bool go, uint32_t stage,
                                               const uint32_t *to) const
    {
        constexpr int ROWS_ON = HALVES ? SIDE::COPY_ROWS / 2 : SIDE::COPY_ROWS; /* from one copy to the next */
#pragma unroll
        for (int i = 0; i < SIDE::COPIES; i++) {
            const uint64_t from = kvg_row_at(codes[WHICH], index[i], a.codes[WHICH].unit) +
                                  (TOGETHER ? i * ROWS_ON % KVG_GROUP * SIDE::ROW : 0);
            const uint32_t row = stage + to[SIDE::ROW == 64 && !HALVES ? 0 : i % 2] + i * ROWS_ON * SIDE::ROW;
#pragma unroll
            for (int part = 0; part < SIDE::ROW; part += SIDE::PART) copy_piece<16>(row + part, from + part, go);
        }
    }
    template <class SIDE, int WHICH>
    __device__ __forceinline__ void copy_scales(const kvg_decode_args &a, uint32_t index, bool go, uint32_t stage,
                                                uint32_t to)
    {
        const uint64_t from = kvg_row_at(scales[WHICH], index, a.scales[WHICH].unit);
        if constexpr (SIDE::SCALES == 2) small[WHICH] = go ? __ldg((const uint16_t *)from) : 0;
        else copy_piece<SIDE::SCALES>(stage + to, from, go);
    }

public:
    __device__ void open(const kvg_decode_args &a, const int32_t *row_table, uint32_t kv_head, int first_token,
                         int first_tile, int keys_end, int lane)
    {
        places::open_table(a, row_table, first_token, first_tile, keys_end, lane);
#pragma unroll
        for (int side = 0; side < 2; side++) {
            const int row_lanes = side ? V::ROW_LANES : K::ROW_LANES;
            codes[side] = (uint64_t)(a.codes[side].start + kv_head * a.codes[side].head + lane % row_lanes * 16);
            if (TOGETHER) codes[side] += (HALVES ? lane % 16 : lane) / row_lanes * (side ? V::ROW : K::ROW);
            scales[side] = (uint64_t)(a.scales[side].start + kv_head * a.scales[side].head);
        }
        if (DENSE) { /* a lane's chunk is of one of them */
            const bool of_v = HALVES ? lane % 16 / GROUP_CHUNKS : lane / SIDE_CHUNKS;
            scales[0] = (of_v ? scales[1] : scales[0]) + lane % GROUP_CHUNKS * 16;
        }
#pragma unroll
        for (int i = 0; i < INDEXES; i++) {
            code_row[i] = lane / (i ? V::ROW_LANES : K::ROW_LANES) * a.codes[i].token;
            scale_row[i] = lane % KVG_GROUP * a.scales[i].token;
        }
    }

    /* Tile t, the one found last, of one side or of both to stages, if `go`: without a branch, which costs more. */
    template <class SIDE, int WHICH>
    __device__ __forceinline__ void copy(const kvg_decode_args &a, int t, bool go, uint32_t stage, uint32_t scale_stage,
                                         const uint32_t *to, int lane)
    {
        uint32_t index[SIDE::COPIES];
        code_indexes<SIDE, WHICH % INDEXES>(a, t, lane, index);
        copy_codes<SIDE, WHICH>(a, index, go, stage, to);
        if constexpr (SIDE::SCALES > 0) {
            copy_scales<SIDE, WHICH>(a, scale_index_of<WHICH % INDEXES>(a, t, lane), go, scale_stage, to[2]);
        }
    }
    __device__ __forceinline__ void copy_both(const kvg_decode_args &a, int t, bool go, uint32_t k_stage,
                                              uint32_t v_stage, uint32_t k_scales, uint32_t v_scales,
                                              const uint32_t *k_to, const uint32_t *v_to, int lane)
    {
        if constexpr (INDEXES == 2) {
            copy<K, 0>(a, t, go, k_stage, k_scales, k_to, lane);
            copy<V, 1>(a, t, go, v_stage, v_scales, v_to, lane);
        } else {
            uint32_t index[K::COPIES], scale_at = 0; /* shuffles first, so that the copies come in one go */
            code_indexes<K, 0>(a, t, lane, index);
            if constexpr (DENSE) {
                scale_at = __shfl_sync(~0u, scale_index[0], 2 * t + (HALVES ? lane / 16 : lane / GROUP_CHUNKS % 2));
            } else if constexpr (K::SCALES > 0) {
                scale_at = scale_index_of<0>(a, t, lane);
            }
            copy_codes<K, 0>(a, index, go, k_stage, k_to);
            copy_codes<V, 1>(a, index, go, v_stage, k_to); /* they lie alike */
            if constexpr (DENSE) {
                const uint64_t from = kvg_row_at(scales[0], scale_at, a.scales[0].unit);
                const bool has = (HALVES ? lane % 16 : lane / 2) < SIDE_CHUNKS;
                if (has) copy_piece<16>(k_scales + k_to[2], from, go);
            } else if constexpr (K::SCALES > 0) {
                copy_scales<K, 0>(a, scale_at, go, k_scales, k_to[2]);
                copy_scales<V, 1>(a, scale_at, go, v_scales, v_to[2]);
            }
        }
    }

    /* After the wait for a stage: what came by registers. */
    template <class SIDE, int WHICH> __device__ __forceinline__ void settle(uint32_t scale_stage, int lane) const
    {
        if constexpr (SIDE::SCALES == 2 && !DENSE) {
            kvg_store_shared16(scale_stage + lane * 2, (uint16_t)small[WHICH]);
            __syncwarp();
        }
    }
};

#endif
