/* The ops on paged layouts: docs/spec/layouts.md section 7. What they refuse, they refuse before they write. */
#ifndef KVG_SECOND_SLOW_PAGED_H
#define KVG_SECOND_SLOW_PAGED_H

#include "core/backend.h"

kvg_run_fn slow_append, slow_flatten, slow_probe; /* slow_flatten: expand, too */

#endif
