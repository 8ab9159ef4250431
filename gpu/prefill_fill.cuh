/* The warps that fill stages: they copy a side's rows as they are stored, tiles of 32 keys, and make operands of them
 * (docs/decode-contract.md section 2) in the places that prefill_multiply.cuh describes. A warp has one side and every
 * other tile; its lane i has token i of the tile. Rows may lie anywhere: their places are found token by token. */
#ifndef KVG_GPU_PREFILL_FILL_CUH
#define KVG_GPU_PREFILL_FILL_CUH

#include <type_traits>

#include "gpu/decode_copy.cuh"
#include "gpu/decode_values.cuh"
#include "gpu/prefill_args.cuh"
#include "gpu/prefill_multiply.cuh"

/* Bytes of a raw tile: codes, scales, and as bits the tokens that are there. */
template <class SIDE> struct prefill_raw {
    static constexpr uint32_t SCALES = SIDE::CODES_STAGE, PRESENT = (SCALES + SIDE::SCALES_STAGE + 15) / 16 * 16;
};

/* Where a lane's token of a tile lies, and the copies of the tile. */
template <class SIDE, int WHICH> class prefill_source {
    const int32_t *table;
    uint64_t codes, scales;
    uint32_t low, high; /* positions outside are not read */
    uint32_t position;  /* of the lane in the tile that is looked up next */
    int32_t entry;      /* of the table */
    uint32_t in_page;
    uint32_t small;     /* a scale of two bytes on its way, and where to */
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

/* The scales, or parameters, of a row. */
template <class SIDE, bool WIDE> struct prefill_scales {
    static constexpr int WORDS = SIDE::SCALES > 4 ? SIDE::SCALES / 4 : 1;
    uint32_t words[WORDS];

    /* For eight elements from element `first` on. */
    __device__ __forceinline__ kvg_multiplier of(int first) const
    {
        if constexpr (SIDE::OPERAND == KVG_OPERAND_AFFINE) {
            return {__byte_perm(words[0], 0, 0x1010), __byte_perm(words[0], 0, 0x3232)};
        } else if constexpr (SIDE::BLOCK > 0) {
            const int block = first / SIDE::PER_BLOCK;
            const kvg_multiplier two = kvg_block_scales<SIDE, WIDE>(words[block / 4], block / 2 % 2);
            return {kvg_half_twice(two.scale, block % 2), WIDE ? kvg_half_twice(two.other, block % 2) : 0};
        } else {
            return {0x74007400u, 0}; /* 2^14 undoes how e2m1 is unpacked */
        }
    }
};

/* A row of K: sum s has place k of docs/decode-contract.md section 4 at element 16 s + k. A segment's lanes 0 ... 3 of
 * that section are this lane's four turns: each gives four elements, in two pairs, to either of two sums. */
template <class SIDE, bool WIDE>
static __device__ __forceinline__ void prefill_put_k(const kvg_factors &k, uint32_t raw, uint32_t to,
                                                     const prefill_scales<SIDE, WIDE> &scales, int lane)
{
    constexpr int LANE_BYTES = SIDE::SEGMENT / 4 * SIDE::BITS / 8;
#pragma unroll
    for (int segment = 0; segment < SIDE::SEGMENTS; segment++) {
        uint32_t codes[4][LANE_BYTES / 4];
#pragma unroll
        for (int c = 0; c < 4; c++) {
            const uint32_t at = SIDE::ROW == 32 ? SIDE::place(lane, c / 2) + c % 2 * 8
                                                : SIDE::place(lane, segment % 2 * 4 + c) + segment / 2 * 128;
            kvg_load_shared<LANE_BYTES>(codes[c], raw + at);
        }
#pragma unroll
        for (int j = 0; j < SIDE::WORDS; j++) {
            uint32_t pairs[4][4];
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int first = segment * SIDE::SEGMENT + c * (SIDE::SEGMENT / 4) + j * 8;
                kvg_unpack<SIDE, false, WIDE>(k, codes[c] + j * SIDE::WORD_REGISTERS, scales.of(first), pairs[c]);
            }
#pragma unroll
            for (int i = 0; i < 4; i++) { /* sums 2 (segment WORDS + j) and + 1, places 0 ... 7 and 8 ... 15 */
                const int chunk = (segment * SIDE::WORDS + j) * 4 + i;
                const uint32_t eight[4] = {pairs[0][i], pairs[1][i], pairs[2][i], pairs[3][i]};
                kvg_store_shared<16>(to + chunk / 8 * PREFILL_PART_BYTES + prefill_place(lane, chunk % 8), eight);
            }
        }
    }
}

