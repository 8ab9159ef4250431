#include "paging/managers/ref_paging_memory.h"

#include <stdlib.h>
#include <string.h>

static void *host_allocate(void *context, size_t bytes)
{
    (void)context;
    return malloc(bytes);
}

static void host_release(void *context, void *pointer)
{
    (void)context;
    free(pointer);
}

kvg_memory ref_memory_of(const kvg_memory *given)
{
    const kvg_memory host = {host_allocate, host_release, NULL};
    return given ? *given : host;
}

void *ref_memory_take(const kvg_memory *memory, uint64_t count, size_t size)
{
    if (count > SIZE_MAX / size) return NULL;
    return memory->allocate(memory->context, count * size);
}

void ref_memory_give(const kvg_memory *memory, void *pointer)
{
    if (pointer) memory->release(memory->context, pointer);
}

void *ref_memory_reserve(const kvg_memory *memory, void *array, size_t *room, uint64_t need, size_t size)
{
    if (array && need <= *room) return array;
    const uint64_t wider = 2 * (uint64_t)*room > need ? 2 * (uint64_t)*room : need < 8 ? 8 : need;
    void *larger = ref_memory_take(memory, wider, size);
    if (!larger) return NULL;
    if (array) memcpy(larger, array, *room * size);
    ref_memory_give(memory, array);
    *room = wider;
    return larger;
}

kvg_status ref_memory_fail(const char *what)
{
    return kvg_fail(KVG_ERR_MEMORY, "%s: no memory: free some, or use a smaller pool", what);
}
