/* The grammar of JSON (RFC 8259), checked before golden/json.c takes the values; private to golden/. It refuses numbers
 * such as 01 and 1., control bytes in strings, \u0000, broken UTF-8 and trailing text. */
#ifndef KVG_GOLDEN_JSON_SCAN_H
#define KVG_GOLDEN_JSON_SCAN_H

#include <stddef.h>

#include "core/status.h"

/* KVG_ERR_INVALID with line and column unless the text is exactly one JSON value, nested at most KVG_JSON_MAX_DEPTH
 * deep, of at most KVG_JSON_MAX_VALUES values. *values is how many it holds, containers included. */
kvg_status kvg_json_scan(const char *name, const char *text, size_t size, size_t *values) KVG_CHECKED;

/* What bounds memory: a value costs some 60 bytes, and "[0,0,0,..." only two of text. */
enum { KVG_JSON_MAX_VALUES = 1 << 20 };

/* --- in text that passed the scan --- */

const char *kvg_json_scan_space(const char *text);          /* what stands behind the white space */
const char *kvg_json_scan_end(const char *value);           /* what stands behind the value */
size_t kvg_json_scan_number_length(const char *number);
char *kvg_json_scan_decode(char *string);                   /* in its place, without quotes, closed by a NUL */

#endif
