/* How a decoder reads codes and scales, by its wrong numbers; how an encoder rounds numbers, by its wrong codes. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_NUMBERS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_NUMBERS_H

#include "harness/trial/judge/where.h"

/* What the numbers of output `index` of an op that decodes rows are, or the codes of one that encodes them, in words,
 * or "":
 *
 *   "each wrong code is read as the code +8"           what a code stands for follows from the code alone
 *   "code 0x7C is read as NaN"
 *   "codes are read as other numbers, each code always as the same one"
 *   "codes are read as ones of 4 bits: number i of a row is that of nibble i"
 *   "codes are read rightly, beside other scales"      the numbers of a block or row are off by one factor
 *   "codes are read rightly, beside other offsets"     of affine rows; by one summand
 *   "numbers are rounded to other codes: beside right scales each code follows from its number"
 *   "scales are right, and codes follow from no numbers of their blocks"   nor in their order; most blocks are wrong
 *
 * Up to 64 rows are looked at. One wrong number of 20, and one wrong block of 10, may be another one. */
kvg_status judge_fit_numbers(const kvg_evidence *evidence, size_t index, char *out, size_t size) KVG_CHECKED;

#endif
