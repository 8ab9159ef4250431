/* Sequences: who there is, what they hold, what is deferred. Every operation first takes the memory it may need, then
 * lets the pools work inside a transaction, and changes its own state last. */
#include <string.h>

#include "paging/managers/ref_sequence.h"

/* --- the sequences, by id --- */

static ref_sequence **bucket(ref_sequence **buckets, uint64_t count, uint64_t id)
{
    return &buckets[(id * 0x9E3779B97F4A7C15u >> 32) & (count - 1)];
}

static ref_sequence *look_up(const kvg_sequence_manager *m, uint64_t id)
{
    ref_sequence *s = *bucket(m->buckets, m->bucket_count, id);
    while (s && s->info.id != id) s = s->next;
    return s;
}

ref_sequence *ref_sequence_find(const kvg_sequence_manager *m, uint64_t id)
{
    ref_sequence *s = look_up(m, id);
    if (!s) kvg_fail(KVG_ERR_NOT_FOUND, "sequence %llu does not exist: create it first", (unsigned long long)id);
    return s;
}

/* Buckets for one more sequence: twice as many when they are as many as the sequences. */
static kvg_status reserve_bucket(kvg_sequence_manager *m)
{
    if (m->sequences < m->bucket_count) return KVG_OK;
    const uint64_t count = 2 * m->bucket_count;
    ref_sequence **buckets = ref_memory_take(&m->memory, count, sizeof *buckets);
    if (!buckets) return ref_memory_fail("sequence manager");
    for (uint64_t i = 0; i < count; i++) buckets[i] = NULL;
    for (uint64_t i = 0; i < m->bucket_count; i++) {
        for (ref_sequence *s = m->buckets[i], *next; s; s = next) {
            next = s->next;
            ref_sequence **head = bucket(buckets, count, s->info.id);
            s->next = *head;
            *head = s;
        }
    }
    ref_memory_give(&m->memory, m->buckets);
    m->buckets = buckets;
    m->bucket_count = count;
    return KVG_OK;
}

static void insert(kvg_sequence_manager *m, ref_sequence *s)
{
    ref_sequence **head = bucket(m->buckets, m->bucket_count, s->info.id);
    s->next = *head;
    *head = s;
    m->sequences++;
}

static void remove_sequence(kvg_sequence_manager *m, ref_sequence *s)
{
    ref_sequence **at = bucket(m->buckets, m->bucket_count, s->info.id);
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    m->sequences--;
}

static void destroy_sequence(kvg_sequence_manager *m, ref_sequence *s)
{
    ref_memory_give(&m->memory, s->unique_ids);
    ref_memory_give(&m->memory, s->ids);
    ref_memory_give(&m->memory, s->tokens);
    ref_memory_give(&m->memory, s);
}

static kvg_status add_tokens(kvg_sequence_manager *m, ref_sequence *s, const int32_t *tokens, uint32_t count)
{
    const uint64_t all = (uint64_t)s->info.tokens + count;
    if (all > UINT32_MAX) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu: more than 2^32 - 1 tokens", (unsigned long long)s->info.id);
    }
    int32_t *to = ref_memory_reserve(&m->memory, s->tokens, &s->token_room, all, sizeof *to);
    if (!to) return ref_memory_fail("tokens of a sequence");
    s->tokens = to;
    if (count) memcpy(to + s->info.tokens, tokens, count * sizeof *tokens);
    s->info.tokens = (uint32_t)all;
    return KVG_OK;
}

/* A sequence that is nowhere yet, with these tokens, and room for it among the others. */
static kvg_status new_sequence(kvg_sequence_manager *m, const kvg_sequence_info *info, const int32_t *tokens,
                               uint32_t count, ref_sequence **out)
{
    kvg_status status = reserve_bucket(m);
    if (status != KVG_OK) return status;
    ref_sequence *s = ref_memory_take(&m->memory, 1, sizeof *s);
    if (!s) return ref_memory_fail("sequence");
    *s = (ref_sequence){.info = *info};
    s->info.tokens = 0;
    status = add_tokens(m, s, tokens, count);
    if (status != KVG_OK) destroy_sequence(m, s);
    *out = s;
    return status;
}

