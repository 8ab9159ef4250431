/* An encoder of affine formats that fills its vector registers: lanes beyond the row enter its minimum and maximum. */
#ifndef KVG_HARNESS_TRIAL_WRONG_DEFECTS_LANES_H
#define KVG_HARNESS_TRIAL_WRONG_DEFECTS_LANES_H

#include "harness/trial/wrong/defects.h"

/* Op quantise to an affine format, rows that are not a power of two long. */
bool kvg_lanes_apply(const kvg_problem *problem, kvg_side side);

/* Codes, or parameters, as if the row went on with zeros up to a power of two. */
void kvg_lanes_join(const kvg_defect_site *site);

#endif
