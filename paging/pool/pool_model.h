/* The independent model of the managers: plain arrays, searched from end to end, written from docs/spec/paging.md
 * alone. It predicts the outcome of every operation of a trace, so it also drives the generator. One array of blocks
 * stands for both pools: they must be equal. */
#ifndef KVG_PAGING_POOL_POOL_MODEL_H
#define KVG_PAGING_POOL_POOL_MODEL_H

#include "paging/pool/pool_trace.h"
#include "paging/paging.h"

enum { KVG_MODEL_LIVES = 4 }; /* unique ids of each block that are remembered, the present one included */

typedef struct kvg_model_block {
    uint32_t use_count;
    uint64_t unique_id, timestamp;
} kvg_model_block;

typedef struct kvg_model_pool {
    uint32_t capacity, chunk, total;
    uint32_t free, cached, active;
    uint64_t next_unique_id, next_timestamp;
    kvg_model_block *block;
} kvg_model_pool;

typedef struct kvg_model_sequence {
    uint64_t id;
    uint32_t domain;
    kvg_sequence_state state;
    uint32_t count, token_room;  /* tokens known */
    int32_t *tokens;
    uint64_t *tags;              /* tags[i]: of the key domain and tokens 0 to i */
    uint32_t prompt, cache_len, granted;
    uint32_t blocks, holes, block_room;
    uint32_t *ids;               /* the block table */
    uint64_t *unique_ids;
} kvg_model_sequence;

/* A published block that can be matched: it and all that come before it are alive. */
typedef struct kvg_model_node {
    uint64_t tag;        /* of the key domain and all tokens up to its end: what it stands for */
    uint64_t parent_tag; /* of the block before; the key's at depth 0 */
    uint64_t hash;       /* by the trace's hash, as the index computes it */
    uint32_t depth;
    uint32_t id;
    uint64_t unique_id;
} kvg_model_node;

typedef struct kvg_id_list {
    uint32_t *ids;
    uint32_t count, room;
} kvg_id_list;

typedef struct kvg_pool_model {
    kvg_pool_geometry geometry;
    bool blocks_alone;
    uint32_t span;
    kvg_model_pool pool, begun;  /* `begun`: as it was at the last begin */
    bool open;                   /* between begin and end or undo */
    uint64_t (*lives)[KVG_MODEL_LIVES]; /* of each block: its unique ids, the present one or last one first */
    kvg_id_list changed;         /* blocks that the last operation changed; an id may be there twice */
    kvg_model_sequence **sequences;
    uint32_t sequence_count, sequence_room;
    kvg_model_node *nodes;
    uint32_t node_count, node_room;
    kvg_id_list unlocks, frees;  /* deferred */
    uint64_t *free_lives;        /* unique ids of `frees` */
    uint32_t free_life_room;
} kvg_pool_model;

/* What an operation must give. Arrays belong to the expectation and are reused by the next operation. */
typedef struct kvg_pool_expectation {
    unsigned refusals;    /* bits 1 << kvg_status: the reasons to refuse it, any of which may be given; 0: it is done */
    uint32_t number;      /* blocks moved, entries valid, blocks that a read may see */
    kvg_id_list ids;      /* allocated or evicted, in order */
    kvg_sequence_grant *grants;
    uint32_t grant_room;
    kvg_id_list evicted;  /* by a materialise */
    uint32_t preempted;   /* sequences, by a materialise */
    uint32_t published;   /* blocks that are new in the index */
    uint32_t windowed;    /* blocks that the window left behind */
} kvg_pool_expectation;

kvg_status kvg_pool_model_make(kvg_pool_model *model, const kvg_pool_geometry *geometry, bool blocks) KVG_CHECKED;
void kvg_pool_model_destroy(kvg_pool_model *model);
void kvg_pool_expectation_free(kvg_pool_expectation *expect);

/* Predicts the operation and carries it out. expect->refusals not 0: the managers must refuse it with one of those
 * statuses, and nothing has changed. Out of memory ends the program: the model's own trouble is nobody's finding. */
void kvg_pool_model_apply(kvg_pool_model *model, const kvg_pool_op *op, kvg_pool_expectation *expect);

kvg_model_sequence *kvg_pool_model_find(const kvg_pool_model *model, uint64_t id); /* NULL: none */
uint64_t kvg_pool_key_tag(const kvg_prefix_key *key);
uint64_t kvg_pool_next_tag(uint64_t tag, int32_t token);

/* What an operation's relative numbers come to: the context of a request, the tokens that are reported written, a token
 * of a new prompt. */
uint32_t kvg_pool_model_context(const kvg_pool_model *model, const kvg_pool_item *item);
uint32_t kvg_pool_model_reported(const kvg_pool_model *model, const kvg_pool_op *op);
int32_t kvg_pool_create_token(const kvg_pool_geometry *geometry, const kvg_pool_op *op, uint32_t i);

/* The reference that an item of an `alive` operation stands for. */
uint64_t kvg_pool_model_life(const kvg_pool_model *model, const kvg_pool_item *item);

/* How many locked or active sequences hold each block: an array of `capacity`, valid until the next call. */
void kvg_pool_model_holders(const kvg_pool_model *model, uint32_t *holders);

/* --- between the files of the model --- */

void kvg_id_list_add(kvg_id_list *list, uint32_t id);
void *kvg_model_room(void *array, uint32_t *room, uint64_t need, size_t element); /* grown to hold `need` */

void kvg_model_set(kvg_pool_model *m, uint32_t id, kvg_model_block to); /* the one way to change a block */
kvg_status kvg_model_allocate(kvg_pool_model *m, uint32_t n, kvg_id_list *ids);
kvg_status kvg_model_lock(kvg_pool_model *m, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_model_unlock(kvg_pool_model *m, const uint32_t *ids, uint32_t n, uint32_t *moved);
kvg_status kvg_model_free(kvg_pool_model *m, const uint32_t *ids, uint32_t n);
kvg_status kvg_model_evict(kvg_pool_model *m, uint32_t n, kvg_id_list *ids);
kvg_status kvg_model_touch(kvg_pool_model *m, const uint32_t *ids, uint32_t n);
bool kvg_model_alive(const kvg_pool_model *m, uint32_t id, uint64_t unique_id);

bool kvg_model_holds(const kvg_model_sequence *q); /* locked or active */
void kvg_model_add_block(kvg_model_sequence *q, uint32_t id, uint64_t unique_id);
void kvg_model_cut_dead(const kvg_pool_model *m, kvg_model_sequence *q);           /* of a cached sequence */
void kvg_model_let_go(kvg_pool_model *m, kvg_model_sequence *q, bool at_once);     /* of a locked or active one */
uint32_t kvg_model_take_match(kvg_pool_model *m, kvg_model_sequence *q, uint32_t context); /* blocks matched */
void kvg_model_prune(kvg_pool_model *m);                                           /* the index, of what is dead */
void kvg_model_commit(kvg_pool_model *m);

/* The operations of pool_model_blocks.c and of pool_model_sequences.c; a materialise is pool_model_step.c's own. */
void kvg_model_apply_blocks(kvg_pool_model *m, const kvg_pool_op *op, kvg_pool_expectation *expect);
void kvg_model_apply_sequences(kvg_pool_model *m, const kvg_pool_op *op, kvg_pool_expectation *expect);

#endif
