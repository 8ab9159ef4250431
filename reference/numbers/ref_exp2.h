/* exp2 and log2 of the decode contracts (docs/spec/decode-contract.md sections 6 and 9): f32, every rounding fixed. */
#ifndef KVG_REFERENCE_NUMBERS_REF_EXP2_H
#define KVG_REFERENCE_NUMBERS_REF_EXP2_H

#include <stddef.h>

#include "core/profile.h"

/* The polynomial. x <= 8; +0 for NaN and from -127 down. */
float ref_exp2(float x);
void ref_exp2_all(float *x, size_t count); /* of each, in place */

/* 2^x as a contract forms it. */
typedef struct ref_exp2_rule {
    float (*of)(float x);
    void (*of_all)(float *x, size_t count);
    float error, tanh_error; /* relative; absolute, of the tanh that is formed from it; 0: those of attention.v1 */
} ref_exp2_rule;

const ref_exp2_rule *ref_exp2_rule_of(kvg_exp2_kind kind);

/* x > 0, normal. */
float ref_log2(float x);

#endif
