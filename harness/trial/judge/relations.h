/* Metamorphic relations of op decode: harness/trial/judge/relations.def. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_RELATIONS_H
#define KVG_HARNESS_TRIAL_JUDGE_RELATIONS_H

#include "harness/candidate/candidate.h"
#include "harness/case/invariance.h"
#include "harness/trial/question/question.h"

typedef struct kvg_relation kvg_relation;

/* The table: KVG_RELATIONS rows, reached by index. */
enum {
#define RELATION(id, ...) KVG_RELATION_##id,
#include "harness/trial/judge/relations.def"
#undef RELATION
    KVG_RELATIONS
};

const kvg_relation *kvg_relation_get(size_t index);
const char *kvg_relation_id(const kvg_relation *relation);
const char *kvg_relation_summary(const kvg_relation *relation);
kvg_invariance kvg_relation_axis(const kvg_relation *relation);

/* What the answer must be: right, of the bits of the first one, or both. */
bool kvg_relation_is_right(const kvg_relation *relation);
bool kvg_relation_has_bits(const kvg_relation *relation);

/* The relation makes sense for the case (an op decode) and for what the candidate can do. */
bool kvg_relation_applies(const kvg_relation *relation, const kvg_question *data, kvg_candidate *candidate);

/* Puts the case's questions to the candidate as the relation says and gathers the answers into *answer, allocated here
 * as the case's own outputs: whoever judges the case's answer can judge this one. Rows that were answered are marked in
 * `rows`, unless it is NULL: a relation of bits may leave some out. The status is the implementation's where it fails,
 * with its text. */
kvg_status kvg_relation_answer(const kvg_relation *relation, const kvg_question *data, kvg_candidate *candidate,
                               kvg_tensor_set *answer, bool *rows) KVG_CHECKED;

#endif
