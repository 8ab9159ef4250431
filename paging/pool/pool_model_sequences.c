/* Sequences and index of the model, by docs/spec/paging.md sections 2 to 4. */
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "paging/pool/pool_model.h"

/* --- tokens --- */

uint64_t kvg_pool_key_tag(const kvg_prefix_key *key)
{
    return kvg_hash64(key, sizeof *key);
}

/* A multiply and a shift: different histories meet with probability 2^-64. */
uint64_t kvg_pool_next_tag(uint64_t tag, int32_t token)
{
    tag = (tag ^ (uint32_t)token) * 0xD6E8FEB86659FD93ull;
    tag ^= tag >> 32;
    return tag * 0xD6E8FEB86659FD93ull + 1;
}

int32_t kvg_pool_create_token(const kvg_pool_geometry *geometry, const kvg_pool_op *op, uint32_t i)
{
    return i < op->shared ? kvg_pool_prompt_token(op->prompt, i, geometry->vocabulary)
                          : kvg_pool_own_token(op->seed, i, geometry->vocabulary);
}

static void add_token(kvg_model_sequence *q, int32_t token)
{
    const kvg_prefix_key key = kvg_pool_domain_key(q->domain);
    uint32_t room = q->token_room;
    q->tokens = kvg_model_room(q->tokens, &room, q->count + 1ull, sizeof *q->tokens);
    q->tags = kvg_model_room(q->tags, &q->token_room, q->count + 1ull, sizeof *q->tags);
    q->tags[q->count] = kvg_pool_next_tag(q->count ? q->tags[q->count - 1] : kvg_pool_key_tag(&key), token);
    q->tokens[q->count++] = token;
}

/* The tag of everything before token t. */
static uint64_t tag_before(const kvg_model_sequence *q, uint32_t t)
{
    const kvg_prefix_key key = kvg_pool_domain_key(q->domain);
    return t ? q->tags[t - 1] : kvg_pool_key_tag(&key);
}

/* --- the list of sequences --- */

kvg_model_sequence *kvg_pool_model_find(const kvg_pool_model *model, uint64_t id)
{
    for (uint32_t i = 0; i < model->sequence_count; i++) {
        if (model->sequences[i]->id == id) return model->sequences[i];
    }
    return NULL;
}

static kvg_model_sequence *add_sequence(kvg_pool_model *m, uint64_t id, uint32_t domain)
{
    uint32_t none = 0;
    kvg_model_sequence *q = kvg_model_room(NULL, &none, 1, sizeof *q);
    *q = (kvg_model_sequence){.id = id, .domain = domain};
    m->sequences = kvg_model_room(m->sequences, &m->sequence_room, m->sequence_count + 1ull, sizeof(void *));
    m->sequences[m->sequence_count++] = q;
    return q;
}

static void remove_sequence(kvg_pool_model *m, kvg_model_sequence *q)
{
    uint32_t at = 0;
    while (m->sequences[at] != q) at++;
    memmove(m->sequences + at, m->sequences + at + 1, (--m->sequence_count - at) * sizeof(void *));
    free(q->tokens);
    free(q->tags);
    free(q->ids);
    free(q->unique_ids);
    free(q);
}

bool kvg_model_holds(const kvg_model_sequence *q)
{
    return q->state != KVG_SEQUENCE_CACHED;
}

void kvg_pool_model_holders(const kvg_pool_model *model, uint32_t *holders)
{
    memset(holders, 0, model->pool.capacity * sizeof *holders);
    for (uint32_t i = 0; i < model->sequence_count; i++) {
        const kvg_model_sequence *q = model->sequences[i];
        for (uint32_t j = q->holes; kvg_model_holds(q) && j < q->blocks; j++) holders[q->ids[j]]++;
    }
}

/* --- tables --- */

void kvg_model_add_block(kvg_model_sequence *q, uint32_t id, uint64_t unique_id)
{
    uint32_t room = q->block_room;
    q->ids = kvg_model_room(q->ids, &room, q->blocks + 1ull, sizeof *q->ids);
    q->unique_ids = kvg_model_room(q->unique_ids, &q->block_room, q->blocks + 1ull, sizeof *q->unique_ids);
    q->ids[q->blocks] = id;
    q->unique_ids[q->blocks++] = unique_id;
}

