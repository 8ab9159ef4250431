/* Attention as docs/spec/attention.md defines it, in long double, over the rows that the world decoded without a
 * layout. Shares nothing with the spec tier but the decoders of rows. */
#ifndef KVG_TESTS_REFERENCE_ATTENTION_ATTENTION_NAIVE_H
#define KVG_TESTS_REFERENCE_ATTENTION_ATTENTION_NAIVE_H

#include "tests/reference/attention/attention_world.h"

/* out and lse of `answer`; unquantised: over the rows before quantisation. */
void naive_attention(const world *w, bool unquantised, kvg_attention_answer *answer);

#endif
