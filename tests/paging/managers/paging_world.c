#include "tests/paging/managers/paging_world.h"

static bool fault(world *w)
{
    if (w->faults_left == UINT64_MAX || w->faults_left-- > 0) return false;
    w->faults_left = UINT64_MAX;
    w->faulted = true;
    return true;
}

static void *take(void *context, size_t bytes)
{
    world *w = context;
    if (fault(w)) return NULL;
    w->live++;
    return malloc(bytes);
}

static void give(void *context, void *pointer)
{
    ((world *)context)->live--;
    assert_non_null(pointer);
    free(pointer);
}

static kvg_status grow(void *context, uint32_t first, uint32_t count)
{
    return fault(context) ? kvg_fail(KVG_ERR_MEMORY, "no device memory for %u blocks from %u", count, first) : KVG_OK;
}

/* --- the interposed tables --- */

static kvg_status injected(void)
{
    return kvg_fail(KVG_ERR_MEMORY, "injected");
}

static kvg_status pool_allocate(void *self, uint32_t n, uint32_t *ids)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->allocate(p->inner.self, n, ids);
}

static kvg_status pool_lock(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->lock(p->inner.self, ids, n, moved);
}

static kvg_status pool_unlock(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->unlock(p->inner.self, ids, n, moved);
}

static kvg_status pool_free(void *self, const uint32_t *ids, uint32_t n)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->free(p->inner.self, ids, n);
}

static kvg_status pool_evict(void *self, uint32_t n, uint32_t *ids)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->evict(p->inner.self, n, ids);
}

static kvg_status pool_touch(void *self, const uint32_t *ids, uint32_t n)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->touch(p->inner.self, ids, n);
}

static kvg_status pool_verify(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n, uint32_t *valid)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->verify(p->inner.self, ids, unique_ids, n, valid);
}

static kvg_status pool_get(void *self, uint32_t id, kvg_block *block)
{
    const world_pool *p = self;
    return fault(p->of) ? injected() : p->inner.ops->get(p->inner.self, id, block);
}

static void pool_counts(void *self, kvg_block_counts *counts)
{
    const world_pool *p = self;
    p->inner.ops->counts(p->inner.self, counts);
}

static void pool_begin(void *self)
{
    const world_pool *p = self;
    p->inner.ops->begin(p->inner.self);
}

static void pool_end(void *self)
{
    const world_pool *p = self;
    p->inner.ops->end(p->inner.self);
}

static void pool_undo(void *self)
{
    const world_pool *p = self;
    p->inner.ops->undo(p->inner.self);
}

static const kvg_block_ops pool_ops = {pool_allocate, pool_lock, pool_unlock, pool_free,  pool_evict, pool_touch,
                                       pool_verify,   pool_get,  pool_counts, pool_begin, pool_end,   pool_undo};

static kvg_prefix_pool inner_index(const world *w)
{
    return kvg_prefix_index_pool(w->index);
}

static kvg_status index_match(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids,
                              uint64_t *unique_ids, uint32_t *matched)
{
    const kvg_prefix_pool p = inner_index(self);
    return fault(self) ? injected() : p.ops->match(p.self, key, tokens, count, ids, unique_ids, matched);
}

static kvg_status index_publish(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks,
                                const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published)
{
    const kvg_prefix_pool p = inner_index(self);
    return fault(self) ? injected() : p.ops->publish(p.self, key, tokens, blocks, ids, unique_ids, published);
}

static kvg_status index_verify(void *self, const uint32_t *ids, uint32_t n, uint32_t *dropped)
{
    const kvg_prefix_pool p = inner_index(self);
    return fault(self) ? injected() : p.ops->verify(p.self, ids, n, dropped);
}

static uint32_t index_visit(void *self, bool (*see)(void *context, const kvg_prefix_node *node), void *context)
{
    const kvg_prefix_pool p = inner_index(self);
    return p.ops->visit(p.self, see, context);
}

static const kvg_prefix_ops index_ops = {index_match, index_publish, index_verify, index_visit};

/* --- set up --- */

