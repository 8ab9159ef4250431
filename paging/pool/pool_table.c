#include "paging/pool/pool_table.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 64, MOST_ROOM = 1 << 30 };

/* Takes the upper half in, because the lower bits of a product are weak. */
static uint32_t *bucket_of(const pool_table *t, uint64_t hash)
{
    return &t->buckets[(hash ^ hash >> 32) & (t->room - 1)];
}

static void put(pool_table *t, uint32_t id)
{
    uint32_t *bucket = bucket_of(t, t->links[id].hash);
    t->links[id].next = *bucket;
    *bucket = id;
}

/* Doubles the room. There are no spare numbers then, so every number up to `used` has an item. */
static kvg_status grow(pool_table *t)
{
    const uint32_t room = t->room ? t->room * 2 : FIRST_ROOM;
    if (room > MOST_ROOM) return kvg_fail(KVG_ERR_MEMORY, "more than %d names or holders at a time", MOST_ROOM / 2);
    void *items = realloc(t->items, room * t->size);
    if (items) t->items = items;
    pool_link *links = realloc(t->links, room * sizeof links[0]);
    if (links) t->links = links;
    uint32_t *buckets = calloc(room, sizeof buckets[0]);
    if (!items || !links || !buckets) {
        free(buckets);
        return kvg_fail(KVG_ERR_MEMORY, "no memory for %u names or holders", room);
    }
    free(t->buckets);
    t->buckets = buckets;
    t->room = room;
    for (uint32_t id = 1; id <= t->used; id++) put(t, id);
    return KVG_OK;
}

kvg_status pool_table_add(pool_table *t, uint64_t hash, uint32_t *id)
{
    if (!t->spare && t->used + 1 >= t->room) {
        kvg_status s = grow(t);
        if (s) return s;
    }
    *id = t->spare ? t->spare : ++t->used;
    if (t->spare) t->spare = t->links[*id].next;
    t->links[*id].hash = hash;
    put(t, *id);
    memset(pool_table_at(t, *id), 0, t->size);
    t->count++;
    return KVG_OK;
}

void pool_table_drop(pool_table *t, uint32_t id)
{
    uint32_t *at = bucket_of(t, t->links[id].hash);
    while (*at != id) at = &t->links[*at].next;
    *at = t->links[id].next;
    memset(pool_table_at(t, id), 0, t->size);
    t->links[id].next = t->spare;
    t->spare = id;
    t->count--;
}

void *pool_table_at(const pool_table *t, uint32_t id)
{
    return t->items + id * t->size;
}

static uint32_t of_hash(const pool_table *t, uint32_t id, uint64_t hash)
{
    while (id && t->links[id].hash != hash) id = t->links[id].next;
    return id;
}

uint32_t pool_table_first(const pool_table *t, uint64_t hash)
{
    return t->room ? of_hash(t, *bucket_of(t, hash), hash) : 0;
}

uint32_t pool_table_next(const pool_table *t, uint32_t id)
{
    return of_hash(t, t->links[id].next, t->links[id].hash);
}

void pool_table_free(pool_table *t)
{
    free(t->items);
    free(t->links);
    free(t->buckets);
}
