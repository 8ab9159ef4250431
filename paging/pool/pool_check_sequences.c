/* What must hold of sequences and of the prefix index, and the simulated cache behind them. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "paging/pool/pool_check.h"

/* --- holders --- */

/* A sequence's block table into the scratch arrays; false if it cannot be read or is out of range. */
static bool read_table(kvg_pool_checker *c, uint64_t id, const kvg_sequence_info *info)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    if (!KVG_HOLDS(c, KVG_RULE_PLACES,
                   info->holes <= info->blocks && info->blocks - info->holes <= c->model->pool.capacity,
                   "sequence %" PRIu64 " has a table of %u blocks, %u holes; the pool has %u", id, info->blocks,
                   info->holes, c->model->pool.capacity)) return false;
    uint32_t room = c->table_room;
    c->scratch_ids = kvg_model_room(c->scratch_ids, &room, info->blocks, sizeof *c->scratch_ids);
    c->scratch_unique = kvg_model_room(c->scratch_unique, &c->table_room, info->blocks, sizeof *c->scratch_unique);
    const kvg_status s = p->ops->table(p->self, id, 0, info->blocks, c->scratch_ids, c->scratch_unique);
    if (!KVG_HOLDS(c, KVG_RULE_STATUS, s == KVG_OK, "sequence %" PRIu64 ": table: %s", id, kvg_error_text())) {
        return false;
    }
    for (uint32_t i = 0; i < info->blocks; i++) {
        const uint32_t block = c->scratch_ids[i];
        const bool hole = i < info->holes;
        if (!KVG_HOLDS(c, KVG_RULE_PLACES, hole ? block == KVG_BLOCK_NONE && c->scratch_unique[i] == 0
                                                : block < c->total[KVG_POOL_DATA],
                       "sequence %" PRIu64 ", entry %u of its table: block %u, %u holes, %u blocks exist", id, i, block,
                       info->holes, c->total[KVG_POOL_DATA])) return false;
    }
    return true;
}

/* Locked and active sequences hold their blocks, alive and each once. */
static bool count_holder(kvg_pool_checker *c, uint64_t id, const kvg_sequence_info *info)
{
    for (uint32_t i = info->holes; i < info->blocks; i++) {
        const kvg_block *b = &c->now[KVG_POOL_DATA][c->scratch_ids[i]];
        c->holders[c->scratch_ids[i]]++;
        if (!KVG_HOLDS(c, KVG_RULE_DEAD, b->use_count && b->unique_id == c->scratch_unique[i],
                       "sequence %" PRIu64 " holds block %u as unique id %" PRIu64 "; it has use count %u, unique id %"
                       PRIu64, id, b->id, c->scratch_unique[i], b->use_count, b->unique_id)) return false;
        for (uint32_t j = i + 1; j < info->blocks; j++) {
            if (!KVG_HOLDS(c, KVG_RULE_PLACES, c->scratch_ids[j] != c->scratch_ids[i],
                           "sequence %" PRIu64 " lists block %u as entries %u and %u", id, b->id, i, j)) return false;
        }
    }
    return true;
}

static bool check_use_counts(kvg_pool_checker *c)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    kvg_sequence_counts n;
    uint64_t waiting = 0;
    p->ops->counts(p->self, &n);
    for (uint32_t id = 0; id < c->total[KVG_POOL_DATA]; id++) {
        const uint32_t use = c->now[KVG_POOL_DATA][id].use_count;
        if (!KVG_HOLDS(c, KVG_RULE_HOLDERS, use >= c->holders[id], "block %u: use count %u, %u sequences hold it", id,
                       use, c->holders[id])) return false;
        waiting += use - c->holders[id];
    }
    if (!KVG_HOLDS(c, KVG_RULE_HOLDERS, waiting == n.pending_unlocks,
                   "%" PRIu64 " uses have no holder, %u unlocks wait", waiting, n.pending_unlocks)) return false;
    return KVG_HOLDS(c, KVG_RULE_MODEL, n.sequences == c->model->sequence_count &&
                     n.pending_unlocks == c->model->unlocks.count && n.pending_frees == c->model->frees.count,
                     "%u sequences, %u unlocks and %u frees wait; expected %u, %u, %u", n.sequences, n.pending_unlocks,
                     n.pending_frees, c->model->sequence_count, c->model->unlocks.count, c->model->frees.count);
}

/* --- one sequence --- */

