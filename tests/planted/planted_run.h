/* Runs a config of planted cases and compares verdicts: each case is told by its number of KV heads. */
#ifndef KVG_TESTS_PLANTED_PLANTED_RUN_H
#define KVG_TESTS_PLANTED_PLANTED_RUN_H

#include <stddef.h>

#include "core/verdict.h"
#include "golden/golden.h"

typedef struct planted_case {
    unsigned kv_heads;
    kvg_verdict verdict;
    const char *detail; /* must be part of the detail */
} planted_case;

/* What else a test asks of a case's result line. */
typedef void planted_check(kvg_json line, const planted_case *c);

/* `kvgold check` of the config in `jobs` children: every case must get its verdict and a repro line, in the file too.
 * `check` may be NULL. Returns how many cases started. */
size_t planted_run(const char *config, const char *folder, unsigned jobs, const planted_case *expected, size_t count,
                   planted_check *check);

/* The text of a key that a result line must have. */
const char *planted_text(kvg_json line, const char *key);

/* How many lines of the logs in FOLDER are `line`. */
size_t planted_logged(const char *folder, const char *line);

#endif
