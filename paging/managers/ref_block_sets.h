/* The two ordered sets of a block pool: free ids by id, cached ids by age. Neither allocates after its creation. */
#ifndef KVG_PAGING_MANAGERS_REF_BLOCK_SETS_H
#define KVG_PAGING_MANAGERS_REF_BLOCK_SETS_H

#include "paging/managers/ref_paging_memory.h"

enum { REF_SET_LEVELS = 6 }; /* 64^6 > 2^32 */

/* Ids below `capacity` as a hierarchy of bitmaps: a bit of level l + 1 says that a word of level l is not 0. */
typedef struct ref_id_set {
    uint64_t *words; /* of all levels, level 0 first */
    uint64_t *level[REF_SET_LEVELS];
    uint32_t levels;
    uint64_t *steps; /* counts the words visited */
} ref_id_set;

kvg_status ref_id_set_create(ref_id_set *set, const kvg_memory *memory, uint32_t capacity, uint64_t *steps);
void ref_id_set_destroy(ref_id_set *set, const kvg_memory *memory);
void ref_id_set_add(ref_id_set *set, uint32_t id);
void ref_id_set_remove(ref_id_set *set, uint32_t id);
uint32_t ref_id_set_lowest(const ref_id_set *set); /* the set must not be empty */

/* Ids ordered by blocks[id].timestamp: a binary heap that knows where each id is. */
typedef struct ref_age_heap {
    const kvg_block *blocks;
    uint32_t *ids;      /* the heap: the oldest first */
    uint32_t *position; /* of each id that is in it */
    uint32_t count;
    uint64_t *steps; /* counts the levels visited */
} ref_age_heap;

kvg_status ref_age_heap_create(ref_age_heap *heap, const kvg_memory *memory, uint32_t capacity, const kvg_block *blocks,
                               uint64_t *steps);
void ref_age_heap_destroy(ref_age_heap *heap, const kvg_memory *memory);
void ref_age_heap_add(ref_age_heap *heap, uint32_t id);
void ref_age_heap_remove(ref_age_heap *heap, uint32_t id);

#endif
