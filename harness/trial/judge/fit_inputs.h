/* What an encoder made wrong rows of. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_INPUTS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_INPUTS_H

#include "harness/trial/judge/where.h"

/* Which inputs the wrong rows in output `index` were made of, in words, or "". Rows that RoPE turns are left out; `V: `
 * stands before words of V in an output of K.
 *
 *   "each row is made of the input 64 numbers further on"
 *   "rows are made of other parts of the input than theirs"
 *   "rows have another bias, the same one for all tokens"
 *
 * A row must be that as near as the stored row allows, and 16 of its elements far from what they should be. Nine of
 * ten such rows must be that, of up to 24 or so that are tried. Another bias must suit the right rows, too. */
kvg_status judge_fit_inputs(const kvg_evidence *evidence, size_t index, char *out, size_t size) KVG_CHECKED;

#endif
