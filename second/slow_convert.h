/* Conversions of docs/spec/formats.md section 2 that are found by search: the nearest code is the one that exact
 * comparison with the midpoints between neighbouring code values leaves. */
#ifndef KVG_SECOND_SLOW_CONVERT_H
#define KVG_SECOND_SLOW_CONVERT_H

#include "core/format.h"
#include "second/slow_number.h"

typedef enum slow_ties { SLOW_TIES_EVEN, SLOW_TIES_AWAY, SLOW_TIES_ZERO } slow_ties;

/* The magnitude code nearest to |v|, saturating at the layout's largest; v is not NaN. */
unsigned slow_nearest(const slow_layout *layout, slow_number v, slow_ties ties);

/* e4m3(x), e5m2(x) of section 2.2. */
uint8_t slow_fp8_encode(const slow_layout *layout, slow_number x);

/* e2m1(v) under a dialect's rules, section 2.1. */
typedef enum slow_sign { SLOW_SIGN_BIT, SLOW_SIGN_LESS, SLOW_SIGN_NONZERO, SLOW_SIGN_NOTPOS } slow_sign;
enum { SLOW_NAN_SIGNED_ZERO = 0xFF }; /* as slow_e2m1_rule.nan: 0 with the NaN's sign bit */
typedef struct slow_e2m1_rule {
    slow_ties ties;
    slow_sign sign;
    uint8_t nan;
} slow_e2m1_rule;
uint8_t slow_e2m1_encode(const slow_e2m1_rule *rule, slow_number v);

/* Section 2.3. */
slow_number slow_e8m0_decode(uint8_t code);

/* RN and rcp of section 1. */
slow_number slow_rn(slow_number n);
slow_number slow_rcp(slow_number x);

/* The layout of a model type. */
const slow_layout *slow_layout_of(kvg_dtype dtype);

#endif
