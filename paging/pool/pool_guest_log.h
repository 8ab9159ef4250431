/* The log of a run of pool_guest.c, docs/spec/paging.md section 7: what a sequence's manager answered, and what kvgold
 * did with it. An event is either whole or not there, however the process ends that writes it: what is not in the file
 * yet stands in the struct, which another process can share and write out. */
#ifndef KVG_PAGING_POOL_POOL_GUEST_LOG_H
#define KVG_PAGING_POOL_POOL_GUEST_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "paging/pool/pool_guest_pool.h"

/* What a sequence has in one group of layers. In the log it is a sequence of its own. */
typedef struct pool_guest_part {
    uint32_t *table, entries; /* KVG_MANAGER_NO_BLOCK: a window has passed the entry */
    uint64_t *names;          /* of its full blocks: blocks with one name hold the same tokens behind the same */
    uint32_t named;           /* how many of its blocks have their names */
    uint32_t learned;         /* of pool_guest_bytes: tokens whose contents, and what they read alone, are known */
    uint64_t *contents;
    uint16_t *alone;
} pool_guest_part;

typedef struct pool_guest_sequence {
    uint64_t id, salt;
    int32_t *tokens;
    uint32_t count, written; /* tokens; of these in the cache */
    pool_guest_part parts[KVG_GUEST_GROUPS];
} pool_guest_sequence;

/* What happens to blocks of a sequence's table. */
typedef enum pool_guest_event { GUEST_ALLOCATE, GUEST_HIT, GUEST_FREE, GUEST_READ } pool_guest_event;

typedef struct pool_guest_log {
    int file;
    const kvg_manager_pool *pool;
    uint32_t *holders; /* of each block of the pool, by the events; the caller's, all 0 at first */
    uint32_t held;     /* blocks of the pool that have holders */
    uint32_t group; /* the one that events are about */
    bool failed; /* a write to the file did: the disk may be full */
    size_t used;
    char bytes[1 << 16];
} pool_guest_log;

/* Writes out what stands in the struct. */
void pool_guest_log_flush(pool_guest_log *log);

void pool_guest_log_head(pool_guest_log *log, uint32_t claims);

/* Of entries of a table, those that are blocks. */
void pool_guest_log_blocks(pool_guest_log *log, pool_guest_event event, const pool_guest_sequence *q,
                           const uint32_t *blocks, uint32_t count);
void pool_guest_log_hit(pool_guest_log *log, pool_guest_sequence *q, uint32_t count); /* its first blocks */
void pool_guest_log_copy(pool_guest_log *log, const pool_guest_sequence *q, kvg_manager_copy c); /* NULL: `offload` */
void pool_guest_log_write(pool_guest_log *log, const pool_guest_sequence *q, uint32_t to); /* from q->written on */
void pool_guest_log_store(pool_guest_log *log, pool_guest_sequence *q, uint32_t i);
void pool_guest_log_available(pool_guest_log *log, uint32_t blocks);
void pool_guest_log_end(pool_guest_log *log);

#endif