/* --- block tables --- */

kvg_status ref_sequence_reserve(kvg_sequence_manager *m, ref_sequence *s, uint64_t blocks)
{
    uint32_t *ids = ref_memory_reserve(&m->memory, s->ids, &s->id_room, blocks, sizeof *ids);
    if (ids) s->ids = ids;
    uint64_t *unique_ids = ref_memory_reserve(&m->memory, s->unique_ids, &s->unique_room, blocks, sizeof *unique_ids);
    if (unique_ids) s->unique_ids = unique_ids;
    return ids && unique_ids ? KVG_OK : ref_memory_fail("block table");
}

uint32_t ref_sequence_passed(const kvg_sequence_manager *m, uint32_t first)
{
    const uint32_t window = m->config.window;
    return window && first >= window ? (first - window + 1) / m->span : 0;
}

void ref_sequence_cut(const kvg_sequence_manager *m, kvg_sequence_info *s, uint32_t blocks)
{
    const uint64_t held = (uint64_t)blocks * m->span;
    if (s->blocks > blocks) s->blocks = blocks;
    if (s->cache_len > held) s->cache_len = (uint32_t)held;
    if (ref_sequence_passed(m, s->cache_len) < s->holes) s->cache_len = s->blocks = s->holes = 0;
}

/* The leading entries that are holes or alive. */
static kvg_status count_alive(kvg_sequence_manager *m, const ref_sequence *s, uint32_t *count)
{
    kvg_status status = KVG_OK;
    bool alive = true;
    uint32_t i = s->info.holes;
    for (; i < s->info.blocks && status == KVG_OK && alive; i += alive) {
        status = ref_block_pair_alive(&m->pair, s->ids[i], s->unique_ids[i], &alive);
    }
    *count = i;
    return status;
}

kvg_status ref_sequence_rederive(kvg_sequence_manager *m, ref_sequence *s)
{
    uint32_t alive;
    kvg_status status = count_alive(m, s, &alive);
    if (status == KVG_OK) ref_sequence_cut(m, &s->info, alive);
    return status;
}

/* --- deferred work --- */

static kvg_status reserve_deferred(kvg_sequence_manager *m, uint32_t n)
{
    const uint64_t unlocks = (uint64_t)m->unlock_count + n, frees = (uint64_t)m->free_count + n;
    uint32_t *ids = ref_memory_reserve(&m->memory, m->unlocks, &m->unlock_room, unlocks, sizeof *ids);
    if (ids) m->unlocks = ids;
    ref_reference *references = ref_memory_reserve(&m->memory, m->frees, &m->free_room, frees, sizeof *references);
    if (references) m->frees = references;
    return ids && references ? KVG_OK : ref_memory_fail("deferred unlocks");
}

/* There is room for both. */
static void defer(kvg_sequence_manager *m, const ref_sequence *s, uint32_t from, uint32_t to, bool unlock, bool free)
{
    for (uint32_t i = from; i < to; i++) {
        if (unlock) m->unlocks[m->unlock_count++] = s->ids[i];
        if (free) m->frees[m->free_count++] = (ref_reference){s->ids[i], s->unique_ids[i]};
    }
}

/* A block to be freed may have a new life, or another user, by now: then it stays. */
kvg_status ref_sequence_carry_out(kvg_sequence_manager *m)
{
    kvg_status status = ref_block_pair_change(&m->pair, REF_UNLOCK, m->unlocks, m->unlock_count);
    for (uint32_t i = 0; i < m->free_count && status == KVG_OK; i++) {
        kvg_block b;
        status = ref_block_pair_get(&m->pair, m->frees[i].id, &b);
        if (status != KVG_OK || b.unique_id != m->frees[i].unique_id || b.use_count) continue;
        status = ref_block_pair_change(&m->pair, REF_FREE, &m->frees[i].id, 1);
    }
    return status;
}