static void destroy(world *w)
{
    kvg_sequence_manager_destroy(w->manager);
    kvg_prefix_index_destroy(w->index);
    for (int i = 0; i < 2; i++) kvg_block_manager_destroy(w->managers[i]);
    assert_int_equal(w->live, 0);
}

static kvg_status build(world *w)
{
    const world_options *o = &w->options;
    for (int i = 0; i < 1 + o->scale; i++) {
        const kvg_block_config config = {o->capacity, o->chunk, grow, w, &w->memory};
        kvg_status status = kvg_block_manager_create(&config, &w->managers[i]);
        if (status != KVG_OK) return status;
        w->pools[i] = (world_pool){w, kvg_block_manager_pool(w->managers[i])};
    }
    w->data = (kvg_block_pool){&w->pools[0], &pool_ops};
    if (o->scale) w->scale = (kvg_block_pool){&w->pools[1], &pool_ops};
    if (o->prefix) {
        const kvg_prefix_config config = {o->block_tokens * o->cp_size, kvg_block_manager_pool(w->managers[0]), o->hash,
                                          NULL, &w->memory};
        kvg_status status = kvg_prefix_index_create(&config, &w->index);
        if (status != KVG_OK) return status;
        w->prefix = (kvg_prefix_pool){w, &index_ops};
    }
    const kvg_sequence_config config = {o->block_tokens, o->cp_size, o->window, w->data,
                                        w->scale,        w->prefix,  &w->memory};
    kvg_status status = kvg_sequence_manager_create(&config, &w->manager);
    if (status != KVG_OK) return status;
    w->sequences = kvg_sequence_manager_pool(w->manager);
    w->self = w->sequences.self;
    w->ops = w->sequences.ops;
    return KVG_OK;
}

kvg_status world_try(world *w, const world_options *options)
{
    const uint64_t faults_left = w->faults_left;
    *w = (world){.options = *options, .faults_left = faults_left};
    w->memory = (kvg_memory){take, give, w};
    if (w->options.cp_size == 0) w->options.cp_size = 1;
    kvg_status status = build(w);
    if (status != KVG_OK) destroy(w);
    return status;
}

void world_open(world *w, const world_options *options)
{
    w->faults_left = UINT64_MAX;
    assert_ok(world_try(w, options));
}

void world_close(world *w)
{
    w->faults_left = UINT64_MAX;
    destroy(w);
}

/* --- the state as text --- */

typedef struct text {
    char *at;
    size_t length, room;
} text;

static void add(text *t, const char *format, ...)
{
    va_list args;
    if (t->room - t->length < 512) t->at = realloc(t->at, t->room = 2 * t->room + 4096);
    va_start(args, format);
    t->length += (size_t)vsnprintf(t->at + t->length, t->room - t->length, format, args);
    va_end(args);
}

static bool add_node(void *context, const kvg_prefix_node *n)
{
    add(context, "node depth %u block %u#%llu under %u token %d lora %llu hash %llx\n", n->depth, n->block.id,
        (unsigned long long)n->block.unique_id, n->parent_block, n->tokens[0], (unsigned long long)n->key.lora,
        (unsigned long long)n->hash);
    return true;
}

static void add_sequence(text *t, world *w, uint64_t id)
{
    kvg_sequence_info s;
    if (w->ops->get(w->self, id, &s) != KVG_OK) return;
    add(t, "sequence %llu: %s tokens %u prompt %u cached %u granted %u holes %u:", (unsigned long long)id,
        s.state == KVG_SEQUENCE_ACTIVE ? "active" : s.state == KVG_SEQUENCE_LOCKED ? "locked" : "cached", s.tokens,
        s.prompt, s.cache_len, s.granted, s.holes);
    for (uint32_t i = 0; i < s.blocks; i++) {
        uint32_t block;
        uint64_t unique_id;
        assert_ok(w->ops->table(w->self, id, i, 1, &block, &unique_id));
        add(t, " %d#%llu", (int)block, (unsigned long long)unique_id);
    }
    add(t, "\n");
}