/* Holes that a sequence has whose cache ends at cache_len. */
static uint32_t holes_at(const kvg_pool_model *m, uint32_t cache_len)
{
    const int64_t window = m->geometry.window, first = (int64_t)cache_len - window + 1;
    return window == 0 || first <= 0 ? 0 : (uint32_t)(first / m->span);
}

/* Leaves the first entries behind, up to what the window has passed. */
static void make_holes(const kvg_pool_model *m, kvg_model_sequence *q)
{
    const uint32_t holes = holes_at(m, q->cache_len);
    for (; q->holes < holes && q->holes < q->blocks; q->holes++) {
        q->ids[q->holes] = KVG_BLOCK_NONE;
        q->unique_ids[q->holes] = 0;
    }
}

/* A shorter cache whose window reaches into the holes is no cache. */
static void shorten(const kvg_pool_model *m, kvg_model_sequence *q, uint32_t entries, uint32_t cache_len)
{
    q->blocks = entries;
    q->cache_len = cache_len;
    if (q->holes > holes_at(m, cache_len)) q->blocks = q->holes = q->cache_len = 0;
}

/* Of a cached sequence: only the leading alive entries stay. */
void kvg_model_cut_dead(const kvg_pool_model *m, kvg_model_sequence *q)
{
    uint32_t alive = q->holes;
    while (alive < q->blocks && kvg_model_alive(m, q->ids[alive], q->unique_ids[alive])) alive++;
    const uint64_t room = (uint64_t)alive * m->span;
    shorten(m, q, alive, q->cache_len < room ? q->cache_len : (uint32_t)room);
}

/* Lets go of the table: a partial tail that has another holder is given up. */
void kvg_model_let_go(kvg_pool_model *m, kvg_model_sequence *q, bool at_once)
{
    const uint32_t full = q->cache_len / m->span;
    const bool tail = q->cache_len % m->span && m->pool.block[q->ids[full]].use_count > 1;
    kvg_model_touch(m, q->ids + q->holes, q->blocks - q->holes);
    if (at_once) kvg_model_unlock(m, q->ids + q->holes, q->blocks - q->holes, NULL);
    for (uint32_t i = q->holes; !at_once && i < q->blocks; i++) kvg_id_list_add(&m->unlocks, q->ids[i]);
    q->state = KVG_SEQUENCE_CACHED;
    q->granted = 0;
    if (tail) shorten(m, q, full, full * m->span);
}

/* --- the index --- */

static uint64_t hash_of(const kvg_pool_model *m, uint64_t parent, const kvg_model_sequence *q, uint32_t block)
{
    const kvg_prefix_key key = kvg_pool_domain_key(q->domain);
    const int64_t bits = m->geometry.hash_bits;
    const uint64_t hash = kvg_prefix_hash_default(NULL, parent, &key, q->tokens + (size_t)block * m->span, m->span);
    return bits == 0 ? 0 : hash >> (64 - bits);
}

/* The node of a sequence's block number `depth`; *collision: another stands under its parent and hash. */
static const kvg_model_node *find_node(const kvg_pool_model *m, const kvg_model_sequence *q, uint32_t depth,
                                       uint64_t hash, bool *collision)
{
    const uint64_t before = tag_before(q, depth * m->span), tag = q->tags[(depth + 1) * m->span - 1];
    *collision = false;
    for (uint32_t i = 0; i < m->node_count; i++) {
        const kvg_model_node *n = &m->nodes[i];
        if (n->depth == depth && n->tag == tag) return n;
        if (n->depth == depth && n->hash == hash && (n->parent_tag == before || depth == 0)) *collision = true;
    }
    return NULL;
}

/* Nodes that are dead go, and those after them. */
void kvg_model_prune(kvg_pool_model *m)
{
    bool changed = true;
    while (changed) {
        uint32_t kept = 0;
        for (uint32_t i = 0; i < m->node_count; i++) {
            const kvg_model_node *n = &m->nodes[i];
            bool stays = kvg_model_alive(m, n->id, n->unique_id) && n->depth == 0;
            for (uint32_t j = 0; n->depth && !stays && j < m->node_count; j++) {
                stays = m->nodes[j].tag == n->parent_tag && m->nodes[j].depth + 1 == n->depth &&
                        kvg_model_alive(m, n->id, n->unique_id);
            }
            if (stays) m->nodes[kept++] = *n;
        }
        changed = kept < m->node_count;
        m->node_count = kept;
    }
}

