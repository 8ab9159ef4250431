/* Configs of `kvgold memory --require`: savings that must be reached (docs/config.md section 14). */
#ifndef KVG_HARNESS_MEMORY_CONFIG_H
#define KVG_HARNESS_MEMORY_CONFIG_H

/* Measures every requirement of the config and prints a line for each; a shortfall names the bytes that cause it.
 * Returns the program's exit code: 0 all met, 1 a shortfall, 2 a bad config, 3 no memory or file. */
int kvg_memory_require(const char *path);

#endif
