/* The axes of a config's case groups, and how one value of an axis goes into a case. Private to harness/config*.c. */
#ifndef KVG_HARNESS_CONFIG_AXES_H
#define KVG_HARNESS_CONFIG_AXES_H

#include "golden/golden.h"
#include "harness/config.h"

/* The axes of a case group, in the order of a case id's words. */
typedef enum axis {
    AXIS_OP, AXIS_FORMAT, AXIS_DIALECT, AXIS_LAYOUT, AXIS_DTYPE, AXIS_MODEL, AXIS_KV_HEADS, AXIS_HEAD_DIM, AXIS_TOKENS,
    AXIS_FILL, AXIS_SCALE, AXIS_BACKEND, AXIS_COUNT
} axis;

extern const char *const kvg_axis_names[AXIS_COUNT];

struct kvg_config_data {
    kvg_json_doc *doc;
    const char *folder; /* of the config: relative paths start there */
    char **strings;
    size_t string_count;
    size_t capacity; /* of cases */
};

/* Copies a text that lives as long as the config. */
kvg_status kvg_config_keep(kvg_config *config, const char *text, const char **out) KVG_CHECKED;

/* Puts "FILE: $.path" of `value` before the text of a lower layer's failure; KVG_OK stays. */
kvg_status kvg_config_at(kvg_json value, kvg_status s) KVG_CHECKED;

/* Reads one value of one axis into a case. */
kvg_status kvg_axis_read(axis which, kvg_config *config, kvg_json value, kvg_case *c) KVG_CHECKED;

#endif