static uint32_t publish(kvg_pool_model *m, const kvg_model_sequence *q)
{
    uint64_t parent = 0;
    uint32_t added = 0;
    for (uint32_t depth = 0; depth < q->cache_len / m->span; depth++) {
        bool collision;
        const uint64_t hash = hash_of(m, parent, q, depth);
        if (!find_node(m, q, depth, hash, &collision)) {
            if (collision || q->ids[depth] == KVG_BLOCK_NONE) break;
            m->nodes = kvg_model_room(m->nodes, &m->node_room, m->node_count + 1ull, sizeof *m->nodes);
            m->nodes[m->node_count++] =
                (kvg_model_node){q->tags[(depth + 1) * m->span - 1], tag_before(q, depth * m->span), hash, depth,
                                 q->ids[depth], q->unique_ids[depth]};
            added++;
        }
        parent = hash;
    }
    return added;
}

/* The matched chain behind what a cached sequence has; its entries from there on are replaced. */
uint32_t kvg_model_take_match(kvg_pool_model *m, kvg_model_sequence *q, uint32_t context)
{
    const uint32_t shown = q->count < context ? q->count : context, have = q->cache_len / m->span;
    const kvg_model_node *chain;
    uint64_t parent = 0;
    uint32_t ids[KVG_POOL_MAX_ITEMS], n = 0;
    uint64_t unique_ids[KVG_POOL_MAX_ITEMS];
    while (shown && n < (shown - 1) / m->span && n < KVG_POOL_MAX_ITEMS) {
        bool collision;
        parent = hash_of(m, parent, q, n);
        chain = find_node(m, q, n, parent, &collision);
        if (!chain) break;
        ids[n] = chain->id;
        unique_ids[n++] = chain->unique_id;
    }
    if (n <= have) return 0;
    q->blocks = have;
    for (uint32_t i = have; i < n; i++) kvg_model_add_block(q, ids[i], unique_ids[i]);
    q->cache_len = n * m->span;
    make_holes(m, q);
    return n - have;
}

/* --- deferred work --- */

void kvg_model_commit(kvg_pool_model *m)
{
    kvg_model_unlock(m, m->unlocks.ids, m->unlocks.count, NULL);
    m->unlocks.count = 0;
    for (uint32_t i = 0; i < m->frees.count; i++) {
        const kvg_model_block *b = &m->pool.block[m->frees.ids[i]];
        if (b->unique_id == m->free_lives[i] && b->use_count == 0) kvg_model_free(m, &m->frees.ids[i], 1);
    }
    m->frees.count = 0;
}

/* Without an index: the block goes free at the next commit, if nobody holds it then. */
static void free_later(kvg_pool_model *m, uint32_t id, uint64_t unique_id)
{
    if (m->geometry.prefix) return;
    m->free_lives = kvg_model_room(m->free_lives, &m->free_life_room, m->frees.count + 1ull, sizeof *m->free_lives);
    m->free_lives[m->frees.count] = unique_id;
    kvg_id_list_add(&m->frees, id);
}

/* --- operations --- */

static void erase(kvg_pool_model *m, kvg_model_sequence *q)
{
    for (uint32_t i = q->holes; i < q->blocks; i++) free_later(m, q->ids[i], q->unique_ids[i]);
    if (kvg_model_holds(q)) kvg_model_let_go(m, q, false);
    remove_sequence(m, q);
}

static kvg_status create(kvg_pool_model *m, const kvg_pool_op *op)
{
    const uint32_t count = op->shared + op->tail;
    kvg_model_sequence *old = kvg_pool_model_find(m, op->sequence);
    if (count == 0) return KVG_ERR_INVALID;
    if (old) erase(m, old);
    kvg_model_sequence *q = add_sequence(m, op->sequence, op->domain);
    for (uint32_t i = 0; i < count; i++) add_token(q, kvg_pool_create_token(&m->geometry, op, i));
    q->prompt = count;
    return KVG_OK;
}

