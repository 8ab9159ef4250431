/* Which keys a wrong row of op decode saw, or whose: found by computing the row over other sets of keys, so that it
 * needs no list of mistakes. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_KEYS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_KEYS_H

#include "harness/trial/judge/where.h"

/* What the wrong rows of output `index` (out or lse) are, in words, or "":
 *
 *   "each row is that of keys first - 1 to last"         a window one key long
 *   "each row is that of all keys but 64 to 79"          a tile or a page that is missing
 *   "each row is that of KV head h mod 2"                of another KV head
 *   "rows are multiples of the right ones, by factors from 0.5 to 0.9"   the sum of weights is wrong
 *
 * first and last are the row's own first and last key. Up to 32 rows that have a bound are tried, wrong ones and
 * right ones. The words hold for nine tenths of either, as near as the bounds of the case allow; and for half of the
 * wrong ones four times as near as the right answer. `, or ` stands before what explains as many, up to three. */
kvg_status judge_fit_keys(const kvg_evidence *evidence, size_t index, char *out, size_t size) KVG_CHECKED;

#endif
