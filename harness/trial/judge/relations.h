/* Metamorphic relations of op decode: harness/trial/judge/relations.def. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_RELATIONS_H
#define KVG_HARNESS_TRIAL_JUDGE_RELATIONS_H

#include "harness/candidate/candidate.h"
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

/* The relation makes sense for the case (an op decode) and for what the candidate can do. */
bool kvg_relation_applies(const kvg_relation *relation, const kvg_question *data, kvg_candidate *candidate);

/* Puts the case's questions to the candidate as the relation says and gathers the answers into *answer, allocated here
 * as the case's own outputs: whoever judges the case's answer can judge this one. The status is the implementation's
 * where it fails, with its text. */
kvg_status kvg_relation_answer(const kvg_relation *relation, const kvg_question *data, kvg_candidate *candidate,
                               kvg_tensor_set *answer) KVG_CHECKED;

#endif
