/* The table of RoPE by docs/spec/numerics.md section 8, with integers of 256 bits. */
#ifndef KVG_SECOND_SLOW_ROPE_TABLE_H
#define KVG_SECOND_SLOW_ROPE_TABLE_H

#include "core/rope.h"
#include "second/slow_number.h"

/* What every row of a table needs. `broken`: the parameters leave no range or no base. */
typedef struct slow_rope_plan {
    const kvg_rope *rope;
    slow_number attention_factor;
    slow_number frequency[KVG_MAX_HEAD_DIM / 2];
    bool broken;
} slow_rope_plan;

/* For a rope that kvg_rope_check takes, of a kind that says where the table comes from. */
void slow_rope_prepare(const kvg_rope *rope, slow_rope_plan *plan);

/* cos and sin of pair 0, of pair 1, ... at a position. */
void slow_rope_row(const slow_rope_plan *plan, uint32_t position, slow_number *cos_sin);

/* The float nearest to cos and to sin of an f32 angle from 0 to 2^24. */
void slow_cos_sin(slow_number angle, slow_number *cos, slow_number *sin);

#endif