static bool check_info(kvg_pool_checker *c, const kvg_model_sequence *q, const kvg_sequence_info *info)
{
    const kvg_prefix_key key = kvg_pool_domain_key(q->domain);
    return KVG_HOLDS(c, KVG_RULE_MODEL,
                     info->id == q->id && info->key.lora == key.lora && info->key.salt == key.salt &&
                         info->key.extra == key.extra && info->state == q->state && info->tokens == q->count &&
                         info->prompt == q->prompt && info->cache_len == q->cache_len && info->blocks == q->blocks &&
                         info->holes == q->holes && info->granted == q->granted,
                     "sequence %" PRIu64 ": state %d, %u tokens (prompt %u), %u cached, %u blocks, %u holes, %u granted"
                     "; expected %d, %u (%u), %u, %u, %u, %u", q->id, info->state, info->tokens, info->prompt,
                     info->cache_len, info->blocks, info->holes, info->granted, q->state, q->count, q->prompt,
                     q->cache_len, q->blocks, q->holes, q->granted);
}

static bool check_table(kvg_pool_checker *c, const kvg_model_sequence *q)
{
    for (uint32_t i = 0; i < q->blocks; i++) {
        if (!KVG_HOLDS(c, KVG_RULE_MODEL, c->scratch_ids[i] == q->ids[i] && c->scratch_unique[i] == q->unique_ids[i],
                       "sequence %" PRIu64 ", entry %u: block %u, unique id %" PRIu64 "; expected %u, %" PRIu64, q->id,
                       i, c->scratch_ids[i], c->scratch_unique[i], q->ids[i], q->unique_ids[i])) return false;
    }
    return true;
}

/* The first key that a query at the cache's end sees. */
static uint32_t first_visible(const kvg_pool_checker *c, uint32_t query)
{
    const uint32_t window = (uint32_t)c->model->geometry.window;
    return window == 0 || query < window ? 0 : query - window + 1;
}

/* Written tokens that the next query sees lie in blocks; whole blocks before them are left behind. */
static bool check_window(kvg_pool_checker *c, const kvg_sequence_info *info)
{
    const uint32_t visible = first_visible(c, info->cache_len), span = c->model->span;
    if (!KVG_HOLDS(c, KVG_RULE_WINDOW, (uint64_t)info->holes * span <= visible,
                   "sequence %" PRIu64 ": %u holes of %u tokens, token %u is visible", info->id, info->holes, span,
                   visible)) return false;
    const bool settled = info->granted == 0; /* a running step is left behind when it is reported */
    return KVG_HOLDS(c, KVG_RULE_WINDOW, !settled || info->holes == info->blocks ||
                     (info->holes + 1ull) * span > visible,
                     "sequence %" PRIu64 ": entry %u ends before token %u, the first that is visible, and is held",
                     info->id, info->holes, visible);
}

/* A sequence that has just let go: it was touched from the tail on. */
static bool check_let_go(kvg_pool_checker *c, const kvg_sequence_info *info)
{
    for (uint32_t i = info->holes + 1; i < info->blocks; i++) {
        const kvg_block *before = &c->now[KVG_POOL_DATA][c->scratch_ids[i - 1]];
        const kvg_block *b = &c->now[KVG_POOL_DATA][c->scratch_ids[i]];
        if (!KVG_HOLDS(c, KVG_RULE_AGES, b->timestamp < before->timestamp,
                       "sequence %" PRIu64 ", entry %u: block %u is newer than block %u before it", info->id, i, b->id,
                       before->id)) return false;
    }
    return true;
}

static bool concerns(const kvg_pool_op *op, uint64_t id)
{
    for (uint32_t i = 0; i < op->item_count; i++) {
        if (op->items[i].id == id) return true;
    }
    return op->sequence == id || op->child == id;
}

static bool check_sequence(kvg_pool_checker *c, const kvg_model_sequence *q)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    kvg_sequence_info info;
    const kvg_status s = p->ops->get(p->self, q->id, &info);
    if (!KVG_HOLDS(c, KVG_RULE_STATUS, s == KVG_OK, "sequence %" PRIu64 ": get: %s", q->id, kvg_error_text()) ||
        !read_table(c, q->id, &info)) return false;
    if (info.state == KVG_SEQUENCE_CACHED) {
        if (c->let_go == q && !check_let_go(c, &info)) return false;
    } else if (!count_holder(c, q->id, &info) || !check_window(c, &info)) {
        return false;
    }
    return check_info(c, q, &info) && check_table(c, q);
}

/* --- the index --- */

