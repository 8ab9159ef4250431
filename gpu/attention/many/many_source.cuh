/* A tile of 32 rows of a side as they are stored: its copies into shared memory. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_SOURCE_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_SOURCE_CUH

#include <algorithm>

#include "gpu/attention/many/many_order.cuh"
#include "gpu/attention/many/many_tokens.cuh"

/* A part of a row: elements FIRST ... FIRST + SIDE::DIM - 1 of it. The filler's parts begin with
 * element FROM. */
template <class SIDE_, int FROM = 0, int FIRST_ = FROM> struct many_part : SIDE_ {
    typedef SIDE_ SIDE;
    static constexpr int FIRST = FIRST_;
    static __host__ __device__ constexpr uint32_t code_bytes(int elements)
    {
        return elements * SIDE::BITS / 8;
    }
    static __host__ __device__ constexpr uint32_t scale_bytes(int elements)
    {
        return elements / SIDE::PER_BLOCK * SIDE::BLOCK_BYTES;
    }
    /* Where its codes and scales lie in a raw tile, and its operands in a stage. */
    static constexpr uint32_t RAW = KVG_TILE * (code_bytes(FIRST - FROM) + scale_bytes(FIRST - FROM));
    static constexpr uint32_t RAW_SCALES = RAW + SIDE::CODES_STAGE, RAW_END = RAW_SCALES + SIDE::SCALES_STAGE;
    static constexpr uint32_t STAGE = FIRST / 64 * MANY_PART_BYTES;
};

/* The parts of a row that a filler takes. */
template <class FIRST_PART, class... OTHERS> struct many_parts {
    typedef FIRST_PART first;
    /* Rows of 16-bit operands are copied into the stage: there is nothing to convert. */
    static constexpr bool DIRECT = FIRST_PART::BITS == 16;
    /* Where a raw tile has, as bits, the tokens that are there. */
    static constexpr uint32_t PRESENT = (std::max({FIRST_PART::RAW_END, OTHERS::RAW_END...}) + 15) / 16 * 16;
    static constexpr bool SMALL_SCALES = FIRST_PART::SCALES == 2; /* which come by registers */

    template <class WORK> static __device__ __forceinline__ void each(const WORK &work)
    {
        work(FIRST_PART()), (work(OTHERS()), ...);
    }
};

/* What the fillers of side WHICH take of a row: all of it. Of a row that K and V share the fillers of
 * K take elements 0 ... 255, those of V the others. Parts end where segments of
 * docs/spec/decode-contract.md section 4 end. */
template <kvg_format FORMAT, kvg_dtype T, int DIM, int WHICH, bool PADDED> struct many_row {
    typedef many_parts<many_part<kvg_side_of<FORMAT, T, DIM>>> parts;
};
template <kvg_format FORMAT, kvg_dtype T> struct many_row<FORMAT, T, MANY_SHARED_DIM, KVG_K, false> {
    typedef many_parts<many_part<kvg_side_of<FORMAT, T, 256>>> parts;
};
template <kvg_format FORMAT, kvg_dtype T> struct many_row<FORMAT, T, MANY_SHARED_DIM, KVG_V, false> {
    typedef many_parts<many_part<kvg_side_of<FORMAT, T, 256>, 256>,
                          many_part<kvg_side_of<FORMAT, T, 64>, 256, 512>>
        parts;
};