static kvg_status written(kvg_pool_model *m, kvg_model_sequence *q, uint32_t count, kvg_pool_expectation *expect)
{
    if (q->state != KVG_SEQUENCE_ACTIVE || count > q->granted || q->cache_len + count > q->count) {
        return KVG_ERR_INVALID;
    }
    const bool full = (q->cache_len + count) / m->span > q->cache_len / m->span;
    q->cache_len += count;
    q->granted = 0;
    if (m->geometry.prefix && full) expect->published = publish(m, q);
    const uint32_t holes = holes_at(m, q->cache_len);
    for (uint32_t i = q->holes; i < holes && i < q->blocks; i++) {
        kvg_id_list_add(&m->unlocks, q->ids[i]);
        free_later(m, q->ids[i], q->unique_ids[i]);
        expect->windowed++;
    }
    make_holes(m, q);
    return KVG_OK;
}

static kvg_status fork_sequence(kvg_pool_model *m, const kvg_model_sequence *parent, uint64_t child)
{
    if (kvg_pool_model_find(m, child)) return KVG_ERR_INVALID;
    kvg_model_sequence *q = add_sequence(m, child, parent->domain);
    for (uint32_t i = 0; i < parent->count; i++) add_token(q, parent->tokens[i]);
    q->prompt = parent->prompt;
    q->state = kvg_model_holds(parent) ? KVG_SEQUENCE_LOCKED : KVG_SEQUENCE_CACHED;
    q->cache_len = parent->cache_len;
    q->holes = parent->holes;
    const bool tail = kvg_model_holds(parent) && parent->granted == 0;
    if (!tail) q->cache_len -= q->cache_len % m->span;
    const uint32_t blocks = q->cache_len / m->span + (q->cache_len % m->span > 0);
    for (uint32_t i = 0; i < blocks; i++) kvg_model_add_block(q, parent->ids[i], parent->unique_ids[i]);
    shorten(m, q, blocks, q->cache_len);
    if (kvg_model_holds(q)) kvg_model_lock(m, q->ids + q->holes, q->blocks - q->holes, NULL);
    return KVG_OK;
}

uint32_t kvg_pool_model_context(const kvg_pool_model *model, const kvg_pool_item *item)
{
    const kvg_model_sequence *q = kvg_pool_model_find(model, item->id);
    const int64_t context = (q ? q->count : 0) + (int64_t)item->extra;
    return context < 0 ? 0 : (uint32_t)context;
}

uint32_t kvg_pool_model_reported(const kvg_pool_model *model, const kvg_pool_op *op)
{
    const kvg_model_sequence *q = kvg_pool_model_find(model, op->sequence);
    const int64_t count = (q ? q->granted : 0) + (int64_t)op->over;
    return count < 0 ? 0 : (uint32_t)count;
}

/* --- one operation --- */

static kvg_status on_one(kvg_pool_model *m, const kvg_pool_op *op, kvg_pool_expectation *expect)
{
    kvg_model_sequence *q = kvg_pool_model_find(m, op->sequence);
    if (!q) return KVG_ERR_NOT_FOUND;
    switch (op->verb) {
    case KVG_POOL_APPEND:
        for (uint32_t i = 0; i < op->count; i++) {
            add_token(q, kvg_pool_own_token(op->seed, i, m->geometry.vocabulary));
        }
        break;
    case KVG_POOL_WRITTEN: return written(m, q, kvg_pool_model_reported(m, op), expect);
    case KVG_POOL_RELEASE:
    case KVG_POOL_PREEMPT:
        if (kvg_model_holds(q)) kvg_model_let_go(m, q, op->verb == KVG_POOL_PREEMPT);
        break;
    case KVG_POOL_FORK: return fork_sequence(m, q, op->child);
    case KVG_POOL_ERASE: erase(m, q); break;
    case KVG_POOL_VERIFY:
        if (!kvg_model_holds(q)) kvg_model_cut_dead(m, q);
        expect->number = q->blocks;
        break;
    default: break;
    }
    return KVG_OK;
}

void kvg_model_apply_sequences(kvg_pool_model *m, const kvg_pool_op *op, kvg_pool_expectation *expect)
{
    kvg_status s = KVG_OK;
    switch (op->verb) {
    case KVG_POOL_CREATE: s = create(m, op); break;
    case KVG_POOL_COMMIT: kvg_model_commit(m); break;
    case KVG_POOL_READ: break;
    case KVG_POOL_EVICT:
        s = kvg_model_evict(m, op->count, &expect->ids);
        kvg_model_prune(m);
        break;
    default: s = on_one(m, op, expect); break;
    }
    if (s) expect->refusals = 1u << s;
}
