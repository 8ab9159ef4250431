/* Rounding of numbers to integers and to codes of small floats, with ties by any rule: known-wrong encoders are made of
 * it. */
#ifndef KVG_HARNESS_TRIAL_WRONG_WRONG_ROUNDING_H
#define KVG_HARNESS_TRIAL_WRONG_WRONG_ROUNDING_H

#include "core/problem.h"

/* Where a number half way between two others goes. */
typedef enum kvg_ties { KVG_TIES_EVEN, KVG_TIES_AWAY, KVG_TIES_UP, KVG_TIES_TO_ZERO } kvg_ties;

/* The integer nearest to x. */
double kvg_nearest(double x, kvg_ties ties);

/* docs/spec/formats.md sections 2.1 and 2.2, codes of E2M1, E4M3, E5M2 or F16: the nearest one, saturating. */
unsigned kvg_float_code(kvg_codes codes, double v, kvg_ties ties);
double kvg_float_value(kvg_codes codes, unsigned code);

#endif
