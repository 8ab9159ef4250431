/* The part of a report that only op generate has. */
#ifndef KVG_MODEL_REPORT_REPORT_QUALITY_H
#define KVG_MODEL_REPORT_REPORT_QUALITY_H

#include <stdio.h>

#include "model/generate/quality_result.h"
#include "harness/report/report_plot.h"

typedef struct kvg_report_quality {
    kvg_result_generate asked;
    kvg_quality_result measures; /* its buckets are those of the line, one after the other */
} kvg_report_quality;

/* What a judged line of op generate has, in room of the report; NULL for other lines. */
kvg_status kvg_report_quality_read(kvg_report *report, kvg_json line, void **out) KVG_CHECKED;

static inline const kvg_report_quality *kvg_report_quality_of(const kvg_report_case *c)
{
    return c->guest;
}

/* The cases of a report that have it, in a new array, the smallest KL divergence first; NULL: none. */
const kvg_report_case **kvg_report_quality_cases(const kvg_report *report, size_t *count);

/* What tells them apart: "nvfp4.canonical bf16 P2 sliding cuda". */
void kvg_report_quality_name(const kvg_report_case *c, char *out, size_t size);

/* One line of a case: "quality: loss +0.012 [+0.010, +0.014] bits per token, ...". */
void kvg_report_quality_about(const kvg_report_case *c, char *out, size_t size);

/* Tables for a terminal and for the page: measures by format, in order of KL divergence; by position; planted defects.
 * Nothing where no case has any. */
void kvg_report_quality_print(const kvg_report *report, FILE *out);
void kvg_report_quality_html(const kvg_report *report, FILE *out);

enum { KVG_REPORT_QUALITY_PLOTS = 3 };
extern const kvg_report_plot kvg_report_quality_plots[KVG_REPORT_QUALITY_PLOTS];

#endif
