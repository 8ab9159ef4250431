/* Private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_UNCLAIMED_H
#define KVG_HARNESS_REPORT_REPORT_UNCLAIMED_H

#include "harness/report/report_data.h"

/* What was skipped because the candidate does not claim to do it: "12 cases: layout hnd 8, format int4.canonical 4"; ""
 * where nothing was. */
void kvg_report_unclaimed_line(const kvg_report *report, char *out, size_t size);

/* Cases whose candidate was not confined by namespaces: "12 cases: none 12"; "" where all were, or nobody can say. */
void kvg_report_unconfined_line(const kvg_report *report, char *out, size_t size);

/* Names that libraries give themselves: "12 cases: mine 12". */
void kvg_report_engine_line(const kvg_report *report, char *out, size_t size);

/* Times that cannot be: "1 case: -5 ms in a call of 0.2 ms 1". */
void kvg_report_suspect_line(const kvg_report *report, char *out, size_t size);

/* Relations that did not hold: "16 cases: appended 12, moved 4"; "" where all did. */
void kvg_report_broken_line(const kvg_report *report, char *out, size_t size);

/* Cases whose candidate's process held kvgold's reference: "12 cases: libengine.so 12"; "" where none did. */
void kvg_report_reference_line(const kvg_report *report, char *out, size_t size);

/* Cases or shards are missing, or no case asks something that the implementation claims. */
bool kvg_report_is_incomplete(const kvg_report *report);

#endif
