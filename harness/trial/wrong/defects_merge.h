/* Wrong merges: what the rows of harness/trial/wrong/defects.def for op merge name. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_MERGE_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_MERGE_H

#include "harness/trial/wrong/defects.h"

bool kvg_merge_applies(const kvg_problem *problem, kvg_side side);      /* op merge, either part */
bool kvg_merge_applies_once(const kvg_problem *problem, kvg_side side); /* op merge, once */

/* Mutations of the parts' LSE. */
void kvg_merge_unweighted(const kvg_defect_site *site);
void kvg_merge_lost(const kvg_defect_site *site);
void kvg_merge_heads_first(const kvg_defect_site *site);

/* Mutations of lse, of out, and of both. */
void kvg_merge_largest_lse(const kvg_defect_site *site);
void kvg_merge_unnormalised(const kvg_defect_site *site);
void kvg_merge_empty_leaks(const kvg_defect_site *site);
void kvg_merge_empty_nan(const kvg_defect_site *site);
void kvg_merge_no_maximum(const kvg_defect_site *site);
void kvg_merge_base_2(const kvg_defect_site *site);

#endif
