/* The order in which blocks of the pool are given away, for the rules B1 to B4. Cached blocks stand in a list, the one
 * that was given up first at its beginning. Those of one event stand there in the order of `tail_first`. */
#include <stdlib.h>

#include "paging/pool/pool_audit_state.h"

bool pool_order_make(kvg_audit *a)
{
    const uint32_t blocks = a->head.blocks;
    a->free_of = calloc(blocks / POOL_PART + 1, sizeof a->free_of[0]);
    if (!a->free_of) return false;
    for (uint32_t id = 0; id < blocks; id++) a->free_of[id / POOL_PART]++;
    if (!a->head.oldest_first && !a->head.tail_first) return true;
    a->places = calloc((size_t)blocks + 1, sizeof a->places[0]);
    if (a->places) a->places[blocks].before = a->places[blocks].after = blocks;
    return a->places;
}

void pool_order_free(kvg_audit *a)
{
    free(a->free_of);
    free(a->places);
}

/* A list of `free` begins with the head of its sequence. If there is no list, blocks are let go from the tail on. */
static void add(kvg_audit *a, uint32_t id)
{
    pool_place *p = &a->places[id];
    const bool follows = a->places[a->last_given].event == a->totals.events;
    const bool has_list = a->event->values[KVG_AUDIT_FIELD_BLOCKS].given;
    p->after = follows && has_list ? a->last_given : a->head.blocks;
    p->before = a->places[p->after].before;
    p->event = a->totals.events;
    a->places[p->after].before = a->places[p->before].after = id;
    a->last_given = id;
}

void pool_order_change(kvg_audit *a, uint32_t id, int before)
{
    const int after = pool_state(&a->blocks[id]);
    if (after == before) return;
    if (before == POOL_FREE) a->free_of[id / POOL_PART]--;
    if (after == POOL_FREE) a->free_of[id / POOL_PART]++;
    if (!a->places) return;
    pool_place *p = &a->places[id];
    if (before == POOL_CACHED) {
        a->places[p->before].after = p->after;
        a->places[p->after].before = p->before;
    }
    if (after == POOL_CACHED) add(a, id);
}

void pool_order_begin(kvg_audit *a, pool_taken *taken)
{
    const kvg_audit_value *list = &a->event->values[KVG_AUDIT_FIELD_BLOCKS];
    *taken = (pool_taken){-1, -1};
    for (size_t i = 0; i < list->count && a->places; i++) {
        if (list->numbers[i] >= 0 && list->numbers[i] < a->head.blocks)
            a->places[list->numbers[i]].taken = a->totals.events;
    }
}

/* A block that should have been taken before: the next one in the list that this event leaves, if it was given up by
 * the same event. It is enough to look at the neighbour: one that is taken too is looked at on its own. */
void pool_order_take(kvg_audit *a, uint32_t id, pool_taken *taken, int64_t *tail)
{
    const int state = pool_state(&a->blocks[id]);
    *tail = -1;
    if (id >= a->head.blocks) return;
    if (state == POOL_FREE && id > taken->highest) taken->highest = id;
    if (state != POOL_CACHED) return;
    const bool later = !a->places || taken->youngest < 0 ||
                       a->places[id].event > a->places[taken->youngest].event;
    if (later) taken->youngest = id;
    if (!a->places) return;
    const pool_place *p = &a->places[id], *next = &a->places[p->before];
    if (p->before < a->head.blocks && next->event == p->event && next->taken != a->totals.events) *tail = p->before;
}

int64_t pool_order_lowest(const kvg_audit *a)
{
    uint32_t part = 0;
    if (a->counts[POOL_FREE] == 0) return -1;
    while (a->free_of[part] == 0) part++;
    uint32_t id = part * POOL_PART;
    while (pool_state(&a->blocks[id]) != POOL_FREE) id++;
    return id;
}

int64_t pool_order_oldest(const kvg_audit *a)
{
    const uint32_t oldest = a->places[a->head.blocks].after;
    return oldest < a->head.blocks ? (int64_t)oldest : -1;
}
