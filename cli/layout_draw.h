/* `kvgold layout LAYOUT --draw` and `--svg FILE`: the bytes of a page in their order, a box for each run of bytes that
 * is of one row. */
#ifndef KVG_CLI_LAYOUT_DRAW_H
#define KVG_CLI_LAYOUT_DRAW_H

#include <stdio.h>

#include "cli/layout_owners.h"

/* With a `reader` (or NULL) a box also has what a reader of that layout takes it for, where that is another byte. */
void kvg_layout_draw(const kvg_page *page, const kvg_page *reader, FILE *to);

/* The same as a picture. KVG_ERR_IO. */
kvg_status kvg_layout_draw_svg(const kvg_page *page, const kvg_page *reader, const char *path) KVG_CHECKED;

#endif
