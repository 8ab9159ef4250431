/* The functions that paging/pool/pool_defects.def puts into the gates of index and sequences, and the table. Each
 * answers wrongly in one way. */
#include "paging/pool/pool_defects.h"

#include <string.h>

#include "core/name.h"
#include "paging/pool/pool_defects_blocks.h"

/* --- prefix cache --- */

/* What a wrong match still compares. */
typedef struct longer {
    const kvg_prefix_gate *gate;
    const int32_t *tokens; /* of the block looked for */
    uint32_t span, depth, parent;
    bool by_sum, dead; /* tokens by their sum alone; dead blocks too */
    kvg_block found;
    bool has_found;
} longer;

static bool see_longer(void *context, const kvg_prefix_node *node)
{
    longer *x = context;
    uint32_t sum = 0;
    bool same = true;
    if (node->depth != x->depth || node->parent_block != x->parent) return true;
    for (uint32_t i = 0; i < x->span; i++) {
        sum += (uint32_t)node->tokens[i] - (uint32_t)x->tokens[i];
        same &= node->tokens[i] == x->tokens[i];
    }
    const kvg_block b = kvg_defect_block(&x->gate->stack->block_gates[KVG_POOL_DATA], node->block.id);
    const bool alive = b.timestamp && b.unique_id == node->block.unique_id;
    if (!(x->by_sum ? sum % 8 == 0 : same) || (!alive && !x->dead)) return true;
    x->found = node->block;
    x->has_found = true;
    return false;
}

/* Goes on with a match where the index ended it. */
static kvg_status match_longer(kvg_prefix_gate *g, const kvg_prefix_key *key, const int32_t *tokens, size_t count,
                               uint32_t *ids, uint64_t *unique_ids, uint32_t *matched, longer x)
{
    kvg_status s = BELOW(g, match, key, tokens, count, ids, unique_ids, matched);
    x.gate = g;
    x.span = (uint32_t)(g->stack->geometry.block_tokens * g->stack->geometry.cp_size);
    while (!s && *matched < (count - 1) / x.span) {
        x.tokens = tokens + (size_t)*matched * x.span;
        x.depth = *matched;
        x.parent = *matched ? ids[*matched - 1] : KVG_BLOCK_NONE;
        x.has_found = false;
        BELOW(g, visit, see_longer, &x);
        if (!x.has_found) break;
        ids[*matched] = x.found.id;
        unique_ids[*matched] = x.found.unique_id;
        ++*matched;
    }
    return s;
}

static kvg_status match_weak(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids,
                             uint64_t *unique_ids, uint32_t *matched)
{
    return match_longer(self, key, tokens, count, ids, unique_ids, matched, (longer){.by_sum = true});
}

static kvg_status match_dead(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids,
                             uint64_t *unique_ids, uint32_t *matched)
{
    return match_longer(self, key, tokens, count, ids, unique_ids, matched, (longer){.dead = true});
}

static kvg_status forget_nothing(void *self, const uint32_t *ids, uint32_t n, uint32_t *dropped)
{
    (void)self, (void)ids, (void)n;
    if (dropped) *dropped = 0;
    return KVG_OK;
}

/* What a node was made with is shown; what its tokens are now is not. */
typedef struct stale_visit {
    bool (*see)(void *context, const kvg_prefix_node *node);
    void *context;
} stale_visit;

static bool see_stale(void *context, const kvg_prefix_node *node)
{
    const stale_visit *visit = context;
    kvg_prefix_node stale = *node;
    if (node->depth) stale.hash++;
    return visit->see(visit->context, &stale);
}

static uint32_t visit_stale_hash(void *self, bool (*see)(void *context, const kvg_prefix_node *node), void *context)
{
    kvg_prefix_gate *g = self;
    stale_visit visit = {see, context};
    return BELOW(g, visit, see_stale, &visit);
}

/* A key with something lost, for match and publish alike. */
#define WRONG_KEY(name, change) \
    static kvg_status match_##name(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, \
                                   uint32_t *ids, uint64_t *unique_ids, uint32_t *matched) \
    { \
        kvg_prefix_gate *g = self; \
        kvg_prefix_key k = *key; \
        change; \
        return BELOW(g, match, &k, tokens, count, ids, unique_ids, matched); \
    } \
    static kvg_status publish_##name(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks, \
                                     const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published) \
    { \
        kvg_prefix_gate *g = self; \
        kvg_prefix_key k = *key; \
        change; \
        return BELOW(g, publish, &k, tokens, blocks, ids, unique_ids, published); \
    }

