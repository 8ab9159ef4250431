/* The rows of a paged cache: where a position of a sequence lies, and the bytes of its row (docs/spec/layouts.md 7). */
#ifndef KVG_SECOND_SLOW_CACHE_H
#define KVG_SECOND_SLOW_CACHE_H

#include "core/backend.h"
#include "second/slow_layout.h"

/* A row in transit: both buffers hold the longest row of any format. */
typedef struct slow_row_bytes {
    uint8_t codes[2 * KVG_MAX_HEAD_DIM], scales[KVG_MAX_HEAD_DIM];
} slow_row_bytes;

/* What every paged op has: the problem, its pools, and each side's row sizes. A byte lies as far from the first byte of
 * its row in every row. */
typedef struct slow_cache {
    const kvg_problem *problem;
    const kvg_tensor *tensors; /* those with the pools: append's outputs, the others' inputs */
    const kvg_role *roles;
    size_t code_bytes[2], scale_bytes[2]; /* of a row; 0 for V in K's row */
    uint64_t code_steps[2][2 * KVG_MAX_HEAD_DIM], scale_steps[2][KVG_MAX_HEAD_DIM]; /* from byte 0 to each byte */
} slow_cache;

slow_cache slow_cache_of(const kvg_problem *problem, const kvg_tensor *tensors, const kvg_role *roles);
void slow_cache_write(const slow_cache *cache, kvg_side side, uint64_t slot, uint64_t head, const slow_row_bytes *row);
void slow_cache_read(const slow_cache *cache, kvg_side side, uint64_t slot, uint64_t head, slow_row_bytes *row);

/* Entries of a sequence in the block table. */
size_t slow_cache_columns(const kvg_problem *problem);

/* KVG_ERR_INVALID unless every length is one that the cache can have. */
kvg_status slow_cache_check_lengths(const kvg_problem *problem, const int32_t *lengths) KVG_CHECKED;

/* The slot of a position below the sequence's length; -1 if the cache does not have it. `table` is the sequence's. */
int64_t slow_cache_slot(const kvg_problem *problem, const int32_t *table, int32_t length, uint32_t position);

#endif
