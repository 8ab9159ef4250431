/* E2M1 encoding rules that dialects differ in: docs/spec/formats.md section 2.1. */
#ifndef KVG_REFERENCE_FORMATS_REF_E2M1_H
#define KVG_REFERENCE_FORMATS_REF_E2M1_H

#include <math.h> /* isnan, signbit: macros, no library call */
#include <stdbool.h>

#include "reference/numbers/ref_round.h"

typedef enum ref_sign_rule { REF_SIGN_BIT, REF_SIGN_LESS, REF_SIGN_NONZERO, REF_SIGN_NOTPOS } ref_sign_rule;

enum { REF_NAN_SIGNED_ZERO = 16 }; /* a `nan` code: 0 with the NaN's sign */

typedef struct ref_e2m1_rules {
    kvg_ref_ties ties;
    ref_sign_rule sign;
    uint8_t nan; /* code of NaN, or REF_NAN_SIGNED_ZERO */
} ref_e2m1_rules;

/* The code of v. x is the element v came from: its sign counts where v is a NaN made by the arithmetic. */
static inline uint16_t ref_e2m1_encode(const ref_e2m1_rules *rules, float x, double v)
{
    if (isnan(v)) return rules->nan == REF_NAN_SIGNED_ZERO ? (signbit(x) ? 8 : 0) : rules->nan;
    uint8_t magnitude = kvg_ref_e2m1_magnitude(v, rules->ties);
    bool negative = false;
    switch (rules->sign) {
    case REF_SIGN_BIT: negative = signbit(v); break;
    case REF_SIGN_LESS: negative = v < 0; break;
    case REF_SIGN_NONZERO: negative = signbit(v) && magnitude != 0; break;
    case REF_SIGN_NOTPOS: negative = !(v > 0); break;
    }
    return (uint16_t)(magnitude | (negative ? 8 : 0));
}

#endif