typedef struct index_walk {
    kvg_pool_checker *c;
    uint32_t reached; /* nodes that are alive with all that come before them */
} index_walk;

static uint64_t hash_of(const kvg_pool_checker *c, uint64_t parent, const kvg_prefix_node *node)
{
    const int64_t bits = c->model->geometry.hash_bits;
    const uint64_t hash = kvg_prefix_hash_default(NULL, parent, &node->key, node->tokens, c->model->span);
    return bits == 0 ? 0 : hash >> (64 - bits);
}

/* Every slot of the node's block holds its tokens, in both pools. *tag: of key and tokens before; then of all. */
static bool check_slots_of_node(kvg_pool_checker *c, const kvg_prefix_node *node, uint64_t *tag)
{
    const uint32_t ranks = (uint32_t)c->model->geometry.cp_size, size = (uint32_t)c->model->geometry.block_tokens;
    const uint64_t stride = (uint64_t)size * c->model->pool.capacity;
    for (uint32_t i = 0; i < c->model->span; i++) {
        *tag = kvg_pool_next_tag(*tag, node->tokens[i]);
        const uint64_t at = i % ranks * stride + (uint64_t)node->block.id * size + i / ranks;
        for (int side = 0; side < KVG_POOL_SIDES; side++) {
            if (!c->stack->view[side].ops) continue;
            if (!KVG_HOLDS(c, KVG_RULE_PUBLISHED, c->tags[side][at] == *tag,
                           "block %u is in the index at depth %u; its token %u is not what its slot holds",
                           node->block.id, node->depth, i)) return false;
        }
    }
    return true;
}

static bool see_node(void *context, const kvg_prefix_node *node)
{
    index_walk *walk = context;
    kvg_pool_checker *c = walk->c;
    const uint32_t id = node->block.id, total = c->total[KVG_POOL_DATA];
    const bool root = node->parent_block == KVG_BLOCK_NONE;
    if (!KVG_HOLDS(c, KVG_RULE_PLACES, id < total && root == (node->depth == 0) && (root || node->parent_block < total),
                   "the index has block %u below block %u at depth %u", id, node->parent_block, node->depth)) {
        return false;
    }
    const kvg_block *b = &c->now[KVG_POOL_DATA][id];
    if (!b->timestamp || b->unique_id != node->block.unique_id) return true; /* dead: cannot be matched */
    if (!root && !c->node_seen[node->parent_block]) return true;            /* nor can what comes after a dead one */
    uint64_t tag = root ? kvg_pool_key_tag(&node->key) : c->node_tags[node->parent_block];
    const uint64_t hash = hash_of(c, root ? 0 : c->node_hashes[node->parent_block], node);
    if (!check_slots_of_node(c, node, &tag) ||
        !KVG_HOLDS(c, KVG_RULE_PUBLISHED, node->hash == hash && !c->node_seen[id],
                   "block %u is in the index at depth %u under a hash that is not its tokens', or twice", id,
                   node->depth)) return false;
    c->node_seen[id] = true;
    c->node_tags[id] = tag;
    c->node_hashes[id] = hash;
    walk->reached++;
    return true;
}

static bool check_index(kvg_pool_checker *c)
{
    const kvg_prefix_pool *p = &c->stack->prefix;
    index_walk walk = {.c = c};
    if (!p->ops) return true;
    memset(c->node_seen, 0, c->total[KVG_POOL_DATA] * sizeof *c->node_seen);
    p->ops->visit(p->self, see_node, &walk);
    if (c->broken) return false;
    for (uint32_t i = 0; i < c->model->node_count; i++) {
        const kvg_model_node *must = &c->model->nodes[i];
        if (!KVG_HOLDS(c, KVG_RULE_MODEL, c->node_seen[must->id] && c->node_tags[must->id] == must->tag,
                       "block %u should be in the index at depth %u", must->id, must->depth)) return false;
    }
    return KVG_HOLDS(c, KVG_RULE_MODEL, walk.reached == c->model->node_count,
                     "the index has %u blocks that can be matched, expected %u", walk.reached, c->model->node_count);
}

bool kvg_pool_check_sequences(kvg_pool_checker *c, const kvg_pool_op *op, bool full)
{
    const kvg_pool_model *m = c->model;
    if (full) memset(c->holders, 0, c->total[KVG_POOL_DATA] * sizeof *c->holders);
    for (uint32_t i = 0; i < m->sequence_count; i++) {
        if ((full || concerns(op, m->sequences[i]->id)) && !check_sequence(c, m->sequences[i])) return false;
    }
    return !full || (check_use_counts(c) && check_index(c));
}

