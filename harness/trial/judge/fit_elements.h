/* What the elements of wrong rows are: others of their row, or what follows from the right ones. Part of
 * harness/trial/judge/fit.c. */
#ifndef KVG_HARNESS_TRIAL_JUDGE_FIT_ELEMENTS_H
#define KVG_HARNESS_TRIAL_JUDGE_FIT_ELEMENTS_H

#include "harness/trial/judge/fit_rows.h"

/* "each dim of a row holds dim + 4", "dim 3 of a row holds dim 1; at dim 1 is none of the row", or "". */
void judge_fit_elements(const fit_rows *rows, char *out, size_t size);

/* "each code 0x8 is 0x9, 0x7 is 0x8", "each code is 0x80", "each wrong code is one step from the right one, towards
 * zero", or "". */
void judge_fit_codes(const fit_rows *rows, char *out, size_t size);

#endif
