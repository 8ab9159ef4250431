/* What the files of harness/judge share: a case while it runs, and what a judge is. Private to the room. */
#ifndef KVG_HARNESS_JUDGE_JUDGE_PARTS_H
#define KVG_HARNESS_JUDGE_JUDGE_PARTS_H

#include "harness/data/case_data.h"
#include "harness/judge/judge.h"

/* Everything one case holds while it runs. `expected` is written by the reference and then made read-only. */
typedef struct running_case {
    const kvg_case *c;
    const struct judge *judge;
    kvg_case_data data;
    kvg_tensor_set expected, answer;
    void *truth; /* what the judge prepared */
    size_t output_bytes;
} running_case;

/* What is right for one kind of op: a row of harness/judge/judges.def. NULL: the op has nothing of the kind. */
typedef struct judge {
    kvg_status (*prepare)(running_case *b); /* makes b->truth: what is right beside the reference's answer */
    void (*forget)(running_case *b);        /* frees it, also where it could not be made whole */
    void (*storage)(const running_case *b, const kvg_tensor *answer, kvg_result *r); /* its bytes, codes or bits */
    void (*meaning)(const running_case *b, const kvg_tensor *answer, kvg_result *r); /* what they stand for */
    bool (*is_right)(const running_case *b, const kvg_tensor_set *right, const kvg_tensor_set *answer);
    bool (*explains)(const running_case *b, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);
    const char *explained; /* how the answer then is to the wrong one: "equals", "near" */
    void (*measure)(const running_case *b, kvg_result *r); /* the distances of all wrong answers, before the controls */
    kvg_control_outcome (*outcome)(const kvg_result *r, size_t defect); /* of a control, as it was measured; NULL: the
                                                                         * wrong answer is offered to the check */
    bool has_relations; /* harness/judge/relations.def is for these ops */
} judge;

/* The judge of a problem. */
const judge *judge_of(const kvg_problem *problem);

/* An ERROR with the last error's text. */
void judge_give_up(kvg_result *r, const char *what);

/* What the rows of the table are made of. */
void judge_bytes(const running_case *b, const kvg_tensor *answer, kvg_result *r);
void judge_codes(const running_case *b, const kvg_tensor *answer, kvg_result *r);
void judge_round_trip(const running_case *b, const kvg_tensor *answer, kvg_result *r);
bool judge_same_bytes(const running_case *b, const kvg_tensor_set *answer, const kvg_tensor_set *other);

kvg_status judge_prepare_truth(running_case *b);
void judge_forget_truth(running_case *b);
void judge_profile_bits(const running_case *b, const kvg_tensor *answer, kvg_result *r);
void judge_exact_numbers(const running_case *b, const kvg_tensor *answer, kvg_result *r);
bool judge_same_numbers(const running_case *b, const kvg_tensor_set *right, const kvg_tensor_set *answer);
bool judge_near_numbers(const running_case *b, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);
void judge_measure_separation(const running_case *b, kvg_result *r);
kvg_control_outcome judge_separated(const kvg_result *r, size_t defect);

#endif