WRONG_KEY(no_lora, k.lora = 0)
WRONG_KEY(no_salt, k.salt = 0)
WRONG_KEY(no_extra, k.extra = 0)
WRONG_KEY(untagged, (k.lora += k.salt, k.salt = 0))
WRONG_KEY(32_bits, (k.lora = (uint32_t)k.lora, k.salt = (uint32_t)k.salt, k.extra = (uint32_t)k.extra))

/* The last token is the one of the publish before. notes: [0] that token + 1 */
static kvg_status publish_stale(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks,
                                const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published)
{
    kvg_prefix_gate *g = self;
    const size_t n = (size_t)blocks * (size_t)(g->stack->geometry.block_tokens * g->stack->geometry.cp_size);
    int32_t stale[4096];
    if (n == 0 || n > 4096) return BELOW(g, publish, key, tokens, blocks, ids, unique_ids, published);
    memcpy(stale, tokens, n * sizeof *stale);
    if (g->stack->notes[0]) stale[n - 1] = (int32_t)(g->stack->notes[0] - 1);
    g->stack->notes[0] = (uint64_t)tokens[n - 1] + 1;
    return BELOW(g, publish, key, stale, blocks, ids, unique_ids, published);
}

/* notes: [0] hash of the query, [1] matched, [2 ...] id and unique id in turn */
static kvg_status match_memoised(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count,
                                 uint32_t *ids, uint64_t *unique_ids, uint32_t *matched)
{
    kvg_prefix_gate *g = self;
    uint64_t *notes = g->stack->notes;
    const uint64_t query = kvg_prefix_hash_default(NULL, count, key, tokens, (uint32_t)count);
    if (notes[0] == query) {
        *matched = (uint32_t)notes[1];
        for (uint32_t i = 0; i < *matched; i++) {
            ids[i] = (uint32_t)notes[2 + 2 * i];
            unique_ids[i] = notes[3 + 2 * i];
        }
        return KVG_OK;
    }
    const kvg_status s = BELOW(g, match, key, tokens, count, ids, unique_ids, matched);
    if (s || *matched == 0 || 2 + 2 * *matched > KVG_POOL_NOTES) return s;
    notes[0] = query;
    notes[1] = *matched;
    for (uint32_t i = 0; i < *matched; i++) {
        notes[2 + 2 * i] = ids[i];
        notes[3 + 2 * i] = unique_ids[i];
    }
    return KVG_OK;
}

static kvg_status publish_holes(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks,
                                const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published)
{
    kvg_prefix_gate *g = self;
    const kvg_block zero = kvg_defect_block(&g->stack->block_gates[KVG_POOL_DATA], 0);
    uint32_t filled[KVG_DEFECT_MOST];
    uint64_t filled_unique[KVG_DEFECT_MOST];
    if (blocks > KVG_DEFECT_MOST || !zero.timestamp) {
        return BELOW(g, publish, key, tokens, blocks, ids, unique_ids, published);
    }
    for (uint32_t i = 0; i < blocks; i++) {
        const bool hole = ids[i] == KVG_BLOCK_NONE;
        filled[i] = hole ? 0 : ids[i];
        filled_unique[i] = hole ? zero.unique_id : unique_ids[i];
    }
    return BELOW(g, publish, key, tokens, blocks, filled, filled_unique, published);
}

/* --- sequences --- */

static kvg_status materialise_and_publish(void *self, const kvg_sequence_request *requests, uint32_t count,
                                          kvg_sequence_grant *grants)
{
    kvg_sequence_gate *g = self;
    const kvg_prefix_pool *index = &g->stack->prefix;
    const uint32_t span = (uint32_t)(g->stack->geometry.block_tokens * g->stack->geometry.cp_size);
    const kvg_status s = BELOW(g, materialise, requests, count, grants);
    for (uint32_t i = 0; !s && index->ops && i < count; i++) {
        int32_t tokens[4096];
        uint32_t ids[KVG_DEFECT_MOST];
        uint64_t unique_ids[KVG_DEFECT_MOST];
        kvg_sequence_info info;
        if (!grants[i].active || BELOW(g, get, grants[i].sequence, &info)) continue;
        const uint32_t end = grants[i].first + grants[i].count;
        const uint32_t blocks = (end < info.tokens ? end : info.tokens) / span;
        if (blocks > KVG_DEFECT_MOST || blocks * span > 4096) continue;
        if (BELOW(g, tokens, info.id, 0, blocks * span, tokens)) continue;
        if (BELOW(g, table, info.id, 0, blocks, ids, unique_ids)) continue;
        if (index->ops->publish(index->self, &info.key, tokens, blocks, ids, unique_ids, NULL)) continue;
    }
    return s;
}

