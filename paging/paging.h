/* Sequences over block pools: who holds which block, what of it is valid, and in which order that changes. Contract,
 * order of effects and the invariants P1 to P16 in docs/spec/paging.md. Data and scale pool go in lockstep: one
 * block table serves both. */
#ifndef KVG_PAGING_PAGING_H
#define KVG_PAGING_PAGING_H

#include "paging/paging_pool.h"
#include "paging/paging_prefix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a token lies: rank = position mod cp_size; of the rank's own tokens, numbered position / cp_size, block_tokens
 * fill a block. One block index so spans block_tokens * cp_size tokens (`span`). */
typedef struct kvg_token_home {
    uint32_t rank, block, offset; /* block: index into the block table; offset: below block_tokens */
} kvg_token_home;

kvg_token_home kvg_token_place(uint64_t position, uint32_t cp_size, uint32_t block_tokens);

typedef enum kvg_sequence_state {
    KVG_SEQUENCE_CACHED, /* holds no block; its references are verified before they are used again */
    KVG_SEQUENCE_LOCKED, /* holds its blocks, waits */
    KVG_SEQUENCE_ACTIVE  /* holds its blocks and was granted a step */
} kvg_sequence_state;

typedef struct kvg_sequence_info {
    uint64_t id;
    kvg_prefix_key key;
    kvg_sequence_state state;
    uint32_t tokens;    /* known: prompt and appended */
    uint32_t prompt;    /* of these, given at creation */
    uint32_t cache_len; /* leading tokens written to the cache. Of a cached sequence: a claim, re-derived on resume */
    uint32_t blocks;    /* entries of the block table, holes included */
    uint32_t holes;     /* leading entries that are KVG_BLOCK_NONE: left behind by the window */
    uint32_t granted;   /* tokens of the running step whose writing has not been reported; 0: no step */
} kvg_sequence_info;

typedef struct kvg_sequence_request {
    uint64_t sequence;
    uint64_t priority;   /* smaller goes first; ties in order of the batch */
    uint32_t context;    /* tokens the sequence has after the steps planned now: blocks are reserved for them */
    uint32_t max_tokens; /* at most so many are written in this step (a chunk of a long prompt); at least 1 */
} kvg_sequence_request;

/* The answer to one request. Every copy of a batch is done before any write of it. */
typedef struct kvg_sequence_grant {
    uint64_t sequence;
    bool active;        /* false: it waits, and all that follows but `matched` is 0 or none */
    uint32_t first;     /* the first token to write = cache_len */
    uint32_t count;     /* tokens to write: first to first + count - 1; at least 1 */
    uint32_t read_only; /* leading blocks that this sequence must not write: first / span */
    uint32_t matched;   /* blocks taken from the prefix index now, holes included */
    uint32_t copy_from; /* copy on write: block copied ... */
    uint32_t copy_to;   /* ... to this block, both pools; both KVG_BLOCK_NONE: no copy */
    uint32_t copy_tokens; /* leading tokens of the block that count: first mod span */
} kvg_sequence_grant;

typedef struct kvg_sequence_counts {
    uint32_t sequences;
    uint32_t pending_unlocks, pending_frees; /* references that wait for commit */
} kvg_sequence_counts;

/* An operation that fails leaves both pools, every sequence, the index and the deferred lists as they were, counters
 * included; only the chunks that a pool grew by stay (and an allocator's spare room).
 * KVG_ERR_NOT_FOUND: no such sequence; KVG_ERR_INVALID: against the contract, or the two pools no longer agree;
 * KVG_ERR_MEMORY; KVG_ERR_EXHAUSTED; and what the pools and the index return. */
typedef struct kvg_sequence_ops {
    /* A new cached sequence with a prompt of count >= 1 tokens. An existing id is erased first. */
    kvg_status (*create)(void *self, uint64_t id, const kvg_prefix_key *key, const int32_t *tokens, uint32_t count);

    /* Ends a sequence; what it holds is touched and its unlocking deferred. Without prefix index its blocks are then
     * freed, unless another sequence holds them; with one they stay cached. */
    kvg_status (*erase)(void *self, uint64_t id);

    /* Adds generated tokens. They are not in the cache until written. */
    kvg_status (*append_tokens)(void *self, uint64_t id, const int32_t *tokens, uint32_t count);

    /* Plans one step for a batch of distinct sequences, while no step of theirs runs; grants[i] answers requests[i].
     * docs/spec/paging.md section 4 has the order of effects. KVG_ERR_EXHAUSTED only if a context needs more blocks
     * than the capacity. */
    kvg_status (*materialise)(void *self, const kvg_sequence_request *requests, uint32_t count,
                              kvg_sequence_grant *grants);

    /* The first `count` tokens of the running step are in the cache (drafts that were rejected are not counted); ends
     * the step. Then publishes the blocks that became full, then leaves behind what the window has passed (unlocking
     * deferred). The tokens must be known: append those that were accepted first. 0 <= count <= granted;
     * KVG_ERR_INVALID if the sequence is not active. */
    kvg_status (*written)(void *self, uint64_t id, uint32_t count);

    /* Gives a locked or active sequence's blocks back: touch, unlocking deferred, state cached. An unreported step is
     * forgotten. A partial tail block that another sequence holds too is given up. A cached sequence stays as it is. */
    kvg_status (*release)(void *self, uint64_t id);

    /* As release, but unlocked at once, so while no step of the sequence runs. */
    kvg_status (*preempt)(void *self, uint64_t id);

    /* A new sequence `child` with the parent's key, tokens and cache. It shares every block that holds written tokens
     * and holds it if the parent does. The partial tail is shared only if the parent holds it and has no step running;
     * otherwise the child's cache ends at the last full block. KVG_ERR_INVALID if `child` exists. */
    kvg_status (*fork)(void *self, uint64_t parent, uint64_t child);

    /* Carries out what was deferred: all unlocks, then all frees. materialise does it first. */
    kvg_status (*commit)(void *self);

    /* Re-derives what of a cached sequence is still there: drops the dead tail of its table and shortens cache_len.
     * Locked and active sequences must be wholly alive (KVG_ERR_INVALID). *valid (may be NULL): entries left. */
    kvg_status (*verify)(void *self, uint64_t id, uint32_t *valid);

    kvg_status (*get)(void *self, uint64_t id, kvg_sequence_info *info);

    /* Entries first to first + n - 1 of the block table; either array may be NULL. Holes: KVG_BLOCK_NONE, 0.
     * KVG_ERR_INVALID past the table's end. */
    kvg_status (*table)(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids, uint64_t *unique_ids);

    /* The known tokens first to first + n - 1. */
    kvg_status (*tokens)(void *self, uint64_t id, uint32_t first, uint32_t n, int32_t *tokens);

    /* Slots of tokens first to first + n - 1 on one rank: block * block_tokens + offset in 64 bits; -1 for a hole and
     * for a token of another rank. KVG_ERR_INVALID past the table's end. */
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

/* Pools and index outlive the manager. Two pools must be fresh or have seen the same operations, with the same
 * capacity: ids and unique ids are compared whenever blocks are allocated. */
kvg_status kvg_sequence_manager_create(const kvg_sequence_config *config, kvg_sequence_manager **manager) KVG_CHECKED;
void kvg_sequence_manager_destroy(kvg_sequence_manager *manager); /* NULL: nothing; the pools keep their state */
kvg_sequence_pool kvg_sequence_manager_pool(kvg_sequence_manager *manager);

#ifdef __cplusplus
}
#endif
#endif
