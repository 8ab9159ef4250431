/* What the rotated elements of wrong rows are. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_ROPE_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_ROPE_H

#include "harness/trial/judge/where.h"

/* How wrong elements of K in output `index`, or of V, which is not to be turned, follow from the pair (x, y) that RoPE
 * turns, in words, or "":
 *
 *   "RoPE: the first of each pair is x cos + y sin"                 right: x cos - y sin
 *   "RoPE: the second of each pair is y cos + x sin of position + 1"
 *   "RoPE: the first of each pair is x cos_sin[3 i] - y sin"  the factors of pair i stand elsewhere in the table
 *   "RoPE: the first of each pair is x, the second y"         not turned
 *   "V: RoPE: the first of each pair is x cos - y sin, the second y cos + x sin"
 *   "only what RoPE turns is wrong"                           by no such rule
 *   "of what RoPE turns only the first of each pair is wrong"
 *
 * Up to 96 of the first and of the second of pairs are tried, from up to 64 rows. Three quarters of them must be that,
 * as near as the stored row allows, and four times nearer than to what is right; and elements that RoPE leaves alone
 * must be right. */
kvg_status judge_fit_rope(const kvg_evidence *evidence, size_t index, char *out, size_t size) KVG_CHECKED;

#endif
