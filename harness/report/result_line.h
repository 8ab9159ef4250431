/* The lines of a result file: harness/report/report.h has the format. What is written here is read back here. */
#ifndef KVG_HARNESS_REPORT_RESULT_LINE_H
#define KVG_HARNESS_REPORT_RESULT_LINE_H

#include "golden/golden.h"
#include "harness/case/case.h"
#include "harness/case/cells.h"
#include "harness/case/result.h"

enum { KVG_RESULT_LAYOUT = 2 }; /* of the files that are written here, the only one that is read */

/* The line of a case without its newline, to be freed by the caller; NULL if out of memory. A result that was not
 * judged has no parts. */
char *kvg_result_line(const kvg_case *c, const kvg_result *r, const char *repro);

/* What is asked by a case, without type and repro line; `scale` holds one of its texts. */
kvg_result_asked kvg_result_ask(const kvg_case *c, char scale[KVG_CASE_SCALE_SIZE]);

/* Reads a result back from the line of a case. Its names live as long as the document. */
kvg_status kvg_result_read(kvg_json line, kvg_result *out) KVG_CHECKED;

/* Calls `keep` for each name of the result and puts what it gives in the name's place; NULL: no memory. */
kvg_status kvg_result_keep(kvg_result *r, const char *(*keep)(void *context, const char *text),
                           void *context) KVG_CHECKED;

/* What the first line of a result file says of its run. */
typedef struct kvg_result_run {
    const char *version, *config, *name, *shard; /* shard: "2/4" */
    uint64_t seed, cases, config_cases;          /* cases of the run; of the whole config */
    bool public_seed;
    const kvg_result_origin *origins;
    size_t origin_count;
} kvg_result_run;

/* The other lines of a result file, to be freed; NULL if out of memory. */
char *kvg_result_run_line(const kvg_result_run *run);
char *kvg_result_start_line(const kvg_case *c, const char *repro);
char *kvg_result_end_line(bool interrupted, double seconds, const uint64_t counts[KVG_VERDICT_COUNT],
                          const kvg_cell *cells, size_t cell_count);

#endif
