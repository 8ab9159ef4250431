/* `kvgold layout A --compare B`. */
#ifndef KVG_CLI_LAYOUT_COMPARE_H
#define KVG_CLI_LAYOUT_COMPARE_H

#include "core/problem.h"

/* Prints what a reader of one layout takes from a page of another one, field by field. The problems differ in their
 * layout alone. *same: every byte is where the reader looks for it. */
kvg_status kvg_layout_compare(const kvg_problem *reader, const kvg_problem *page, bool *same) KVG_CHECKED;

#endif
