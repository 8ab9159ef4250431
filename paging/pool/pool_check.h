/* The checker: what must hold after every operation, looked up in the managers themselves through their public tables,
 * beside the model's predictions. A cache is simulated as one tag per slot and pool, so that a block that is stale,
 * shared by mistake or read before it was written shows. */
#ifndef KVG_PAGING_POOL_POOL_CHECK_H
#define KVG_PAGING_POOL_POOL_CHECK_H

#include "paging/pool/pool_model.h"
#include "paging/pool/pool_stack.h"

/* The rules; names and texts in kvg_pool_rules, explained in docs/guide/pool.md. */
typedef enum kvg_pool_rule {
    KVG_RULE_COUNTS, KVG_RULE_HOLDERS, KVG_RULE_LIVES, KVG_RULE_AGES, KVG_RULE_DEAD, KVG_RULE_LOWEST, KVG_RULE_MATCH,
    KVG_RULE_READ_ONLY, KVG_RULE_LOCKSTEP, KVG_RULE_PLACES, KVG_RULE_WINDOW, KVG_RULE_SHARED_WRITE, KVG_RULE_PUBLISHED,
    KVG_RULE_TAGS, KVG_RULE_STATUS, KVG_RULE_MODEL, KVG_RULE_FAILURE, KVG_RULE_LEAK, KVG_RULE_CRASH, KVG_RULE_COUNT
} kvg_pool_rule;

typedef struct kvg_pool_rule_text {
    const char *name, *text;
} kvg_pool_rule_text;

extern const kvg_pool_rule_text kvg_pool_rules[KVG_RULE_COUNT];

enum { KVG_POOL_SMALL = 256, KVG_POOL_FULL_EVERY = 64 }; /* larger pools are checked whole every so many operations */

typedef struct kvg_pool_checker {
    kvg_pool_stack *stack;
    const kvg_pool_model *model;
    kvg_block *before[KVG_POOL_SIDES], *now[KVG_POOL_SIDES]; /* as they were at the last check, and are */
    uint32_t total[KVG_POOL_SIDES];                          /* blocks that exist, as the pools say */
    uint64_t newest[KVG_POOL_SIDES];                         /* the largest unique id seen */
    uint64_t *tags[KVG_POOL_SIDES];                          /* of slots, rank by rank */
    uint32_t *holders;
    uint32_t *scratch_ids;                                   /* the block table read last */
    uint64_t *scratch_unique, *set;
    uint64_t *node_tags, *node_hashes;                       /* by block, of the index */
    bool *node_seen;
    int64_t *slots;
    uint32_t slot_room, set_room, table_room;
    const kvg_model_sequence *let_go;                        /* what a release or preempt has just ended; or NULL */
    uint32_t drafts;                                         /* the first token of a step that is not reported */
    kvg_id_list all;                                         /* 0, 1, 2, ... */
    uint64_t evaluated[KVG_RULE_COUNT];
    bool failing;         /* the last operation was made to fail: pools may have grown */
    bool refused;         /* the last operation had to be refused */
    bool blind;           /* predictions are not looked at: what do the invariants alone see? */
    bool broken, doubted; /* `doubted`: the model differs, nothing else is broken so far */
    kvg_pool_rule rule;
    char text[320], doubt[320];
} kvg_pool_checker;

kvg_status kvg_pool_checker_make(kvg_pool_checker *c, kvg_pool_stack *stack, const kvg_pool_model *model) KVG_CHECKED;
void kvg_pool_checker_destroy(kvg_pool_checker *c);

/* Records that a rule is broken, once; returns false. Of KVG_RULE_MODEL: true, and it counts only if nothing else is
 * found before kvg_pool_settle: what is wrong in itself says more than what differs from a prediction. A blind checker
 * forgets doubts; where managers and model part in status, its trace ends without a verdict. */
bool kvg_pool_broken(kvg_pool_checker *c, kvg_pool_rule rule, const char *format, ...) KVG_PRINTF(3, 4);

/* The end of an operation's checks: a doubt is a break now. True if all holds. */
bool kvg_pool_settle(kvg_pool_checker *c);

/* Counts one evaluation of a rule; records it as broken if the condition does not hold. */
#define KVG_HOLDS(c, rule, condition, ...) \
    ((c)->evaluated[rule]++, (condition) ? true : kvg_pool_broken(c, rule, __VA_ARGS__))

/* Everything that holds of the pools after `op`, refused ones too: `full` looks at every block, else at those that the
 * model changed. `calm`: unique ids may have gone back (undo) and deferred frees may have ended lives. */
bool kvg_pool_check_blocks(kvg_pool_checker *c, const kvg_pool_op *op, bool full, bool calm);

/* What is now is `before` of the next check. */
void kvg_pool_check_next(kvg_pool_checker *c, bool full);

/* Everything that holds of sequences and index. `full`: of all, else of those that `op` names. */
bool kvg_pool_check_sequences(kvg_pool_checker *c, const kvg_pool_op *op, bool full);

/* What a materialise granted, all copies done: matches, read-only blocks, and that each sequence reads its history. */
bool kvg_pool_check_grants(kvg_pool_checker *c, const kvg_sequence_grant *grants, uint32_t count);

/* The simulated cache. `copy` carries out a grant's copy on write; `write` the running step of a sequence, whose
 * tokens from `reported` on are not reported: drafts that were rejected. `check_slots`: every token's place is its. */
void kvg_pool_copy(kvg_pool_checker *c, const kvg_sequence_grant *grant);
bool kvg_pool_check_slots(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t first, uint32_t n);
bool kvg_pool_write(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t reported);

#endif
