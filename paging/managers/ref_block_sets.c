#include "paging/managers/ref_block_sets.h"

#include <stdbool.h>
#include <string.h>

/* --- free ids --- */

kvg_status ref_id_set_create(ref_id_set *set, const kvg_memory *memory, uint32_t capacity, uint64_t *steps)
{
    uint64_t width[REF_SET_LEVELS], total = 0, below = capacity;
    *set = (ref_id_set){.steps = steps};
    do {
        below = (below + 63) / 64;
        width[set->levels++] = below;
        total += below;
    } while (below > 1);
    set->words = ref_memory_take(memory, total, sizeof *set->words);
    if (!set->words) return ref_memory_fail("free ids of a block pool");
    memset(set->words, 0, total * sizeof *set->words);
    set->level[0] = set->words;
    for (uint32_t l = 1; l < set->levels; l++) set->level[l] = set->level[l - 1] + width[l - 1];
    return KVG_OK;
}

void ref_id_set_destroy(ref_id_set *set, const kvg_memory *memory)
{
    ref_memory_give(memory, set->words);
}

/* A level above changes only where a word becomes, or was, 0. */
void ref_id_set_add(ref_id_set *set, uint32_t id)
{
    for (uint32_t l = 0; l < set->levels; l++, id /= 64) {
        uint64_t *word = &set->level[l][id / 64];
        const uint64_t before = *word;
        *word |= (uint64_t)1 << id % 64;
        ++*set->steps;
        if (before) return;
    }
}

void ref_id_set_remove(ref_id_set *set, uint32_t id)
{
    for (uint32_t l = 0; l < set->levels; l++, id /= 64) {
        uint64_t *word = &set->level[l][id / 64];
        *word &= ~((uint64_t)1 << id % 64);
        ++*set->steps;
        if (*word) return;
    }
}

static uint32_t lowest_bit(uint64_t word)
{
    uint32_t bit = 0;
    for (uint32_t half = 32; half; half /= 2) {
        if (word << (64 - half)) continue;
        word >>= half;
        bit += half;
    }
    return bit;
}

uint32_t ref_id_set_lowest(const ref_id_set *set)
{
    uint32_t id = 0;
    for (uint32_t l = set->levels; l-- > 0;) {
        id = id * 64 + lowest_bit(set->level[l][id]);
        ++*set->steps;
    }
    return id;
}

/* --- cached ids --- */

kvg_status ref_age_heap_create(ref_age_heap *heap, const kvg_memory *memory, uint32_t capacity, const kvg_block *blocks,
                               uint64_t *steps)
{
    *heap = (ref_age_heap){.blocks = blocks, .steps = steps};
    heap->ids = ref_memory_take(memory, capacity, sizeof *heap->ids);
    heap->position = ref_memory_take(memory, capacity, sizeof *heap->position);
    return heap->ids && heap->position ? KVG_OK : ref_memory_fail("cached ids of a block pool");
}

void ref_age_heap_destroy(ref_age_heap *heap, const kvg_memory *memory)
{
    ref_memory_give(memory, heap->position);
    ref_memory_give(memory, heap->ids);
}

static bool older(const ref_age_heap *heap, uint32_t a, uint32_t b)
{
    return heap->blocks[a].timestamp < heap->blocks[b].timestamp;
}

static void put(ref_age_heap *heap, uint32_t at, uint32_t id)
{
    heap->ids[at] = id;
    heap->position[id] = at;
    ++*heap->steps;
}

/* Puts `id` at `at` or above, where its parent is older. */
static uint32_t rise(ref_age_heap *heap, uint32_t at, uint32_t id)
{
    for (uint32_t up; at > 0 && older(heap, id, heap->ids[up = (at - 1) / 2]); at = up) put(heap, at, heap->ids[up]);
    put(heap, at, id);
    return at;
}

/* Puts `id` at `at` or below, where its children are younger. */
static void sink(ref_age_heap *heap, uint32_t at, uint32_t id)
{
    for (;;) {
        uint64_t child = 2 * (uint64_t)at + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && older(heap, heap->ids[child + 1], heap->ids[child])) child++;
        if (!older(heap, heap->ids[child], id)) break;
        put(heap, at, heap->ids[child]);
        at = (uint32_t)child;
    }
    put(heap, at, id);
}

void ref_age_heap_add(ref_age_heap *heap, uint32_t id)
{
    rise(heap, heap->count++, id);
}

void ref_age_heap_remove(ref_age_heap *heap, uint32_t id)
{
    const uint32_t at = heap->position[id], moved = heap->ids[--heap->count];
    if (at == heap->count) return;
    if (rise(heap, at, moved) == at) sink(heap, at, moved);
}
