/* Probes of op decode: fills whose answer follows from the inputs in a few lines, without any reference.
 *
 *   fill     K           q                                  out                          LSE
 *   uniform  any         0                                  mean of the visible V        ln n
 *   ones     any         any                                1                            ln of the sum of e^score
 *   needle   all apart   128 above the others at one key    that key's V                 its score
 *   cold     all equal   scores below -2^16                 1                            the score + ln n
 *
 * n keys are visible. A sink s multiplies out by 1 / (1 + e^(s - LSE)), with the LSE above, and joins LSE. V = 1 but
 * where a format needs larger codes to have a scale of 1 (harness/trial/question/fill.c). */
#ifndef KVG_HARNESS_TRIAL_QUESTION_DECODE_PROBES_H
#define KVG_HARNESS_TRIAL_QUESTION_DECODE_PROBES_H

#include "harness/trial/question/question.h"

/* KVG_ERR_INVALID if the case's fill is a probe without an answer for this case: another op, too
 * many tokens, or sinks or a cap at needle and cold. */
kvg_status kvg_probe_check(const kvg_case *c) KVG_CHECKED;

/* Writes the row of q (head_dim numbers) of query `row`, head `head`. False if any q will do. */
bool kvg_probe_query(const kvg_question *data, size_t row, uint32_t head, float *q);

/* Writes the answer of query `row`, head `head`: as many numbers of `out` as the op gives, and
 * *lse. The case's fill must be a probe. */
void kvg_probe_answer(const kvg_question *data, size_t row, uint32_t head, double *out, double *lse);

#endif
