/* Items that are done one after the other in a process of their own, so that one that crashes or hangs costs itself
 * alone: then, or where an item says so, the next one gets a new process. */
#ifndef KVG_SUPPORT_APART_H
#define KVG_SUPPORT_APART_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"
#include "core/verdict.h"

typedef struct kvg_apart {
    void *context;
    size_t count, answer_bytes;
    double patience; /* seconds, for an item and for `open` */
    kvg_status (*open)(void *context); /* first in every process */
    /* There too: answer[answer_bytes] of an item. False: nobody knows what state the process is in after it. */
    bool (*work)(void *context, size_t item, void *answer);
    /* Here, in order. `lost`: there is no answer; CRASH, HANG, or DEVICE_LOST where no process opens any more. */
    void (*report)(void *context, size_t item, const void *answer);
    void (*lost)(void *context, size_t item, kvg_verdict verdict, const char *why);
} kvg_apart;

/* What the first `open` failed with, and then nothing was reported; or KVG_ERR_IO after a signal
 * (support/interrupt.h), and then what was done before it was. */
kvg_status kvg_apart_run(const kvg_apart *job) KVG_CHECKED;

#endif
