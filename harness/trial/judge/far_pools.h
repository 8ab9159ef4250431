/* The question of a case asked once more, in pools of `far_blocks` blocks, so that offsets leave 32 bits. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FAR_POOLS_H
#define KVG_HARNESS_TRIAL_JUDGE_FAR_POOLS_H

#include "harness/candidate/candidate.h"
#include "harness/trial/question/question.h"

/* The relation's name in results, and its summary. */
#define KVG_FAR_ID "far"
#define KVG_FAR_SUMMARY "every page far from the others, in pools of `far_blocks` blocks; for every op on pages"

/* The case's blocks lie evenly over these pools, the first block first and the last one last. All other bytes are 0 and
 * take no memory until the candidate touches them. *answer is allocated here as the case's own outputs, and whoever
 * judges the case's answer can judge it: of pools it has the case's rows. KVG_ERR_INVALID where the candidate wrote
 * elsewhere; else the status is the implementation's where it fails, with its text. */
kvg_status kvg_far_answer(const kvg_question *question, kvg_candidate *candidate, kvg_tensor_set *answer) KVG_CHECKED;

#endif
