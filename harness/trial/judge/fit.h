/* From where the wrong rows of a storage, of its values or of an attention come: found by looking for them among the
 * right rows, so that it needs no list of mistakes. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_H

#include "harness/trial/judge/where.h"

/* What the wrong rows of output `index` are, in words, or "":
 *
 *   "each row is the right one of head + 1"                   rows of another place
 *   "60 of 64 rows are the right ones of block 0, token - 1"  the same, where what stands at 4 is unknown
 *   "each dim of a row holds dim + 4"                         right rows whose elements have moved
 *   "rows are right ones of other places, by no rule that is known here"   if nothing else is
 *                         found; ", or were not written" where some rows hold what they held before
 *
 * Coordinates that are not named are the row's own, and behind the last one comes the first one. A
 * place is named that gives half of the wrong rows, and nine tenths of those for which there is such a
 * place; all wrong rows if more than two coordinates differ. Nothing is said of fewer than 16 wrong
 * bytes: few bytes are found by chance. Ops merge and mma have no rows, op decode those of out. */
kvg_status judge_fit_rows(const kvg_evidence *evidence, const kvg_places *places, size_t index, char *out,
                        size_t size) KVG_CHECKED;

#endif
