/* The prefix index. It says which block holds the cache of a full block of tokens, given the tokens
 * before it and the key domain. The contract is docs/spec/paging.md. All users reach it through
 * kvg_prefix_ops. */
#ifndef KVG_PAGING_PAGING_PREFIX_H
#define KVG_PAGING_PAGING_PREFIX_H

#include <stdbool.h>

#include "paging/paging_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whatever a cached block depends on besides tokens. Each field is compared on its own, and any
 * difference is a miss. 0: none. */
typedef struct kvg_prefix_key {
    uint64_t lora;  /* the adapter's id, not its name */
    uint64_t salt;  /* the caller's cache salt */
    uint64_t extra; /* hash of other inputs, for example images */
} kvg_prefix_key;

/* The hash of one node. Tokens, key and parent are compared as well, so any function will do: a
 * collision is only a miss. */
typedef uint64_t (*kvg_prefix_hash)(void *context, uint64_t parent_hash, const kvg_prefix_key *key,
                                    const int32_t *tokens, uint32_t count);

/* One full block of tokens, as kvg_prefix_ops.visit shows it. */
typedef struct kvg_prefix_node {
    uint64_t hash;         /* of the parent's hash (0 for none), key and tokens */
    kvg_prefix_key key;
    const int32_t *tokens; /* span tokens, valid during the visit */
    uint32_t depth;        /* blocks before it */
    kvg_block block;       /* id and unique_id as published; other fields 0 */
    uint32_t parent_block; /* id of the parent's block, KVG_BLOCK_NONE at depth 0 */
} kvg_prefix_node;

typedef struct kvg_prefix_ops {
    /* Finds the longest published chain that starts the prompt. It has at most (count - 1) / span
     * blocks, so it never covers the whole prompt. Each block is alive in the pool now and equals
     * the prompt in key and tokens. ids and unique_ids have room for (count - 1) / span. Changes
     * nothing. */
    kvg_status (*match)(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids,
                        uint64_t *unique_ids, uint32_t *matched);

    /* Publishes the blocks of the first `blocks` * span tokens. All of these tokens must have been
     * written. The first writer wins: a node that exists and is alive keeps its block. A dead node
     * on the way is dropped with its subtree and made anew. The way begins at the last given block
     * that already has its node, so whoever lets blocks die must call verify for them.
     * KVG_BLOCK_NONE (a hole) publishes nothing. A hole may be passed where a node exists; where
     * none exists the chain ends. The chain also ends at a hash collision. *published (may be
     * NULL): new nodes. KVG_ERR_INVALID: a reference is dead, or the block stands for other tokens
     * already. KVG_ERR_MEMORY. A failure changes nothing that is alive. */
    kvg_status (*publish)(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks,
                          const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published);

    /* Drops every dead node among the nodes of the n given blocks, with its subtree. ids NULL:
     * among all nodes. *dropped (may be NULL): nodes dropped. Cannot fail for the reference. */
    kvg_status (*verify)(void *self, const uint32_t *ids, uint32_t n, uint32_t *dropped);

    /* Calls `see` for every node, a parent before its children, until it returns false. Returns the number seen. */
    uint32_t (*visit)(void *self, bool (*see)(void *context, const kvg_prefix_node *node), void *context);
} kvg_prefix_ops;

/* An index to work on. ops == NULL: prefix sharing is off. */
typedef struct kvg_prefix_pool {
    void *self;
    const kvg_prefix_ops *ops;
} kvg_prefix_pool;

typedef struct kvg_prefix_index kvg_prefix_index;

typedef struct kvg_prefix_config {
    uint32_t span;         /* tokens per block, all ranks: block_tokens * cp_size */
    kvg_block_pool blocks; /* the pool whose unique ids say which blocks are alive; must outlive the index */
    kvg_prefix_hash hash;  /* NULL: kvg_prefix_hash_default */
    void *hash_context;
    const kvg_memory *memory;
} kvg_prefix_config;

/* A block has at most one node, so the index never has more nodes than the pool has capacity. Cost:
 * O(1) per block of the prompt and the comparison of its tokens; O(1) per dropped node. Host
 * memory: 16 to 24 bytes per block of capacity, allocated here, and 4 * span + about 100 bytes per
 * node. */
kvg_status kvg_prefix_index_create(const kvg_prefix_config *config, kvg_prefix_index **index) KVG_CHECKED;
void kvg_prefix_index_destroy(kvg_prefix_index *index); /* NULL: nothing */
kvg_prefix_pool kvg_prefix_index_pool(kvg_prefix_index *index);

/* FNV-1a over parent hash, the three key fields and the tokens, each at its full width. */
uint64_t kvg_prefix_hash_default(void *context, uint64_t parent_hash, const kvg_prefix_key *key, const int32_t *tokens,
                                 uint32_t count);

#ifdef __cplusplus
}
#endif
#endif