/* The copies of a tile. */
template <class PARTS, int WHICH, bool SHARED_ROW> class many_source : many_tokens
{
    uint64_t codes, scales; /* what the lane has of the first part of a row */
    uint32_t small;         /* a scale of two bytes on its way, and where to */
    uint32_t small_to;

    static constexpr bool K_ORDER = WHICH == KVG_K || SHARED_ROW;
    /* What a lane copies of a row of operands at once, and the lanes of 128 bytes. */
    static constexpr int BYTES = K_ORDER ? MANY_K_PIECE : 16, ROW_LANES = MANY_ROW_BYTES / BYTES;

    /* Where in a row the lane's first bytes of a part are. */
    template <class PART> static __device__ __forceinline__ uint32_t mine(int lane)
    {
        return PART::code_bytes(PART::FIRST) + (PARTS::DIRECT ? lane % ROW_LANES * BYTES : lane % PART::ROW_LANES * 16);
    }
    template <class PART> __device__ __forceinline__ uint64_t codes_of(int lane) const
    {
        return codes + (int)(mine<PART>(lane) - mine<typename PARTS::first>(lane));
    }

    /* The codes of a part to a raw tile, as they are. */
    template <class PART>
    __device__ __forceinline__ void copy_codes(const kvg_decode_args &a, uint32_t index, uint32_t present, uint32_t raw,
                                               int lane) const
    {
        const uint64_t first = codes_of<PART>(lane);
#pragma unroll
        for (int i = 0; i < PART::COPIES; i++) {
            const int row = i * PART::COPY_ROWS + lane / PART::ROW_LANES;
            const uint64_t from = kvg_row_at(first, __shfl_sync(~0u, index, row), a.codes[WHICH].unit);
            const bool go = present >> row & 1;
#pragma unroll
            for (int part = 0; part < PART::ROW; part += PART::PART) {
                kvg_copy<16>(raw + PART::RAW + PART::place(row, lane % PART::ROW_LANES) + part, from + part, go);
            }
        }
    }

    template <class PART>
    __device__ __forceinline__ void copy_scales(const kvg_decode_args &a, bool is, uint32_t raw, int lane)
    {
        constexpr int AT_ONCE = SHARED_ROW ? 4 : PART::SCALES; /* a shared row's scales start at multiples of 4 bytes */
        /* V's scales in groups of four tokens are the four's together: all are read. */
        const bool go = is || (WHICH == KVG_V && a.v_swizzle && has_block(a));
        const uint32_t at = raw + PART::RAW_SCALES + lane * PART::SCALES;
        const uint32_t scale = (go ? (uint32_t)entry : 0) * a.scales[WHICH].block + in_page * a.scales[WHICH].token;
        const uint64_t from = kvg_row_at(scales, scale, a.scales[WHICH].unit) + PART::scale_bytes(PART::FIRST);
        if constexpr (PART::SCALES == 2) {
            small = go ? __ldg((const uint16_t *)from) : 0, small_to = at;
        } else {
#pragma unroll
            for (int i = 0; i < PART::SCALES; i += AT_ONCE) kvg_copy<AT_ONCE>(at + i, from + i, go);
        }
    }

    /* A part of 16-bit codes to its places in a stage. V's lie as they are stored. */
    template <class PART>
    __device__ __forceinline__ void copy_operands(const kvg_decode_args &a, uint32_t index, uint32_t present,
                                                  uint32_t stage, int lane) const
    {
        const uint64_t first = codes_of<PART>(lane);
        const uint32_t my_row = lane / ROW_LANES, piece = lane % ROW_LANES * BYTES;
        const uint32_t place = K_ORDER ? many_k_place(piece, 32) : piece;
        const uint32_t to = stage + PART::STAGE + many_place_of(my_row, place);
#pragma unroll(SHARED_ROW ? 4 : 8) /* fillers of shared rows have few registers */
        for (int i = 0; i < KVG_TILE; i += KVG_WARP / ROW_LANES) {
            const uint32_t row = i + my_row, at = (to ^ i % 8 * 16) + i * MANY_ROW_BYTES; /* many_place(row) */
            const uint64_t from = kvg_row_at(first, __shfl_sync(~0u, index, row), a.codes[WHICH].unit);
            const bool go = present >> row & 1;
#pragma unroll
            for (int part = 0; part < PART::DIM / 64; part++) {
                kvg_copy<BYTES>(at + part * MANY_PART_BYTES, from + part * MANY_ROW_BYTES, go);
            }
        }
    }

  public:
    __device__ many_source(const many_args &a, const many_item &item, uint32_t first, int lane)
        : many_tokens(a.d, item, first, lane), small_to(0)
    {
        const kvg_decode_args &d = a.d;
        codes = (uint64_t)(d.codes[WHICH].start + item.kv_head * d.codes[WHICH].head +
                           mine<typename PARTS::first>(lane));
        scales = (uint64_t)(d.scales[WHICH].start + item.kv_head * d.scales[WHICH].head);
        look_up(d);
    }

    /* The next tile to `to`, a raw tile or a stage, with nothing but zeros for tokens that are not
     * there. Those that are there, as bits. */
    __device__ uint32_t copy(const many_args &args, uint32_t to, int lane)
    {
        const kvg_decode_args &a = args.d;
        /* Places that depend on the lane are found again for each tile: all of them do not fit into registers. */
        if constexpr (SHARED_ROW) asm volatile("" : "+r"(lane));
        settle(args);
        const bool is = is_there(a);
        const uint32_t present = __ballot_sync(~0u, is), block = is ? (uint32_t)entry : 0;
        const uint32_t index = block * a.codes[WHICH].block + in_page * a.codes[WHICH].token;
        PARTS::each([&](auto part) {
            typedef decltype(part) PART;
            if constexpr (PARTS::DIRECT) copy_operands<PART>(a, index, present, to, lane);
            else copy_codes<PART>(a, index, present, to, lane);
            if constexpr (PART::SCALES > 0) copy_scales<PART>(a, is, to, lane);
        });
        look_further(a, lane);
        return present;
    }
    /* What came by registers goes to its tile: before that is read. */
    __device__ void settle(const many_args &)
    {
        if constexpr (PARTS::SMALL_SCALES) {
            if (small_to) kvg_store_shared16(small_to, (uint16_t)small);
            small_to = 0;
        }
    }
};

#endif
