/* Wrong tensor cores and kernels around them: what the rows of harness/trial/wrong/defects.def for op mma name. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_MMA_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_MMA_H

#include "harness/trial/wrong/defects.h"

bool kvg_mma_applies(const kvg_problem *problem, kvg_side side); /* op mma, once */

/* The arithmetic of a chip with another split into sums. */
void kvg_mma_other_chip(kvg_problem *problem, kvg_side side);

/* Mutations of d: what other ways of summing give. */
void kvg_mma_fma_chain(const kvg_defect_site *site);
void kvg_mma_addend_last(const kvg_defect_site *site);
void kvg_mma_nearest(const kvg_defect_site *site);

/* Mutations of a, b and d: flushed subnormals, and elements in other places. */
void kvg_mma_flush(const kvg_defect_site *site);
void kvg_mma_transpose(const kvg_defect_site *site);
void kvg_mma_swap_halves(const kvg_defect_site *site);

#endif
