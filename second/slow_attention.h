/* The exact answer of docs/spec/attention.md section 4, in numbers of hundreds of bits (MPFR), rounded once. */
#ifndef KVG_SECOND_SLOW_ATTENTION_H
#define KVG_SECOND_SLOW_ATTENTION_H

#include "core/backend.h"

/* direction 0: the answer. -1 and 1: the least and the greatest that a program may give whose roundings are 2^-52
 * (docs/spec/numerics.md 6.10), so equal to the answer unless it lies next to a tie; NaN where they may come to
 * anything, because 2^-52 of the scores is more than 1. An answer is NaN where a row of q or of a visible K is not
 * finite, and for outputs with a visible V that is not. */
kvg_status slow_attention(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, int direction) KVG_CHECKED;

/* The answer of op merge, section 6 there. It is NaN where an LSE is NaN or +Inf, or where an output that counts is not
 * finite. */
kvg_status slow_merge(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

#endif
