/* Where the results of a run come from: kvgold, the machine, the files of the implementation; private to run*.c. */
#ifndef KVG_HARNESS_RUN_RUN_ORIGIN_H
#define KVG_HARNESS_RUN_RUN_ORIGIN_H

#include "harness/case/result.h"
#include "harness/run/run_child.h"

typedef struct run_origin {
    kvg_result_origin origin; /* its texts are in the members below, its names are allocated */
    char commit[64], date[32], host[80], cpu[200], gpu[256];
} run_origin;

/* Of all backends of the config, whichever of them a shard asks: shards of one library then have equal lists. A file
 * that cannot be read is left out, as the cases that need it say so. At the end, and on failure, run_origin_free. */
kvg_status run_origin_find(const kvg_config *config, const kvg_run_options *options, const kvg_run_claims *claims,
                           size_t backends, run_origin *out) KVG_CHECKED;
void run_origin_free(run_origin *origin);

/* The date of the run that began a result file; "a moment" where the file does not say it yet. */
void run_origin_read_date(const char *path, char *out, size_t size);

#endif
