#include "paging/pool/pool_defects_blocks.h"

#include <string.h>

uint64_t *kvg_defect_notes(const kvg_block_gate *gate)
{
    return gate->stack->notes + gate->side * (KVG_POOL_NOTES / KVG_POOL_SIDES);
}

kvg_block kvg_defect_block(const kvg_block_gate *gate, uint32_t id)
{
    kvg_block b = {0};
    return BELOW(gate, get, id, &b) == KVG_OK ? b : (kvg_block){0};
}

kvg_status kvg_defect_evict_newest(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    kvg_block_counts counts;
    BELOW(g, counts, &counts);
    if (n > counts.cached) return BELOW(g, evict, n, ids);
    for (uint32_t i = 0; i < n; i++) {
        kvg_block newest = {0};
        for (uint32_t id = 0; id < counts.total; id++) {
            const kvg_block b = kvg_defect_block(g, id);
            if (!b.use_count && b.timestamp > newest.timestamp) newest = b;
        }
        kvg_status s = BELOW(g, free, &newest.id, 1);
        if (s) return s;
        if (ids) ids[i] = newest.id;
    }
    return KVG_OK;
}

kvg_status kvg_defect_touch_forward(void *self, const uint32_t *ids, uint32_t n)
{
    kvg_block_gate *g = self;
    uint32_t turned[KVG_DEFECT_MOST];
    if (n > KVG_DEFECT_MOST) return BELOW(g, touch, ids, n);
    for (uint32_t i = 0; i < n; i++) turned[i] = ids[n - 1 - i];
    return BELOW(g, touch, turned, n);
}

/* One more than wanted; the lowest goes back. */
kvg_status kvg_defect_allocate_higher(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    uint32_t more[KVG_DEFECT_MOST];
    if (n == 0 || n >= KVG_DEFECT_MOST || BELOW(g, allocate, n + 1, more)) return BELOW(g, allocate, n, ids);
    memcpy(ids, more + 1, n * sizeof *ids);
    kvg_status s = BELOW(g, unlock, more, 1, NULL);
    return s ? s : BELOW(g, free, more, 1);
}

kvg_status kvg_defect_unlock_twice(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_gate *g = self;
    kvg_status s = BELOW(g, unlock, ids, n, moved);
    for (uint32_t i = 0; !s && i < n; i++) {
        if (kvg_defect_block(g, ids[i]).use_count) s = BELOW(g, unlock, ids + i, 1, NULL);
    }
    return s;
}

kvg_status kvg_defect_unlock_all_but_one(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_gate *g = self;
    if (n && kvg_defect_notes(g)[0]++ % 8 == 7) n--; /* every eighth time the last block stays in use */
    return BELOW(g, unlock, ids, n, moved);
}

/* notes: [0] the block that the free list has twice, + 1 */
kvg_status kvg_defect_free_twice(void *self, const uint32_t *ids, uint32_t n)
{
    kvg_block_gate *g = self;
    kvg_status s = BELOW(g, free, ids, n);
    if (!s && n) kvg_defect_notes(g)[0] = ids[0] + 1ull;
    return s;
}

kvg_status kvg_defect_allocate_listed_twice(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    uint64_t *note = kvg_defect_notes(g);
    kvg_status s = BELOW(g, allocate, n, ids);
    if (s || !n || !note[0]) return s;
    const uint32_t again = (uint32_t)(note[0] - 1);
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == again) return KVG_OK; /* the first of the two */
    }
    if (!kvg_defect_block(g, again).use_count) return KVG_OK;
    note[0] = 0;
    s = BELOW(g, unlock, &ids[n - 1], 1, NULL);
    if (!s) s = BELOW(g, free, &ids[n - 1], 1);
    if (!s) s = BELOW(g, lock, &again, 1, NULL);
    ids[n - 1] = again;
    return s;
}

kvg_status kvg_defect_allocate_then_fail(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    uint32_t taken[KVG_DEFECT_MOST], count = 0;
    const kvg_status s = BELOW(g, allocate, n, ids);
    if (s != KVG_ERR_EXHAUSTED) return s;
    while (count < KVG_DEFECT_MOST && BELOW(g, allocate, 1, &taken[count]) == KVG_OK) count++;
    return kvg_fail(KVG_ERR_EXHAUSTED, "%u blocks wanted, %u there", n, count);
}

void kvg_defect_counts_drift(void *self, kvg_block_counts *counts)
{
    kvg_block_gate *g = self;
    BELOW(g, counts, counts);
    if (counts->cached == 0 || counts->free == 0) return; /* drifts when both are used */
    counts->cached--;
    counts->active++;
}

