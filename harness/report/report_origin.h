/* Where the results of a report come from; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_ORIGIN_H
#define KVG_HARNESS_REPORT_REPORT_ORIGIN_H

#include "harness/report/report_data.h"

/* Notes in which files of the implementation the merged runs differ, with the hashes of two of them. */
kvg_status kvg_report_compare_origins(kvg_report *report) KVG_CHECKED;

/* How many different sets of libraries the runs had; 0: nobody knows. */
size_t kvg_report_library_count(const kvg_report *report);

/* How many values the capability file claims that no case of the config asks. */
size_t kvg_report_unasked_count(const kvg_report *report);

/* Tells each machine with its kvgold and the date of its runs, each library, each capability file and
 * what the latter claims and no case asks, as kvg_report_tell_totals does. */
void kvg_report_tell_origins(const kvg_report *report, void (*tell)(void *context, const char *what, const char *text),
                             void *context);

#endif
