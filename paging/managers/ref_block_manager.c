/* The block manager: an array of blocks, the set of free ids, the heap of cached ids by age, and a log of the blocks
 * that an operation changed. Every change goes through change(), so taking back is one loop and cannot fail. */
#include "paging/managers/ref_block_sets.h"

#include <stdbool.h>

/* Where the log and the counters stood. */
typedef struct mark {
    size_t changes;
    uint64_t next_unique_id, next_timestamp;
} mark;

struct kvg_block_manager {
    kvg_memory memory;
    kvg_block_config config;
    uint32_t chunk;
    kvg_block_counts counts;
    kvg_block *blocks;
    ref_id_set free;
    ref_age_heap cached;
    kvg_block *log; /* blocks as they were before each change */
    size_t log_room;
    mark now;
    mark begun; /* of the open transaction */
    bool open;
    uint64_t steps;
};

/* --- the one way to change a block --- */

typedef enum state { FREE, CACHED, ACTIVE } state;

static state state_of(const kvg_block *b)
{
    return b->use_count ? ACTIVE : b->timestamp ? CACHED : FREE;
}

/* Where a block is left and entered, its sets and counts follow. */
static void assign(kvg_block_manager *m, const kvg_block *to)
{
    kvg_block *b = &m->blocks[to->id];
    const state before = state_of(b), after = state_of(to);
    uint32_t *count[] = {&m->counts.free, &m->counts.cached, &m->counts.active};
    m->steps++;
    if (before == FREE && after != FREE) ref_id_set_remove(&m->free, b->id);
    if (before == CACHED) ref_age_heap_remove(&m->cached, b->id);
    --*count[before];
    *b = *to;
    ++*count[after];
    if (after == CACHED) ref_age_heap_add(&m->cached, b->id);
    if (after == FREE && before != FREE) ref_id_set_add(&m->free, b->id);
}

static void change(kvg_block_manager *m, const kvg_block *to)
{
    m->log[m->now.changes++] = m->blocks[to->id];
    assign(m, to);
}

static void take_back(kvg_block_manager *m, mark to)
{
    while (m->now.changes > to.changes) assign(m, &m->log[--m->now.changes]);
    m->now = to;
}

/* Room in the log for n more changes. */
static kvg_status reserve(kvg_block_manager *m, uint32_t n)
{
    kvg_block *log = ref_memory_reserve(&m->memory, m->log, &m->log_room, (uint64_t)m->now.changes + n, sizeof *log);
    if (!log) return ref_memory_fail("log of a block pool");
    m->log = log;
    return KVG_OK;
}

/* The end of an operation that began at `from`. */
static kvg_status finish(kvg_block_manager *m, mark from, kvg_status status)
{
    if (status != KVG_OK) take_back(m, from);
    if (!m->open) m->now.changes = 0;
    return status;
}

/* --- operations --- */

/* NULL, with the error text set, if there is no such block. */
static const kvg_block *find(const kvg_block_manager *m, uint32_t id)
{
    if (id < m->counts.total) return &m->blocks[id];
    kvg_fail(KVG_ERR_INVALID, "block %u: the pool has blocks 0 to %u", id, m->counts.total - 1);
    return NULL;
}

/* Brings the pool to at least n free blocks; there is capacity for them. */
static kvg_status grow(kvg_block_manager *m, uint32_t n)
{
    while (m->counts.free < n) {
        const uint32_t first = m->counts.total, left = m->counts.capacity - first;
        const uint32_t count = m->chunk < left ? m->chunk : left;
        kvg_status status = m->config.grow ? m->config.grow(m->config.grow_context, first, count) : KVG_OK;
        if (status != KVG_OK) return kvg_fail_in(status, "growing a pool of %u blocks by %u", first, count);
        for (uint32_t id = first; id < first + count; id++) {
            m->blocks[id] = (kvg_block){.id = id};
            ref_id_set_add(&m->free, id);
        }
        m->counts.total += count;
        m->counts.free += count;
    }
    return KVG_OK;
}

static kvg_status allocate(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_manager *m = self;
    const uint32_t available = m->counts.free + (m->counts.capacity - m->counts.total);
    if (n > available) {
        return kvg_fail(KVG_ERR_EXHAUSTED, "%u blocks wanted, %u free or not yet grown: evict some of the %u cached", n,
                        available, m->counts.cached);
    }
    const mark from = m->now;
    kvg_status status = reserve(m, n);
    if (status == KVG_OK) status = grow(m, n);
    if (status != KVG_OK) return status;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = ref_id_set_lowest(&m->free);
        change(m, &(kvg_block){ids[i], 1, m->now.next_unique_id++, m->now.next_timestamp++});
    }
    return finish(m, from, KVG_OK);
}

