#include "paging/managers/ref_block_pair.h"

/* The pools that are there, data first. */
static unsigned pools(const ref_block_pair *pair)
{
    return pair->pool[1].ops ? 2 : 1;
}

static kvg_status in_pool(unsigned p, kvg_status status)
{
    return status == KVG_OK ? KVG_OK : kvg_fail_in(status, p == 0 ? "data pool" : "scale pool");
}

void ref_block_pair_destroy(ref_block_pair *pair)
{
    ref_memory_give(&pair->memory, pair->second);
}

void ref_block_pair_begin(ref_block_pair *pair)
{
    for (unsigned p = 0; p < pools(pair); p++) pair->pool[p].ops->begin(pair->pool[p].self);
}

void ref_block_pair_end(ref_block_pair *pair)
{
    for (unsigned p = 0; p < pools(pair); p++) pair->pool[p].ops->end(pair->pool[p].self);
}

void ref_block_pair_undo(ref_block_pair *pair)
{
    for (unsigned p = 0; p < pools(pair); p++) pair->pool[p].ops->undo(pair->pool[p].self);
}

static kvg_status change_one(const kvg_block_pool *pool, ref_change change, const uint32_t *ids, uint32_t n,
                             uint32_t *moved)
{
    switch (change) {
    case REF_LOCK: return pool->ops->lock(pool->self, ids, n, moved);
    case REF_UNLOCK: return pool->ops->unlock(pool->self, ids, n, moved);
    case REF_FREE: return pool->ops->free(pool->self, ids, n);
    case REF_TOUCH: return pool->ops->touch(pool->self, ids, n);
    }
    return kvg_fail(KVG_ERR_INVALID, "change %d of a block pool", (int)change);
}

kvg_status ref_block_pair_change(ref_block_pair *pair, ref_change change, const uint32_t *ids, uint32_t n)
{
    uint32_t moved[2] = {0, 0};
    for (unsigned p = 0; p < pools(pair); p++) {
        kvg_status status = in_pool(p, change_one(&pair->pool[p], change, ids, n, &moved[p]));
        if (status != KVG_OK) return status;
    }
    if (pools(pair) == 1 || moved[0] == moved[1]) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "%u blocks moved in the data pool, %u in the scale pool: they are out of step",
                    moved[0], moved[1]);
}

/* allocate or evict. */
typedef kvg_status (*take)(void *self, uint32_t n, uint32_t *ids);

static kvg_status take_both(ref_block_pair *pair, const take from[2], uint32_t n, uint32_t *ids)
{
    uint32_t *second = ref_memory_reserve(&pair->memory, pair->second, &pair->second_room, n, sizeof *second);
    if (!second) return ref_memory_fail("answers of a scale pool");
    pair->second = second;
    kvg_status status = in_pool(0, from[0](pair->pool[0].self, n, ids));
    if (status != KVG_OK || pools(pair) == 1) return status;
    status = in_pool(1, from[1](pair->pool[1].self, n, second));
    for (uint32_t i = 0; i < n && status == KVG_OK; i++) {
        if (ids[i] == second[i]) continue;
        status = kvg_fail(KVG_ERR_INVALID, "the data pool takes block %u, the scale pool %u: they are out of step",
                          ids[i], second[i]);
    }
    return status;
}

kvg_status ref_block_pair_evict(ref_block_pair *pair, uint32_t n, uint32_t *ids)
{
    const take from[2] = {pair->pool[0].ops->evict, pools(pair) == 2 ? pair->pool[1].ops->evict : NULL};
    return take_both(pair, from, n, ids);
}

static kvg_status unique_id(ref_block_pair *pair, unsigned p, uint32_t id, uint64_t *out)
{
    kvg_block b = {0};
    kvg_status status = in_pool(p, pair->pool[p].ops->get(pair->pool[p].self, id, &b));
    *out = b.unique_id;
    return status;
}

kvg_status ref_block_pair_allocate(ref_block_pair *pair, uint32_t n, uint32_t *ids, uint64_t *unique_ids)
{
    const take from[2] = {pair->pool[0].ops->allocate, pools(pair) == 2 ? pair->pool[1].ops->allocate : NULL};
    kvg_status status = take_both(pair, from, n, ids);
    for (uint32_t i = 0; i < n && status == KVG_OK; i++) {
        uint64_t second = 0;
        status = unique_id(pair, 0, ids[i], &unique_ids[i]);
        if (status != KVG_OK || pools(pair) == 1) continue;
        status = unique_id(pair, 1, ids[i], &second);
        if (status == KVG_OK && second != unique_ids[i]) {
            status = kvg_fail(KVG_ERR_INVALID, "block %u: its unique ids differ between the pools", ids[i]);
        }
    }
    return status;
}

kvg_status ref_block_pair_alive(ref_block_pair *pair, uint32_t id, uint64_t unique_id, bool *alive)
{
    *alive = true;
    for (unsigned p = 0; p < pools(pair); p++) {
        uint32_t valid = 0;
        kvg_status status = in_pool(p, pair->pool[p].ops->verify(pair->pool[p].self, &id, &unique_id, 1, &valid));
        if (status != KVG_OK) return status;
        *alive = *alive && valid == 1;
    }
    return KVG_OK;
}

kvg_status ref_block_pair_get(ref_block_pair *pair, uint32_t id, kvg_block *block)
{
    return in_pool(0, pair->pool[0].ops->get(pair->pool[0].self, id, block));
}

void ref_block_pair_counts(ref_block_pair *pair, kvg_block_counts *counts)
{
    pair->pool[0].ops->counts(pair->pool[0].self, counts);
}
