/* What append does to a row before it is quantised: docs/spec/layouts.md section 7, steps 1 and 2. */
#ifndef KVG_SECOND_SLOW_ROPE_H
#define KVG_SECOND_SLOW_ROPE_H

#include "core/problem.h"
#include "second/slow_number.h"

/* x = RN_T(x + bias), element by element; `type` is T's. */
void slow_add_bias(const slow_layout *type, const slow_number *bias, size_t count, slow_number *x);

/* Turns the first rope->dims elements of x by one row of the table: cos and sin of pair 0, of pair 1, ... */
void slow_turn(const slow_layout *type, const kvg_rope *rope, const slow_number *cos_sin, slow_number *x);

#endif
