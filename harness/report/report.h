/* Room report: the lines of a result file, and everything that is made of them.
 *
 *   result_record          The records of harness/case/result_fields.h as JSON objects, written and read by one loop.
 *   result_line            One result as one line of results.jsonl.
 *   report, report_read    Reads result files and merges shards.
 *   report_table, _text    The table for a terminal; report_summary has its totals, report_causes what did not pass.
 *   report_html, _plot     The page with its plots.
 *   report_junit           JUnit XML.
 *   report_invariance      The table of `kvgold invariance`.
 *   report_origin          Where the results come from.
 *   report_decode, _unclaimed
 *                          The part of one op, what no claim covers, and what a candidate was not kept from.
 *   coverage, coverage_never
 *                          The ledger of many runs: what was judged, and what never was.
 *
 * A report is made from fields of result files alone: the room runs no case and takes no id apart. */
/* Reports of finished runs, made from their result files alone: results.jsonl, one JSON object per line, with the
 * fields of harness/case/result_fields.c (docs/reference/results.md). A `start` without a `case` is a case that
 * never finished. */
#ifndef KVG_HARNESS_REPORT_REPORT_H
#define KVG_HARNESS_REPORT_REPORT_H

#include <stdio.h>

#include "core/status.h"
#include "golden/golden.h"
#include "harness/case/guest.h"

typedef struct kvg_report kvg_report;

/* Reads and merges one or more result files. KVG_ERR_INVALID if a file is malformed, if two files disagree in config
 * name, seed or shard count, or if a case appears twice. A last line cut short by a crash is dropped, and said so in
 * the report. Missing shards are noted, never silent: see kvg_report_exit_code. Lines of a guest need the guest.
 * `digests` (NULL: unknown) are what `kvgold check` printed of the files: another file is refused, too. */
kvg_status kvg_report_open(const char *const *paths, const kvg_sha256_digest *digests, size_t count,
                           const kvg_guest *guest, kvg_report **out) KVG_CHECKED;
void kvg_report_close(kvg_report *report);

/* 0: every case of every shard passed; 1: a case failed, or one never finished or is missing, or
 * nothing was judged of a cell that the implementation claims; 2: the only cases that
 * fail are MISTRUSTED; 77: nothing but SKIP. */
int kvg_report_exit_code(const kvg_report *report);

/* A table for people: a row per format and dialect, a row per layout and op, totals and the modes that policies chose,
 * then the causes of what did not pass, with a repro line each, and the counts. `width` is the terminal's: lines are
 * broken there, but for repro lines. 0: it is no terminal, rows have at most 120 columns and no line is broken. */
void kvg_report_table(const kvg_report *report, FILE *out, unsigned width, bool colour);

/* One HTML page with all of its data, styles and scripts: a browser loads nothing else. Its data are a summary and the
 * lines of the result files. */
kvg_status kvg_report_html(const kvg_report *report, const char *path) KVG_CHECKED;

/* JUnit XML: one testsuite per config, one testcase per case. */
kvg_status kvg_report_junit(const kvg_report *report, const char *path) KVG_CHECKED;

/* The merged result file: one run line (shard "1/1"), every case once, one end line. */
kvg_status kvg_report_merge(const kvg_report *report, const char *path) KVG_CHECKED;

/* Writes text for a terminal. Control bytes become '?', so a result file cannot steer it. */
void kvg_report_plain(FILE *out, const char *text);

#endif
