/* The block pool of the model: every question is a walk over all blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paging/pool/pool_model.h"

void *kvg_model_room(void *array, uint32_t *room, uint64_t need, size_t element)
{
    if (need <= *room) return array;
    uint64_t grown = *room ? 2ull * *room : 16;
    if (grown < need) grown = need;
    array = realloc(array, (size_t)grown * element);
    if (!array) {
        fputs("kvgold pool: no memory for the model\n", stderr);
        exit(3);
    }
    *room = (uint32_t)grown;
    return array;
}

void kvg_id_list_add(kvg_id_list *list, uint32_t id)
{
    list->ids = kvg_model_room(list->ids, &list->room, list->count + 1ull, sizeof *list->ids);
    list->ids[list->count++] = id;
}

/* --- blocks --- */

static uint32_t *tally_of(kvg_model_pool *pool, const kvg_model_block *b)
{
    return b->use_count ? &pool->active : b->timestamp ? &pool->cached : &pool->free;
}

void kvg_model_set(kvg_pool_model *m, uint32_t id, kvg_model_block to)
{
    kvg_model_block *b = &m->pool.block[id];
    --*tally_of(&m->pool, b);
    if (to.unique_id && to.unique_id != b->unique_id) {
        memmove(m->lives[id] + 1, m->lives[id], (KVG_MODEL_LIVES - 1) * sizeof m->lives[id][0]);
        m->lives[id][0] = to.unique_id;
    }
    *b = to;
    ++*tally_of(&m->pool, b);
    kvg_id_list_add(&m->changed, id);
}

kvg_status kvg_model_allocate(kvg_pool_model *m, uint32_t n, kvg_id_list *ids)
{
    kvg_model_pool *pool = &m->pool;
    if (n > pool->free + (pool->capacity - pool->total)) return KVG_ERR_EXHAUSTED;
    while (pool->free < n) {
        const uint32_t left = pool->capacity - pool->total, count = pool->chunk < left ? pool->chunk : left;
        memset(&pool->block[pool->total], 0, count * sizeof pool->block[0]);
        pool->total += count;
        pool->free += count;
    }
    for (uint32_t id = 0, left = n; left; id++) {
        if (pool->block[id].timestamp) continue;
        kvg_model_set(m, id, (kvg_model_block){1, pool->next_unique_id++, pool->next_timestamp++});
        kvg_id_list_add(ids, id);
        left--;
    }
    return KVG_OK;
}

kvg_status kvg_model_lock(kvg_pool_model *m, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= m->pool.total || m->pool.block[ids[i]].timestamp == 0) return KVG_ERR_INVALID;
    }
    const uint32_t before = m->pool.cached;
    for (uint32_t i = 0; i < n; i++) {
        kvg_model_block b = m->pool.block[ids[i]];
        b.use_count++;
        kvg_model_set(m, ids[i], b);
    }
    if (moved) *moved = before - m->pool.cached;
    return KVG_OK;
}

/* How often ids[i] is listed before entry `end`. */
static uint32_t listed(const uint32_t *ids, uint32_t end, uint32_t id)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < end; i++) times += ids[i] == id;
    return times;
}

kvg_status kvg_model_unlock(kvg_pool_model *m, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= m->pool.total) return KVG_ERR_INVALID;
        if (m->pool.block[ids[i]].use_count <= listed(ids, i, ids[i])) return KVG_ERR_INVALID;
    }
    const uint32_t before = m->pool.cached;
    for (uint32_t i = 0; i < n; i++) {
        kvg_model_block b = m->pool.block[ids[i]];
        b.use_count--;
        kvg_model_set(m, ids[i], b);
    }
    if (moved) *moved = m->pool.cached - before;
    return KVG_OK;
}

kvg_status kvg_model_free(kvg_pool_model *m, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= m->pool.total || listed(ids, i, ids[i])) return KVG_ERR_INVALID;
        const kvg_model_block *b = &m->pool.block[ids[i]];
        if (b->use_count || !b->timestamp) return KVG_ERR_INVALID;
    }
    for (uint32_t i = 0; i < n; i++) kvg_model_set(m, ids[i], (kvg_model_block){0, 0, 0});
    return KVG_OK;
}

kvg_status kvg_model_evict(kvg_pool_model *m, uint32_t n, kvg_id_list *ids)
{
    if (n > m->pool.cached) return KVG_ERR_EXHAUSTED;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t oldest = KVG_BLOCK_NONE;
        for (uint32_t id = 0; id < m->pool.total; id++) {
            const kvg_model_block *b = &m->pool.block[id];
            if (b->use_count || !b->timestamp) continue;
            if (oldest == KVG_BLOCK_NONE || b->timestamp < m->pool.block[oldest].timestamp) oldest = id;
        }
        kvg_model_set(m, oldest, (kvg_model_block){0, 0, 0});
        kvg_id_list_add(ids, oldest);
    }
    return KVG_OK;
}

kvg_status kvg_model_touch(kvg_pool_model *m, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] >= m->pool.total || !m->pool.block[ids[i]].use_count) return KVG_ERR_INVALID;
    }
    for (uint32_t i = n; i-- > 0;) {
        kvg_model_block b = m->pool.block[ids[i]];
        b.timestamp = m->pool.next_timestamp++;
        kvg_model_set(m, ids[i], b);
    }
    return KVG_OK;
}

