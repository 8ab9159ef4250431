/* Wrong kernels of op decode: which problems the rows of harness/trial/wrong/defects.def and
 * harness/trial/wrong/flash_defects.def apply to, and what they do to tables, lengths and outputs. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_DECODE_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_DECODE_H

#include "harness/trial/wrong/defects.h"

/* Problems: all are op decode, once (for K), but the last. */
bool kvg_decode_any(const kvg_problem *problem, kvg_side side);
bool kvg_decode_windowed(const kvg_problem *problem, kvg_side side);
bool kvg_decode_soft_capped(const kvg_problem *problem, kvg_side side);
bool kvg_decode_scaled(const kvg_problem *problem, kvg_side side); /* the scale is given */
bool kvg_decode_with_sinks(const kvg_problem *problem, kvg_side side);
bool kvg_decode_grouped(const kvg_problem *problem, kvg_side side); /* several KV heads, several query heads of each */
bool kvg_decode_many_queries(const kvg_problem *problem, kvg_side side);
bool kvg_decode_many_rows(const kvg_problem *problem, kvg_side side); /* several queries, several heads */
bool kvg_decode_two_sequences(const kvg_problem *problem, kvg_side side);
bool kvg_decode_long_block(const kvg_problem *problem, kvg_side side);
bool kvg_decode_nan_tail(const kvg_problem *problem, kvg_side side); /* long blocks whose V can be NaN or Inf */
bool kvg_decode_paged_table(const kvg_problem *problem, kvg_side side); /* tables with a block per page */
bool kvg_decode_ring(const kvg_problem *problem, kvg_side side);
bool kvg_decode_latent(const kvg_problem *problem, kvg_side side); /* V is a part of K's row */
bool kvg_decode_latent_scale(const kvg_problem *problem, kvg_side side); /* and the scale is not given */
bool kvg_decode_k_factor(const kvg_problem *problem, kvg_side side); /* K has a tensor or row scale */
bool kvg_decode_v_factor(const kvg_problem *problem, kvg_side side);
bool kvg_decode_any_factor(const kvg_problem *problem, kvg_side side);
bool kvg_decode_same_rows(const kvg_problem *problem, kvg_side side); /* that reads sequences: K, V apart, alike */

/* Changes of the problem. */
void kvg_decode_drop_scale(kvg_problem *problem, kvg_side side);

/* Mutations of block tables, lengths and outputs. */
void kvg_decode_block_zero(const kvg_defect_site *site);
void kvg_decode_add_queries(const kvg_defect_site *site);
void kvg_decode_transpose(const kvg_defect_site *site);

#endif
