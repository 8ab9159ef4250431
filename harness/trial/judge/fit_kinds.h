/* Which data wrong blocks or numbers were made of. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_KINDS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_KINDS_H

#include "harness/trial/judge/where.h"

/* "what has Inf is wrong, and nothing else" where the wrong blocks of an encoder, or the wrong numbers of a decoder,
 * are those of a kind of data: all that has NaN, Inf, -0 or a subnormal number, or that is zeros alone; else "". A
 * block has the elements of a scale; of a format without scales, and where all scales are right, it is one element.
 *
 * "what is small and not 0 is wrong, and nothing else: 1.03906 to 1.5": all wrong blocks of a side are smaller than all
 * its right ones. So `large`, and `neither small nor large`; `K: ` or `V: ` stands before them if the other side is
 * right. A size is a largest magnitude, or in formats with an offset the
 * distance from the smallest number to the largest. */
kvg_status judge_fit_kinds(const kvg_evidence *evidence, char *out, size_t size) KVG_CHECKED;

#endif
