/* The data pool and the scale pool of one cache as one: every operation goes to both, and both must answer alike. */
#ifndef KVG_PAGING_MANAGERS_REF_BLOCK_PAIR_H
#define KVG_PAGING_MANAGERS_REF_BLOCK_PAIR_H

#include <stdbool.h>

#include "paging/managers/ref_paging_memory.h"

typedef struct ref_block_pair {
    kvg_memory memory;
    kvg_block_pool pool[2]; /* data, scale; scale may have no ops */
    uint32_t *second;       /* the scale pool's answer */
    size_t second_room;
} ref_block_pair;

void ref_block_pair_destroy(ref_block_pair *pair);

/* What ref_block_pair_begin remembers, `undo` restores in both pools; neither can fail. */
void ref_block_pair_begin(ref_block_pair *pair);
void ref_block_pair_end(ref_block_pair *pair);
void ref_block_pair_undo(ref_block_pair *pair);

/* One operation of kvg_block_ops on both pools. On failure one pool may have changed: call these between begin and
 * undo. KVG_ERR_INVALID if the two pools' answers differ. */
typedef enum ref_change { REF_LOCK, REF_UNLOCK, REF_FREE, REF_TOUCH } ref_change;
kvg_status ref_block_pair_change(ref_block_pair *pair, ref_change change, const uint32_t *ids, uint32_t n);
kvg_status ref_block_pair_allocate(ref_block_pair *pair, uint32_t n, uint32_t *ids, uint64_t *unique_ids);
kvg_status ref_block_pair_evict(ref_block_pair *pair, uint32_t n, uint32_t *ids);

/* Whether {id, unique_id} is alive in both pools. */
kvg_status ref_block_pair_alive(ref_block_pair *pair, uint32_t id, uint64_t unique_id, bool *alive);

/* The data pool's. */
kvg_status ref_block_pair_get(ref_block_pair *pair, uint32_t id, kvg_block *block);
void ref_block_pair_counts(ref_block_pair *pair, kvg_block_counts *counts);

#endif
