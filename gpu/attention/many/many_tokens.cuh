/* Where the rows of a tile lie in the cache, token by token. */
#ifndef KVG_GPU_ATTENTION_MANY_MANY_TOKENS_CUH
#define KVG_GPU_ATTENTION_MANY_MANY_TOKENS_CUH

#include "gpu/attention/many/many_args.cuh"
#include "gpu/attention/shared/copy.cuh"

/* Where a lane's token of a tile lies. */
class many_tokens
{
    const int32_t *table;
    uint32_t low, high; /* codes of positions outside are not read */

  protected:
    uint32_t position; /* of the lane in the tile that is looked up next */
    int32_t entry;     /* of the table */
    uint32_t in_page;

    __device__ many_tokens(const kvg_decode_args &a, const many_item &item, uint32_t first, int lane)
        : table(a.table + (size_t)item.band.sequence * a.width), low(item.low), high(item.high), position(first + lane)
    {
    }
    __device__ void look_up(const kvg_decode_args &a)
    {
        uint32_t page;
        in_page = kvg_offset_of(a, (int)position, (int)high, &page);
        entry = table[page];
    }
    __device__ __forceinline__ bool has_block(const kvg_decode_args &a) const
    {
        return entry >= 0 && entry < a.blocks;
    }
    __device__ __forceinline__ bool is_there(const kvg_decode_args &a) const
    {
        return position >= low && position < high && has_block(a);
    }
    __device__ __forceinline__ void look_further(const kvg_decode_args &a, int lane)
    {
        position += MANY_SIDE_FILLERS * KVG_TILE;
        if (position - lane < high) look_up(a);
    }
};

#endif
