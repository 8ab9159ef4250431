/* The part of a report that only op generate has; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_QUALITY_H
#define KVG_HARNESS_REPORT_REPORT_QUALITY_H

#include <stdio.h>

#include "golden/golden.h"
#include "harness/case/quality_result.h"

typedef struct kvg_report_quality {
    bool present;
    kvg_result_quality measures;
    kvg_quality_bucket buckets[KVG_QUALITY_BUCKETS];
    size_t bucket_count;
    kvg_quality_defect planted[KVG_GENERATE_DEFECTS];
    size_t planted_count;
} kvg_report_quality;

struct kvg_report;
struct kvg_report_case;

/* Reads the part "quality" of a line, if it is there. */
kvg_status kvg_report_quality_read(struct kvg_report *report, kvg_json line, kvg_report_quality *out) KVG_CHECKED;

/* The cases of a report that have it, in a new array, the smallest KL divergence first; NULL: none. */
const struct kvg_report_case **kvg_report_quality_cases(const struct kvg_report *report, size_t *count);

/* What tells them apart: "nvfp4.canonical bf16 P2 sliding cuda". */
void kvg_report_quality_name(const struct kvg_report_case *c, char *out, size_t size);

/* One line of a case: "loss +0.012 [+0.010, +0.014] bits per token, ..."; empty where it has none. */
void kvg_report_quality_line(const struct kvg_report_case *c, char *out, size_t size);

/* Tables for a terminal and for the page: measures by format, in order of KL divergence; by position; planted defects.
 * Nothing where no case has any. */
void kvg_report_quality_print(const struct kvg_report *report, FILE *out);
void kvg_report_quality_html(const struct kvg_report *report, FILE *out);

/* Plots. */
bool kvg_report_quality_plot_loss(const struct kvg_report *report, FILE *out);
bool kvg_report_quality_plot_positions(const struct kvg_report *report, FILE *out);
bool kvg_report_quality_plot_memory(const struct kvg_report *report, FILE *out);

#endif
