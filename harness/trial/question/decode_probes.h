/* Probes of op decode: fills whose answer follows from the inputs in a few lines, without any reference.
 *
 *   fill     K           q                                  out                          LSE
 *   uniform  any         0                                  mean of the visible V        ln n
 *   ones     any         any                                1
 *   needle   all apart   128 above the others at one key    that key's V                 its score
 *   cold     all equal   scores below -2^16                 1                            the score + ln n
 *
 * n keys are visible. V = 1 but where a format needs larger codes to have a scale of 1
 * (harness/trial/question/fill.c). */
#ifndef KVG_HARNESS_TRIAL_QUESTION_DECODE_PROBES_H
#define KVG_HARNESS_TRIAL_QUESTION_DECODE_PROBES_H

#include "harness/trial/question/question.h"

/* KVG_ERR_INVALID if the case's fill is a probe and has no answer of that kind: another op, sinks, a cap, too many
 * tokens. */
kvg_status kvg_probe_check(const kvg_case *c) KVG_CHECKED;

/* The row of q (head_dim numbers) of query `row`, head `head`; false where any will do. */
bool kvg_probe_query(const kvg_question *data, size_t row, uint32_t head, float *q);

/* The answer of query `row`, head `head`: `out` as many numbers as the op gives for it; *lse NAN where nothing is
 * expected of it. The case's fill must be a probe. */
void kvg_probe_answer(const kvg_question *data, size_t row, uint32_t head, double *out, double *lse);

#endif
