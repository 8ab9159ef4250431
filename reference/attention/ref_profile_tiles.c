#include "reference/attention/ref_profile_tiles.h"

#include <omp.h>

/* Positions of a sequence before those of its query tokens. */
static int64_t positions_before(const ref_profile_run *r, uint32_t sequence)
{
    return r->kv.table.lengths[sequence] - r->query_lengths[sequence];
}

/* The number of row `row` of the batch and a KV head among those of its sequence, token by token. */
static uint64_t row_of_sequence(const ref_profile_run *r, const ref_batch *b, uint64_t row)
{
    const ref_query *query = &r->queries[b->first];
    return (uint64_t)(query->position - positions_before(r, query->sequence)) * r->group + row;
}

/* Tiles whose V is read where a row of the sequence sees it, and below `end`. */
static ref_tiles tiles_from(const ref_profile_run *r, const ref_batch *b, int64_t start, int64_t count, int64_t end)
{
    const int64_t before = positions_before(r, r->queries[b->first].sequence);
    const int64_t window = r->p->attention.window, first = window ? before - window + 1 : 0;
    return (ref_tiles){start, count, first > 0 ? first : 0, end};
}

/* Positions of a piece of `length` positions; 0: they are not cut. Equal pieces are whole tiles. */
static int64_t positions_of_piece(const ref_profile_run *r, int64_t length)
{
    const bool equal = r->rules->end == KVG_END_SEGMENTS || r->rules->end == KVG_END_NATURAL;
    const int64_t of_all = (int64_t)r->tile * r->splits;
    return equal ? (length + of_all - 1) / of_all * r->tile : r->piece;
}

/* Of the block of rows that row `row` lies in, and of piece `leaf` of its keys: docs/spec/other-kernels.md sections
 * 2.2, 2.5, 3 and 5. */
static ref_tiles tiles_of_block(const ref_profile_run *r, const ref_batch *b, uint32_t leaf, uint64_t row)
{
    const uint32_t sequence = r->queries[b->first].sequence;
    const int64_t length = r->kv.table.lengths[sequence], before = positions_before(r, sequence);
    const int64_t step = (int64_t)r->tile * r->parts;
    const int64_t window = r->rules->operands == KVG_OPERANDS_THREADS ? 0 : r->p->attention.window;
    const uint64_t first_row = row_of_sequence(r, b, row) / r->block * r->block;
    const int64_t low = (int64_t)(first_row / r->group), high = (int64_t)((first_row + r->padded - 1) / r->group + 1);
    const int64_t first = window && before + low >= window ? before + low - window + 1 : 0;
    const int64_t walked = r->of_head == KVG_BLOCK_OF_KV ? first : first / r->tile * r->tile;
    const bool by_position = r->of_head == KVG_BLOCK_OF_TOKENS; /* pieces begin at 0, and V is read for the block */
    const int64_t origin = by_position ? 0 : walked, piece = positions_of_piece(r, length - origin);
    const int64_t cut = origin + leaf * piece, from = cut > walked ? cut : walked;
    const int64_t start = from < length ? from : length, end = piece && cut + piece < length ? cut + piece : length;
    const int64_t seen = before + high < length ? before + high : length, last = seen < end ? seen : end;
    const int64_t count = last > start ? (last - start + step - 1) / step * r->parts : 0;
    return by_position ? (ref_tiles){start, count, first, seen} : tiles_from(r, b, start, count, end);
}

bool ref_tiles_are_shared(const ref_profile_run *r, const ref_batch *b)
{
    if (r->block || r->rules->leaf) return r->block > 0;
    return (uint64_t)r->query_lengths[r->queries[b->first].sequence] * r->group <= REF_BLOCK_ROWS;
}

uint32_t ref_tiles_pieces(const ref_profile_run *r, const ref_batch *b, uint64_t row)
{
    const int64_t length = r->kv.table.lengths[r->queries[b->first].sequence];
    const int64_t positions = length - tiles_of_block(r, b, 0, row).start;
    return (uint32_t)((positions + r->piece - 1) / r->piece);
}

/* Of a leaf; without leaves, a split's share of those with keys that some token of the batch sees. */
static ref_tiles tiles_of_leaf(const ref_profile_run *r, const ref_batch *b, uint32_t leaf)
{
    const int64_t size = r->rules->leaf / r->tile, tile = r->tile;
    if (size) return (ref_tiles){leaf * size * tile, size, 0, 0};
    ref_range_of_keys all = {INT64_MAX, 0};
    for (uint32_t i = 0; i < b->count; i++) {
        const ref_range_of_keys keys = ref_query_keys(&r->kv.table, &r->queries[b->first + i]);
        if (keys.end <= keys.first) continue;
        all.first = keys.first < all.first ? keys.first : all.first;
        all.end = keys.end > all.end ? keys.end : all.end;
    }
    const int64_t first = all.first / tile, end = (all.end + tile - 1) / tile;
    const int64_t share = (end - first + r->splits - 1) / r->splits, from = first + leaf * share;
    const int64_t length = r->kv.table.lengths[r->queries[b->first].sequence];
    return tiles_from(r, b, from * tile, from + share < end ? share : end - from, length);
}

ref_tiles ref_tiles_of(const ref_profile_run *r, const ref_batch *b, uint32_t leaf, uint64_t row)
{
    return r->block ? tiles_of_block(r, b, leaf, row) : tiles_of_leaf(r, b, leaf);
}

uint32_t ref_tiles_cuts(const ref_profile_run *r, const ref_batch *b)
{
    const uint32_t rows = b->count * r->group, most = (uint32_t)omp_get_num_threads();
    const uint64_t first = row_of_sequence(r, b, 0);
    if (r->block) return (uint32_t)((first + rows - 1) / r->block - first / r->block) + 1;
    return r->rules->leaf ? 1 : rows < most ? rows : most;
}

uint32_t ref_tiles_cut(const ref_profile_run *r, const ref_batch *b, uint64_t cut, uint32_t cuts)
{
    const uint32_t rows = b->count * r->group;
    if (!r->block || cut == 0 || cut == cuts) return (uint32_t)(rows * cut / cuts);
    const uint64_t first = row_of_sequence(r, b, 0);
    return (uint32_t)((first / r->block + cut) * r->block - first);
}