char *world_dump(world *w)
{
    text t = {0};
    for (int p = 0; p < 1 + w->options.scale; p++) {
        const kvg_block_pool pool = w->pools[p].inner;
        kvg_block_counts c;
        pool.ops->counts(pool.self, &c);
        add(&t, "pool %d: cached %u active %u\n", p, c.cached, c.active);
        for (uint32_t id = 0; id < c.total; id++) {
            const kvg_block b = block_of(pool, id);
            if (!b.unique_id && !b.use_count && !b.timestamp) continue;
            add(&t, "block %u: %u users #%llu @%llu\n", id, b.use_count, (unsigned long long)b.unique_id,
                (unsigned long long)b.timestamp);
        }
    }
    if (w->index) index_visit(w, add_node, &t);
    for (uint64_t id = 0; id < 64; id++) add_sequence(&t, w, id);
    kvg_sequence_counts c;
    w->ops->counts(w->self, &c);
    add(&t, "%u sequences, deferred %u unlocks, %u frees\n", c.sequences, c.pending_unlocks, c.pending_frees);
    return t.at;
}

/* --- what must always hold --- */

static void check_pool(kvg_block_pool pool)
{
    kvg_block_counts c;
    pool.ops->counts(pool.self, &c);
    uint32_t seen[3] = {0};
    kvg_block *blocks = calloc(c.total, sizeof *blocks);
    assert_non_null(blocks);
    for (uint32_t id = 0; id < c.total; id++) {
        const kvg_block b = blocks[id] = block_of(pool, id);
        assert_int_equal(b.id, id);
        seen[b.use_count ? 2 : b.timestamp ? 1 : 0]++;
        assert_true((b.unique_id != 0) == (b.timestamp != 0) && (b.unique_id != 0 || b.use_count == 0));
        bool distinct = true;
        for (uint32_t other = 0; other < id && b.unique_id; other++) {
            distinct = distinct && blocks[other].unique_id != b.unique_id && blocks[other].timestamp != b.timestamp;
        }
        assert_true(distinct);
    }
    free(blocks);
    assert_int_equal(seen[0], c.free);
    assert_int_equal(seen[1], c.cached);
    assert_int_equal(seen[2], c.active);
}

static void check_users(world *w, kvg_block_pool pool)
{
    kvg_block_counts c;
    pool.ops->counts(pool.self, &c);
    uint32_t *users = calloc(c.total, sizeof *users);
    assert_non_null(users);
    for (uint64_t id = 0; id < 64; id++) {
        kvg_sequence_info s;
        if (w->ops->get(w->self, id, &s) != KVG_OK || s.state == KVG_SEQUENCE_CACHED) continue;
        for (uint32_t i = s.holes; i < s.blocks; i++) users[entry_of(w, id, i)]++;
    }
    for (uint32_t id = 0; id < c.total; id++) assert_int_equal(block_of(pool, id).use_count, users[id]);
    free(users);
}

typedef struct node_check {
    world *w;
    uint64_t hashes[64]; /* of the path */
} node_check;

static bool check_node(void *context, const kvg_prefix_node *n)
{
    node_check *c = context;
    const uint32_t span = c->w->options.block_tokens * c->w->options.cp_size;
    if (!c->w->options.hash) {
        const uint64_t parent = n->depth ? c->hashes[n->depth - 1] : 0;
        assert_true(n->hash == kvg_prefix_hash_default(NULL, parent, &n->key, n->tokens, span));
    }
    c->hashes[n->depth] = n->hash;
    assert_true(block_of(c->w->pools[0].inner, n->block.id).unique_id == n->block.unique_id);
    return true;
}

void world_check(world *w)
{
    const uint64_t faults_left = w->faults_left;
    w->faults_left = UINT64_MAX;
    kvg_sequence_counts c;
    w->ops->counts(w->self, &c);
    for (int p = 0; p < 1 + w->options.scale; p++) {
        check_pool(w->pools[p].inner);
        if (c.pending_unlocks == 0) check_users(w, w->pools[p].inner);
    }
    kvg_block_counts d;
    w->pools[0].inner.ops->counts(w->pools[0].inner.self, &d);
    for (uint32_t id = 0; id < d.total && w->options.scale; id++) {
        kvg_block data = block_of(w->pools[0].inner, id), scale = {.id = id};
        if (w->pools[1].inner.ops->get(w->pools[1].inner.self, id, &scale) != KVG_OK) scale.id = id;
        assert_memory_equal(&data, &scale, sizeof data);
    }
    node_check nodes = {.w = w};
    if (w->index) assert_true(index_visit(w, check_node, &nodes) <= w->options.capacity);
    w->faults_left = faults_left;
}

