/* `kvgold layout A --compare B`. */
#ifndef KVG_CLI_LAYOUT_COMPARE_H
#define KVG_CLI_LAYOUT_COMPARE_H

#include "cli/layout_owners.h"

/* Prints what a reader of one layout takes from a page of another one, field by field. Their problems differ in the
 * layout alone. *same: every byte is where the reader looks for it. */
kvg_status kvg_layout_compare(const kvg_page *reader, const kvg_page *page, bool *same) KVG_CHECKED;

#endif
