/* Judging op decode: numbers against the exact answer and the bound of a class of arithmetic (docs/spec/numerics.md
 * section 6), bits where the case names a profile, and what a probe must give. Part of harness/trial/judge/judge.c. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_JUDGE_DECODE_H
#define KVG_HARNESS_TRIAL_JUDGE_JUDGE_DECODE_H

#include "harness/trial/judge/judge.h"
#include "harness/trial/judge/truth.h"

/* The class that the case's answer is judged by: its profile's, or that of its operands. */
kvg_status kvg_decode_arithmetic(const kvg_case *c, kvg_arithmetic *out) KVG_CHECKED;

/* `answer`: the op's outputs. A number outside its bound, NaN included, is a FAIL that says where. Fills r->decode. */
void kvg_decode_judge(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r);

/* Every bit as the reference's answer; a NaN is a NaN. Counts bytes. */
void kvg_decode_judge_bits(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r);

/* Of a wrong answer to a case with a profile: adds to r which other profiles have its bits, if any has. */
void kvg_decode_name_profiles(const kvg_truth *truth, const kvg_tensor *answer, kvg_result *r);

/* Whether `answer` is as near to `other` as the bounds of the case allow: what explains an answer that is wrong. Two
 * NaNs are alike. */
bool kvg_decode_is_near(const kvg_truth *truth, const kvg_tensor *answer, const kvg_tensor *other);

#endif