void kvg_defect_counts_shared_twice(void *self, kvg_block_counts *counts)
{
    kvg_block_gate *g = self;
    BELOW(g, counts, counts);
    for (uint32_t id = 0; id < counts->total; id++) {
        const uint32_t uses = kvg_defect_block(g, id).use_count;
        if (uses > 1) counts->active += uses - 1;
    }
}

kvg_status kvg_defect_get_wrapped_unique_id(void *self, uint32_t id, kvg_block *block)
{
    kvg_block_gate *g = self;
    const kvg_status s = BELOW(g, get, id, block);
    if (!s && block->unique_id) block->unique_id = (block->unique_id - 1) % 8 + 1;
    return s;
}

kvg_status kvg_defect_get_falling_unique_id(void *self, uint32_t id, kvg_block *block)
{
    kvg_block_gate *g = self;
    const kvg_status s = BELOW(g, get, id, block);
    if (!s && block->unique_id) block->unique_id = UINT64_MAX - block->unique_id;
    return s;
}

kvg_status kvg_defect_get_coarse_timestamp(void *self, uint32_t id, kvg_block *block)
{
    kvg_block_gate *g = self;
    const kvg_status s = BELOW(g, get, id, block);
    if (!s) block->timestamp -= block->timestamp % 4 * (block->timestamp > 4);
    return s;
}

kvg_status kvg_defect_allocate_wrong_reason(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    const kvg_status s = BELOW(g, allocate, n, ids);
    return s == KVG_ERR_MEMORY ? KVG_ERR_EXHAUSTED : s;
}

kvg_status kvg_defect_verify_3_bits(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n,
                                    uint32_t *valid)
{
    kvg_block_gate *g = self;
    *valid = 0;
    while (*valid < n) {
        const kvg_block b = kvg_defect_block(g, ids[*valid]);
        if (!b.timestamp || ((b.unique_id ^ unique_ids[*valid]) & 7)) break;
        ++*valid;
    }
    return KVG_OK;
}

kvg_status kvg_defect_verify_nothing(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n,
                                     uint32_t *valid)
{
    (void)self, (void)ids, (void)unique_ids;
    *valid = n;
    return KVG_OK;
}

void kvg_defect_undo_nothing(void *self)
{
    kvg_block_gate *g = self;
    g->inner.ops->end(g->inner.self);
}

kvg_status kvg_defect_evict_nothing(void *self, uint32_t n, uint32_t *ids)
{
    (void)self;
    for (uint32_t i = 0; ids && i < n; i++) ids[i] = i;
    return KVG_OK;
}

kvg_status kvg_defect_change_nothing(void *self, const uint32_t *ids, uint32_t n) /* free, touch */
{
    (void)self, (void)ids, (void)n;
    return KVG_OK;
}

kvg_status kvg_defect_move_nothing(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved) /* lock, unlock */
{
    if (moved) *moved = 0;
    return kvg_defect_change_nothing(self, ids, n);
}

kvg_status kvg_defect_get_single_use(void *self, uint32_t id, kvg_block *block)
{
    kvg_block_gate *g = self;
    const kvg_status s = BELOW(g, get, id, block);
    if (!s && block->use_count > 1) block->use_count = 1;
    return s;
}

kvg_status kvg_defect_lock_not_in_fork(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_gate *g = self;
    if (g->stack->notes[60]) return kvg_defect_move_nothing(self, ids, n, moved);
    return BELOW(g, lock, ids, n, moved);
}

/* notes of each side: [0] how many wait, [1 ...] their ids */
kvg_status kvg_defect_unlock_later(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_gate *g = self;
    uint64_t *notes = kvg_defect_notes(g);
    if (!g->stack->notes[61] || n > 20) return BELOW(g, unlock, ids, n, moved);
    notes[0] = n;
    for (uint32_t i = 0; i < n; i++) notes[1 + i] = ids[i];
    if (moved) *moved = 0;
    return KVG_OK;
}

kvg_status kvg_defect_free_before(void *self, const uint32_t *ids, uint32_t n)
{
    kvg_block_gate *g = self;
    uint64_t *notes = kvg_defect_notes(g);
    kvg_status s = BELOW(g, free, ids, n);
    for (uint64_t i = 0; !s && i < notes[0]; i++) {
        const uint32_t id = (uint32_t)notes[1 + i];
        s = BELOW(g, unlock, &id, 1, NULL);
    }
    notes[0] = 0;
    return s;
}
