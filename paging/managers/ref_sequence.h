/* Room managers: who holds which block of a paged cache. It knows ids and no bytes.
 *
 *   ref_block_manager      The pool of blocks; ref_block_sets has its ordered sets.
 *   ref_block_pair         The data pool and the scale pool as one.
 *   ref_prefix_index       Which block holds which tokens.
 *   ref_sequence_manager, ref_sequence_step
 *                          Sequences, and the planning of their steps.
 *   ref_paging_memory      The memory of the managers.
 *
 * The public headers are paging/paging.h, paging_pool.h and paging_prefix.h. The room includes no
 * other room. docs/spec/paging.md is the contract. */
/* What the two halves of the sequence manager share: ref_sequence_manager.c keeps sequences, ref_sequence_step.c plans
 * steps. */
#ifndef KVG_PAGING_MANAGERS_REF_SEQUENCE_H
#define KVG_PAGING_MANAGERS_REF_SEQUENCE_H

#include "paging/paging.h"
#include "paging/managers/ref_block_pair.h"

typedef struct ref_sequence ref_sequence;
struct ref_sequence {
    ref_sequence *next; /* in its bucket */
    kvg_sequence_info info;
    int32_t *tokens;
    uint32_t *ids; /* the block table: info.blocks entries, of which info.holes lead */
    uint64_t *unique_ids;
    size_t token_room, id_room, unique_room;
    bool in_batch;
};

typedef struct ref_reference {
    uint32_t id;
    uint64_t unique_id;
} ref_reference;

/* One request on its way through a step. */
typedef struct ref_plan {
    ref_sequence *sequence;
    const kvg_sequence_request *request;
    uint32_t index;           /* in the batch */
    kvg_sequence_info before; /* for the way back */
    uint32_t need;            /* blocks to allocate, the copy's included */
    uint32_t matched;
    uint32_t copy_from, copy_to;
    bool revived;   /* was cached when the step began */
    bool scheduled; /* gets its blocks in this step */
    bool victim;    /* `going` counts its blocks */
} ref_plan;

/* Users of a block that go in this step, as far as it is planned. */
typedef struct ref_going {
    uint32_t victims; /* before blocks are evicted */
    uint32_t copied;  /* after it: whoever gets a copy in its place */
} ref_going;

/* A block-table entry as it was before a step changed it. */
typedef struct ref_edit {
    ref_sequence *sequence;
    uint32_t entry;
    ref_reference was;
} ref_edit;

struct kvg_sequence_manager {
    kvg_memory memory;
    kvg_sequence_config config;
    uint32_t span;
    ref_block_pair pair;
    ref_sequence **buckets;
    uint64_t bucket_count; /* a power of two, at least `sequences` */
    uint32_t sequences;

    uint32_t *unlocks; /* deferred, in this order: all unlocks, then all frees */
    ref_reference *frees;
    uint32_t unlock_count, free_count;
    size_t unlock_room, free_room;

    /* of the running step; nothing of it means anything between steps */
    ref_going *going; /* per block; all 0 between steps */
    ref_plan *plans;
    ref_edit *edits;
    uint32_t *ids, *evicted;
    uint64_t *unique_ids;
    uint32_t plan_count, edit_count, evicted_count;
    size_t plan_room, edit_room, id_room, evicted_room, unique_room;
};

/* NULL, with the error text set, if there is no such sequence. */
ref_sequence *ref_sequence_find(const kvg_sequence_manager *m, uint64_t id);

/* Room for `blocks` entries of the block table. */
kvg_status ref_sequence_reserve(kvg_sequence_manager *m, ref_sequence *s, uint64_t blocks);

/* How many leading blocks lie wholly before the window of every query at or after position `first`. */
uint32_t ref_sequence_passed(const kvg_sequence_manager *m, uint32_t first);

/* Cuts the table to `blocks` entries and cache_len to what they hold; to nothing if the window of the next token then
 * reaches into the holes. */
void ref_sequence_cut(const kvg_sequence_manager *m, kvg_sequence_info *s, uint32_t blocks);

/* Cuts a cached sequence before its first dead block. */
kvg_status ref_sequence_rederive(kvg_sequence_manager *m, ref_sequence *s);

/* Touch, then unlock now or with the next commit; the state becomes cached. Inside a transaction of the pair; on
 * failure the sequence is as it was. */
kvg_status ref_sequence_give_back(kvg_sequence_manager *m, ref_sequence *s, bool deferred);

/* Carries out the deferred unlocks and frees, inside a transaction of the pair. The caller then empties the lists. */
kvg_status ref_sequence_carry_out(kvg_sequence_manager *m);

/* kvg_sequence_ops.materialise */
kvg_status ref_sequence_materialise(void *self, const kvg_sequence_request *requests, uint32_t count,
                                    kvg_sequence_grant *grants);

#endif