/* What a manager would answer that had matched every block of the prompt. */
static kvg_status materialise_whole_prompt(void *self, const kvg_sequence_request *requests, uint32_t count,
                                           kvg_sequence_grant *grants)
{
    kvg_sequence_gate *g = self;
    const uint32_t span = (uint32_t)(g->stack->geometry.block_tokens * g->stack->geometry.cp_size);
    const kvg_status s = BELOW(g, materialise, requests, count, grants);
    for (uint32_t i = 0; !s && i < count; i++) {
        kvg_sequence_info info;
        if (!grants[i].matched || BELOW(g, get, grants[i].sequence, &info) || info.tokens % span) continue;
        if (grants[i].matched == info.tokens / span - 1) grants[i].matched++;
    }
    return s;
}

static kvg_status materialise_no_copy(void *self, const kvg_sequence_request *requests, uint32_t count,
                                      kvg_sequence_grant *grants)
{
    kvg_sequence_gate *g = self;
    const kvg_status s = BELOW(g, materialise, requests, count, grants);
    for (uint32_t i = 0; !s && i < count; i++) {
        grants[i].copy_from = grants[i].copy_to = KVG_BLOCK_NONE;
        grants[i].copy_tokens = 0;
    }
    return s;
}

static kvg_status materialise_read_only_short(void *self, const kvg_sequence_request *requests, uint32_t count,
                                              kvg_sequence_grant *grants)
{
    kvg_sequence_gate *g = self;
    const kvg_status s = BELOW(g, materialise, requests, count, grants);
    for (uint32_t i = 0; !s && i < count; i++) grants[i].read_only -= grants[i].read_only > 0;
    return s;
}

/* notes: [60] inside a fork, [61] inside a commit */
static kvg_status fork_flagged(void *self, uint64_t parent, uint64_t child)
{
    kvg_sequence_gate *g = self;
    g->stack->notes[60] = 1;
    const kvg_status s = BELOW(g, fork, parent, child);
    g->stack->notes[60] = 0;
    return s;
}

static kvg_status erase_twice(void *self, uint64_t id)
{
    kvg_sequence_gate *g = self;
    kvg_sequence_info info;
    uint32_t last = KVG_BLOCK_NONE;
    const bool known = BELOW(g, get, id, &info) == KVG_OK;
    const bool held = known && info.state != KVG_SEQUENCE_CACHED && info.blocks > info.holes;
    if (held && BELOW(g, table, id, info.blocks - 1, 1, &last, NULL)) last = KVG_BLOCK_NONE;
    kvg_status s = BELOW(g, erase, id);
    for (int side = 0; !s && last != KVG_BLOCK_NONE && side < KVG_POOL_SIDES; side++) {
        const kvg_block_gate *pool = &g->stack->block_gates[side];
        if (pool->inner.ops && kvg_defect_block(pool, last).use_count) s = BELOW(pool, unlock, &last, 1, NULL);
    }
    return s;
}

static kvg_status commit_flagged(void *self)
{
    kvg_sequence_gate *g = self;
    g->stack->notes[61] = 1;
    const kvg_status s = g->inner.ops->commit(g->inner.self);
    g->stack->notes[61] = 0;
    return s;
}

/* notes: [0] sequence + 1, [1] entries, [2 ...] block ids */
static kvg_status preempt_noted(void *self, uint64_t id)
{
    kvg_sequence_gate *g = self;
    uint64_t *notes = g->stack->notes;
    kvg_sequence_info info;
    uint32_t ids[32];
    if (!BELOW(g, get, id, &info) && info.blocks <= 32 && !BELOW(g, table, id, 0, info.blocks, ids, NULL)) {
        notes[0] = id + 1;
        notes[1] = info.blocks;
        for (uint32_t i = 0; i < info.blocks; i++) notes[2 + i] = ids[i];
    }
    return BELOW(g, preempt, id);
}

