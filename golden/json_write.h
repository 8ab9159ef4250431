/* Writing JSON whose bytes are fixed, whatever library or locale: packs, safetensors, schemas. The caller says every
 * comma and bracket. */
#ifndef KVG_GOLDEN_JSON_WRITE_H
#define KVG_GOLDEN_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* A text that grows; zero is an empty one. Once memory has run out nothing more is added. */
typedef struct kvg_json_text {
    char *text; /* closed by a NUL once there is anything */
    size_t size, capacity;
    bool failed;
} kvg_json_text;

void kvg_json_add(kvg_json_text *t, const char *format, ...) KVG_PRINTF(2, 3);
void kvg_json_add_string(kvg_json_text *t, const char *string); /* quoted and escaped: UTF-8 stays as it is */

/* KVG_ERR_MEMORY if anything was lost. */
kvg_status kvg_json_text_check(const kvg_json_text *t) KVG_CHECKED;
void kvg_json_text_free(kvg_json_text *t);

#endif
