/* A manager without a prefix cache: the block that was given up last is given away first. A call takes a time that does
 * not depend on the pool, so that `kvgold pool bench` can fill a large one. */
#include <stdlib.h>
#include <string.h>

#include "paging/paging_plugin.h"

typedef struct sequence {
    uint32_t *table, entries;
} sequence;

typedef struct manager {
    uint32_t block_tokens, *stack, available;
    sequence *sequences; /* by their ids */
    size_t room;
} manager;

static kvg_status extend(manager *m, uint64_t id, uint32_t tokens, kvg_manager_table *table)
{
    sequence *q = &m->sequences[id];
    const uint32_t wanted = (tokens + m->block_tokens - 1) / m->block_tokens;
    if (wanted - q->entries > m->available) return KVG_ERR_EXHAUSTED;
    q->table = realloc(q->table, wanted * sizeof *q->table);
    if (!q->table) abort();
    while (q->entries < wanted) q->table[q->entries++] = m->stack[--m->available];
    memcpy(table->blocks, q->table, wanted * sizeof *q->table);
    table->count = wanted;
    return KVG_OK;
}

static kvg_status begin(const kvg_manager_pool *pool, void **self)
{
    manager *m = *self = calloc(1, sizeof *m);
    if (!m || !(m->stack = malloc(pool->blocks * sizeof *m->stack))) abort();
    m->block_tokens = pool->block_tokens;
    for (uint32_t i = 0; i < pool->blocks; i++) m->stack[m->available++] = pool->blocks - 1 - i;
    return KVG_OK;
}

static void end(void *self)
{
    manager *m = self;
    for (size_t i = 0; i < m->room; i++) free(m->sequences[i].table);
    free(m->sequences);
    free(m->stack);
    free(m);
}

static kvg_status admit(void *self, uint64_t id, uint64_t salt, const int32_t *tokens, uint32_t count,
                        kvg_manager_table *table)
{
    manager *m = self;
    (void)salt;
    (void)tokens;
    if (id >= m->room) {
        m->sequences = realloc(m->sequences, 2 * (size_t)id * sizeof *m->sequences);
        if (!m->sequences) abort();
        memset(m->sequences + m->room, 0, (2 * (size_t)id - m->room) * sizeof *m->sequences);
        m->room = 2 * (size_t)id;
    }
    return extend(m, id, count, table);
}

static kvg_status grow(void *self, uint64_t id, const int32_t *tokens, uint32_t count, kvg_manager_table *table)
{
    (void)tokens;
    return extend(self, id, count, table);
}

static kvg_status written(void *self, uint64_t id, uint32_t count)
{
    (void)self;
    (void)id;
    (void)count;
    return KVG_OK;
}

static kvg_status release(void *self, uint64_t id)
{
    manager *m = self;
    sequence *q = &m->sequences[id];
    while (q->entries > 0) m->stack[m->available++] = q->table[--q->entries];
    free(q->table);
    q->table = NULL;
    return KVG_OK;
}

static kvg_status available(void *self, uint32_t *blocks)
{
    *blocks = ((manager *)self)->available;
    return KVG_OK;
}

KVG_PLUGIN_EXPORT const kvg_manager *kvg_manager_export(void)
{
    static const kvg_manager exported = {.abi = KVG_MANAGER_ABI, .struct_size = sizeof exported, .name = "quick",
                                         .open = begin, .close = end, .admit = admit, .grow = grow, .written = written,
                                         .release = release, .available = available};
    return &exported;
}
