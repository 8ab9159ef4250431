#include "paging/pool/pool_stack.h"

#include <stdlib.h>
#include <string.h>

/* --- the reference --- */

static kvg_status make_blocks(const kvg_block_config *config, void **handle, kvg_block_pool *pool)
{
    kvg_block_manager *manager;
    kvg_status s = kvg_block_manager_create(config, &manager);
    if (s) return s;
    *handle = manager;
    *pool = kvg_block_manager_pool(manager);
    return KVG_OK;
}

static kvg_status make_prefix(const kvg_prefix_config *config, void **handle, kvg_prefix_pool *pool)
{
    kvg_prefix_index *index;
    kvg_status s = kvg_prefix_index_create(config, &index);
    if (s) return s;
    *handle = index;
    *pool = kvg_prefix_index_pool(index);
    return KVG_OK;
}

static kvg_status make_sequences(const kvg_sequence_config *config, void **handle, kvg_sequence_pool *pool)
{
    kvg_sequence_manager *manager;
    kvg_status s = kvg_sequence_manager_create(config, &manager);
    if (s) return s;
    *handle = manager;
    *pool = kvg_sequence_manager_pool(manager);
    return KVG_OK;
}

static void destroy_blocks(void *handle)
{
    kvg_block_manager_destroy(handle);
}

static void destroy_prefix(void *handle)
{
    kvg_prefix_index_destroy(handle);
}

static void destroy_sequences(void *handle)
{
    kvg_sequence_manager_destroy(handle);
}

const kvg_pool_backend *kvg_pool_reference(void)
{
    static const kvg_pool_backend reference = {"reference",    make_blocks,    make_prefix,      make_sequences,
                                               destroy_blocks, destroy_prefix, destroy_sequences};
    return &reference;
}

/* --- faults --- */

void kvg_pool_stack_arm(kvg_pool_stack *stack, kvg_pool_fault fault)
{
    stack->fault = fault;
    stack->fired = false;
    memset(stack->calls, 0, sizeof stack->calls);
}

/* Counts a place where a fault of this kind could happen; true if it happens now. */
static bool fails(kvg_pool_stack *stack, kvg_pool_fault_kind kind)
{
    const uint32_t at = stack->calls[kind]++;
    if (stack->fault.kind != kind || stack->fault.at != at || stack->fired) return false;
    stack->fired = true;
    return true;
}

static void *take(void *context, size_t bytes)
{
    kvg_pool_stack *stack = context;
    if (fails(stack, KVG_POOL_FAULT_MEMORY)) return NULL;
    void *pointer = malloc(bytes);
    if (pointer) stack->live++;
    return pointer;
}

static void give(void *context, void *pointer)
{
    ((kvg_pool_stack *)context)->live--;
    free(pointer);
}

static kvg_status grow(void *context, uint32_t first, uint32_t count)
{
    if (!fails(context, KVG_POOL_FAULT_GROW)) return KVG_OK;
    return kvg_fail(KVG_ERR_MEMORY, "injected: no device memory for %u blocks from %u on", count, first);
}

static uint64_t weak_hash(void *context, uint64_t parent_hash, const kvg_prefix_key *key, const int32_t *tokens,
                          uint32_t count)
{
    const int64_t bits = ((const kvg_pool_stack *)context)->geometry.hash_bits;
    const uint64_t hash = kvg_prefix_hash_default(NULL, parent_hash, key, tokens, count);
    return bits == 0 ? 0 : hash >> (64 - bits);
}

/* --- gates --- */

static kvg_status pass(kvg_block_gate *gate)
{
    if (!fails(gate->stack, gate->side == KVG_POOL_DATA ? KVG_POOL_FAULT_DATA : KVG_POOL_FAULT_SCALE)) return KVG_OK;
    return kvg_fail(KVG_ERR_MEMORY, "injected: the %s pool refuses", gate->side == KVG_POOL_DATA ? "data" : "scale");
}

static kvg_status gate_allocate(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    kvg_status s = pass(g);
    if (!s && g->side == KVG_POOL_SCALE && fails(g->stack, KVG_POOL_FAULT_REFUSE)) {
        s = kvg_fail(KVG_ERR_EXHAUSTED, "injected: the scale pool has no blocks");
    }
    return s ? s : g->inner.ops->allocate(g->inner.self, n, ids);
}

static kvg_status gate_lock(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_gate *g = self;
    kvg_status s = pass(g);
    return s ? s : g->inner.ops->lock(g->inner.self, ids, n, moved);
}

static kvg_status gate_unlock(void *self, const uint32_t *ids, uint32_t n, uint32_t *moved)
{
    kvg_block_gate *g = self;
    kvg_status s = pass(g);
    return s ? s : g->inner.ops->unlock(g->inner.self, ids, n, moved);
}

