/* The part of a report that only op decode has; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_DECODE_H
#define KVG_HARNESS_REPORT_REPORT_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
