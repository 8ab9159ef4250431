/* Pools, index and sequence manager set up for a test, with every allocation, pool operation, index operation and
 * growth as a point where a fault can be put, and the whole state as text. */
#ifndef KVG_TESTS_PAGING_MANAGERS_PAGING_WORLD_H
#define KVG_TESTS_PAGING_MANAGERS_PAGING_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "paging/paging.h"

typedef struct world_options {
    uint32_t capacity;
    int64_t chunk;
    uint32_t block_tokens, cp_size, window;
    bool scale, prefix;
    kvg_prefix_hash hash;
} world_options;

typedef struct world world;

/* A block pool that asks for a fault before each operation that can fail. */
typedef struct world_pool {
    world *of;
    kvg_block_pool inner;
} world_pool;

struct world {
    world_options options;
    kvg_memory memory;
    uint64_t faults_left; /* points before the one that fails; those after it succeed. UINT64_MAX: none fails */
    bool faulted;
    int64_t live; /* allocations not given back */
    kvg_block_manager *managers[2];
    world_pool pools[2];
    kvg_block_pool data, scale;
    kvg_prefix_index *index;
    kvg_prefix_pool prefix;
    kvg_sequence_manager *manager;
    kvg_sequence_pool sequences;
    void *self; /* of `sequences` */
    const kvg_sequence_ops *ops;
};

kvg_status world_try(world *w, const world_options *options); /* on failure nothing is left */
void world_open(world *w, const world_options *options);      /* asserts success */
void world_close(world *w);                                   /* asserts that all memory came back */

/* Blocks of both pools, nodes, sequences 0 to 63 with tables and tokens, deferred lists. The caller frees it.
 * Growth is left out: blocks are listed unless free. */
char *world_dump(world *w);

/* Asserts what must hold after every operation: counts, distinct stamps, lockstep, and, if nothing is deferred, that
 * use_count is the number of sequences that hold the block. */
void world_check(world *w);

/* Token i of a family: equal prompts come from equal families. */
void world_tokens(uint32_t family, uint32_t first, uint32_t count, int32_t *out);

/* One operation of a scenario. create: a tokens of family b. append: a tokens. batch: all sequences of the bit mask
 * `id`, priority = id, for all their tokens and one draft, at most a at a time. written: a tokens, 0: all that were
 * granted and are known; nothing if the sequence waits. fork: to a. */
typedef enum act_kind { CREATE, APPEND, BATCH, WRITTEN, RELEASE, PREEMPT, FORK, COMMIT, VERIFY, ERASE } act_kind;
typedef struct act {
    act_kind kind;
    uint64_t id;
    uint32_t a, b;
} act;
kvg_status world_act(world *w, const act *a);

/* What most tests begin with. */
static const world_options plain_world = {
    .capacity = 16, .chunk = -1, .block_tokens = 4, .scale = true, .prefix = true};

kvg_block_counts counts_of(world *w);     /* of the data pool */
kvg_status append(world *w, uint64_t id, uint32_t n);

/* --- short forms; all but request assert success --- */
kvg_sequence_grant step_one(world *w, uint64_t id, uint32_t context, uint32_t max_tokens);
kvg_sequence_info info_of(world *w, uint64_t id);
uint32_t entry_of(world *w, uint64_t id, uint32_t entry);
kvg_block block_of(kvg_block_pool pool, uint32_t id);
void new_sequence(world *w, uint64_t id, uint32_t family, uint32_t tokens);
void prefill(world *w, uint64_t id, uint32_t family, uint32_t tokens); /* created, granted and written in one step */

#define assert_ok(call) assert_int_equal(call, KVG_OK)

#endif
