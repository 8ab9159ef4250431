/* Rows of K and V of any head_dim up to that of a kernel: their copies, and what they become. A stage
 * is as wide as the kernel. What lies beyond the rows in K's is 0, which adds nothing to a score; in
 * V's it makes sums that nobody reads. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_PADDED_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_PADDED_CUH

#include "gpu/attention/many/many_source.cuh"

/* Rows of up to DIM elements. A raw tile has 32 rows of codes, and then 32 of scales. */
template <kvg_format FORMAT, kvg_dtype T, int DIM> struct many_padded_row {
    typedef kvg_side_of<FORMAT, T, DIM> SIDE;
    static constexpr bool DIRECT = SIDE::BITS == 16;
    static constexpr uint32_t PITCH = many_pitch(SIDE::ROW), SCALES = KVG_TILE * PITCH;
    static constexpr uint32_t PRESENT = (SCALES + SIDE::SCALES_STAGE + 15) / 16 * 16;

    template <class WORK> static __device__ __forceinline__ void each(const WORK &work)
    {
        work(many_padded_row());
    }
};

template <kvg_format FORMAT, kvg_dtype T, int DIM, int WHICH> struct many_row<FORMAT, T, DIM, WHICH, true> {
    typedef many_padded_row<FORMAT, T, DIM> parts;
};

template <kvg_format FORMAT, kvg_dtype T, int DIM, int WHICH, bool SHARED_ROW>
class many_source<many_padded_row<FORMAT, T, DIM>, WHICH, SHARED_ROW> : many_tokens
{
    typedef many_padded_row<FORMAT, T, DIM> ROW;
    typedef typename ROW::SIDE SIDE;
    uint64_t codes, scales;
    /* Parameters are read as a whole, scales one by one: a row of them may lie at any byte. */
    static constexpr uint32_t ONE = SIDE::BLOCK > 0 ? 1 : SIDE::SCALES, MOST = ONE ? SIDE::SCALES / ONE : 0;
    typedef std::conditional_t<ONE == 1, uint8_t, std::conditional_t<ONE == 2, uint16_t, uint32_t>> scale_type;
    scale_type small[MOST + 1]; /* on their way, and where to; 0: none are */
    uint32_t small_to;

    /* Pieces of BYTES, each to the address `place(row, offset in the row)`. */
    template <int BYTES, class PLACE>
    __device__ __forceinline__ void copy_pieces(const many_args &a, uint32_t index, uint32_t present, int lane,
                                                const PLACE &place) const
    {
        const uint32_t pieces = a.out_dim * SIDE::BITS / 8 / BYTES, rows = KVG_WARP / pieces, rest = KVG_WARP % pieces;
        uint32_t row = lane / pieces, piece = lane % pieces;
#pragma unroll 1
        for (uint32_t i = 0; i < pieces; i++) {
            const uint64_t from = kvg_row_at(codes, __shfl_sync(~0u, index, row), a.d.codes[WHICH].unit);
            kvg_copy<BYTES>(place(row, piece * BYTES), from + piece * BYTES, present >> row & 1);
            row += rows, piece += rest;
            if (piece >= pieces) piece -= pieces, row++;
        }
    }
    template <class PLACE>
    __device__ __forceinline__ void copy_codes(const many_args &a, uint32_t index, uint32_t present, int lane,
                                               const PLACE &place) const
    {
        if (a.out_dim * SIDE::BITS % 128 == 0) copy_pieces<16>(a, index, present, lane, place);
        else copy_pieces<8>(a, index, present, lane, place);
    }

    static __device__ __forceinline__ uint32_t scale_count(const many_args &a)
    {
        return SIDE::BLOCK > 0 ? a.out_dim / SIDE::PER_BLOCK : MOST;
    }
    /* The lane's token's. V's in groups of four tokens are the four's together: all are read. */
    __device__ __forceinline__ void copy_scales(const many_args &a, bool is, uint32_t to)
    {
        const kvg_decode_pool &pool = a.d.scales[WHICH];
        const bool go = is || (WHICH == KVG_V && a.d.v_swizzle && has_block(a.d));
        const uint32_t index = go ? (uint32_t)entry * pool.block + in_page * pool.token : 0;
        const scale_type *const from = (const scale_type *)kvg_row_at(scales, index, pool.unit);
#pragma unroll
        for (uint32_t s = 0; s < MOST; s++) {
            if (s < scale_count(a)) small[s] = go ? __ldg(from + s) : 0;
        }
        small_to = to;
    }

  public:
    __device__ many_source(const many_args &a, const many_item &item, uint32_t first, int lane)
        : many_tokens(a.d, item, first, lane), small_to(0)
    {
        codes = (uint64_t)(a.d.codes[WHICH].start + item.kv_head * a.d.codes[WHICH].head);
        scales = (uint64_t)(a.d.scales[WHICH].start + item.kv_head * a.d.scales[WHICH].head);
        look_up(a.d);
    }

    /* As of other rows; of a stage the places beyond head_dim stay as they are. */
    __device__ uint32_t copy(const many_args &a, uint32_t to, int lane)
    {
        settle(a);
        const bool is = is_there(a.d);
        const uint32_t present = __ballot_sync(~0u, is), block = is ? (uint32_t)entry : 0;
        const uint32_t index = block * a.d.codes[WHICH].block + in_page * a.d.codes[WHICH].token;
        if constexpr (ROW::DIRECT && WHICH == KVG_K) {
            const uint32_t whole = a.out_dim / 32 * 64; /* bytes of segments of 32; the last may have 16 */
            copy_pieces<MANY_K_PIECE>(a, index, present, lane, [&](uint32_t row, uint32_t at) {
                const uint32_t place = at < whole ? many_k_place(at, 32) : whole + many_k_place(at - whole, 16);
                return to + many_place_of(row, place);
            });
        } else if constexpr (ROW::DIRECT) {
            copy_pieces<16>(a, index, present, lane,
                            [&](uint32_t row, uint32_t at) { return to + many_place_of(row, at); });
        } else {
            copy_codes(a, index, present, lane,
                       [&](uint32_t row, uint32_t at) { return to + row * ROW::PITCH + at; });
        }
        if constexpr (SIDE::SCALES > 0) copy_scales(a, is, to + ROW::SCALES + lane * SIDE::SCALES);
        look_further(a.d, lane);
        return present;
    }
    __device__ void settle(const many_args &a)
    {
        if constexpr (SIDE::SCALES > 0) {
            if (!small_to) return;
#pragma unroll
            for (uint32_t s = 0; s < MOST; s++) {
                if (s >= scale_count(a)) break;
                const uint32_t scale = small[s];
                if constexpr (ONE == 1) kvg_store_shared8(small_to + s, scale);
                else if constexpr (ONE == 2) kvg_store_shared16(small_to, small[s]);
                else kvg_store_shared<4>(small_to, &scale);
            }
            small_to = 0;
        }
    }
};

#endif
