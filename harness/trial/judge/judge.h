/* Room judge: it runs one case on a candidate and judges the answer.
 *
 *   judge                  The check loop: the answer, the relations, the controls. It times a case, too.
 *   truth                  What is right: it is computed when the candidate has answered.
 *   judges                 Who judges what: judges.def, the one place of the room that names ops.
 *   where                  Where an answer is wrong, and what the wrong places have in common.
 *   fit, fit_rows, fit_elements
 *                          From which rows, elements of a row, or codes wrong ones come.
 *   fit_scales             Wrong scales of an encoder, by the codes beside them.
 *   fit_rope               What the rotated elements of wrong rows of K are.
 *   fit_inputs             Which inputs an encoder's wrong rows were made of.
 *   fit_kinds              Which kind of data wrong blocks or numbers were made of.
 *   fit_keys               Which keys wrong rows of op decode are of.
 *   fit_sums               A row of op decode from sums over its keys.
 *   differences            How an answer differs from what is right, by each measure; all who compare ask here.
 *   judge_rows             Bytes, codes by the value rule of a dialect, the round trip.
 *   judge_decode           Numbers against the exact answer, bits under a profile, probes.
 *   judge_shares           How much of what is wrong another wrong answer has, too.
 *   relations              Op decode: the same question asked in other ways (relations.def).
 *   variance               Op decode: the same rows in other company, compared with the first answer.
 *   far_pools              The same question in pools that leave 32 bits.
 *   known_wrong            The one pass over the known-wrong answers to a question.
 *   witnesses              Which of them show that an axis, for which a case asks, is seen (witnesses.def).
 *   separation             Op decode: how far such answers are from what a right one may be.
 *
 * The judge knows the right answer and the candidate never does. A case of generate, which is no op, has its judge in
 * model/generate/. */
/* The one check loop: runs one case and judges what came back. Nothing here knows a format or an op by name. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_JUDGE_H
#define KVG_HARNESS_TRIAL_JUDGE_JUDGE_H

#include "harness/candidate/candidate.h"
#include "harness/case/case.h"
#include "harness/case/result.h"

/* Runs a case on a candidate whose backend is open. Never fails: what goes wrong is a verdict with a detail. */
void kvg_check_case(const kvg_case *c, kvg_candidate *candidate, kvg_result *out);

/* The same on functions of this process. */
void kvg_check_run(const kvg_case *c, const kvg_backend *backend, kvg_result *out);

/* What an answer to a problem must be to be right, in words. */
const char *kvg_judge_right(const kvg_problem *problem);

/* Times of a case's op on one implementation, inputs and outputs warm. */
typedef struct kvg_timing {
    uint64_t runs, impossible; /* runs of which the judge's time counts: the implementation's process gave one that is
                                * below 0, or above that of the call */
    double median_ms, fastest_ms, slowest_ms; /* of a run */
    double fastest_call_ms; /* by the judge's clock */
} kvg_timing;

/* Judges the case, without its controls, and only if it passes runs the op again for at least `seconds` (3 runs or
 * more) and judges the last answer once more. *timing is all zero where nothing was timed. */
void kvg_check_time(const kvg_case *c, kvg_candidate *candidate, double seconds, kvg_result *out, kvg_timing *timing);

#endif
