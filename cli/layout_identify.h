/* `kvgold layout ANSWER --identify PACK`. */
#ifndef KVG_CLI_LAYOUT_IDENTIFY_H
#define KVG_CLI_LAYOUT_IDENTIFY_H

#include <stdbool.h>

#include "core/status.h"

/* Prints the layouts that explain the pools in an answer file best. `key` is a case of the pack by key or id; NULL: its
 * first one of op append. *explained: a layout explains every byte. */
kvg_status kvg_layout_identify(const char *answer, const char *pack, const char *key, bool *explained) KVG_CHECKED;

#endif
