/* The outcome of a case: a closed set. docs/guide/report.md section 3 explains each. */
#ifndef KVG_CORE_VERDICT_H
#define KVG_CORE_VERDICT_H

#include <stdbool.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_verdict {
    KVG_VERDICT_PASS,
    KVG_VERDICT_FAIL,
    KVG_VERDICT_MISTRUSTED,    /* the case cannot tell a right answer from a wrong one */
    KVG_VERDICT_SKIP,          /* with a reason; never a pass */
    KVG_VERDICT_UNIMPLEMENTED, /* the candidate does not do this problem */
    KVG_VERDICT_CRASH,
    KVG_VERDICT_HANG,
    KVG_VERDICT_DEVICE_LOST,
    KVG_VERDICT_ERROR,         /* the harness or its surroundings failed, not the candidate */
    KVG_VERDICT_COUNT
} kvg_verdict;

const char *kvg_verdict_name(kvg_verdict verdict); /* "PASS", "FAIL", ... */
kvg_status kvg_verdict_find(const char *name, kvg_verdict *out) KVG_CHECKED;

/* True if an answer was judged: PASS, FAIL, MISTRUSTED. */
bool kvg_verdict_judges(kvg_verdict verdict);

/* True for the verdicts that make a run exit with 1. */
bool kvg_verdict_fails(kvg_verdict verdict);

#ifdef __cplusplus
}
#endif
#endif
