/* Configs of `kvgold memory --require`: savings that must be reached (docs/guide/config.md section 11). */
#ifndef KVG_CLI_MEMORY_CONFIG_H
#define KVG_CLI_MEMORY_CONFIG_H

#include <stddef.h>

#include "core/status.h"

/* Measures every requirement of the config and prints a line for each; a shortfall names the bytes that cause it.
 * *count of them, *met are met. KVG_ERR_INVALID: a bad config; KVG_ERR_IO: a file that cannot be read. */
kvg_status kvg_memory_require(const char *path, size_t *met, size_t *count) KVG_CHECKED;

#endif
