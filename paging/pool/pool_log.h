/* Logs of other programs' block managers, JSON lines, read into events for the model: docs/spec/paging.md section 7. */
#ifndef KVG_PAGING_POOL_POOL_LOG_H
#define KVG_PAGING_POOL_POOL_LOG_H

#include <stdio.h>

#include "paging/pool/pool_audit.h"

/* Judges a log to its end, or to the first line that is none. *totals is of the events before that line in either case.
 * `name` stands in errors, "NAME:LINE: ...". KVG_ERR_INVALID for such a line, KVG_ERR_IO if the log cannot be read,
 * KVG_ERR_MEMORY. */
kvg_status kvg_audit_log(FILE *in, const char *name, kvg_audit_report report, kvg_audit_totals *totals) KVG_CHECKED;

#endif