/* A row of V: chunk after chunk of eight dims, in the order in which codes are unpacked. */
template <class SIDE, bool WIDE>
static __device__ __forceinline__ void prefill_put_v(const kvg_factors &k, uint32_t raw, uint32_t to,
                                                     const prefill_scales<SIDE, WIDE> &scales, int lane)
{
    constexpr int EIGHTS = 16 / SIDE::BITS; /* chunks of eight dims in 16 bytes */
#pragma unroll
    for (int chunk = 0; chunk < SIDE::CHUNKS; chunk++) {
        uint32_t codes[4];
        kvg_load_shared<16>(codes, raw + SIDE::place(lane, chunk % 8) + chunk / 8 * 128);
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) {
            const int eight = chunk * EIGHTS + i;
            uint32_t pairs[4];
            kvg_unpack<SIDE, false, WIDE>(k, codes + i * SIDE::WORD_REGISTERS, scales.of(eight * 8), pairs);
            kvg_store_shared<16>(to + eight / 8 * PREFILL_PART_BYTES + prefill_place(lane, eight % 8), pairs);
        }
    }
}

/* A raw tile to a stage. */
template <class SIDE, int WHICH>
static __device__ __forceinline__ void prefill_convert(const prefill_args &a, uint32_t raw, uint32_t to,
                                                       uint32_t row_scales, int lane)
{
    uint32_t present;
    kvg_load_shared<4>(&present, raw + prefill_raw<SIDE>::PRESENT);
    const bool is = present >> lane & 1;
    const auto put = [&](auto wide, const uint32_t *words) {
        constexpr bool WIDE = decltype(wide)::value;
        prefill_scales<SIDE, WIDE> scales;
#pragma unroll
        for (int i = 0; i < prefill_scales<SIDE, WIDE>::WORDS; i++) scales.words[i] = words[i];
        if constexpr (WHICH == KVG_K) prefill_put_k<SIDE, WIDE>(a.d.factors, raw, to, scales, lane);
        else prefill_put_v<SIDE, WIDE>(a.d.factors, raw, to, scales, lane);
    };
    if constexpr (SIDE::SCALES == 0) {
        const uint32_t none[1] = {};
        put(std::false_type(), none);
    } else {
        const uint32_t at = raw + prefill_raw<SIDE>::SCALES;
        constexpr int WORDS = prefill_scales<SIDE, false>::WORDS;
        uint32_t words[WORDS];
        if constexpr (WHICH == KVG_V && kvg_can_group<SIDE>) {
            if (a.d.v_swizzle) kvg_ungroup_scales<SIDE::SCALES>(at, lane);
        }
        kvg_load_shared<SIDE::SCALES>(words, at + lane * SIDE::SCALES);
        /* A power of two that unpacking takes for 0; else a scale, or parameters, of 0. */
        constexpr uint32_t NONE = SIDE::POWERS ? 0x67676767u : 0;
#pragma unroll
        for (int i = 0; i < WORDS; i++) words[i] = is ? words[i] : NONE;
        if constexpr (SIDE::ROW_SCALE) {
            const uint32_t scale = __float_as_uint(__half2float(__ushort_as_half((uint16_t)words[0])));
            kvg_store_shared<4>(row_scales + lane * 4, &scale);
        }
        if constexpr (SIDE::POWERS) {
            if (SIDE::SCALES == 2) words[0] |= 0x67670000u;
            uint32_t near = ~0u; /* kvg_are_near */
#pragma unroll
            for (int i = 0; i < WORDS; i++) near &= (words[i] + 0x79797979u) & (words[i] + 0x7A7A7A7Au);
            if (!__all_sync(~0u, (~near & 0xE0E0E0E0u) == 0)) {
                put(std::true_type(), words);
                return;
            }
        }
        put(std::false_type(), words);
    }
}

