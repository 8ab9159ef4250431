/* The names that a config may use. */
#ifndef KVG_HARNESS_CONFIG_CONFIG_NAMES_H
#define KVG_HARNESS_CONFIG_CONFIG_NAMES_H

#include "harness/case/axes.h"
#include "support/json_schema.h"

/* The names that an axis takes from a table; NULL for an axis that takes none. */
kvg_json_names kvg_config_names(kvg_axis axis);

#endif