/* --- scenarios --- */

void world_tokens(uint32_t family, uint32_t first, uint32_t count, int32_t *out)
{
    for (uint32_t i = 0; i < count; i++) out[i] = (int32_t)(family * 100000 + first + i);
}

static kvg_status add_tokens(world *w, const act *a)
{
    int32_t tokens[256];
    assert_true(a->a <= 256);
    if (a->kind == CREATE) {
        const kvg_prefix_key key = {0};
        world_tokens(a->b, 0, a->a, tokens);
        return w->ops->create(w->self, a->id, &key, tokens, a->a);
    }
    world_tokens(1000 + (uint32_t)a->id, info_of(w, a->id).tokens, a->a, tokens);
    return w->ops->append_tokens(w->self, a->id, tokens, a->a);
}

static kvg_status batch(world *w, const act *a)
{
    kvg_sequence_request requests[64];
    kvg_sequence_grant grants[64];
    uint32_t n = 0;
    for (uint64_t id = 0; id < 64; id++) {
        if (a->id >> id & 1) requests[n++] = (kvg_sequence_request){id, id, info_of(w, id).tokens + 1, a->a};
    }
    return w->ops->materialise(w->self, requests, n, grants);
}

static kvg_status written(world *w, const act *a)
{
    const kvg_sequence_info s = info_of(w, a->id);
    if (s.state != KVG_SEQUENCE_ACTIVE) return KVG_OK;
    const uint32_t known = s.tokens - s.cache_len, all = s.granted < known ? s.granted : known;
    return w->ops->written(w->self, a->id, a->a ? a->a : all);
}

kvg_status world_act(world *w, const act *a)
{
    switch (a->kind) {
    case CREATE:
    case APPEND: return add_tokens(w, a);
    case BATCH: return batch(w, a);
    case WRITTEN: return written(w, a);
    case RELEASE: return w->ops->release(w->self, a->id);
    case PREEMPT: return w->ops->preempt(w->self, a->id);
    case FORK: return w->ops->fork(w->self, a->id, a->a);
    case COMMIT: return w->ops->commit(w->self);
    case VERIFY: return w->ops->verify(w->self, a->id, NULL);
    case ERASE: return w->ops->erase(w->self, a->id);
    }
    return KVG_ERR_INVALID;
}

kvg_sequence_grant step_one(world *w, uint64_t id, uint32_t context, uint32_t max_tokens)
{
    const kvg_sequence_request request = {id, 0, context, max_tokens};
    kvg_sequence_grant grant;
    assert_ok(w->ops->materialise(w->self, &request, 1, &grant));
    return grant;
}

kvg_sequence_info info_of(world *w, uint64_t id)
{
    kvg_sequence_info info;
    assert_ok(w->ops->get(w->self, id, &info));
    return info;
}

uint32_t entry_of(world *w, uint64_t id, uint32_t entry)
{
    uint32_t block;
    assert_ok(w->ops->table(w->self, id, entry, 1, &block, NULL));
    return block;
}

kvg_block block_of(kvg_block_pool pool, uint32_t id)
{
    kvg_block b;
    assert_ok(pool.ops->get(pool.self, id, &b));
    return b;
}

void new_sequence(world *w, uint64_t id, uint32_t family, uint32_t tokens)
{
    assert_ok(world_act(w, &(act){CREATE, id, tokens, family}));
}

void prefill(world *w, uint64_t id, uint32_t family, uint32_t tokens)
{
    new_sequence(w, id, family, tokens);
    const kvg_sequence_grant g = step_one(w, id, tokens, UINT32_MAX);
    assert_true(g.active);
    assert_ok(w->ops->written(w->self, id, g.count));
}

kvg_block_counts counts_of(world *w)
{
    kvg_block_counts c;
    w->data.ops->counts(w->data.self, &c);
    return c;
}

kvg_status append(world *w, uint64_t id, uint32_t n)
{
    return world_act(w, &(act){APPEND, id, n, 0});
}
