/* The ledger of what was judged: result files of any runs, configs and machines. kvgold report merges the shards of one
 * run. */
#ifndef KVG_HARNESS_REPORT_COVERAGE_H
#define KVG_HARNESS_REPORT_COVERAGE_H

#include <stdio.h>

#include "core/status.h"
#include "harness/case/guest.h"

typedef struct kvg_coverage kvg_coverage;

/* Reads each file for itself. KVG_ERR_INVALID names the line that is none of a result file; a last line cut short by a
 * crash is told by kvg_coverage_print. A case line of several files, as of a shard and the merged file, counts once. */
kvg_status kvg_coverage_open(const char *const *paths, size_t count, const kvg_guest *guest,
                             kvg_coverage **out) KVG_CHECKED;
void kvg_coverage_close(kvg_coverage *c);

/* A line for each op, storage, layout, profile, chip and backend of which an answer was judged, sorted by these. Then
 * the cases that were not judged, by verdict, and what no implementation was judged for. */
void kvg_coverage_print(const kvg_coverage *c, FILE *out);

/* The same as one page without scripts. */
kvg_status kvg_coverage_html(kvg_coverage *c, const char *path) KVG_CHECKED;

/* The same for programs: docs/guide/report.md. */
kvg_status kvg_coverage_write(const kvg_coverage *c, const char *path) KVG_CHECKED;

#endif