/* What one operation makes of one block; KVG_ERR_INVALID if the block is not in the state for it. */
typedef kvg_status (*alter)(kvg_block_manager *m, kvg_block *b);

static kvg_status add_user(kvg_block_manager *m, kvg_block *b)
{
    (void)m;
    if (state_of(b) == FREE) return kvg_fail(KVG_ERR_INVALID, "block %u: lock: it is free", b->id);
    if (b->use_count == UINT32_MAX) return kvg_fail(KVG_ERR_INVALID, "block %u: lock: too many users", b->id);
    b->use_count++;
    return KVG_OK;
}

static kvg_status drop_user(kvg_block_manager *m, kvg_block *b)
{
    (void)m;
    if (!b->use_count) return kvg_fail(KVG_ERR_INVALID, "block %u: unlock: nobody uses it", b->id);
    b->use_count--;
    return KVG_OK;
}

static kvg_status set_free(kvg_block_manager *m, kvg_block *b)
{
    (void)m;
    const state is = state_of(b);
    if (is != CACHED) {
        return kvg_fail(KVG_ERR_INVALID, "block %u: free: it is %s", b->id, is == FREE ? "free already" : "in use");
    }
    *b = (kvg_block){.id = b->id};
    return KVG_OK;
}

static kvg_status renew(kvg_block_manager *m, kvg_block *b)
{
    if (!b->use_count) return kvg_fail(KVG_ERR_INVALID, "block %u: touch: nobody uses it", b->id);
    b->timestamp = m->now.next_timestamp++;
    return KVG_OK;
}

/* Alters the listed blocks one after another, the last first if `reverse`; all of them or none. */
static kvg_status alter_all(kvg_block_manager *m, const uint32_t *ids, uint32_t n, bool reverse, alter with)
{
    const mark from = m->now;
    kvg_status status = reserve(m, n);
    for (uint32_t i = 0; i < n && status == KVG_OK; i++) {
        const kvg_block *is = find(m, ids[reverse ? n - 1 - i : i]);
        if (!is) return finish(m, from, KVG_ERR_INVALID);
        kvg_block to = *is;
        status = with(m, &to);
        if (status == KVG_OK) change(m, &to);
    }
    return finish(m, from, status);
}

static kvg_status lock(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_manager *m = self;
    const uint32_t before = m->counts.cached;
    kvg_status status = alter_all(m, ids, n, false, add_user);
    if (status == KVG_OK && moved) *moved = before - m->counts.cached;
    return status;
}

static kvg_status unlock(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_manager *m = self;
    const uint32_t before = m->counts.cached;
    kvg_status status = alter_all(m, ids, n, false, drop_user);
    if (status == KVG_OK && moved) *moved = m->counts.cached - before;
    return status;
}

static kvg_status free_blocks(void *self, const uint32_t *ids, uint32_t n)
{
    return alter_all(self, ids, n, false, set_free);
}

static kvg_status touch(void *self, const uint32_t *ids, uint32_t n)
{
    return alter_all(self, ids, n, true, renew);
}

static kvg_status evict(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_manager *m = self;
    if (n > m->counts.cached) {
        return kvg_fail(KVG_ERR_EXHAUSTED, "%u blocks to evict, %u cached: release sequences", n, m->counts.cached);
    }
    const mark from = m->now;
    kvg_status status = reserve(m, n);
    if (status != KVG_OK) return status;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t oldest = m->cached.ids[0];
        if (ids) ids[i] = oldest;
        change(m, &(kvg_block){.id = oldest});
    }
    return finish(m, from, KVG_OK);
}

static kvg_status verify(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n, uint32_t *valid)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < n; i++) {
        const kvg_block *b = find(self, ids[i]);
        if (!b) return KVG_ERR_INVALID;
        if (state_of(b) == FREE || b->unique_id != unique_ids[i]) continue;
        if (alive < i) {
            return kvg_fail(KVG_ERR_INVALID, "block %u: verify: alive at entry %u behind the dead entry %u", ids[i], i,
                            alive);
        }
        alive++;
    }
    *valid = alive;
    return KVG_OK;
}

static kvg_status get(void *self, uint32_t id, kvg_block *block)
{
    const kvg_block *found = find(self, id);
    if (!found) return KVG_ERR_INVALID;
    *block = *found;
    return KVG_OK;
}

static void get_counts(void *self, kvg_block_counts *counts)
{
    *counts = ((kvg_block_manager *)self)->counts;
}

