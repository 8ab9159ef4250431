/* What gates of block pools and indexes answer under planted defects; private to paging/pool/pool_defects*.c. Each
 * answers wrongly in one way, which paging/pool/pool_defects.def tells. */
#ifndef KVG_PAGING_POOL_POOL_DEFECTS_BLOCKS_H
#define KVG_PAGING_POOL_POOL_DEFECTS_BLOCKS_H

#include "paging/pool/pool_stack.h"

enum { KVG_DEFECT_MOST = 64 }; /* blocks that a defect looks at */

/* The calls behind a gate. */
#define BELOW(gate, call, ...) ((gate)->inner.ops->call((gate)->inner.self, __VA_ARGS__))

/* A defect's memory of one pool. */
uint64_t *kvg_defect_notes(const kvg_block_gate *gate);

/* A block as it is; all 0 if there is none. */
kvg_block kvg_defect_block(const kvg_block_gate *gate, uint32_t id);

kvg_status kvg_defect_evict_newest(void *self, uint32_t n, uint32_t *ids);
kvg_status kvg_defect_touch_forward(void *self, const uint32_t *ids, uint32_t n);
kvg_status kvg_defect_allocate_higher(void *self, uint32_t n, uint32_t *ids);
kvg_status kvg_defect_unlock_twice(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_defect_unlock_all_but_one(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_defect_free_twice(void *self, const uint32_t *ids, uint32_t n);
kvg_status kvg_defect_allocate_listed_twice(void *self, uint32_t n, uint32_t *ids);
kvg_status kvg_defect_allocate_then_fail(void *self, uint32_t n, uint32_t *ids);
void kvg_defect_counts_drift(void *self, kvg_block_counts *counts);
void kvg_defect_counts_shared_twice(void *self, kvg_block_counts *counts);
kvg_status kvg_defect_get_wrapped_unique_id(void *self, uint32_t id, kvg_block *block);
kvg_status kvg_defect_get_falling_unique_id(void *self, uint32_t id, kvg_block *block);
kvg_status kvg_defect_get_coarse_timestamp(void *self, uint32_t id, kvg_block *block);
kvg_status kvg_defect_allocate_wrong_reason(void *self, uint32_t n, uint32_t *ids);
kvg_status kvg_defect_verify_3_bits(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n,
                                    uint32_t *valid);
kvg_status kvg_defect_verify_nothing(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n,
                                     uint32_t *valid);
void kvg_defect_undo_nothing(void *self);
kvg_status kvg_defect_evict_nothing(void *self, uint32_t n, uint32_t *ids);
kvg_status kvg_defect_change_nothing(void *self, const uint32_t *ids, uint32_t n);
kvg_status kvg_defect_move_nothing(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_defect_get_single_use(void *self, uint32_t id, kvg_block *block);
kvg_status kvg_defect_lock_not_in_fork(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_defect_unlock_later(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_defect_free_before(void *self, const uint32_t *ids, uint32_t n);

#endif
