/* A hash table of items that have numbers: what `kvgold pool audit` knows of sequences, hashes, and who holds what. */
#ifndef KVG_PAGING_POOL_POOL_TABLE_H
#define KVG_PAGING_POOL_POOL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

typedef struct pool_link {
    uint64_t hash;
    uint32_t next; /* of its bucket, or of the spare ones */
} pool_link;

/* Starts as zeros but for `size`, the bytes of an item. Items are numbered from 1; the number of a dropped item is
 * used again. */
typedef struct pool_table {
    size_t size;
    unsigned char *items;
    pool_link *links;
    uint32_t *buckets;
    uint32_t room, used, spare, count;
} pool_table;

/* Makes an item of zeros. It moves items: pointers to them are no longer valid. KVG_ERR_MEMORY. */
kvg_status pool_table_add(pool_table *t, uint64_t hash, uint32_t *id) KVG_CHECKED;
void pool_table_drop(pool_table *t, uint32_t id);
void *pool_table_at(const pool_table *t, uint32_t id);

/* The items of a hash, one after another; 0 is the end. */
uint32_t pool_table_first(const pool_table *t, uint64_t hash);
uint32_t pool_table_next(const pool_table *t, uint32_t id);

void pool_table_free(pool_table *t);

#endif
