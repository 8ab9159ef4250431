/* Wrong scales of an encoder, found by what the codes beside them are. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_SCALES_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_SCALES_H

#include "harness/trial/judge/where.h"

/* What the scales of a side's rows are, in words, or "": where all codes are the right ones, or most of those beside
 * wrong scales the nearest ones that those scales allow.
 *
 *   "only scales are wrong: most are 2 times the right one"
 *   "K: scales are wrong, codes are the nearest ones for them: each is smaller than the right one"
 *   "scales are wrong: most are Inf or NaN"  whatever the codes are; not of an op that updates in place
 *   "scales are wrong: each is smaller than the right one"  whatever the codes are, of 16 scales or more
 *
 * Up to 32 wrong scales of each side are looked at. `K: ` stands where V has other words, or none. */
kvg_status judge_fit_scales(const kvg_evidence *evidence, char *out, size_t size) KVG_CHECKED;

/* What every code, of at most 8 bits, stands for beside these scales of a row: to[codes][head_dim]. */
kvg_status judge_fit_decode_codes(const kvg_question *question, kvg_side side, const uint8_t *scales,
                                  float *to) KVG_CHECKED;

/* Whether two sets of rows, right and got, have the same bytes there. */
bool judge_fit_same_tensor(const kvg_tensor_set rows[2], kvg_role role, kvg_side side);

#endif
