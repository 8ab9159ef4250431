/* A truth is what is right for a question (harness/trial/question/question.h). A question may be shown to a
 * candidate, a truth may not, and no function takes a candidate and a truth. A truth is computed
 * after the candidate's answers have been copied out. Timing is exempt: only what was judged is
 * timed. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_TRUTH_H
#define KVG_HARNESS_TRIAL_JUDGE_TRUTH_H

#include "harness/trial/question/question.h"
#include "reference/attention_spec.h"

typedef struct kvg_truth {
    const kvg_question *question;
    kvg_tensor_set expected;    /* the reference's answer, read-only */
    size_t bytes;               /* of it */
    /* Ops decode and merge; else all zero. */
    size_t outputs, rows;       /* numbers of out and of lse */
    kvg_attention_answer exact; /* with the bounds of the case's class */
    kvg_attention_answer probe; /* what follows from a probe, with its bounds; NULL for other fills */
    double codec_ratio, codec_l2; /* the exact answer against the one over K and V before they were quantised, of the
                                   * first rows: largest error / bound, relative L2; NAN where there are none (fill
                                   * codes) */
} kvg_truth;

/* Computes the truth of a question, which must stay where it is. KVG_ERR_INVALID if the codec's own error exceeds its
 * bound: then the question cannot judge anybody. On failure, and at the end, kvg_truth_free. */
kvg_status kvg_know(const kvg_question *question, kvg_truth *out) KVG_CHECKED;

/* The same for another question of the same K and V, of which the codec's error is known: it stays NAN. */
kvg_status kvg_know_again(const kvg_question *question, kvg_truth *out) KVG_CHECKED;
void kvg_truth_free(kvg_truth *truth);

/* An empty answer to a question: an op that updates in place starts from the same bytes every time. */
kvg_status kvg_answer_alloc(const kvg_question *question, kvg_tensor_set *out) KVG_CHECKED;

#endif
