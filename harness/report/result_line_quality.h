/* Op generate in a result line; private to harness/report/result_line*.c. */
#ifndef KVG_HARNESS_REPORT_RESULT_LINE_QUALITY_H
#define KVG_HARNESS_REPORT_RESULT_LINE_QUALITY_H

#include <cjson/cJSON.h>

#include "harness/case/quality_result.h"

/* Adds key "quality". */
void kvg_result_add_quality(cJSON *line, const kvg_quality_result *quality);

/* A number, or the name of one that JSON lacks. */
void kvg_result_add_number(cJSON *object, const char *key, double x);

#endif
