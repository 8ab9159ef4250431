/* Which tiles the rows of a batch walk in the profile tier (reference/attention/ref_profile.c). */
#ifndef KVG_REFERENCE_ATTENTION_REF_PROFILE_TILES_H
#define KVG_REFERENCE_ATTENTION_REF_PROFILE_TILES_H

#include "reference/attention/ref_profile.h"

/* Rows of a KV head and a sequence that FlashAttention-3 has in one block, at least. */
enum { REF_BLOCK_ROWS = 128 };

/* Query tokens of one sequence, and the leaves that their keys lie in. */
typedef struct ref_batch {
    uint32_t first, count;
    uint32_t first_leaf, end_leaf;
} ref_batch;

/* Tiles that some rows walk. */
typedef struct ref_tiles {
    int64_t start; /* position of the first */
    int64_t count;
    int64_t leap;  /* positions that lie between one KVG_RUN of them and the next */
    int64_t first, end; /* V is read from `first` on and below `end`; both 0: where a row sees it */
} ref_tiles;

/* Of a leaf, or of a split or piece `leaf`, for the block of rows of a KV head that row `row` of the batch lies in. */
ref_tiles ref_tiles_of(const ref_profile_run *r, const ref_batch *b, uint32_t leaf, uint64_t row);

/* Every row walks all tiles of its block, those that it does not see among them. */
bool ref_tiles_are_shared(const ref_profile_run *r, const ref_batch *b);

/* How the walk's splits or pieces cut the keys of this call, as the contract permits it. */
kvg_status ref_tiles_set_pieces(ref_profile_run *r);

/* Pieces of the keys of the block that row `row` lies in. */
uint32_t ref_tiles_pieces(const ref_profile_run *r, const ref_batch *b, uint64_t row);

/* Items that the rows of a leaf are cut into: blocks, or as many as there are threads, or one if there are leaves. */
uint32_t ref_tiles_cuts(const ref_profile_run *r, const ref_batch *b);

/* The first row of item `cut` of `cuts`. */
uint32_t ref_tiles_cut(const ref_profile_run *r, const ref_batch *b, uint64_t cut, uint32_t cuts);

#endif
