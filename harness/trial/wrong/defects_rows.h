/* Codes, scales and values gone wrong: what the rows of harness/trial/wrong/defects.def do to the rows of K and V, be
 * they tensors of the op or lie in its cache. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_ROWS_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_ROWS_H

#include "harness/trial/wrong/defects.h"

/* Problems: ops that write the format, or read it; "encodes": what is stored is the input, without bias and RoPE. */
bool kvg_rows_writes_unrounded(const kvg_problem *problem, kvg_side side); /* has a dialect of that rule */
bool kvg_rows_writes_e5m2(const kvg_problem *problem, kvg_side side);
bool kvg_rows_reads_e4m3_scales(const kvg_problem *problem, kvg_side side); /* beside a tensor scale */
bool kvg_rows_reads_offsets(const kvg_problem *problem, kvg_side side);     /* nibbles less 8 */
bool kvg_rows_floors(const kvg_problem *problem, kvg_side side); /* scales of E8M0 */
bool kvg_rows_ceils(const kvg_problem *problem, kvg_side side);  /* the same by another rule */
bool kvg_rows_encodes_blocks(const kvg_problem *problem, kvg_side side); /* E2M1 by an E4M3 scale and the tensor's */
bool kvg_rows_encodes_e4m3(const kvg_problem *problem, kvg_side side);
bool kvg_rows_encodes_symmetric(const kvg_problem *problem, kvg_side side); /* one factor per row */
bool kvg_rows_encodes(const kvg_problem *problem, kvg_side side);
bool kvg_rows_encodes_canonical(const kvg_problem *problem, kvg_side side);
bool kvg_rows_writes_factors(const kvg_problem *problem, kvg_side side); /* of blocks or rows */
bool kvg_rows_writes_least(const kvg_problem *problem, kvg_side side);   /* an engine has a smallest one above 0 */
bool kvg_rows_zeros_have_scale(const kvg_problem *problem, kvg_side side); /* that is not 0 */
bool kvg_rows_gives_values(const kvg_problem *problem, kvg_side side); /* of a format whose codes have no Inf */
bool kvg_rows_has_two_scales(const kvg_problem *problem, kvg_side side); /* of tensors, for V */

/* Dialects that defects borrow, and whether a side's format has one. */
#define KVG_ROWS_FLOOR "ocp"
#define KVG_ROWS_UNROUNDED "seed"
bool kvg_rows_has_dialect(const kvg_problem *problem, kvg_side side, const char *name);

/* What an encoder reads: rows, row `row` of the input, the side's tensor scale. */
size_t kvg_rows_count(const kvg_defect_site *site);
void kvg_rows_load(const kvg_defect_site *site, size_t row, float *x);
float kvg_rows_tensor_scale(const kvg_defect_site *site);

/* Mutations of any tensor. */
void kvg_rows_roll(const kvg_defect_site *site); /* by a token; of one token by a head; of one row by an element */

/* Of codes. */
void kvg_rows_swap_nibbles(const kvg_defect_site *site);
void kvg_rows_drop_half(const kvg_defect_site *site);
void kvg_rows_drop_last(const kvg_defect_site *site);
void kvg_rows_fnuz(const kvg_defect_site *site); /* the same values with an exponent bias of 8 */
void kvg_rows_two_bit_codes(const kvg_defect_site *site);
void kvg_rows_borrow(const kvg_defect_site *site);
void kvg_rows_not_inverted(const kvg_defect_site *site);
void kvg_rows_divide_by_0(const kvg_defect_site *site);

/* Of scales. */
void kvg_rows_scales_late(const kvg_defect_site *site);
void kvg_rows_scales_early(const kvg_defect_site *site);
void kvg_rows_scales_one(const kvg_defect_site *site);
void kvg_rows_saturate_to_nan(const kvg_defect_site *site);
void kvg_rows_add_one(const kvg_defect_site *site);
void kvg_rows_subtract_one(const kvg_defect_site *site);
void kvg_rows_subnormal_scales(const kvg_defect_site *site);
void kvg_rows_scale_zeros_by_0(const kvg_defect_site *site);
void kvg_rows_scale_zeros_by_1(const kvg_defect_site *site);
void kvg_rows_scale_zeros_by_least(const kvg_defect_site *site);

/* Of values. */
void kvg_rows_round_bf16(const kvg_defect_site *site);
void kvg_rows_saturate_overflows(const kvg_defect_site *site);
void kvg_rows_floor(const kvg_defect_site *site); /* where no dialect has that rule */
void kvg_rows_amax_of_half(const kvg_defect_site *site);
void kvg_rows_bf16_quotient(const kvg_defect_site *site);

#endif
