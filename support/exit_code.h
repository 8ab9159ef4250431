/* The program's exit codes (CONTRIBUTING.md, "Conventions"). */
#ifndef KVG_SUPPORT_EXIT_CODE_H
#define KVG_SUPPORT_EXIT_CODE_H

#include <stdint.h>

#include "core/verdict.h"

enum {
    KVG_EXIT_PASS = 0,        /* everything passed */
    KVG_EXIT_FAIL = 1,        /* a case failed */
    KVG_EXIT_USAGE = 2,       /* bad usage, or a bad config */
    KVG_EXIT_ENVIRONMENT = 3, /* no file, no memory, no device */
    KVG_EXIT_NOTHING = 77     /* nothing could run */
};

/* Of a run whose cases came to these verdicts. Where the only ones that fail are MISTRUSTED, the config is to blame:
 * KVG_EXIT_USAGE. */
int kvg_exit_of_verdicts(const uint64_t counts[KVG_VERDICT_COUNT]);

#endif
