/* cJSON's allocator made to fail at a chosen call, and to count what is not given back. */
#ifndef KVG_TESTS_GOLDEN_FAILING_MEMORY_H
#define KVG_TESTS_GOLDEN_FAILING_MEMORY_H

extern int allocations_left; /* before the one that fails; those after it succeed */
extern int allocations_live;

/* From here on cJSON allocates through the counters; cJSON_InitHooks(NULL) ends it. */
void failing_memory_start(void);

#endif