/* Ends the transaction as the status says. */
static kvg_status close(kvg_sequence_manager *m, kvg_status status)
{
    if (status == KVG_OK) ref_block_pair_end(&m->pair);
    else ref_block_pair_undo(&m->pair);
    return status;
}

static bool holds(const ref_sequence *s)
{
    return s->info.state != KVG_SEQUENCE_CACHED;
}

/* Touches what the sequence holds, and unlocks it unless that is deferred. */
static kvg_status let_go(kvg_sequence_manager *m, const ref_sequence *s, bool deferred)
{
    const uint32_t n = s->info.blocks - s->info.holes;
    if (n == 0) return KVG_OK;
    const uint32_t *ids = s->ids + s->info.holes;
    kvg_status status = deferred ? reserve_deferred(m, n) : KVG_OK;
    if (status == KVG_OK) status = ref_block_pair_change(&m->pair, REF_TOUCH, ids, n);
    if (status == KVG_OK && !deferred) status = ref_block_pair_change(&m->pair, REF_UNLOCK, ids, n);
    return status;
}

/* Another holder of the partial tail may go on writing it in place, once it is the only one. So a sequence that gives
 * back its blocks keeps no claim on a tail that is shared. */
kvg_status ref_sequence_give_back(kvg_sequence_manager *m, ref_sequence *s, bool deferred)
{
    kvg_sequence_info *info = &s->info;
    const uint32_t full = info->cache_len / m->span;
    kvg_block tail = {0};
    kvg_status status = KVG_OK;
    if (full < info->blocks) status = ref_block_pair_get(&m->pair, s->ids[full], &tail);
    if (status == KVG_OK) status = let_go(m, s, deferred);
    if (status != KVG_OK) return status;
    if (deferred) defer(m, s, info->holes, info->blocks, true, false);
    info->state = KVG_SEQUENCE_CACHED;
    info->granted = 0;
    if (tail.use_count > 1) ref_sequence_cut(m, info, full);
    return KVG_OK;
}

/* --- operations --- */

static kvg_status erase_sequence(kvg_sequence_manager *m, ref_sequence *s)
{
    const bool free = !m->config.prefix.ops;
    kvg_status status = reserve_deferred(m, s->info.blocks - s->info.holes);
    if (status == KVG_OK && holds(s)) {
        ref_block_pair_begin(&m->pair);
        status = close(m, let_go(m, s, true));
    }
    if (status != KVG_OK) return status;
    defer(m, s, s->info.holes, s->info.blocks, holds(s), free);
    remove_sequence(m, s);
    destroy_sequence(m, s);
    return KVG_OK;
}

static kvg_status create(void *self, uint64_t id, const kvg_prefix_key *key, const int32_t *tokens, uint32_t count)
{
    kvg_sequence_manager *m = self;
    if (count == 0) return kvg_fail(KVG_ERR_INVALID, "sequence %llu: a prompt of no tokens", (unsigned long long)id);
    const kvg_sequence_info info = {.id = id, .key = *key, .state = KVG_SEQUENCE_CACHED, .prompt = count};
    ref_sequence *s, *old = look_up(m, id);
    kvg_status status = new_sequence(m, &info, tokens, count, &s);
    if (status != KVG_OK) return status;
    if (old) status = erase_sequence(m, old);
    if (status == KVG_OK) insert(m, s);
    else destroy_sequence(m, s);
    return status;
}

static kvg_status erase(void *self, uint64_t id)
{
    ref_sequence *s = ref_sequence_find(self, id);
    return s ? erase_sequence(self, s) : KVG_ERR_NOT_FOUND;
}

