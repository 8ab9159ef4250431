/* The names that a config may use. */
#ifndef KVG_HARNESS_CONFIG_CONFIG_NAMES_H
#define KVG_HARNESS_CONFIG_CONFIG_NAMES_H

#include "core/layout.h"
#include "golden/golden.h"
#include "harness/case/axes.h"
#include "harness/case/invariance.h"
#include "support/json_schema.h"

/* The names that an axis takes from a table; NULL for an axis that takes none. */
kvg_json_names kvg_config_names(kvg_axis axis);

/* A layout of the user's own, {"name": "mine", "text": "[L B N H]{ ... }"}. The strings are the document's. A text is
 * read with a problem: here it is any string. */
kvg_status kvg_config_layout_text(kvg_json value, kvg_layout_text *out) KVG_CHECKED;

/* Adds an axis of invariance, by its name, to a set. */
kvg_status kvg_config_invariance(kvg_json value, uint32_t *set) KVG_CHECKED;

#endif
