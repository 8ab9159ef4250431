/* What the cases of a run say of invariance, as one table (docs/spec/invariance.md section 3). */
#ifndef KVG_HARNESS_REPORT_REPORT_INVARIANCE_H
#define KVG_HARNESS_REPORT_REPORT_INVARIANCE_H

#include <stdint.h>
#include <stdio.h>

#include "harness/case/invariance.h"
#include "harness/report/report.h"

/* A line for each axis of the set, then one for each that varies or lacks an answer. True: each axis was asked in some
 * case, no question of it is without an answer, and no case failed along whose axes a row differs. */
bool kvg_report_invariance(const kvg_report *report, uint32_t set, FILE *out);

#endif
