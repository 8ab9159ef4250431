/* Wrong scales of an encoder, found by what the codes beside them are. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_SCALES_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_SCALES_H

#include "harness/trial/judge/where.h"

/* What the scales of a side's rows are, in words, or "": where most of the codes beside wrong scales are the right
 * ones, or the nearest ones that those scales allow.
 *
 *   "only scales are wrong: most are 2 times the right one"
 *   "scales are wrong, codes are the nearest ones for them: each is the right one rounded down to a power of two"
 *
 * Up to 32 wrong scales are looked at. */
kvg_status judge_fit_scales(const kvg_evidence *evidence, char *out, size_t size) KVG_CHECKED;

#endif