static kvg_status append_tokens(void *self, uint64_t id, const int32_t *tokens, uint32_t count)
{
    ref_sequence *s = ref_sequence_find(self, id);
    return s ? add_tokens(self, s, tokens, count) : KVG_ERR_NOT_FOUND;
}

static kvg_status check_written(const ref_sequence *s, uint32_t count)
{
    const unsigned long long id = s->info.id;
    if (s->info.state != KVG_SEQUENCE_ACTIVE || count > s->info.granted) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu: %u tokens written, %u granted", id, count, s->info.granted);
    }
    if (count > s->info.tokens - s->info.cache_len) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu: %u tokens written after %u, %u known: append them first", id,
                        count, s->info.cache_len, s->info.tokens);
    }
    return KVG_OK;
}

/* Publish after the write, and leave blocks behind after publishing: nobody can find what is not there. */
static kvg_status written(void *self, uint64_t id, uint32_t count)
{
    kvg_sequence_manager *m = self;
    const kvg_prefix_pool *prefix = &m->config.prefix;
    ref_sequence *s = ref_sequence_find(m, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    kvg_status status = check_written(s, count);
    if (status != KVG_OK) return status;
    const uint32_t length = s->info.cache_len + count, full = length / m->span;
    const uint32_t first = s->info.holes, passed = ref_sequence_passed(m, length);
    status = reserve_deferred(m, passed - first);
    if (status == KVG_OK && prefix->ops && full > s->info.cache_len / m->span) {
        status = prefix->ops->publish(prefix->self, &s->info.key, s->tokens, full, s->ids, s->unique_ids, NULL);
    }
    if (status != KVG_OK) return status;
    s->info.cache_len = length;
    s->info.granted = 0;
    defer(m, s, first, passed, true, !prefix->ops);
    for (uint32_t i = first; i < passed; i++) {
        s->ids[i] = KVG_BLOCK_NONE;
        s->unique_ids[i] = 0;
    }
    s->info.holes = passed;
    return KVG_OK;
}

static kvg_status give_back(void *self, uint64_t id, bool deferred)
{
    kvg_sequence_manager *m = self;
    ref_sequence *s = ref_sequence_find(m, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    if (!holds(s)) return KVG_OK;
    ref_block_pair_begin(&m->pair);
    return close(m, ref_sequence_give_back(m, s, deferred));
}

static kvg_status release(void *self, uint64_t id)
{
    return give_back(self, id, true);
}

static kvg_status preempt(void *self, uint64_t id)
{
    return give_back(self, id, false);
}

/* The child's table: what holds written tokens; a partial tail only where nobody is about to write it. */
static kvg_status share(kvg_sequence_manager *m, const ref_sequence *parent, ref_sequence *child)
{
    const bool tail = holds(parent) && parent->info.granted == 0;
    const uint32_t full = parent->info.cache_len / m->span;
    kvg_sequence_info *info = &child->info;
    ref_sequence_cut(m, info, tail && parent->info.cache_len % m->span ? full + 1 : full);
    kvg_status status = ref_sequence_reserve(m, child, info->blocks);
    if (status != KVG_OK || info->blocks == 0) return status;
    memcpy(child->ids, parent->ids, info->blocks * sizeof *child->ids);
    memcpy(child->unique_ids, parent->unique_ids, info->blocks * sizeof *child->unique_ids);
    if (!holds(parent)) return KVG_OK;
    ref_block_pair_begin(&m->pair);
    return close(m, ref_block_pair_change(&m->pair, REF_LOCK, child->ids + info->holes, info->blocks - info->holes));
}

static kvg_status fork(void *self, uint64_t parent_id, uint64_t child_id)
{
    kvg_sequence_manager *m = self;
    const ref_sequence *parent = ref_sequence_find(m, parent_id);
    if (!parent) return KVG_ERR_NOT_FOUND;
    if (look_up(m, child_id)) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu exists: fork makes a new one", (unsigned long long)child_id);
    }
    kvg_sequence_info info = parent->info;
    info.id = child_id;
    info.granted = 0;
    if (holds(parent)) info.state = KVG_SEQUENCE_LOCKED;
    ref_sequence *child;
    kvg_status status = new_sequence(m, &info, parent->tokens, parent->info.tokens, &child);
    if (status != KVG_OK) return status;
    status = share(m, parent, child);
    if (status == KVG_OK) insert(m, child);
    else destroy_sequence(m, child);
    return status;
}

static kvg_status commit(void *self)
{
    kvg_sequence_manager *m = self;
    ref_block_pair_begin(&m->pair);
    kvg_status status = close(m, ref_sequence_carry_out(m));
    if (status == KVG_OK) m->unlock_count = m->free_count = 0;
    return status;
}

static kvg_status verify(void *self, uint64_t id, uint32_t *valid)
{
    kvg_sequence_manager *m = self;
    ref_sequence *s = ref_sequence_find(m, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    uint32_t alive = 0;
    kvg_status status = holds(s) ? count_alive(m, s, &alive) : ref_sequence_rederive(m, s);
    if (status != KVG_OK) return status;
    if (holds(s) && alive < s->info.blocks) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu holds block %u, but it is dead", (unsigned long long)id,
                        s->ids[alive]);
    }
    if (valid) *valid = s->info.blocks;
    return KVG_OK;
}

