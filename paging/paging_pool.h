/* Block pools: ids, use counts, unique ids and timestamps of the blocks of one paged cache, without
 * the blocks' bytes. The contract is docs/spec/paging.md. All users of a pool reach it through
 * kvg_block_ops, so the pool of another engine can take its place. */
#ifndef KVG_PAGING_PAGING_POOL_H
#define KVG_PAGING_PAGING_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVG_BLOCK_NONE UINT32_MAX /* no block: a hole of a block table */

/* How the managers get host memory. A NULL kvg_memory means malloc and free. The struct is
 * copied. */
typedef struct kvg_memory {
    void *(*allocate)(void *context, size_t bytes); /* NULL if there is no memory; aligned for any type */
    void (*release)(void *context, void *pointer);  /* `pointer` is from allocate, never NULL */
    void *context;
} kvg_memory;

/* One block. Active: use_count > 0. Cached: use_count 0 and a timestamp above 0. Free: use_count,
 * unique_id and timestamp are 0. */
typedef struct kvg_block {
    uint32_t id;
    uint32_t use_count;
    uint64_t unique_id; /* new at every allocation, so a reference {id, unique_id} to an earlier life never matches */
    uint64_t timestamp; /* time of the last allocate or touch; the smallest is evicted first */
} kvg_block;

typedef struct kvg_block_counts {
    uint32_t free, cached, active; /* free + cached + active = total */
    uint32_t total;                /* blocks that exist: ids 0 to total - 1 */
    uint32_t capacity;             /* blocks that can exist: total grows up to it */
} kvg_block_counts;

/* Every operation checks its arguments first and changes nothing if it fails. The exception is
 * allocate, which may have grown the pool. KVG_ERR_INVALID names the offending block.
 * KVG_ERR_MEMORY: no host memory. KVG_ERR_EXHAUSTED: too few blocks. Arrays may be NULL if n is
 * 0. */
typedef struct kvg_block_ops {
    /* Allocates the n lowest free ids, in ascending order. Each block gets use_count 1, and in this
     * order a new unique id and a new timestamp. If fewer than n are free, the pool first grows by
     * chunks. */
    kvg_status (*allocate)(void *self, uint32_t n, uint32_t *ids);

    /* Adds 1 to the use_count of cached or active blocks. *moved (may be NULL): blocks that were
     * cached and are now active. */
    kvg_status (*lock)(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);

    /* Takes 1 from the use_count of active blocks. Blocks that reach 0 become cached and keep their
     * timestamp; *moved (may be NULL) counts them. An id listed twice is unlocked twice. */
    kvg_status (*unlock)(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);

    /* Frees cached blocks: unique_id and timestamp become 0. An id listed twice is refused. */
    kvg_status (*free)(void *self, const uint32_t *ids, uint32_t n);

    /* Frees the n cached blocks with the smallest timestamps. ids (may be NULL): these blocks,
     * oldest first. KVG_ERR_EXHAUSTED if fewer than n are cached. */
    kvg_status (*evict)(void *self, uint32_t n, uint32_t *ids);

    /* Gives active blocks new timestamps, the last block of the list first. So the first block is
     * the newest, and the tail is evicted before it. */
    kvg_status (*touch)(void *self, const uint32_t *ids, uint32_t n);

    /* *valid: number of leading references {ids[i], unique_ids[i]} that are alive: the unique id is
     * the same and the block is not free. All references after the first dead one must be dead,
     * else KVG_ERR_INVALID. Changes nothing. */
    kvg_status (*verify)(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n, uint32_t *valid);

    /* A copy of the block's state. KVG_ERR_INVALID if id >= total. */
    kvg_status (*get)(void *self, uint32_t id, kvg_block *block);
    void (*counts)(void *self, kvg_block_counts *counts);

    /* begin starts to record changes. undo takes back all changes since begin: blocks, sets and
     * both counters, but not growth. end forgets the record. Each begin is followed by one undo or
     * one end, never nested. None of the three can fail. */
    void (*begin)(void *self);
    void (*end)(void *self);
    void (*undo)(void *self);
} kvg_block_ops;

/* A pool to work on. ops == NULL: there is no such pool. */
typedef struct kvg_block_pool {
    void *self;
    const kvg_block_ops *ops;
} kvg_block_pool;

/* --- the reference's block manager --- */

typedef struct kvg_block_manager kvg_block_manager;

typedef struct kvg_block_config {
    uint32_t capacity; /* 1 to UINT32_MAX - 1 */
    int64_t chunk;     /* blocks per growth; 0: floor(sqrt(capacity)); below 0 or above capacity: capacity */
    /* Called before `count` blocks from id `first` on come into existence. An engine allocates
     * their device memory here. If it returns another status than KVG_OK, the pool keeps its size
     * and hands the status on. NULL: nothing to do. */
    kvg_status (*grow)(void *context, uint32_t first, uint32_t count);
    void *grow_context;
    const kvg_memory *memory;
} kvg_block_config;

/* Makes a manager with its first chunk. Host memory: about 32 bytes per block of capacity, all
 * allocated here, and a log of an operation's changes, which grows with the largest operation. Cost
 * per block: O(log capacity) for allocate, lock, unlock, free and evict, O(1) for touch, verify,
 * get and counts. Unique ids and timestamps start at 1. */
kvg_status kvg_block_manager_create(const kvg_block_config *config, kvg_block_manager **manager) KVG_CHECKED;
void kvg_block_manager_destroy(kvg_block_manager *manager); /* NULL: nothing */

/* The manager as a pool; valid as long as the manager. */
kvg_block_pool kvg_block_manager_pool(kvg_block_manager *manager);

/* Elementary steps since creation: words of the free bitmap and heap levels visited, and blocks
 * touched. This cost does not depend on the machine. */
uint64_t kvg_block_manager_steps(const kvg_block_manager *manager);

/* The number of blocks that fit: floor(floor(free_bytes * ratio) / (data_bytes + scale_bytes)).
 * Both pools share this budget. KVG_ERR_INVALID unless 0 < ratio <= 1 and a block has bytes.
 * KVG_ERR_EXHAUSTED if no block fits. */
kvg_status kvg_block_capacity(uint64_t free_bytes, double ratio, uint64_t data_bytes, uint64_t scale_bytes,
                              uint32_t *blocks) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
