/* Values of result files; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_VALUE_H
#define KVG_HARNESS_REPORT_REPORT_VALUE_H

#include "golden/golden.h"

/* A number, or the name of one that JSON lacks. */
kvg_status kvg_report_get_number(kvg_json object, const char *key, double *out) KVG_CHECKED;

#endif
