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
    return (ref_tiles){start, count, 0, first > 0 ? first : 0, end};
}

/* Positions of a piece of `length` positions; 0: they are not cut. */
static int64_t positions_of_piece(const ref_profile_run *r, int64_t length)
{
    enum { LEAST_OF_EQUAL = 32 };
    const bool segments = r->rules->pieces == KVG_PIECES_SEGMENTS, equal = r->rules->pieces == KVG_PIECES_EQUAL;
    const int64_t unit = segments ? r->tile : LEAST_OF_EQUAL, of_all = unit * r->splits;
    return segments || equal ? (length + of_all - 1) / of_all * unit : r->piece;
}

/* Runs `leaf`, `leaf` + splits, ... of positions `first` to `end` - 1. A run begins at a multiple of its size. */
static ref_tiles tiles_in_turn(const ref_profile_run *r, uint32_t leaf, int64_t first, int64_t end)
{
    const int64_t tile = r->tile, run = tile * KVG_RUN, origin = first / run * run, turn = run * r->splits;
    const int64_t start = origin + leaf * run, turns = start < end ? (end - start + turn - 1) / turn : 0;
    const int64_t in_last = end - start - (turns - 1) * turn, tiles = (in_last + tile - 1) / tile;
    const int64_t count = turns ? (turns - 1) * KVG_RUN + (tiles < KVG_RUN ? tiles : KVG_RUN) : 0;
    return (ref_tiles){start, count, turn - run, origin, end};
}

/* --- docs/spec/other-kernels.md section 7: a plan for all sequences --- */

enum { MULTIPROCESSORS = 132, PLANNED_TILE = 64, PLANNED_ROWS = 64, OVERHEAD = 5 /* of a part, in tiles */ };

static int64_t planned_tiles(const ref_profile_run *r, uint32_t sequence)
{
    const int64_t tiles = (r->kv.table.lengths[sequence] + PLANNED_TILE - 1) / PLANNED_TILE;
    return tiles ? tiles : 1;
}

/* The sequences are dealt out to multiprocessors, one after the other. *begin and *end: the tiles of part `part` of
 * `sequence`; none if it has no such part. The number of its parts. */
static uint32_t plan(const ref_profile_run *r, uint32_t sequence, uint32_t part, int64_t *begin, int64_t *end)
{
    const uint32_t rows = (uint32_t)r->query_lengths[0] * r->group, blocks = (rows + PLANNED_ROWS - 1) / PLANNED_ROWS;
    const int64_t shares = MULTIPROCESSORS / r->p->kv_heads / blocks, most = shares > 1 ? shares : 1;
    int64_t total = 0;
    for (uint32_t s = 0; s < r->p->paging.sequences; s++) total += planned_tiles(r, s) + OVERHEAD;
    const int64_t payload = (total + most - 1) / most + OVERHEAD;
    int64_t room = payload;
    *begin = *end = 0;
    for (uint32_t s = 0;; s++) {
        const int64_t tiles = planned_tiles(r, s);
        uint32_t count = 0;
        for (int64_t done = 0; done < tiles;) {
            const int64_t left = tiles - done, taken = left + OVERHEAD <= room ? left : room - OVERHEAD;
            if (taken > 0 && s == sequence && count == part) *begin = done, *end = done + taken;
            count += taken > 0;
            done += taken > 0 ? taken : 0;
            room = taken == left ? room - taken - OVERHEAD : payload;
        }
        if (s == sequence) return count;
    }
}

/* A tile of the walk is two of the plan's. Rows of a block do not walk tiles that all of them do not see. */
static ref_tiles tiles_of_plan(const ref_profile_run *r, const ref_batch *b, uint32_t leaf, uint64_t row)
{
    const uint32_t sequence = r->queries[b->first].sequence;
    const int64_t length = r->kv.table.lengths[sequence], tokens = r->query_lengths[sequence];
    const int64_t last_row = (int64_t)(row_of_sequence(r, b, row) / PLANNED_ROWS + 1) * PLANNED_ROWS - 1;
    const int64_t unseen = last_row < tokens * r->group ? tokens - last_row / r->group - 1 : 0;
    const int64_t seen = (length - unseen + PLANNED_TILE - 1) / PLANNED_TILE;
    int64_t begin, end;
    plan(r, sequence, leaf, &begin, &end);
    if (end > seen) end = seen;
    const int64_t count = end > begin ? (end - begin + 1) / 2 : 0, stored_end = end * PLANNED_TILE;
    return (ref_tiles){begin * PLANNED_TILE, count, 0, 0, stored_end < length ? stored_end : length};
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
    if (r->rules->pieces == KVG_PIECES_IN_TURN) return tiles_in_turn(r, leaf, first, length);
    if (r->rules->pieces == KVG_PIECES_PLANNED) return tiles_of_plan(r, b, leaf, row);
    const int64_t walked = r->of_head == KVG_BLOCK_OF_KV ? first : first / r->tile * r->tile;
    const bool by_position = r->of_head == KVG_BLOCK_OF_TOKENS; /* pieces begin at 0, and V is read for the block */
    const int64_t origin = by_position ? 0 : walked, piece = positions_of_piece(r, length - origin);
    const int64_t cut = origin + leaf * piece, from = cut > walked ? cut : walked;
    const int64_t start = from < length ? from : length, end = piece && cut + piece < length ? cut + piece : length;
    const int64_t seen = before + high < length ? before + high : length, last = seen < end ? seen : end;
    const int64_t count = last > start ? (last - start + step - 1) / step * r->parts : 0;
    return by_position ? (ref_tiles){start, count, 0, first, seen} : tiles_from(r, b, start, count, end);
}

