/* Sequences over block pools: who holds which block, which part of it is valid, and in which order
 * that changes. docs/spec/paging.md has the contract, the order of effects and the invariants P1 to
 * P16. Data pool and scale pool change in lockstep, so one block table serves both. */
#ifndef KVG_PAGING_PAGING_H
#define KVG_PAGING_PAGING_H

#include "paging/paging_pool.h"
#include "paging/paging_prefix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a token lies. rank = position mod cp_size. The rank's own tokens are numbered position /
 * cp_size, and block_tokens of them fill a block. So one index of the block table spans
 * block_tokens * cp_size tokens (`span`). Example: cp_size 2, block_tokens 4: position 11 is token
 * 5 of rank 1, block 1, offset 1. */
typedef struct kvg_token_home {
    uint32_t rank, block, offset; /* block: index into the block table; offset: below block_tokens */
} kvg_token_home;

kvg_token_home kvg_token_place(uint64_t position, uint32_t cp_size, uint32_t block_tokens);

typedef enum kvg_sequence_state {
    KVG_SEQUENCE_CACHED, /* holds no block; its references are verified before they are used again */
    KVG_SEQUENCE_LOCKED, /* holds its blocks and waits */
    KVG_SEQUENCE_ACTIVE  /* holds its blocks and was granted a step */
} kvg_sequence_state;

typedef struct kvg_sequence_info {
    uint64_t id;
    kvg_prefix_key key;
    kvg_sequence_state state;
    uint32_t tokens;    /* known tokens: prompt and appended ones */
    uint32_t prompt;    /* tokens of the prompt */
    uint32_t cache_len; /* leading tokens written to the cache; for a cached sequence a claim that is checked on
                         * resume */
    uint32_t blocks;    /* entries of the block table, holes included */
    uint32_t holes;     /* leading entries that are KVG_BLOCK_NONE: blocks that the window has passed */
    uint32_t granted;   /* tokens of the running step that were not reported as written yet; 0: no step runs */
} kvg_sequence_info;

typedef struct kvg_sequence_request {
    uint64_t sequence;
    uint64_t priority;   /* smaller goes first; ties in order of the batch */
    uint32_t context;    /* tokens of the sequence after the steps planned now: blocks are reserved for them */
    uint32_t max_tokens; /* most tokens to write in this step (a chunk of a long prompt); at least 1 */
} kvg_sequence_request;

/* The answer to one request. All copies of a batch are done before any write of the batch. */
typedef struct kvg_sequence_grant {
    uint64_t sequence;
    bool active;        /* false: the sequence waits, and all fields below except `matched` are 0 or none */
    uint32_t first;     /* the first token to write = cache_len */
    uint32_t count;     /* tokens to write: first to first + count - 1; at least 1 */
    uint32_t read_only; /* leading blocks that this sequence must not write: first / span */
    uint32_t matched;   /* blocks taken from the prefix index now, holes included */
    uint32_t copy_from; /* copy on write: the block to copy; KVG_BLOCK_NONE: no copy */
    uint32_t copy_to;   /* the block to overwrite, in both pools; KVG_BLOCK_NONE: no copy */
    uint32_t copy_tokens; /* leading tokens of the block that are valid: first mod span */
} kvg_sequence_grant;

typedef struct kvg_sequence_counts {
    uint32_t sequences;
    uint32_t pending_unlocks, pending_frees; /* references whose unlock or free waits for commit */
} kvg_sequence_counts;

/* An operation that fails leaves both pools, every sequence, the index and the deferred lists as
 * they were, counters included. Only the chunks by which a pool grew stay, and an allocator's spare
 * room. KVG_ERR_NOT_FOUND: no such sequence. KVG_ERR_INVALID: a call against the contract, or the
 * two pools no longer agree. KVG_ERR_MEMORY, KVG_ERR_EXHAUSTED, and the statuses of the pools and
 * the index. */
