#include "tests/golden/failing_memory.h"

#include <stdlib.h>

#include <cjson/cJSON.h>

int allocations_left, allocations_live;

static void *limited_malloc(size_t size)
{
    if (allocations_left-- == 0) return NULL;
    allocations_live++;
    return malloc(size);
}

static void counted_free(void *p)
{
    if (p) allocations_live--;
    free(p);
}

void failing_memory_start(void)
{
    cJSON_Hooks hooks = {limited_malloc, counted_free};
    cJSON_InitHooks(&hooks);
}
