/* What the files of harness/judge share: what a judge is. Private to the room. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_JUDGE_PARTS_H
#define KVG_HARNESS_TRIAL_JUDGE_JUDGE_PARTS_H

#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/separation.h"
#include "harness/trial/judge/truth.h"

/* What becomes of a known-wrong answer that is offered to a check. */
typedef enum kvg_control_outcome {
    KVG_CONTROL_ABSENT,    /* does not apply to this problem */
    KVG_CONTROL_UNREACHED, /* does not change the exact answer of this case */
    KVG_CONTROL_REJECTED,  /* changed it, and the check said FAIL: by bytes or by value */
    KVG_CONTROL_REJECTED_BY_BOUND, /* the round-trip bound alone rejects it too */
    KVG_CONTROL_WITHIN,    /* op decode without a profile: changed it by less than a right answer may be off */
    KVG_CONTROL_ACCEPTED   /* changed it, and the check passed it: the case is MISTRUSTED */
} kvg_control_outcome;

/* What is right for one kind of op: a row of harness/trial/judge/judges.def. NULL: the op has nothing of the kind. */
typedef struct judge {
    kvg_status (*know)(kvg_truth *t); /* what is right beside the reference's answer */
    void (*storage)(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r); /* its bytes, codes or bits */
    void (*meaning)(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r); /* what they stand for */
    bool (*is_right)(const kvg_truth *t, const kvg_tensor_set *answer);
    bool (*explains)(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);
    const char *explained; /* how the answer then is to the wrong one: "equals", "near" */
    /* The distances of all wrong answers, before the controls; NULL: each wrong answer is offered to the check. */
    bool (*measure)(const kvg_truth *t, kvg_separation *separation, kvg_result *r);
    bool has_relations; /* harness/trial/judge/relations.def is for these ops */
} judge;

/* The judge of a problem. */
const judge *judge_of(const kvg_problem *problem);

/* What the rows of the table are made of. */
void judge_bytes(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r);
void judge_codes(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r);
void judge_round_trip(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r);
bool judge_same_bytes(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *other);

bool judge_same_answer(const kvg_truth *t, const kvg_tensor_set *answer);

kvg_status judge_know_numbers(kvg_truth *t);
bool judge_same_numbers(const kvg_truth *t, const kvg_tensor_set *answer);
bool judge_near_numbers(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);
bool judge_measure_separation(const kvg_truth *t, kvg_separation *separation, kvg_result *r);
kvg_control_outcome judge_separated(const kvg_separation *separation, size_t defect);

#endif
