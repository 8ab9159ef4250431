/* Block tables, lengths and slots of a case on a paged layout: which sequence owns which block.
 * They depend on the case's seed alone. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_PAGED_FILL_H
#define KVG_HARNESS_TRIAL_QUESTION_PAGED_FILL_H

#include "harness/case/case.h"

typedef struct kvg_paged_fill {
    int64_t *slots;       /* append, probe: [tokens], some of them negative */
    int32_t *positions;   /* append, probe: [tokens] */
    int32_t *table;       /* flatten: [sequences, width]; entries that no token needs are garbage: other ids, out of
                           * range, -1 */
    int32_t *lengths;     /* flatten: [sequences]; of three or more sequences one is empty */
    int32_t *query_lengths; /* decode: [sequences] */
    int64_t *live_slots;  /* [live] slots that hold a token of the case; a slot of a shared block once per sequence */
    int64_t *live_owned;  /* [live] the same; -1: an earlier live token has the slot */
    size_t *live_first;   /* [live] the first live token that has the same row, by the shared prefix; else itself */
    size_t *live_source;  /* [live] append, probe: the token; flatten: sequence * tokens + position; decode: only tokens
                           * that some query sees, the tokens of a sequence in a row */
    uint32_t live;
} kvg_paged_fill;

/* Spreads the tokens over paging.sequences sequences, with histories of several lengths, on blocks
 * in random order. The pool's last block is always used. Sequences share the blocks that
 * shared_prefix fills. The page in which they part is a block of each, whose first rows are
 * copies. KVG_ERR_INVALID says how many blocks are needed. Free with kvg_paged_fill_free. */
kvg_status kvg_paged_fill_make(const kvg_case *c, uint64_t seed, kvg_paged_fill *out) KVG_CHECKED;
void kvg_paged_fill_free(kvg_paged_fill *fill);

#endif