static kvg_status table_stale(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids, uint64_t *unique_ids)
{
    kvg_sequence_gate *g = self;
    const uint64_t *notes = g->stack->notes;
    const kvg_status s = BELOW(g, table, id, first, n, ids, unique_ids);
    for (uint32_t i = 0; !s && ids && notes[0] == id + 1 && i < n && first + i < notes[1]; i++) {
        ids[i] = (uint32_t)notes[2 + first + i];
    }
    return s;
}

static kvg_status table_of_old_life(void *self, uint64_t id, uint32_t first, uint32_t n, uint32_t *ids,
                                    uint64_t *unique_ids)
{
    kvg_sequence_gate *g = self;
    const kvg_status s = BELOW(g, table, id, first, n, ids, unique_ids);
    if (!s && unique_ids && n && unique_ids[n - 1] > 20) unique_ids[n - 1] -= 20;
    return s;
}

static kvg_status written_too_many(void *self, uint64_t id, uint32_t count)
{
    kvg_sequence_gate *g = self;
    kvg_sequence_info info;
    const bool found = BELOW(g, get, id, &info) == KVG_OK;
    const bool more = found && count < info.granted && info.cache_len + count < info.tokens;
    return BELOW(g, written, id, count + more);
}

static kvg_status slots_wrap(void *self, uint64_t id, uint32_t rank, uint32_t first, uint32_t n, int64_t *slots)
{
    kvg_sequence_gate *g = self;
    const uint32_t ranks = (uint32_t)g->stack->geometry.cp_size;
    const kvg_status s = BELOW(g, slots, id, rank, first, n, slots);
    for (uint32_t i = 0; !s && i < n; i++) {
        if (slots[i] >= 0 || (first + i) % ranks != rank) continue;
        slots[i] = (first + i) / ranks % g->stack->geometry.block_tokens;
    }
    return s;
}

static kvg_status create_old_key(void *self, uint64_t id, const kvg_prefix_key *key, const int32_t *tokens,
                                 uint32_t count)
{
    kvg_sequence_gate *g = self;
    kvg_sequence_info info;
    if (BELOW(g, get, id, &info) == KVG_OK) key = &info.key;
    return BELOW(g, create, id, key, tokens, count);
}

/* --- the table --- */

#define DATA(member, function) k->block_gates[KVG_POOL_DATA].ops.member = kvg_defect_##function
#define SCALE(member, function) k->block_gates[KVG_POOL_SCALE].ops.member = kvg_defect_##function
#define BOTH(member, function) DATA(member, function), SCALE(member, function)
#define VIEW(member, function) \
    k->views[KVG_POOL_DATA].ops.member = kvg_defect_##function, \
    k->view[KVG_POOL_DATA] = (kvg_block_pool){&k->views[KVG_POOL_DATA], &k->views[KVG_POOL_DATA].ops}
#define PREFIX(member, function) k->prefix_gate.ops.member = function
#define INDEX_VIEW(member, function) \
    PREFIX(member, function); \
    if (k->prefix.ops) k->prefix = (kvg_prefix_pool){&k->prefix_gate, &k->prefix_gate.ops}
#define SEQUENCES(member, function) k->sequence_gate.ops.member = function
#define CONFIG(statement) \
    do { \
        kvg_sequence_config *c = &k->config; \
        statement; \
    } while (0)

#define POOL_DEFECT(id, hooks, summary, seen_in) \
    static void install_##id(kvg_pool_stack *k) \
    { \
        hooks; \
    }
#include "paging/pool/pool_defects.def"
#undef POOL_DEFECT

#define POOL_DEFECT(id, hooks, summary, seen_in) {#id, install_##id, summary, seen_in},
static const kvg_pool_defect defects[] = {
#include "paging/pool/pool_defects.def"
};
#undef POOL_DEFECT
enum { DEFECT_COUNT = sizeof defects / sizeof defects[0] };

const kvg_pool_defect *kvg_pool_defect_table(size_t *count)
{
    *count = DEFECT_COUNT;
    return defects;
}

kvg_status kvg_pool_defect_find(const char *id, const kvg_pool_defect **out)
{
    size_t i;
    kvg_status s = kvg_name_find("planted defect", id, &defects[0].id, sizeof defects[0], DEFECT_COUNT, &i);
    if (!s) *out = &defects[i];
    return s;
}
