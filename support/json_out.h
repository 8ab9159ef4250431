/* The text of a JSON value: what a command prints and what a file holds. */
#ifndef KVG_SUPPORT_JSON_OUT_H
#define KVG_SUPPORT_JSON_OUT_H

#include <stdio.h>

#include <cjson/cJSON.h>

#include "core/status.h"

/* On lines of its own, with indents. KVG_ERR_MEMORY: nothing was written. Whether `out` took it is the caller's to ask:
 * ferror. */
kvg_status kvg_json_put(const cJSON *value, FILE *out) KVG_CHECKED;

/* In one line without blanks, to be freed with cJSON_free; NULL without memory. */
char *kvg_json_line(const cJSON *value);

#endif