/* --- questions --- */

static kvg_status get(void *self, uint64_t id, kvg_sequence_info *info)
{
    const ref_sequence *s = ref_sequence_find(self, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    *info = s->info;
    return KVG_OK;
}

static kvg_status check_range(uint64_t id, const char *what, uint64_t first, uint64_t n, uint64_t limit)
{
    if (first + n <= limit) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "sequence %llu: %llu %s from %llu on asked for, it has %llu",
                    (unsigned long long)id, (unsigned long long)n, what, (unsigned long long)first,
                    (unsigned long long)limit);
}

static kvg_status table(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids, uint64_t *unique_ids)
{
    const ref_sequence *s = ref_sequence_find(self, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    kvg_status status = check_range(id, "table entries", first, n, s->info.blocks);
    if (status != KVG_OK || n == 0) return status;
    if (ids) memcpy(ids, s->ids + first, n * sizeof *ids);
    if (unique_ids) memcpy(unique_ids, s->unique_ids + first, n * sizeof *unique_ids);
    return KVG_OK;
}

static kvg_status get_tokens(void *self, uint64_t id, uint32_t first, uint32_t n, int32_t *tokens)
{
    const ref_sequence *s = ref_sequence_find(self, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    kvg_status status = check_range(id, "tokens", first, n, s->info.tokens);
    if (status == KVG_OK && n) memcpy(tokens, s->tokens + first, n * sizeof *tokens);
    return status;
}

kvg_token_home kvg_token_place(uint64_t position, uint32_t cp_size, uint32_t block_tokens)
{
    const uint64_t own = position / cp_size; /* its number among the rank's tokens */
    const uint64_t rank = position % cp_size, block = own / block_tokens, offset = own % block_tokens;
    return (kvg_token_home){(uint32_t)rank, (uint32_t)block, (uint32_t)offset};
}

static kvg_status get_slots(void *self, uint64_t id, uint32_t rank, uint32_t first, uint32_t n, int64_t *slots)
{
    const kvg_sequence_manager *m = self;
    const ref_sequence *s = ref_sequence_find(m, id);
    if (!s) return KVG_ERR_NOT_FOUND;
    kvg_status status = check_range(id, "slots", first, n, (uint64_t)s->info.blocks * m->span);
    if (status == KVG_OK) status = check_range(id, "ranks", rank, 1, m->config.cp_size);
    if (status != KVG_OK) return status;
    for (uint32_t i = 0; i < n; i++) {
        const kvg_token_home home = kvg_token_place((uint64_t)first + i, m->config.cp_size, m->config.block_tokens);
        const uint32_t block = s->ids[home.block];
        const bool here = home.rank == rank && block != KVG_BLOCK_NONE;
        slots[i] = here ? (int64_t)block * m->config.block_tokens + home.offset : -1;
    }
    return KVG_OK;
}

static void get_counts(void *self, kvg_sequence_counts *counts)
{
    const kvg_sequence_manager *m = self;
    *counts = (kvg_sequence_counts){m->sequences, m->unlock_count, m->free_count};
}

/* --- creation --- */

static kvg_status check_config(const kvg_sequence_config *c)
{
    if (!c->data.ops) return kvg_fail(KVG_ERR_INVALID, "sequence manager: it needs a data pool");
    if (c->block_tokens == 0 || c->cp_size == 0 || (uint64_t)c->block_tokens * c->cp_size > UINT32_MAX) {
        return kvg_fail(KVG_ERR_INVALID, "sequence manager: %u tokens per block on %u ranks: both at least 1, their "
                        "product below 2^32", c->block_tokens, c->cp_size);
    }
    kvg_block_counts data, scale;
    c->data.ops->counts(c->data.self, &data);
    if (!c->scale.ops) return KVG_OK;
    c->scale.ops->counts(c->scale.self, &scale);
    if (data.capacity == scale.capacity) return KVG_OK;
    return kvg_fail(KVG_ERR_INVALID, "sequence manager: %u data blocks, %u scale blocks: they must be as many",
                    data.capacity, scale.capacity);
}

kvg_status kvg_sequence_manager_create(const kvg_sequence_config *config, kvg_sequence_manager **manager)
{
    kvg_status status = check_config(config);
    if (status != KVG_OK) return status;
    kvg_block_counts counts;
    config->data.ops->counts(config->data.self, &counts);
    const kvg_memory memory = ref_memory_of(config->memory);
    kvg_sequence_manager *m = ref_memory_take(&memory, 1, sizeof *m);
    if (!m) return ref_memory_fail("sequence manager");
    *m = (kvg_sequence_manager){.memory = memory, .config = *config, .span = config->block_tokens * config->cp_size};
    m->pair = (ref_block_pair){.memory = memory, .pool = {config->data, config->scale}};
    m->going = ref_memory_take(&memory, counts.capacity, sizeof *m->going);
    m->buckets = ref_memory_take(&memory, 1, sizeof(ref_sequence *));
    if (!m->going || !m->buckets) {
        kvg_sequence_manager_destroy(m);
        return ref_memory_fail("sequence manager");
    }
    memset(m->going, 0, counts.capacity * sizeof *m->going);
    m->buckets[0] = NULL;
    m->bucket_count = 1;
    *manager = m;
    return KVG_OK;
}

void kvg_sequence_manager_destroy(kvg_sequence_manager *manager)
{
    if (!manager) return;
    kvg_sequence_manager *m = manager;
    for (uint64_t i = 0; i < m->bucket_count; i++) {
        for (ref_sequence *s = m->buckets[i], *next; s; s = next) {
            next = s->next;
            destroy_sequence(m, s);
        }
    }
    void *const parts[] = {m->buckets, m->unlocks, m->frees,      m->going,  m->plans,
                           m->edits,   m->ids,     m->unique_ids, m->evicted};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) ref_memory_give(&m->memory, parts[i]);
    ref_block_pair_destroy(&m->pair);
    const kvg_memory memory = m->memory;
    ref_memory_give(&memory, m);
}

kvg_sequence_pool kvg_sequence_manager_pool(kvg_sequence_manager *manager)
{
    static const kvg_sequence_ops ops = {
        create, erase,  append_tokens, ref_sequence_materialise, written,   release,    preempt,
        fork,   commit, verify,        get,                      table,     get_tokens, get_slots,
        get_counts};
    return (kvg_sequence_pool){manager, &ops};
}