/* --- the simulated cache --- */

static uint64_t *tag_at(kvg_pool_checker *c, int side, uint32_t rank, int64_t slot)
{
    const uint64_t stride = (uint64_t)c->model->geometry.block_tokens * c->model->pool.capacity;
    return &c->tags[side][rank * stride + (uint64_t)slot];
}

/* What is done with a token's slot; false ends the walk. */
typedef bool (*use_slot)(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t t, uint32_t rank, int64_t slot);

/* Tokens first to first + n - 1 of a sequence on every rank, each with the slot that the manager gives. A token has its
 * place in the table: entry t / span; on rank t mod cp_size alone; at offset t / cp_size mod block_tokens. */
static bool walk_slots(kvg_pool_checker *c, const kvg_model_sequence *q, const kvg_sequence_info *info, uint32_t first,
                       uint32_t n, use_slot use)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    const uint32_t ranks = (uint32_t)c->model->geometry.cp_size, size = (uint32_t)c->model->geometry.block_tokens;
    if (n == 0 || !read_table(c, q->id, info)) return n == 0;
    if (!KVG_HOLDS(c, KVG_RULE_PLACES, first + n <= (uint64_t)info->blocks * c->model->span,
                   "sequence %" PRIu64 ": tokens %u to %u of a table of %u blocks", q->id, first, first + n,
                   info->blocks)) return false;
    c->slots = kvg_model_room(c->slots, &c->slot_room, n, sizeof *c->slots);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const kvg_status s = p->ops->slots(p->self, q->id, rank, first, n, c->slots);
        if (!KVG_HOLDS(c, KVG_RULE_STATUS, s == KVG_OK, "sequence %" PRIu64 ": slots of tokens %u to %u: %s", q->id,
                       first, first + n, kvg_error_text())) return false;
        for (uint32_t t = first; t < first + n; t++) {
            const uint32_t block = c->scratch_ids[t / c->model->span];
            const int64_t slot = c->slots[t - first];
            const int64_t must = t % ranks != rank || block == KVG_BLOCK_NONE
                                     ? -1 : (int64_t)block * size + t / ranks % size;
            if (!KVG_HOLDS(c, KVG_RULE_PLACES, slot == must,
                           "sequence %" PRIu64 ": token %u has slot %" PRId64 " on rank %u, its table says %" PRId64,
                           q->id, t, slot, rank, must)) return false;
            if (t % ranks == rank && !use(c, q, t, rank, slot)) return false;
        }
    }
    return true;
}

void kvg_pool_copy(kvg_pool_checker *c, const kvg_sequence_grant *grant)
{
    const uint32_t ranks = (uint32_t)c->model->geometry.cp_size, size = (uint32_t)c->model->geometry.block_tokens;
    if (grant->copy_from >= c->total[KVG_POOL_DATA] || grant->copy_to >= c->total[KVG_POOL_DATA]) return;
    for (uint32_t t = 0; t < grant->copy_tokens && t < c->model->span; t++) {
        const int64_t offset = t / ranks;
        for (int side = 0; side < KVG_POOL_SIDES; side++) {
            *tag_at(c, side, t % ranks, (int64_t)grant->copy_to * size + offset) =
                *tag_at(c, side, t % ranks, (int64_t)grant->copy_from * size + offset);
        }
    }
}

/* Drafts leave something in their slots too: a tag that is nobody's. */
static bool write_slot(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t t, uint32_t rank, int64_t slot)
{
    if (!KVG_HOLDS(c, KVG_RULE_WINDOW, slot >= 0, "sequence %" PRIu64 " must write token %u into a hole", q->id, t)) {
        return false;
    }
    const uint32_t block = (uint32_t)(slot / c->model->geometry.block_tokens);
    if (!KVG_HOLDS(c, KVG_RULE_SHARED_WRITE, c->holders[block] == 1,
                   "sequence %" PRIu64 " writes token %u into block %u, which %u sequences hold", q->id, t, block,
                   c->holders[block])) return false;
    const bool known = t < c->drafts && t < q->count;
    const uint64_t tag = known ? q->tags[t] : kvg_pool_next_tag(~q->tags[q->count - 1], (int32_t)t);
    for (int side = 0; side < KVG_POOL_SIDES; side++) *tag_at(c, side, rank, slot) = tag;
    return true;
}

