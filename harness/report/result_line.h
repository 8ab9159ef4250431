/* One case's result as one JSON line: harness/report/report.h has the format. */
#ifndef KVG_HARNESS_REPORT_RESULT_LINE_H
#define KVG_HARNESS_REPORT_RESULT_LINE_H

#include "harness/case/case.h"
#include "harness/case/result.h"

enum { KVG_RESULT_LAYOUT = 2 }; /* of the files that are written here, the only one that is read */

/* The line without its newline, to be freed by the caller; NULL if out of memory. A result whose `impl` is empty was
 * not judged: the line says what was asked, what came of it and the mode alone. */
char *kvg_result_line(const kvg_case *c, const kvg_result *r, const char *repro, bool slow);

/* The other lines of a result file, to be freed; NULL if out of memory. */
char *kvg_result_run_line(const char *config, const char *name, uint64_t seed, const char *shard, size_t cases);
char *kvg_result_start_line(const kvg_case *c, const char *repro);
char *kvg_result_end_line(bool interrupted, double seconds, const size_t counts[KVG_VERDICT_COUNT]);

#endif