bool ref_tiles_are_shared(const ref_profile_run *r, const ref_batch *b)
{
    if (r->block || r->rules->leaf) return r->block > 0;
    return (uint64_t)r->query_lengths[r->queries[b->first].sequence] * r->group <= REF_BLOCK_ROWS;
}

uint32_t ref_tiles_pieces(const ref_profile_run *r, const ref_batch *b, uint64_t row)
{
    const uint32_t sequence = r->queries[b->first].sequence;
    const int64_t length = r->kv.table.lengths[sequence];
    int64_t begin, end;
    if (r->rules->pieces == KVG_PIECES_PLANNED) return plan(r, sequence, 0, &begin, &end);
    if (!r->piece) return r->splits;
    const int64_t positions = length - tiles_of_block(r, b, 0, row).start;
    return (uint32_t)((positions + r->piece - 1) / r->piece);
}

/* Of a leaf; without leaves, a split's share of those with keys that some token of the batch sees. */
static ref_tiles tiles_of_leaf(const ref_profile_run *r, const ref_batch *b, uint32_t leaf)
{
    const int64_t size = r->rules->leaf / r->tile, tile = r->tile;
    if (size) return (ref_tiles){leaf * size * tile, size, 0, 0, 0};
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

static kvg_status check_splits(const ref_profile_run *r)
{
    const char *name = kvg_profile_get(r->p->profile)->name;
    if (r->splits == 1 || r->piece) return KVG_OK;
    switch (r->rules->pieces) {
    case KVG_PIECES_NONE:
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s has the same bits for every number of splits: leave splits out",
                        name);
    case KVG_PIECES_SIZE:
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is cut into pieces of a given size: say it instead of splits", name);
    case KVG_PIECES_SEGMENTS:
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s always has %d segments: leave splits out", name, (int)KVG_SEGMENTS);
    case KVG_PIECES_PLANNED:
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s plans its splits itself: leave splits out", name);
    case KVG_PIECES_TILES:
    case KVG_PIECES_EQUAL:
    case KVG_PIECES_IN_TURN: break;
    }
    if (r->splits < 1 || r->splits > KVG_MOST_SPLITS) {
        return kvg_fail(KVG_ERR_INVALID, "%u splits: give a number from 1 to %d", r->splits, (int)KVG_MOST_SPLITS);
    }
    /* Those that the rows of a sequence see, where all are in one block. */
    for (uint32_t s = 0; r->rules->pieces == KVG_PIECES_TILES && s < r->p->paging.sequences; s++) {
        if ((uint64_t)r->query_lengths[s] * r->group <= REF_BLOCK_ROWS) continue;
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s in splits is known for up to %d query rows of a KV head and a "
                        "sequence, not for %d tokens of %u heads", name, (int)REF_BLOCK_ROWS,
                        r->query_lengths[s], r->group);
    }
    return KVG_OK;
}

/* As many splits as the sequence has that has most. */
static kvg_status set_planned(ref_profile_run *r)
{
    int64_t begin, end;
    for (uint32_t i = 0; i < r->p->paging.sequences; i++) {
        if (r->query_lengths[i] != r->query_lengths[0]) {
            return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s takes as many query tokens of each sequence: not %d of sequence "
                            "%u and %d of sequence 0", kvg_profile_get(r->p->profile)->name, r->query_lengths[i], i,
                            r->query_lengths[0]);
        }
    }
    for (uint32_t i = 0; i < r->p->paging.sequences; i++) {
        const uint32_t parts = plan(r, i, 0, &begin, &end);
        r->splits = parts > r->splits ? parts : r->splits;
    }
    return KVG_OK;
}

/* Pieces of so many positions, as many as the longest sequence has, or as many as the kernel always has. */
kvg_status ref_tiles_set_pieces(ref_profile_run *r)
{
    int64_t longest = 1;
    const kvg_status s = check_splits(r);
    if (s) return s;
    if (!r->piece) {
        if (r->rules->pieces == KVG_PIECES_SEGMENTS) r->splits = KVG_SEGMENTS;
        return r->rules->pieces == KVG_PIECES_PLANNED ? set_planned(r) : KVG_OK;
    }
    if (r->rules->pieces != KVG_PIECES_SIZE) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "%s is not cut into pieces of a given size",
                        kvg_profile_get(r->p->profile)->name);
    }
    for (uint32_t i = 0; i < r->p->paging.sequences; i++)
        longest = r->kv.table.lengths[i] > longest ? r->kv.table.lengths[i] : longest;
    r->splits = (uint32_t)((longest + r->piece - 1) / r->piece);
    return KVG_OK;
}
