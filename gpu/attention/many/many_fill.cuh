/* The warps that fill stages: they copy a side's rows as they are stored, tiles of 32 keys, and
 * make operands of them (docs/spec/decode-contract.md section 2) in the places that
 * many_multiply.cuh describes. Codes of 16 bits are operands, which are copied to their places. A
 * warp has one side, or a part of a row that K and V share, and every other tile; its lane i has token
 * i of the tile. Rows may lie anywhere: their places are found token by token. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_FILL_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_FILL_CUH

#include <type_traits>

#include "gpu/attention/many/many_padded_convert.cuh"

/* The next stage. */
static __device__ __forceinline__ void many_next(const many_args &a, many_turn &turn)
{
    if (++turn.stage == a.stages) turn.stage = 0, turn.odd ^= 1;
}

/* All tiles of an item that are the warp's. */
template <class PARTS, int WHICH, int DIM>
static __device__ __forceinline__ void many_fill(const many_args &a, const many_memory<DIM> &memory,
                                                 const many_item &item, many_turn &turn, uint32_t filler,
                                                 int lane)
{
    constexpr bool SHARED_ROW = many_memory<DIM>::SHARED_ROW;
    const uint32_t first = many_first_tile(item), end = many_end_tile(item), depth = a.depth;
    const uint32_t which = many_first_of(&turn, filler), raws = memory.raw(a, filler);
    uint32_t to = 0, from = 0;      /* raw tiles of the next copy, of the next read */
    uint32_t asked = first + which; /* tile of the next copy */
    if (asked < end) {
        many_source<PARTS, WHICH, SHARED_ROW> source(a, item, asked * KVG_TILE, lane);
        many_turn mine = turn;
        many_turn_by(&mine, a.stages, which);
        const auto put_present = [&](uint32_t present) {
            if (WHICH == KVG_K && lane == 0) kvg_store_shared<4>(memory.present(mine.stage), &present);
        };
        const auto ask = [&] {
            if (asked < end) {
                const uint32_t raw = raws + to * a.raw, present = source.copy(a, raw, lane);
                if (lane == 0) kvg_store_shared<4>(raw + PARTS::PRESENT, &present);
            } else {
                source.settle(a);
            }
            kvg_copies_end();
            asked += MANY_SIDE_FILLERS;
            if (++to == depth) to = 0;
        };
        uint32_t ahead = 1; /* copies that were asked for before the first tile is read */
#pragma unroll 1
        for (uint32_t tile = first + which; tile < end; tile += MANY_SIDE_FILLERS) {
            if constexpr (PARTS::DIRECT) {
                many_barrier_wait(memory.empty(mine.stage), mine.odd ^ 1);
                put_present(source.copy(a, memory.tile(a, WHICH, mine.stage), lane));
                many_barrier_arrive_with_copies(memory.full(mine.stage));
            } else {
#pragma unroll 1
                do ask();
                while (ahead++ < depth);
                if (depth == 1) kvg_copies_wait<0>();
                else if (depth == 2) kvg_copies_wait<1>();
                else if (depth == 3) kvg_copies_wait<2>();
                else kvg_copies_wait<3>();
                many_barrier_wait(memory.empty(mine.stage), mine.odd ^ 1);
                const uint32_t raw = raws + from * a.raw;
                uint32_t present;
                kvg_load_shared<4>(&present, raw + PARTS::PRESENT);
                PARTS::each([&](auto part) {
                    many_convert<WHICH, SHARED_ROW>(part, a, present >> lane & 1, raw,
                                                    memory.tile(a, WHICH, mine.stage),
                                                    memory.row_scales(WHICH, mine.stage), lane);
                });
                put_present(present);
                if (++from == depth) from = 0;
                many_fence();
            }
            many_barrier_arrive(memory.full(mine.stage));
            __syncwarp(); /* all lanes have read the raw tile, which the next copy may overwrite */
            many_next(a, mine), many_next(a, mine);
        }
        if constexpr (!PARTS::DIRECT) kvg_copies_wait<0>();
    }
    many_turn_by(&turn, a.stages, end - first);
}

/* The formats whose operands are of a type. */
template <kvg_format... FORMATS> struct many_formats {
    template <kvg_dtype T, int DIM, bool PADDED, int WHICH, class... ARGS>
    static __device__ __forceinline__ void fill(const many_args &a, ARGS &...args)
    {
        (void)((a.format[WHICH] == FORMATS &&
                (many_fill<typename many_row<FORMATS, T, DIM, WHICH, PADDED>::parts, WHICH, DIM>(a, args...),
                 true)) ||
               ...);
    }
};
typedef many_formats<KVG_FORMAT_BF16, KVG_FORMAT_INT8, KVG_FORMAT_INT4> many_bf16_formats;
typedef many_formats<KVG_FORMAT_F16, KVG_FORMAT_E4M3, KVG_FORMAT_E5M2, KVG_FORMAT_INT8, KVG_FORMAT_INT4,
                        KVG_FORMAT_MX16, KVG_FORMAT_MXFP4, KVG_FORMAT_NVFP4>
    many_f16_formats;
typedef many_formats<KVG_FORMAT_ROWINT4, KVG_FORMAT_ROWFP4> many_row_scale_formats;
/* Of rows that K and V share: those that check_shared of many.cu lets through. */
typedef many_formats<KVG_FORMAT_BF16> many_shared_bf16_formats;
typedef many_formats<KVG_FORMAT_F16, KVG_FORMAT_E4M3, KVG_FORMAT_E5M2, KVG_FORMAT_MX16, KVG_FORMAT_NVFP4>
    many_shared_f16_formats;

#endif