/* The next stage. */
static __device__ __forceinline__ void prefill_next(const prefill_args &a, prefill_turn &turn)
{
    if (++turn.stage == a.stages) turn.stage = 0, turn.odd ^= 1;
}

/* All tiles of an item that are the warp's. */
template <class SIDE, int WHICH>
static __device__ __forceinline__ void prefill_fill(const prefill_args &a, const prefill_memory<SIDE::DIM> &memory,
                                                    const prefill_item &item, prefill_turn &turn, uint32_t filler,
                                                    int lane)
{
    const uint32_t first = prefill_first_tile(item), end = prefill_end_tile(item), depth = a.depth;
    const uint32_t which = prefill_first_of(&turn, filler), raws = memory.raw(a, filler);
    uint32_t to = 0, from = 0, asked = first + which; /* raw tiles of the next copy, of the next read; tile of that copy */
    if (asked < end) {
        prefill_source<SIDE, WHICH> source(a, item, asked * KVG_TILE, lane);
        const auto ask = [&] {
            if (asked < end) source.copy(a.d, raws + to * a.raw, lane);
            else source.settle();
            kvg_copies_end();
            asked += PREFILL_SIDE_FILLERS;
            if (++to == depth) to = 0;
        };
        for (uint32_t i = 1; i < depth; i++) ask();
        prefill_turn mine = turn;
        prefill_turn_by(&mine, a.stages, which);
#pragma unroll 1
        for (uint32_t tile = first + which; tile < end; tile += PREFILL_SIDE_FILLERS) {
            ask();
            if (depth == 1) kvg_copies_wait<0>();
            else if (depth == 2) kvg_copies_wait<1>();
            else if (depth == 3) kvg_copies_wait<2>();
            else kvg_copies_wait<3>();
            prefill_barrier_wait(memory.empty(mine.stage), mine.odd ^ 1);
            const uint32_t raw = raws + from * a.raw;
            prefill_convert<SIDE, WHICH>(a, raw, memory.tile(a, WHICH, mine.stage), memory.row_scales(WHICH, mine.stage),
                                         lane);
            if (WHICH == KVG_K && lane == 0) {
                uint32_t present;
                kvg_load_shared<4>(&present, raw + prefill_raw<SIDE>::PRESENT);
                kvg_store_shared<4>(memory.present(mine.stage), &present);
            }
            prefill_fence();
            __syncwarp();
            if (lane == 0) prefill_barrier_arrive(memory.full(mine.stage));
            prefill_next(a, mine), prefill_next(a, mine);
            if (++from == depth) from = 0;
        }
        kvg_copies_wait<0>();
    }
    prefill_turn_by(&turn, a.stages, end - first);
}

/* The formats whose operands are of a type. */
template <kvg_format... FORMATS> struct prefill_formats {
    template <kvg_dtype T, int DIM, int WHICH, class... ARGS>
    static __device__ __forceinline__ void fill(const prefill_args &a, ARGS &...args)
    {
        (void)((a.format[WHICH] == FORMATS &&
                (prefill_fill<kvg_side_of<FORMATS, T, DIM>, WHICH>(a, args...), true)) || ...);
    }
};
typedef prefill_formats<KVG_FORMAT_BF16, KVG_FORMAT_INT8, KVG_FORMAT_INT4> prefill_bf16_formats;
typedef prefill_formats<KVG_FORMAT_F16, KVG_FORMAT_E4M3, KVG_FORMAT_E5M2, KVG_FORMAT_INT8, KVG_FORMAT_INT4, KVG_FORMAT_MX16,
                        KVG_FORMAT_MXFP4, KVG_FORMAT_NVFP4> prefill_f16_formats;
typedef prefill_formats<KVG_FORMAT_ROWINT4, KVG_FORMAT_ROWFP4> prefill_row_scale_formats;

#endif
