/* The part of a report that only op generate has. */
#ifndef KVG_MODEL_REPORT_REPORT_QUALITY_H
#define KVG_MODEL_REPORT_REPORT_QUALITY_H

#include <stdio.h>

#include "model/generate/quality_result.h"
#include "harness/report/report_data.h"

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

/* One line of a case: "quality: loss +0.012 [+0.010, +0.014] bits per token, ...". */
void kvg_report_quality_about(const kvg_report_case *c, char *out, size_t size);

/* Tables for a terminal: measures by format, in order of KL divergence; planted defects. Nothing where no case has
 * any. */
void kvg_report_quality_print(const kvg_report *report, FILE *out);

#endif