static kvg_status gate_free(void *self, const uint32_t *ids, uint32_t n)
{
    kvg_block_gate *g = self;
    kvg_status s = pass(g);
    return s ? s : g->inner.ops->free(g->inner.self, ids, n);
}

static kvg_status gate_evict(void *self, uint32_t n, uint32_t *ids)
{
    kvg_block_gate *g = self;
    kvg_status s = pass(g);
    return s ? s : g->inner.ops->evict(g->inner.self, n, ids);
}

static kvg_status gate_touch(void *self, const uint32_t *ids, uint32_t n)
{
    kvg_block_gate *g = self;
    kvg_status s = pass(g);
    return s ? s : g->inner.ops->touch(g->inner.self, ids, n);
}

static kvg_status gate_verify(void *self, const uint32_t *ids, const uint64_t *unique_ids, uint32_t n, uint32_t *valid)
{
    kvg_block_gate *g = self;
    return g->inner.ops->verify(g->inner.self, ids, unique_ids, n, valid);
}

static kvg_status gate_get(void *self, uint32_t id, kvg_block *block)
{
    kvg_block_gate *g = self;
    return g->inner.ops->get(g->inner.self, id, block);
}

static void gate_counts(void *self, kvg_block_counts *counts)
{
    kvg_block_gate *g = self;
    g->inner.ops->counts(g->inner.self, counts);
}

static void gate_begin(void *self)
{
    kvg_block_gate *g = self;
    g->inner.ops->begin(g->inner.self);
}

static void gate_end(void *self)
{
    kvg_block_gate *g = self;
    g->inner.ops->end(g->inner.self);
}

static void gate_undo(void *self)
{
    kvg_block_gate *g = self;
    g->inner.ops->undo(g->inner.self);
}

static const kvg_block_ops block_gate_ops = {
    .allocate = gate_allocate, .lock = gate_lock, .unlock = gate_unlock, .free = gate_free,
    .evict = gate_evict, .touch = gate_touch, .verify = gate_verify, .get = gate_get,
    .counts = gate_counts, .begin = gate_begin, .end = gate_end, .undo = gate_undo,
};

static kvg_status gate_match(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids,
                             uint64_t *unique_ids, uint32_t *matched)
{
    kvg_prefix_gate *g = self;
    return g->inner.ops->match(g->inner.self, key, tokens, count, ids, unique_ids, matched);
}

static kvg_status gate_publish(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks,
                               const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published)
{
    kvg_prefix_gate *g = self;
    if (fails(g->stack, KVG_POOL_FAULT_PUBLISH)) return kvg_fail(KVG_ERR_MEMORY, "injected: the prefix index refuses");
    return g->inner.ops->publish(g->inner.self, key, tokens, blocks, ids, unique_ids, published);
}

static kvg_status gate_prefix_verify(void *self, const uint32_t *ids, uint32_t n, uint32_t *dropped)
{
    kvg_prefix_gate *g = self;
    return g->inner.ops->verify(g->inner.self, ids, n, dropped);
}

static uint32_t gate_visit(void *self, bool (*see)(void *context, const kvg_prefix_node *node), void *context)
{
    kvg_prefix_gate *g = self;
    return g->inner.ops->visit(g->inner.self, see, context);
}

static const kvg_prefix_ops prefix_gate_ops = {
    .match = gate_match, .publish = gate_publish, .verify = gate_prefix_verify, .visit = gate_visit,
};

/* Sequences are a gate of defects alone: their faults come from below. */

static kvg_status gate_create(void *self, uint64_t id, const kvg_prefix_key *key, const int32_t *tokens,
                              uint32_t count)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->create(g->inner.self, id, key, tokens, count);
}

static kvg_status gate_erase(void *self, uint64_t id)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->erase(g->inner.self, id);
}

static kvg_status gate_append_tokens(void *self, uint64_t id, const int32_t *tokens, uint32_t count)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->append_tokens(g->inner.self, id, tokens, count);
}

static kvg_status gate_materialise(void *self, const kvg_sequence_request *requests, uint32_t count,
                                   kvg_sequence_grant *grants)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->materialise(g->inner.self, requests, count, grants);
}

static kvg_status gate_written(void *self, uint64_t id, uint32_t count)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->written(g->inner.self, id, count);
}

static kvg_status gate_release(void *self, uint64_t id)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->release(g->inner.self, id);
}

static kvg_status gate_preempt(void *self, uint64_t id)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->preempt(g->inner.self, id);
}

static kvg_status gate_fork(void *self, uint64_t parent, uint64_t child)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->fork(g->inner.self, parent, child);
}

static kvg_status gate_commit(void *self)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->commit(g->inner.self);
}

static kvg_status gate_sequence_verify(void *self, uint64_t id, uint32_t *valid)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->verify(g->inner.self, id, valid);
}

static kvg_status gate_sequence_get(void *self, uint64_t id, kvg_sequence_info *info)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->get(g->inner.self, id, info);
}