static bool read_slot(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t t, uint32_t rank, int64_t slot)
{
    if (!KVG_HOLDS(c, KVG_RULE_WINDOW, slot >= 0, "sequence %" PRIu64 " sees token %u, but left it behind", q->id, t)) {
        return false;
    }
    for (int side = 0; side < KVG_POOL_SIDES; side++) {
        if (!c->stack->view[side].ops) continue;
        if (!KVG_HOLDS(c, KVG_RULE_TAGS, *tag_at(c, side, rank, slot) == q->tags[t],
                       "sequence %" PRIu64 ": token %u, slot %" PRId64 " of rank %u of the %s pool, is not what was "
                       "written for it", q->id, t, slot, rank, side == KVG_POOL_DATA ? "data" : "scale")) return false;
    }
    return true;
}

static bool ignore_slot(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t t, uint32_t rank, int64_t slot)
{
    (void)c, (void)q, (void)t, (void)rank, (void)slot;
    return true;
}

bool kvg_pool_check_slots(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t first, uint32_t n)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    kvg_sequence_info info;
    return p->ops->get(p->self, q->id, &info) || walk_slots(c, q, &info, first, n, ignore_slot);
}

/* The holders of every block, from the managers' tables. */
static bool count_all_holders(kvg_pool_checker *c)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    memset(c->holders, 0, c->total[KVG_POOL_DATA] * sizeof *c->holders);
    for (uint32_t i = 0; i < c->model->sequence_count; i++) {
        kvg_sequence_info info;
        if (p->ops->get(p->self, c->model->sequences[i]->id, &info)) continue;
        if (info.state == KVG_SEQUENCE_CACHED) continue;
        if (!read_table(c, info.id, &info)) return false;
        for (uint32_t j = info.holes; j < info.blocks; j++) c->holders[c->scratch_ids[j]]++;
    }
    return true;
}

bool kvg_pool_write(kvg_pool_checker *c, const kvg_model_sequence *q, uint32_t reported)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    kvg_sequence_info info;
    if (p->ops->get(p->self, q->id, &info) || info.granted == 0) return true;
    c->drafts = info.cache_len + reported;
    return count_all_holders(c) && walk_slots(c, q, &info, info.cache_len, info.granted, write_slot);
}

static bool check_grant(kvg_pool_checker *c, const kvg_model_sequence *q, const kvg_sequence_grant *grant)
{
    const kvg_sequence_pool *p = &c->stack->sequences;
    const uint32_t span = c->model->span;
    kvg_sequence_info info;
    if (p->ops->get(p->self, q->id, &info)) return true; /* found already */
    if (!KVG_HOLDS(c, KVG_RULE_MATCH, (uint64_t)grant->matched * span < q->count,
                   "sequence %" PRIu64 " of %u tokens: %u blocks of %u matched: the whole prompt", q->id, q->count,
                   grant->matched, span)) return false;
    if (!grant->active) return true;
    if (!KVG_HOLDS(c, KVG_RULE_READ_ONLY, grant->first == info.cache_len && grant->read_only == grant->first / span &&
                   info.cache_len < q->count + grant->count,
                   "sequence %" PRIu64 ": writes from token %u on, %u cached, %u blocks of %u read-only", q->id,
                   grant->first, info.cache_len, grant->read_only, span)) return false;
    const uint32_t first = first_visible(c, info.cache_len);
    if (info.cache_len > q->count) return true; /* the model's to say */
    if (!walk_slots(c, q, &info, first, info.cache_len - first, read_slot)) return false;
    if (grant->first % span == 0 || !read_table(c, q->id, &info)) return !c->broken;
    const uint32_t tail = c->scratch_ids[grant->first / span];
    return KVG_HOLDS(c, KVG_RULE_READ_ONLY, tail == KVG_BLOCK_NONE || c->holders[tail] == 1,
                     "sequence %" PRIu64 " writes on in block %u, its partial tail, which %u sequences hold", q->id,
                     tail, tail == KVG_BLOCK_NONE ? 0 : c->holders[tail]);
}

bool kvg_pool_check_grants(kvg_pool_checker *c, const kvg_sequence_grant *grants, uint32_t count)
{
    if (!count_all_holders(c)) return false;
    for (uint32_t i = 0; i < count; i++) {
        const kvg_model_sequence *q = kvg_pool_model_find(c->model, grants[i].sequence);
        if (!KVG_HOLDS(c, KVG_RULE_STATUS, q != NULL, "a grant for sequence %" PRIu64 ", which was not asked for",
                       grants[i].sequence) || !check_grant(c, q, &grants[i])) return false;
    }
    return true;
}
