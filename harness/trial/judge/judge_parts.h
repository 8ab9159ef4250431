/* What the files of harness/trial/judge share: what a judge is. Private to the room. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_JUDGE_PARTS_H
#define KVG_HARNESS_TRIAL_JUDGE_JUDGE_PARTS_H

#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/truth.h"

/* Of the bytes or numbers that are wrong in an answer: how many another wrong answer has, too, and how many of these it
 * does not have by chance; and how many that has which are not right. */
typedef struct judge_share {
    uint64_t wrong, given, telling, changed;
} judge_share;

/* What is right for one kind of op: a row of harness/trial/judge/judges.def. NULL: the op has nothing of the kind. */
typedef struct judge {
    kvg_status (*know)(kvg_truth *t, bool codec); /* what is right beside the reference's answer; codec: also how far
                                                   * the codec has moved it */
    void (*storage)(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r); /* its bytes, codes or bits */
    void (*meaning)(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r); /* what they stand for */
    bool (*is_right)(const kvg_truth *t, const kvg_tensor_set *answer);
    bool (*explains)(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);
    judge_share (*share)(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);
    void (*mark)(const kvg_truth *t, const kvg_tensor_set *answer, bool *rows); /* by distance: sets rows[i] of
                                                   * [queries][Hq] where something of the row is wrong */
    void (*name)(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r); /* whose answer a wrong one is */
    const char *explained; /* how the answer then is to the wrong one: "equals", "near" */
    bool by_distance;   /* a wrong answer is rejected by its distance; else it is offered to the check */
    bool has_relations; /* harness/trial/judge/relations.def is for these ops */
    const char *right;  /* what is right, in words */
} judge;

/* The judge of a problem. */
const judge *judge_of(const kvg_problem *problem);

/* What the rows of the table are made of. */
void judge_bytes(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r);
void judge_codes(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r);
void judge_round_trip(const kvg_truth *t, const kvg_tensor *answer, kvg_result *r);
bool judge_same_bytes(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *other);

judge_share judge_share_bytes(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *other);
judge_share judge_share_numbers(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *other);
void judge_mark_bytes(const kvg_truth *t, const kvg_tensor_set *answer, bool *rows);
void judge_mark_numbers(const kvg_truth *t, const kvg_tensor_set *answer, bool *rows);

bool judge_same_answer(const kvg_truth *t, const kvg_tensor_set *answer);

kvg_status judge_know_numbers(kvg_truth *t, bool codec);
bool judge_same_numbers(const kvg_truth *t, const kvg_tensor_set *answer);
bool judge_near_numbers(const kvg_truth *t, const kvg_tensor_set *answer, const kvg_tensor_set *wrong);

#endif
