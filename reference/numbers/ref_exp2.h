/* exp2 and log2 of the decode contract (docs/spec/decode-contract.md sections 6 and 9): f32, every rounding fixed. */
#ifndef KVG_REFERENCE_NUMBERS_REF_EXP2_H
#define KVG_REFERENCE_NUMBERS_REF_EXP2_H

#include <stddef.h>

/* x <= 8; +0 for NaN and from -127 down. */
float ref_exp2(float x);
void ref_exp2_all(float *x, size_t count); /* of each, in place */

/* x > 0, normal. */
float ref_log2(float x);

#endif