static void begin(void *self)
{
    kvg_block_manager *m = self;
    m->open = true;
    m->now.changes = 0;
    m->begun = m->now;
}

static void end(void *self)
{
    kvg_block_manager *m = self;
    m->open = false;
    m->now.changes = 0;
}

static void undo(void *self)
{
    kvg_block_manager *m = self;
    take_back(m, m->begun);
    m->open = false;
}

/* --- creation --- */

static uint32_t square_root(uint32_t n)
{
    uint32_t root = 0;
    for (uint32_t bit = 1u << 15; bit; bit /= 2) {
        if ((uint64_t)(root + bit) * (root + bit) <= n) root += bit;
    }
    return root;
}

static kvg_status manager_fill(kvg_block_manager *m)
{
    const uint32_t capacity = m->counts.capacity;
    m->blocks = ref_memory_take(&m->memory, capacity, sizeof *m->blocks);
    if (!m->blocks) return ref_memory_fail("blocks of a block pool");
    kvg_status status = ref_id_set_create(&m->free, &m->memory, capacity, &m->steps);
    if (status == KVG_OK) status = ref_age_heap_create(&m->cached, &m->memory, capacity, m->blocks, &m->steps);
    if (status == KVG_OK) status = grow(m, m->chunk);
    return status;
}

kvg_status kvg_block_manager_create(const kvg_block_config *config, kvg_block_manager **manager)
{
    const uint32_t capacity = config->capacity;
    if (capacity == 0 || capacity == KVG_BLOCK_NONE) {
        return kvg_fail(KVG_ERR_INVALID, "a pool of %u blocks: 1 to 2^32 - 2 are possible", capacity);
    }
    const kvg_memory memory = ref_memory_of(config->memory);
    kvg_block_manager *m = ref_memory_take(&memory, 1, sizeof *m);
    if (!m) return ref_memory_fail("block manager");
    *m = (kvg_block_manager){.memory = memory, .config = *config, .counts.capacity = capacity};
    m->now = (mark){0, 1, 1};
    m->chunk = config->chunk == 0 ? square_root(capacity)
               : config->chunk < 0 || config->chunk > capacity ? capacity : (uint32_t)config->chunk;
    kvg_status status = manager_fill(m);
    if (status != KVG_OK) {
        kvg_block_manager_destroy(m);
        return status;
    }
    *manager = m;
    return KVG_OK;
}

void kvg_block_manager_destroy(kvg_block_manager *manager)
{
    if (!manager) return;
    const kvg_memory memory = manager->memory;
    ref_memory_give(&memory, manager->log);
    ref_age_heap_destroy(&manager->cached, &memory);
    ref_id_set_destroy(&manager->free, &memory);
    ref_memory_give(&memory, manager->blocks);
    ref_memory_give(&memory, manager);
}

kvg_block_pool kvg_block_manager_pool(kvg_block_manager *manager)
{
    static const kvg_block_ops ops = {allocate, lock, unlock, free_blocks, evict, touch,
                                      verify,   get,  get_counts, begin,   end,   undo};
    return (kvg_block_pool){manager, &ops};
}

uint64_t kvg_block_manager_steps(const kvg_block_manager *manager)
{
    return manager->steps;
}

kvg_status kvg_block_capacity(uint64_t free_bytes, double ratio, uint64_t data_bytes, uint64_t scale_bytes,
                              uint32_t *blocks)
{
    const uint64_t bytes = data_bytes + scale_bytes;
    if (!(ratio > 0 && ratio <= 1)) return kvg_fail(KVG_ERR_INVALID, "memory ratio %g: it must be in (0, 1]", ratio);
    if (bytes == 0 || bytes < data_bytes) {
        return kvg_fail(KVG_ERR_INVALID, "a block of %llu + %llu bytes", (unsigned long long)data_bytes,
                        (unsigned long long)scale_bytes);
    }
    const double share = (double)free_bytes * ratio; /* may round up to 2^64 */
    const uint64_t budget = share < 18446744073709551616.0 ? (uint64_t)share : free_bytes;
    const uint64_t fit = (budget < free_bytes ? budget : free_bytes) / bytes;
    if (fit == 0) {
        return kvg_fail(KVG_ERR_EXHAUSTED, "no block of %llu bytes fits into %llu", (unsigned long long)bytes,
                        (unsigned long long)budget);
    }
    *blocks = fit < KVG_BLOCK_NONE ? (uint32_t)fit : KVG_BLOCK_NONE - 1;
    return KVG_OK;
}
