/* Which layout an engine writes: the known rows of a case are looked for in the engine's pools where each layout would
 * put them. */
#ifndef KVG_HARNESS_TRIAL_EXPLAIN_IDENTIFY_H
#define KVG_HARNESS_TRIAL_EXPLAIN_IDENTIFY_H

#include "harness/trial/question/question.h"
#include "harness/trial/wrong/near_texts.h"

enum { KVG_IDENTIFIED = 5, KVG_POOLS = 4 };

typedef struct kvg_identified {
    const char *name;         /* the layout that it is, or whose text it is near to: named, or the case's own */
    char text[KVG_NEAR_TEXT]; /* docs/spec/layouts.md section 8 */
    unsigned mistakes;        /* edits (kvg_near_texts_of) from the layout's text to this one */
    uint64_t right;           /* bytes of rows that lie where the text says */
} kvg_identified;

typedef struct kvg_identification {
    kvg_identified best[KVG_IDENTIFIED]; /* by `right`, then by mistakes */
    size_t count, tried;
    uint64_t all;                        /* bytes of rows */
} kvg_identification;

/* Tries the text of the case, if it has one, every named layout with pools, the texts one mistake away from each, and
 * those two mistakes away from the best of these. `expected` are the right outputs of the case, which is one of op
 * append; `pools` what an engine has written: pool 2 * side of data, and the next one of scales. One that it lacks has
 * 0 bytes. */
kvg_status kvg_identify(const kvg_question *question, const kvg_tensor *expected,
                        const kvg_tensor pools[KVG_POOLS], kvg_identification *out) KVG_CHECKED;

#endif