static kvg_status gate_table(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids, uint64_t *unique_ids)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->table(g->inner.self, id, first, n, ids, unique_ids);
}

static kvg_status gate_tokens(void *self, uint64_t id, uint32_t first, uint32_t n, int32_t *tokens)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->tokens(g->inner.self, id, first, n, tokens);
}

static kvg_status gate_slots(void *self, uint64_t id, uint32_t rank, uint32_t first, uint32_t n, int64_t *slots)
{
    kvg_sequence_gate *g = self;
    return g->inner.ops->slots(g->inner.self, id, rank, first, n, slots);
}

static void gate_sequence_counts(void *self, kvg_sequence_counts *counts)
{
    kvg_sequence_gate *g = self;
    g->inner.ops->counts(g->inner.self, counts);
}

static const kvg_sequence_ops sequence_gate_ops = {
    .create = gate_create, .erase = gate_erase, .append_tokens = gate_append_tokens,
    .materialise = gate_materialise, .written = gate_written, .release = gate_release,
    .preempt = gate_preempt, .fork = gate_fork, .commit = gate_commit,
    .verify = gate_sequence_verify, .get = gate_sequence_get, .table = gate_table,
    .tokens = gate_tokens, .slots = gate_slots, .counts = gate_sequence_counts,
};

/* --- putting together --- */

static kvg_status make_pool(kvg_pool_stack *k, int side)
{
    const kvg_block_config config = {.capacity = (uint32_t)k->geometry.capacity, .chunk = k->geometry.chunk,
                                     .grow = grow, .grow_context = k, .memory = &k->memory};
    kvg_block_pool plain;
    kvg_status s = k->backend->make_blocks(&config, &k->block_handles[side], &plain);
    if (s) return s;
    k->block_gates[side] = (kvg_block_gate){block_gate_ops, plain, k, side};
    k->views[side] = k->block_gates[side];
    k->blocks[side] = (kvg_block_pool){&k->block_gates[side], &k->block_gates[side].ops};
    k->view[side] = plain;
    return KVG_OK;
}

static kvg_status make_index(kvg_pool_stack *k)
{
    const kvg_prefix_config config = {.span = (uint32_t)(k->geometry.block_tokens * k->geometry.cp_size),
                                      .blocks = k->blocks[KVG_POOL_DATA],
                                      .hash = k->geometry.hash_bits < 64 ? weak_hash : NULL, .hash_context = k,
                                      .memory = &k->memory};
    kvg_status s = k->backend->make_prefix(&config, &k->prefix_handle, &k->prefix);
    if (!s) k->prefix_gate = (kvg_prefix_gate){prefix_gate_ops, k->prefix, k};
    return s;
}

static kvg_status make_manager(kvg_pool_stack *k, kvg_pool_install install)
{
    k->config = (kvg_sequence_config){.block_tokens = (uint32_t)k->geometry.block_tokens,
                                      .cp_size = (uint32_t)k->geometry.cp_size,
                                      .window = (uint32_t)k->geometry.window, .data = k->blocks[KVG_POOL_DATA],
                                      .scale = k->blocks[KVG_POOL_SCALE], .memory = &k->memory};
    if (k->prefix.ops) k->config.prefix = (kvg_prefix_pool){&k->prefix_gate, &k->prefix_gate.ops};
    k->sequence_gate = (kvg_sequence_gate){.ops = sequence_gate_ops, .stack = k};
    k->sequences = (kvg_sequence_pool){&k->sequence_gate, &k->sequence_gate.ops};
    if (install) install(k);
    return k->backend->make_sequences(&k->config, &k->sequence_handle, &k->sequence_gate.inner);
}

kvg_status kvg_pool_stack_make(kvg_pool_stack *k, const kvg_pool_backend *backend, const kvg_pool_geometry *geometry,
                               bool blocks, kvg_pool_install install)
{
    const kvg_pool_fault fault = k->fault;
    *k = (kvg_pool_stack){.backend = backend, .geometry = *geometry, .fault = fault};
    k->memory = (kvg_memory){take, give, k};
    kvg_status s = make_pool(k, KVG_POOL_DATA);
    if (!s && geometry->scale && !blocks) s = make_pool(k, KVG_POOL_SCALE);
    if (!s && geometry->prefix && !blocks) s = make_index(k);
    if (!s && !blocks) s = make_manager(k, install);
    else if (!s && install) install(k);
    if (s) kvg_pool_stack_destroy(k);
    return s;
}

void kvg_pool_stack_destroy(kvg_pool_stack *k)
{
    k->backend->destroy_sequences(k->sequence_handle);
    k->backend->destroy_prefix(k->prefix_handle);
    for (int side = 0; side < KVG_POOL_SIDES; side++) k->backend->destroy_blocks(k->block_handles[side]);
    k->sequence_handle = k->prefix_handle = k->block_handles[0] = k->block_handles[1] = NULL;
}
