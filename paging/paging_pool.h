/* Block pools: ids, use counts, unique ids and timestamps of the blocks of one paged cache; no bytes.
 * docs/spec/paging.md is the contract. Everything that uses a pool reaches it through kvg_block_ops, so another
 * engine's can be put there. */
#ifndef KVG_PAGING_PAGING_POOL_H
#define KVG_PAGING_PAGING_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KVG_BLOCK_NONE UINT32_MAX /* no block: a hole of a block table */

/* All host memory of the managers. A NULL kvg_memory means malloc and free; the struct is copied. */
typedef struct kvg_memory {
    void *(*allocate)(void *context, size_t bytes); /* NULL if there is none; aligned for any type */
    void (*release)(void *context, void *pointer);  /* what allocate gave, never NULL */
    void *context;
} kvg_memory;

/* One block. active: use_count > 0. cached: use_count 0, timestamp not 0. free: use_count, unique_id, timestamp 0. */
typedef struct kvg_block {
    uint32_t id;
    uint32_t use_count;
    uint64_t unique_id; /* new at every allocation: a reference {id, unique_id} to an earlier life never matches */
    uint64_t timestamp; /* of the last allocate or touch; the smallest is evicted first */
} kvg_block;

typedef struct kvg_block_counts {
    uint32_t free, cached, active; /* free + cached + active = total */
    uint32_t total;                /* blocks that exist: ids 0 to total - 1 */
    uint32_t capacity;             /* blocks that can exist: total grows up to it */
} kvg_block_counts;

/* Every operation checks first and changes nothing when it fails, except that allocate may have grown the pool.
 * KVG_ERR_INVALID names the offending block; KVG_ERR_MEMORY: no host memory; KVG_ERR_EXHAUSTED: too few blocks.
 * Arrays may be NULL where n is 0. */
typedef struct kvg_block_ops {
    /* The n lowest free ids, ascending: use_count 1, a new unique id and a new timestamp each, in that order. Grows by
     * chunks first if fewer than n are free. */
    kvg_status (*allocate)(void *self, uint32_t n, uint32_t *ids);

    /* Adds 1 to use_count of cached or active blocks; *moved (may be NULL) of them were cached and are active now. */
    kvg_status (*lock)(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);

    /* Takes 1 from use_count of active blocks; those that reach 0 are cached with their timestamp as it was; *moved
     * (may be NULL) counts them. An id listed twice is unlocked twice. */
    kvg_status (*unlock)(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved);

    /* Cached blocks become free: unique_id and timestamp 0. An id listed twice is refused. */
    kvg_status (*free)(void *self, const uint32_t *ids, uint32_t n);

    /* The n cached blocks with the smallest timestamps become free. ids (may be NULL): which, oldest first.
     * KVG_ERR_EXHAUSTED if fewer than n are cached. */
    kvg_status (*evict)(void *self, uint32_t n, uint32_t *ids);

    /* Active blocks get new timestamps, the last of the list first: the first block is the newest, the tail is evicted
     * before it. */
    kvg_status (*touch)(void *self, const uint32_t *ids, uint32_t n);

    /* *valid = how many leading references {ids[i], unique_ids[i]} are alive: same unique id, block not free. After the
     * first dead one all must be dead; KVG_ERR_INVALID otherwise. Changes nothing. */
    kvg_status (*verify)(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n, uint32_t *valid);

    /* The block as it is; KVG_ERR_INVALID if id >= total. */
    kvg_status (*get)(void *self, uint32_t id, kvg_block *block);
    void (*counts)(void *self, kvg_block_counts *counts);

    /* begin starts to remember; undo takes back everything since (blocks, sets and both counters; not growth), end
     * forgets. One of the two follows each begin, not nested. None of the three can fail. */
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
    /* Called before `count` blocks from id `first` on come into existence, where an engine allocates their device
     * memory; another status than KVG_OK is handed on and the pool keeps its size. NULL: nothing to do. */
    kvg_status (*grow)(void *context, uint32_t first, uint32_t count);
    void *grow_context;
    const kvg_memory *memory;
} kvg_block_config;

/* Makes a manager with its first chunk. Host memory: about 32 bytes per block of capacity, all taken here, and a log of
 * what an operation changed, which grows with the largest operation. allocate, lock, unlock, free and evict cost
 * O(log capacity) per block; touch, verify, get, counts O(1) per block. Unique ids and timestamps start at 1. */
kvg_status kvg_block_manager_create(const kvg_block_config *config, kvg_block_manager **manager) KVG_CHECKED;
void kvg_block_manager_destroy(kvg_block_manager *manager); /* NULL: nothing */

/* The manager as a pool; valid as long as the manager. */
kvg_block_pool kvg_block_manager_pool(kvg_block_manager *manager);

/* Elementary steps (words of the free bitmap and heap levels visited, blocks touched) since creation: a cost that does
 * not depend on the machine. */
uint64_t kvg_block_manager_steps(const kvg_block_manager *manager);

/* How many blocks fit: floor(floor(free_bytes * ratio) / (data_bytes + scale_bytes)). Both pools come from the one
 * budget. KVG_ERR_INVALID unless 0 < ratio <= 1 and a block has bytes; KVG_ERR_EXHAUSTED if none fits. */
kvg_status kvg_block_capacity(uint64_t free_bytes, double ratio, uint64_t data_bytes, uint64_t scale_bytes,
                              uint32_t *blocks) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
