/* Judging op decode: numbers against the exact answer and the bound of a class of arithmetic (docs/spec/numerics.md
 * section 6), bits where the case names a profile, and what a probe must give. Part of harness/judge/judge.c. */
#ifndef KVG_HARNESS_JUDGE_JUDGE_DECODE_H
#define KVG_HARNESS_JUDGE_JUDGE_DECODE_H

#include "harness/data/case_data.h"
#include "harness/judge/judge.h"
#include "reference/attention_spec.h"

/* What is right for one case of op decode, and how far an answer may be from it. */
typedef struct kvg_decode_truth {
    const kvg_case_data *data;
    size_t outputs, rows;       /* numbers of out and of lse */
    kvg_attention_answer exact; /* with the bounds of the case's class */
    kvg_attention_answer probe; /* what follows from a probe, with its bounds; NULL for other fills */
    double codec_ratio, codec_l2; /* the exact answer against the one over K and V before they were quantised: largest
                                   * error / bound, relative L2; NAN where there are no such rows (fill codes) */
} kvg_decode_truth;

/* The class that the case's answer is judged by: its profile's, or that of its operands. */
kvg_status kvg_decode_arithmetic(const kvg_case *c, kvg_arithmetic *out) KVG_CHECKED;

/* KVG_ERR_INTERNAL if the codec's own error exceeds its bound: then the case cannot judge anybody. On failure, and at
 * the end, kvg_decode_truth_free. */
kvg_status kvg_decode_truth_make(const kvg_case_data *data, kvg_decode_truth *out) KVG_CHECKED;
void kvg_decode_truth_free(kvg_decode_truth *truth);

/* `answer`: the op's outputs. A number outside its bound, NaN included, is a FAIL that says where. Fills r->decode. */
void kvg_decode_judge(const kvg_decode_truth *truth, const kvg_tensor *answer, kvg_result *r);

/* Every bit as `expected`; a NaN is a NaN. Counts bytes. */
void kvg_decode_judge_bits(const kvg_decode_truth *truth, const kvg_tensor *expected, const kvg_tensor *answer,
                           kvg_result *r);

/* Whether `answer` is as near to `other` as the bounds of the case allow: what explains an answer that is wrong. */
bool kvg_decode_is_near(const kvg_decode_truth *truth, const kvg_tensor *answer, const kvg_tensor *other);

#endif