typedef struct kvg_sequence_ops {
    /* Creates a cached sequence with a prompt of count >= 1 tokens. An existing sequence with this
     * id is erased first. */
    kvg_status (*create)(void *self, uint64_t id, const kvg_prefix_key *key, const int32_t *tokens, uint32_t count);

    /* Ends a sequence. Its blocks are touched, and their unlocking is deferred. Without a prefix
     * index the blocks are then freed, unless another sequence holds them. With a prefix index they
     * stay cached. */
    kvg_status (*erase)(void *self, uint64_t id);

    /* Adds generated tokens. They are not in the cache until they are reported as written. */
    kvg_status (*append_tokens)(void *self, uint64_t id, const int32_t *tokens, uint32_t count);

    /* Plans one step for a batch of distinct sequences, none of which has a running step. grants[i]
     * answers requests[i]. docs/spec/paging.md section 4 has the order of effects.
     * KVG_ERR_EXHAUSTED only if a context needs more blocks than the capacity. */
    kvg_status (*materialise)(void *self, const kvg_sequence_request *requests, uint32_t count,
                              kvg_sequence_grant *grants);

    /* Ends the running step: its first `count` tokens are in the cache, 0 <= count <= granted.
     * Rejected drafts are not counted. Then publishes the blocks that became full, and leaves
     * behind the blocks that the window has passed (unlocking deferred). The tokens must be known,
     * so append accepted tokens first. KVG_ERR_INVALID if the sequence is not active. */
    kvg_status (*written)(void *self, uint64_t id, uint32_t count);

    /* Gives back the blocks of a locked or active sequence: they are touched, unlocking is
     * deferred, and the sequence is cached. An unreported step is forgotten. The sequence gives up
     * a partial tail block that another sequence holds, too. A cached sequence stays as it is. */
    kvg_status (*release)(void *self, uint64_t id);

    /* As release, but blocks are unlocked at once, so no step of the sequence may be running. */
    kvg_status (*preempt)(void *self, uint64_t id);

    /* Creates a sequence `child` with the parent's key, tokens and cache. The child shares every
     * block that holds written tokens, and holds these blocks if the parent does. It shares the
     * partial tail only if the parent holds it and has no step running. Otherwise the child's cache
     * ends at the last full block. KVG_ERR_INVALID if `child` exists. */
    kvg_status (*fork)(void *self, uint64_t parent, uint64_t child);

    /* Carries out all deferred unlocks, then all deferred frees. materialise begins with a
     * commit. */
    kvg_status (*commit)(void *self);

    /* Checks which blocks of a cached sequence are still alive, drops the dead tail of its table
     * and shortens cache_len. A locked or active sequence must be wholly alive (KVG_ERR_INVALID).
     * *valid (may be NULL): entries left. */
    kvg_status (*verify)(void *self, uint64_t id, uint32_t *valid);

    kvg_status (*get)(void *self, uint64_t id, kvg_sequence_info *info);

    /* Entries first to first + n - 1 of the block table; either array may be NULL. A hole has id
     * KVG_BLOCK_NONE and unique id 0. KVG_ERR_INVALID past the table's end. */
    kvg_status (*table)(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids, uint64_t *unique_ids);

    /* The known tokens first to first + n - 1. */
    kvg_status (*tokens)(void *self, uint64_t id, uint32_t first, uint32_t n, int32_t *tokens);

    /* Slots of tokens first to first + n - 1 on one rank: block * block_tokens + offset in 64 bits.
     * -1 for a hole and for a token of another rank. KVG_ERR_INVALID past the table's end. */
    kvg_status (*slots)(void *self, uint64_t id, uint32_t rank, uint32_t first, uint32_t n, int64_t *slots);

    void (*counts)(void *self, kvg_sequence_counts *counts);
} kvg_sequence_ops;

typedef struct kvg_sequence_pool {
    void *self;
    const kvg_sequence_ops *ops;
} kvg_sequence_pool;

/* --- the reference's sequence manager --- */

typedef struct kvg_sequence_manager kvg_sequence_manager;

typedef struct kvg_sequence_config {
    uint32_t block_tokens; /* B: tokens per block on one rank */
    uint32_t cp_size;      /* context-parallel ranks; 1: none */
    uint32_t window;       /* W: key k is visible to query q iff 0 <= q - k < W; 0: no window */
    kvg_block_pool data;
    kvg_block_pool scale;   /* ops NULL: the storage has no scale pool */
    kvg_prefix_pool prefix; /* ops NULL: prefix cache off. Made over `data` with span = block_tokens * cp_size */
    const kvg_memory *memory;
} kvg_sequence_config;

/* Pools and index must outlive the manager. Two pools must have the same capacity, and be fresh or
 * have seen the same operations: ids and unique ids are compared at every allocation. */
kvg_status kvg_sequence_manager_create(const kvg_sequence_config *config, kvg_sequence_manager **manager) KVG_CHECKED;
void kvg_sequence_manager_destroy(kvg_sequence_manager *manager); /* NULL: nothing; the pools keep their state */
kvg_sequence_pool kvg_sequence_manager_pool(kvg_sequence_manager *manager);

#ifdef __cplusplus
}
#endif
#endif
