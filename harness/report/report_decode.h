/* The part of a report that only op decode has; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_DECODE_H
#define KVG_HARNESS_REPORT_REPORT_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "harness/report/report.h"

struct kvg_report_case;

enum { KVG_REPORT_LINE_SIZE = 640 }; /* room for any line below */

/* One line: the largest ratios and median errors of those cases of op decode that were judged by the bits of a chip, or
 * of the others; empty where there are none. */
void kvg_report_decode_line(const struct kvg_report_case *cases, size_t count, bool bits, char *out, size_t size);

/* One line: how many cases had their separation measured, the least of them with its defect and case, how many were
 * compared by bits; empty where none was. */
void kvg_report_separation_line(const struct kvg_report_case *cases, size_t count, char *out, size_t size);

/* One line: relations that held, over how many cases; empty where none was asked. */
void kvg_report_relations_line(const struct kvg_report_case *cases, size_t count, char *out, size_t size);

/* A FAIL of a right answer, because the rows that the implementation's own append wrote gave a wrong one (relation
 * `appended`). All of them are one cause, which stands behind those of wrong answers. */
bool kvg_report_is_consequence(const struct kvg_report_case *c);

/* "these answers are right, and the pages that NAME wrote are wrong: see ID", of `count` such cases, one of which is c:
 * ID is a case of append that failed, of c's formats and layout if there is one. "" for another case. */
void kvg_report_consequence_line(const kvg_report *report, const struct kvg_report_case *c, size_t count,
                                 char *out, size_t size);

#endif
