/* A contiguous KV cache with a fixed number of positions per sequence, and its ring buffer for sliding windows: which
 * slot a new token takes and which tokens are there. Bookkeeping only: the layouts `contiguous` and `ring`
 * (docs/spec/layouts.md) say where the bytes of a slot lie. */
#ifndef KVG_REFERENCE_CONTIGUOUS_H
#define KVG_REFERENCE_CONTIGUOUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kvg_contiguous kvg_contiguous;

typedef struct kvg_contiguous_config {
    uint32_t batch;    /* sequences */
    uint32_t layers;
    uint64_t capacity; /* positions per sequence: max_seq_len, or the window of a ring */
    bool ring;         /* the newest token takes the place of the oldest once all places are taken */
} kvg_contiguous_config;

/* The positions first .. end - 1 of a sequence. */
typedef struct kvg_positions {
    uint64_t first, end;
} kvg_positions;

/* An empty cache; the caller destroys it. KVG_ERR_INVALID: a size of 0, or more than 2^63 - 1 slots. */
kvg_status kvg_contiguous_create(const kvg_contiguous_config *config, kvg_contiguous **out) KVG_CHECKED;
void kvg_contiguous_destroy(kvg_contiguous *cache); /* NULL is allowed */

/* A step is one update of every layer, in any order, and then one advance; all of them with the same counts[batch], the
 * new tokens of each sequence (0 is allowed).
 *
 * update: where one layer's new tokens go. Token j of a sequence is position length + j, its slot is
 *     sequence * capacity + position                 contiguous
 *     sequence * capacity + position mod capacity    ring
 * slots[] gets counts[0] + counts[1] + ... of them, sequence by sequence, in the order of positions. Of more than
 * `capacity` tokens a ring keeps the last; those before them have slot -1 and are not to be written. valid[batch] gets
 * what this layer holds once they are written; NULL: not wanted. A ring overwrites: queries among the new tokens whose
 * window reaches further back than valid[] must read those tokens before they are overwritten.
 *
 * advance: the new tokens become part of every sequence.
 *
 * KVG_ERR_INVALID, with the cache as it was and slots and valid untouched: a layer that is out of range, was updated
 * in this step already, or gets other counts than an earlier layer of the step; a position past a contiguous cache's
 * capacity (update); a layer not yet updated in this step, or other counts than its updates' (advance). */
kvg_status kvg_contiguous_update(kvg_contiguous *cache, uint32_t layer, const uint32_t *counts, int64_t *slots,
                                 kvg_positions *valid) KVG_CHECKED;
kvg_status kvg_contiguous_advance(kvg_contiguous *cache, const uint32_t *counts) KVG_CHECKED;

/* Forgets every token, and a step that has begun. */
void kvg_contiguous_reset(kvg_contiguous *cache);

/* Below, sequence and layer must be in range. */

/* Tokens that a sequence has had since creation or reset, those of finished steps. */
uint64_t kvg_contiguous_length(const kvg_contiguous *cache, uint32_t sequence);

/* The tokens that one layer holds of a sequence, those of its own update in the current step included. */
kvg_positions kvg_contiguous_valid(const kvg_contiguous *cache, uint32_t layer, uint32_t sequence);

/* The slot of a position; -1 if it is outside kvg_contiguous_valid. */
int64_t kvg_contiguous_slot(const kvg_contiguous *cache, uint32_t layer, uint32_t sequence, uint64_t position);

/* Bytes that the cache allocates, and bytes of them that hold tokens of finished steps. row_bytes: K and V of one
 * position of one layer, all heads, codes and scales. KVG_ERR_INVALID: 2^64 bytes or more. */
kvg_status kvg_contiguous_memory(const kvg_contiguous *cache, uint64_t row_bytes, uint64_t *allocated,
                                 uint64_t *used) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
