/* Shared by the parts of the ledger; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_COVERAGE_DATA_H
#define KVG_HARNESS_REPORT_COVERAGE_DATA_H

#include <cjson/cJSON.h>

#include "harness/report/coverage.h"
#include "harness/report/report_data.h"

/* Cases with the same op, storage, layout, profile, chip and backend. */
typedef struct kvg_coverage_row {
    const kvg_report_case *first;
    size_t origins;                    /* of its file: more than one if it is a merged file */
    const char *chip, *commit, *date;  /* of the latest run; "": its file does not say it */
    size_t passed, failed;
    uint64_t compared;
} kvg_coverage_row;

struct kvg_coverage {
    kvg_report **reports; /* one for each file; the rows point into them */
    size_t report_count;
    kvg_coverage_row *rows;
    size_t row_count, case_count; /* case_count: of all files together */
    size_t unjudged[KVG_VERDICT_COUNT + 1]; /* by verdict; the last: UNFINISHED */
    cJSON *never; /* of report_never_judged */
};

/* What the program supports and no row has, K and V in one format:
 * {"layouts": [{"ops", "formats", "layouts", "every"}], "dialects": [{"format", "dialects"}], "profiles": []}.
 * Rows of the reference, which judged itself, and of known-wrong answers do not count. Ops and formats with the same
 * layouts stand together; every: there are no others. */
cJSON *report_never_judged(const kvg_coverage *c);

void report_print_never_judged(const cJSON *never, FILE *out);

#endif
