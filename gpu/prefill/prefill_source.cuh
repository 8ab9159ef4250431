/* A raw tile of 32 rows of a side as they are stored: where its rows lie, and their copies into shared
 * memory. */
#ifndef KVG_GPU_PREFILL_PREFILL_SOURCE_CUH
#define KVG_GPU_PREFILL_PREFILL_SOURCE_CUH

#include "gpu/decode/decode_copy.cuh"
#include "gpu/prefill/prefill_args.cuh"

/* Bytes of a raw tile: codes, scales, and as bits the tokens that are there. */
template <class SIDE> struct prefill_raw {
    static constexpr uint32_t SCALES = SIDE::CODES_STAGE, PRESENT = (SCALES + SIDE::SCALES_STAGE + 15) / 16 * 16;
};

/* Where a lane's token of a tile lies, and the copies of the tile. */
template <class SIDE, int WHICH> class prefill_source
{
    const int32_t *table;
    uint64_t codes, scales;
    uint32_t low, high; /* positions outside are not read */
    uint32_t position;  /* of the lane in the tile that is looked up next */
    int32_t entry;      /* of the table */
    uint32_t in_page;
    uint32_t small; /* a scale of two bytes on its way, and where to */
    uint32_t small_to;

    __device__ void look_up(const kvg_decode_args &a)
    {
        uint32_t page;
        in_page = kvg_offset_of(a, (int)min(max(position, low), high - 1), (int)high, &page);
        entry = table[page];
    }

  public:
    __device__ prefill_source(const prefill_args &a, const prefill_item &item, uint32_t first, int lane)
        : low(item.low), high(item.high), position(first + lane), small_to(0)
    {
        const kvg_decode_args &d = a.d;
        table = d.table + (size_t)item.band.sequence * d.width;
        codes = (uint64_t)(d.codes[WHICH].start + item.kv_head * d.codes[WHICH].head + lane % SIDE::ROW_LANES * 16);
        scales = (uint64_t)(d.scales[WHICH].start + item.kv_head * d.scales[WHICH].head);
        look_up(d);
    }

    /* The next tile to `raw`, with nothing but zeros for tokens that are not there. */
    __device__ void copy(const kvg_decode_args &a, uint32_t raw, int lane)
    {
        settle();
        const bool is = position >= low && position < high && entry >= 0 && entry < a.blocks;
        const uint32_t present = __ballot_sync(~0u, is), block = is ? (uint32_t)entry : 0;
        const uint32_t index = block * a.codes[WHICH].block + in_page * a.codes[WHICH].token;
#pragma unroll
        for (int i = 0; i < SIDE::COPIES; i++) {
            const int row = i * SIDE::COPY_ROWS + lane / SIDE::ROW_LANES;
            const uint64_t from = kvg_row_at(codes, __shfl_sync(~0u, index, row), a.codes[WHICH].unit);
            const bool go = present >> row & 1;
#pragma unroll
            for (int part = 0; part < SIDE::ROW; part += SIDE::PART) {
                kvg_copy<16>(raw + SIDE::place(row, lane % SIDE::ROW_LANES) + part, from + part, go);
            }
        }
        if constexpr (SIDE::SCALES > 0) {
            /* V's scales in groups of four tokens are the four's together: all are read. */
            const bool go = is || (WHICH == KVG_V && a.v_swizzle && entry >= 0 && entry < a.blocks);
            const uint32_t at = raw + prefill_raw<SIDE>::SCALES + lane * SIDE::SCALES;
            const uint32_t scale = (go ? (uint32_t)entry : 0) * a.scales[WHICH].block + in_page * a.scales[WHICH].token;
            const uint64_t from = kvg_row_at(scales, scale, a.scales[WHICH].unit);
            if constexpr (SIDE::SCALES == 2) small = go ? __ldg((const uint16_t *)from) : 0, small_to = at;
            else kvg_copy<SIDE::SCALES>(at, from, go);
        }
        if (lane == 0) kvg_store_shared<4>(raw + prefill_raw<SIDE>::PRESENT, &present);
        position += PREFILL_SIDE_FILLERS * KVG_TILE;
        if (position - lane < high) look_up(a);
    }
    /* What came by registers goes to its tile: before that is read. */
    __device__ void settle()
    {
        if constexpr (SIDE::SCALES == 2) {
            if (small_to) kvg_store_shared16(small_to, (uint16_t)small);
            small_to = 0;
        }
    }
};

#endif
