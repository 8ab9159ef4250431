/* Invariance: the same rows asked in other company, and compared with the first answer bit for bit. No reference and no
 * bound is needed: docs/spec/invariance.md. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_VARIANCE_H
#define KVG_HARNESS_TRIAL_JUDGE_VARIANCE_H

#include "harness/candidate/candidate.h"
#include "harness/case/result.h"
#include "harness/trial/question/question.h"

/* Asks the case's question by every relation of bits whose axis the case asks for. Not KVG_OK: the candidate is gone,
 * or there is no memory. */
kvg_status kvg_invariance_ask(const kvg_question *q, kvg_candidate *candidate, const kvg_tensor_set *first,
                              kvg_variance along[KVG_INVARIANCE_AXES]) KVG_CHECKED;

/* What was found goes into the result. A right answer fails if an axis that must hold does not, or has no answer. */
void kvg_invariance_judge(const kvg_case *c, const kvg_variance along[KVG_INVARIANCE_AXES], kvg_result *r);

#endif
