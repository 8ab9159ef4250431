/* Where the rows of op decode lie, by the block table.
 *
 * A row's place is an index in units of its pool, block * .block + offset * .token. With pages of a multiple of 16
 * tokens half a warp holds that of the first row of each group of an even stretch, lane by lane, the other half of an
 * odd one, and what a stretch is done with makes room for the one after the next; else lane i holds that of row i of
 * the tile, tile by tile, and the entry of the block table for the next. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_PLACES_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_PLACES_CUH

#include "gpu/attention/few/few_part.cuh"
#include "gpu/attention/shared/copy.cuh"

/* A lane's part. */
template <class K, class V, kvg_decode_rows ROWS> class kvg_decode_places {
protected:
    static constexpr int INDEXES = K::FORMAT == V::FORMAT ? 1 : 2; /* sides of one format lie alike */
    static constexpr bool GROUPED = ROWS != KVG_ROWS_ANY;
    uint32_t code_index[INDEXES], scale_index[INDEXES];

private:
    uint32_t hidden;   /* lanes whose group, or token of the tile found last, has no block */
    int32_t entry;     /* of the lane's group, or of the next tile's token */
    uint32_t in_block; /* its offset */
    const int32_t *table;
    int first, end;    /* positions: of the run, of the last key and one */

    __device__ void resolve(const kvg_decode_args &a, uint32_t block, uint32_t offset)
    {
#pragma unroll
        for (int i = 0; i < INDEXES; i++) {
            code_index[i] = block * a.codes[i].block + offset * a.codes[i].token;
            scale_index[i] = block * a.scales[i].block + offset * a.scales[i].token;
        }
    }
    /* The table's entry of the lane's group of a stretch, or of its token of a tile. */
    __device__ void find_group(const kvg_decode_args &a, int stretch, int lane)
    {
        const int group = first + stretch * KVG_DECODE_STRETCH + lane % KVG_GROUP * KVG_GROUP;
        uint32_t page;
        in_block = kvg_offset_of(a, min(group, (end - 1) / KVG_GROUP * KVG_GROUP), end, &page);
        entry = table[page];
    }
    __device__ void find_token(const kvg_decode_args &a, int t, int lane)
    {
        uint32_t page;
        in_block = kvg_offset_of(a, first + t * KVG_TILE + lane, end, &page);
        entry = table[page];
    }
    /* The table's entries of 1,024 tokens, for others or for later. */
    __device__ void prefetch(const kvg_decode_args &a, uint32_t from, int lane) const
    {
        uint32_t page;
        kvg_offset_of(a, (int)(from + (uint32_t)lane * 2 * KVG_GROUP), end, &page);
        asm volatile("prefetch.global.L2 [%0];" ::"l"(table + page));
    }
    static __device__ bool is_block(const kvg_decode_args &a, int32_t entry) { return entry >= 0 && entry < a.blocks; }

protected:
    __device__ void open_table(const kvg_decode_args &a, const int32_t *row_table, int first_token, int first_tile,
                               int keys_end, int lane)
    {
        table = row_table, first = first_token, end = keys_end;
        const int stretch = first_tile / KVG_STRETCH_TILES; /* and the next one */
        if (GROUPED) {
            find_group(a, stretch + ((lane / KVG_GROUP ^ stretch) & 1), lane);
            prefetch(a, (uint32_t)first, lane);
            prefetch(a, (uint32_t)first + a.ahead, lane);
        } else {
            find_token(a, first_tile, lane);
        }
    }

public:
    /* What the table says of the groups: apart from its load, so that there is time between. */
    __device__ void look_up(const kvg_decode_args &a)
    {
        if (!GROUPED) return;
        hidden = __ballot_sync(~0u, !is_block(a, entry));
        resolve(a, is_block(a, entry) ? entry : 0, in_block);
    }

    /* Groups of a stretch in place of those of the last but one. */
    __device__ void look_further(const kvg_decode_args &a, int stretch, int lane)
    {
        if (!GROUPED) return;
        const bool mine = lane / KVG_GROUP == stretch % 2;
        bool none = hidden >> lane & 1;
        if (mine) {
            find_group(a, stretch, lane);
            none = !is_block(a, entry);
            resolve(a, none ? 0 : entry, in_block);
        }
        hidden = __ballot_sync(~0u, none);
    }

    /* Where tile t lies, if it is not known yet: before its copies. */
    __device__ __forceinline__ void find(const kvg_decode_args &a, int t, int lane)
    {
        if constexpr (GROUPED) return;
        hidden = __ballot_sync(~0u, !is_block(a, entry));
        resolve(a, is_block(a, entry) ? entry : 0, in_block);
        find_token(a, t + 1, lane);
    }

    /* Tokens of tile t, the one found last, that have no block, as bits. */
    __device__ __forceinline__ uint32_t holes(int t) const
    {
        if (!GROUPED) return hidden;
        const uint32_t two = hidden >> 2 * t % KVG_WARP & 3;
        return (two & 1) * 0xFFFFu | (two >> 1) * 0xFFFF0000u;
    }

    /* Two bits for each tile of a stretch, which has such a token where one is set, if that is known before. */
    __device__ uint32_t groups_hidden(int stretch) const { return GROUPED ? hidden >> stretch % 2 * 16 & 0xFFFF : 0; }
};

#endif
