/* JSON for people: what fits stands on one line. */
#ifndef KVG_HARNESS_SUPPORT_JSON_LAYOUT_H
#define KVG_HARNESS_SUPPORT_JSON_LAYOUT_H

#include "golden/golden.h"

/* Adds a JSON text on lines of a page's width; between its words it has no white space but blanks. */
void kvg_json_lay_out(kvg_json_text *out, const char *json);

#endif
