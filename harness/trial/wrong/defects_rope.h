/* Wrong tables of RoPE and what else goes wrong around it: rows of harness/trial/wrong/defects.def. Where a rope names
 * the kind that its table follows from (docs/spec/numerics.md section 8), a mutation puts in the table of a wrong
 * implementation. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_ROPE_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_ROPE_H

#include "harness/trial/wrong/defects.h"

/* K's side of an append with RoPE; the same with a named kind; and with what a defect changes. */
bool kvg_rope_turned(const kvg_problem *p, kvg_side side);
bool kvg_rope_named(const kvg_problem *p, kvg_side side);
bool kvg_rope_scaled(const kvg_problem *p, kvg_side side);    /* any kind but default */
bool kvg_rope_llama3(const kvg_problem *p, kvg_side side);
bool kvg_rope_yarn(const kvg_problem *p, kvg_side side);
bool kvg_rope_amplified(const kvg_problem *p, kvg_side side); /* an attention factor other than 1 */
bool kvg_rope_partial(const kvg_problem *p, kvg_side side);   /* not all of the row turns, and all of it could */
bool kvg_rope_lossy(const kvg_problem *p, kvg_side side);     /* K in a format that loses */

/* Dims become the whole row; kvg_rope_whole_table makes the table for it. */
void kvg_rope_whole_row(kvg_problem *p, kvg_side side);

/* Mutations of COS_SIN. */
void kvg_rope_whole_table(const kvg_defect_site *s);
void kvg_rope_ignore_kind(const kvg_defect_site *s);
void kvg_rope_ignore_factor(const kvg_defect_site *s);
void kvg_rope_flip_truncate(const kvg_defect_site *s);
void kvg_rope_not_amplified(const kvg_defect_site *s);
void kvg_rope_cos_amplified(const kvg_defect_site *s);
void kvg_rope_swap_factors(const kvg_defect_site *s);
void kvg_rope_bf16_frequencies(const kvg_defect_site *s);
void kvg_rope_bf16_positions(const kvg_defect_site *s);

/* Of POSITIONS, of VALUES. */
void kvg_rope_half_stride(const kvg_defect_site *s);
void kvg_rope_quantise_first(const kvg_defect_site *s);

#endif