bool kvg_model_alive(const kvg_pool_model *m, uint32_t id, uint64_t unique_id)
{
    return id < m->pool.total && m->pool.block[id].timestamp && m->pool.block[id].unique_id == unique_id;
}

uint64_t kvg_pool_model_life(const kvg_pool_model *model, const kvg_pool_item *item)
{
    if (item->id >= model->pool.capacity) return 1;
    return model->lives[item->id][item->life < KVG_MODEL_LIVES ? item->life : KVG_MODEL_LIVES - 1];
}

/* --- operations on blocks alone --- */

static kvg_status count_alive(const kvg_pool_model *m, const kvg_pool_op *op, uint32_t *valid)
{
    bool dead = false;
    *valid = 0;
    for (uint32_t i = 0; i < op->item_count; i++) {
        if (op->items[i].id >= m->pool.total) return KVG_ERR_INVALID;
        const bool alive = kvg_model_alive(m, (uint32_t)op->items[i].id, kvg_pool_model_life(m, &op->items[i]));
        if (alive && dead) return KVG_ERR_INVALID;
        dead |= !alive;
        *valid += alive;
    }
    return KVG_OK;
}

static void copy_pool(kvg_model_pool *to, const kvg_model_pool *from)
{
    kvg_model_block *block = to->block;
    memcpy(block, from->block, from->total * sizeof *block);
    *to = *from;
    to->block = block;
}

/* Undo does not take growth back. */
static void undo(kvg_pool_model *m)
{
    const uint32_t total = m->pool.total, grown = total - m->begun.total;
    copy_pool(&m->pool, &m->begun);
    memset(m->pool.block + m->begun.total, 0, grown * sizeof m->pool.block[0]);
    m->pool.total = total;
    m->pool.free += grown;
    for (uint32_t id = 0; id < total; id++) kvg_id_list_add(&m->changed, id);
}

void kvg_model_apply_blocks(kvg_pool_model *m, const kvg_pool_op *op, kvg_pool_expectation *expect)
{
    uint32_t ids[KVG_POOL_MAX_ITEMS];
    for (uint32_t i = 0; i < op->item_count; i++) ids[i] = (uint32_t)op->items[i].id;
    const uint32_t n = op->item_count;
    kvg_status s = KVG_OK;
    switch (op->verb) {
    case KVG_POOL_ALLOCATE: s = kvg_model_allocate(m, op->count, &expect->ids); break;
    case KVG_POOL_LOCK: s = kvg_model_lock(m, ids, n, &expect->number); break;
    case KVG_POOL_UNLOCK: s = kvg_model_unlock(m, ids, n, &expect->number); break;
    case KVG_POOL_FREE: s = kvg_model_free(m, ids, n); break;
    case KVG_POOL_EVICT: s = kvg_model_evict(m, op->count, &expect->ids); break;
    case KVG_POOL_TOUCH: s = kvg_model_touch(m, ids, n); break;
    case KVG_POOL_ALIVE: s = count_alive(m, op, &expect->number); break;
    case KVG_POOL_BEGIN:
        if (!m->open) copy_pool(&m->begun, &m->pool);
        m->open = true;
        break;
    case KVG_POOL_UNDO:
        if (m->open) undo(m);
        m->open = false;
        break;
    case KVG_POOL_END: m->open = false; break;
    default: break;
    }
    if (s) expect->refusals = 1u << s;
}

/* --- making --- */

kvg_status kvg_pool_model_make(kvg_pool_model *model, const kvg_pool_geometry *geometry, bool blocks)
{
    const uint32_t capacity = (uint32_t)geometry->capacity;
    const int64_t chunk = geometry->chunk;
    *model = (kvg_pool_model){.geometry = *geometry, .blocks_alone = blocks,
                              .span = (uint32_t)(geometry->block_tokens * geometry->cp_size)};
    uint32_t root = 0;
    while ((uint64_t)(root + 1) * (root + 1) <= capacity) root++;
    kvg_model_pool *pool = &model->pool;
    pool->capacity = capacity;
    pool->chunk = chunk == 0 ? root : chunk < 0 || chunk > capacity ? capacity : (uint32_t)chunk;
    pool->total = pool->free = pool->chunk;
    pool->next_unique_id = pool->next_timestamp = 1;
    pool->block = calloc(capacity, sizeof *pool->block);
    model->begun.block = calloc(capacity, sizeof *pool->block);
    model->lives = calloc(capacity, sizeof *model->lives);
    if (pool->block && model->begun.block && model->lives) return KVG_OK;
    kvg_pool_model_destroy(model);
    return kvg_fail(KVG_ERR_MEMORY, "cannot hold a model of %u blocks", capacity);
}

void kvg_pool_model_destroy(kvg_pool_model *model)
{
    for (uint32_t i = 0; i < model->sequence_count; i++) {
        kvg_model_sequence *q = model->sequences[i];
        free(q->tokens);
        free(q->tags);
        free(q->ids);
        free(q->unique_ids);
        free(q);
    }
    free(model->sequences);
    free(model->nodes);
    free(model->changed.ids);
    free(model->unlocks.ids);
    free(model->frees.ids);
    free(model->free_lives);
    free(model->pool.block);
    free(model->begun.block);
    free(model->lives);
    *model = (kvg_pool_model){0};
}

void kvg_pool_expectation_free(kvg_pool_expectation *expect)
{
    free(expect->ids.ids);
    free(expect->evicted.ids);
    free(expect->grants);
    *expect = (kvg_pool_expectation){0};
}
