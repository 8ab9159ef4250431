/* An encoder of the canonical dialects with one fault: rows of harness/trial/wrong/defects.def. It writes the codes and
 * the scales of a side anew, from the op's input. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_ENCODE_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_ENCODE_H

#include "harness/trial/wrong/defects.h"

/* Problems whose codes are the input's, by a canonical dialect that this encoder knows. */
bool kvg_encode_ties_even(const kvg_problem *problem, kvg_side side);   /* of codes */
bool kvg_encode_rounds_scales(const kvg_problem *problem, kvg_side side); /* to nearest, ties to even */
bool kvg_encode_seeks_amax(const kvg_problem *problem, kvg_side side);  /* of a block or row, or its range */
bool kvg_encode_two_scales(const kvg_problem *problem, kvg_side side);  /* V beside a K of the same format */

/* Of codes, and of the scales beside them. */
void kvg_encode_round_away(const kvg_defect_site *site);
void kvg_encode_round_up(const kvg_defect_site *site);
void kvg_encode_round_to_zero(const kvg_defect_site *site);
void kvg_encode_scales_away(const kvg_defect_site *site);
void kvg_encode_scales_to_zero(const kvg_defect_site *site);
void kvg_encode_restart_at_nan(const kvg_defect_site *site);
void kvg_encode_by_scales_of_k(const kvg_defect_site *site);

/* Of single codes, whatever the dialect. */
bool kvg_encode_has_sign_bit(const kvg_problem *problem, kvg_side side);
bool kvg_encode_inf_is_no_largest(const kvg_problem *problem, kvg_side side);
void kvg_encode_sign_of_input(const kvg_defect_site *site);
void kvg_encode_saturate_inf(const kvg_defect_site *site);

#endif
