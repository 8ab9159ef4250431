/* What the printers of JSON Schemas share. */
#ifndef KVG_SUPPORT_JSON_SCHEMA_H
#define KVG_SUPPORT_JSON_SCHEMA_H

#include "golden/golden.h"

/* JSON as it is written, as one string. */
#define KVG_JSON(...) #__VA_ARGS__

/* The names of a table in turn; NULL behind the last. */
typedef const char *(*kvg_json_names)(size_t index);

/* Adds {"enum": [...]}: the names of `at`, or where that is NULL those of `names`, closed by a NULL. */
void kvg_json_add_enum(kvg_json_text *out, kvg_json_names at, const char *const *names);

/* Adds a JSON text on lines of a page's width: what fits stands on one line. Between its words the text has no white
 * space but blanks. */
void kvg_json_lay_out(kvg_json_text *out, const char *json);

#endif
