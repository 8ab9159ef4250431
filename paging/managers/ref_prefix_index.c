/* The prefix index: a trie whose nodes are found by (parent, hash) in one hash table and by block in one array. A block
 * has at most one node, so both have a fixed size. */
#include <stdbool.h>
#include <string.h>

#include "paging/managers/ref_paging_memory.h"
#include "paging/paging_prefix.h"

typedef struct node node;
struct node {
    node *parent, *child, *next, *previous; /* the first child; siblings */
    node *chain;                            /* in its bucket */
    uint64_t hash;
    kvg_prefix_key key;
    uint32_t depth, block;
    uint64_t unique_id;
    int32_t *tokens; /* behind the node, in the same allocation */
};

struct kvg_prefix_index {
    kvg_memory memory;
    kvg_prefix_config config;
    uint32_t capacity;
    unsigned bucket_bits;
    node **buckets;
    node **by_block;
    node top; /* no block: parent of the nodes at depth 0 */
};

/* --- nodes --- */

/* Fibonacci hashing: the high bits of a product with 2^64 / golden ratio. */
static node **bucket(const kvg_prefix_index *x, uint64_t hash)
{
    return &x->buckets[hash * 0x9E3779B97F4A7C15u >> (64 - x->bucket_bits)];
}

static uint64_t hash_of(const kvg_prefix_index *x, const node *parent, const kvg_prefix_key *key, const int32_t *tokens)
{
    return x->config.hash(x->config.hash_context, parent->hash, key, tokens, x->config.span);
}

/* The only node below `parent` with this hash, or NULL. It may stand for other tokens. */
static node *below(const kvg_prefix_index *x, const node *parent, uint64_t hash)
{
    node *n = *bucket(x, hash);
    while (n && (n->parent != parent || n->hash != hash)) n = n->chain;
    return n;
}

static bool stands_for(const kvg_prefix_index *x, const node *n, const kvg_prefix_key *key, const int32_t *tokens)
{
    return n->key.lora == key->lora && n->key.salt == key->salt && n->key.extra == key->extra &&
           memcmp(n->tokens, tokens, x->config.span * sizeof *tokens) == 0;
}

static bool alive(const kvg_prefix_index *x, uint32_t id, uint64_t unique_id)
{
    kvg_block b;
    return unique_id && x->config.blocks.ops->get(x->config.blocks.self, id, &b) == KVG_OK && b.unique_id == unique_id;
}

static bool node_alive(const kvg_prefix_index *x, const node *n)
{
    return alive(x, n->block, n->unique_id);
}

static node *node_of(const kvg_prefix_index *x, uint32_t id)
{
    return id < x->capacity ? x->by_block[id] : NULL;
}

static void link_node(kvg_prefix_index *x, node *n)
{
    node **head = bucket(x, n->hash);
    n->chain = *head;
    *head = n;
    n->next = n->parent->child;
    if (n->next) n->next->previous = n;
    n->parent->child = n;
}

static void remove_leaf(kvg_prefix_index *x, node *n)
{
    node **at = bucket(x, n->hash);
    while (*at != n) at = &(*at)->chain;
    *at = n->chain;
    *(n->previous ? &n->previous->next : &n->parent->child) = n->next;
    if (n->next) n->next->previous = n->previous;
    x->by_block[n->block] = NULL;
    ref_memory_give(&x->memory, n);
}

/* Removes a node and what is below it, leaves first; returns how many. */
static uint32_t drop(kvg_prefix_index *x, node *n)
{
    const node *top = n->parent;
    uint32_t dropped = 0;
    for (node *up; n != top; n = up) {
        while (n->child) n = n->child;
        up = n->parent;
        remove_leaf(x, n);
        dropped++;
    }
    return dropped;
}

/* The node after n and all below it, a parent before its children; NULL at the end. */
static node *after(const kvg_prefix_index *x, node *n)
{
    while (n != &x->top && !n->next) n = n->parent;
    return n == &x->top ? NULL : n->next;
}

/* --- operations --- */

static kvg_status match(void *self, const kvg_prefix_key *key, const int32_t *tokens, size_t count, uint32_t *ids,
                        uint64_t *unique_ids, uint32_t *matched)
{
    const kvg_prefix_index *x = self;
    const size_t most = count ? (count - 1) / x->config.span : 0;
    const node *parent = &x->top;
    uint32_t n = 0;
    for (; n < most; n++, tokens += x->config.span) {
        const node *child = below(x, parent, hash_of(x, parent, key, tokens));
        if (!child || !stands_for(x, child, key, tokens) || !node_alive(x, child)) break;
        ids[n] = child->block;
        unique_ids[n] = child->unique_id;
        parent = child;
    }
    *matched = n;
    return KVG_OK;
}

/* What is to be published. */
typedef struct chain {
    const kvg_prefix_key *key;
    const int32_t *tokens;
    uint32_t blocks;
    const uint32_t *ids;
    const uint64_t *unique_ids;
} chain;

static const int32_t *tokens_at(const kvg_prefix_index *x, const chain *c, uint32_t i)
{
    return c->tokens + (size_t)i * x->config.span;
}

/* The node of the last block that has one already: where a growing sequence continues. The top if there is none. */
static node *last_published(kvg_prefix_index *x, const chain *c)
{
    for (uint32_t i = c->blocks; i-- > 0;) {
        node *n = node_of(x, c->ids[i]);
        if (!n || n->depth != i || n->unique_id != c->unique_ids[i]) continue;
        if (stands_for(x, n, c->key, tokens_at(x, c, i))) return n;
    }
    return &x->top;
}

static uint32_t depth_below(const kvg_prefix_index *x, const node *parent)
{
    return parent == &x->top ? 0 : parent->depth + 1;
}

/* Follows the chain below `parent` as far as its nodes are alive. *collision: it ends at a node for other tokens. */
static node *follow(kvg_prefix_index *x, const chain *c, node *parent, bool *collision)
{
    *collision = false;
    for (uint32_t i = depth_below(x, parent); i < c->blocks; i++) {
        const int32_t *tokens = tokens_at(x, c, i);
        node *n = below(x, parent, hash_of(x, parent, c->key, tokens));
        if (!n) break;
        if (!node_alive(x, n)) {
            drop(x, n);
            break;
        }
        *collision = !stands_for(x, n, c->key, tokens);
        if (*collision) break;
        parent = n;
    }
    return parent;
}

/* A node for block i of the chain, known by its block but not yet linked; NULL with *status set if it cannot be. */
static node *make(kvg_prefix_index *x, const chain *c, uint32_t i, node *parent, kvg_status *status)
{
    const uint32_t id = c->ids[i];
    if (id >= x->capacity || !alive(x, id, c->unique_ids[i])) {
        *status = kvg_fail(KVG_ERR_INVALID, "block %u: publish: entry %u of the table is dead", id, i);
        return NULL;
    }
    if (x->by_block[id]) {
        *status = kvg_fail(KVG_ERR_INVALID, "block %u: publish: it stands for other tokens already", id);
        return NULL;
    }
    const size_t token_bytes = x->config.span * sizeof *c->tokens;
    node *n = ref_memory_take(&x->memory, 1, sizeof *n + token_bytes);
    if (!n) {
        *status = ref_memory_fail("node of a prefix index");
        return NULL;
    }
    *n = (node){.parent = parent, .key = *c->key, .depth = i, .block = id, .unique_id = c->unique_ids[i]};
    n->tokens = memcpy(n + 1, tokens_at(x, c, i), token_bytes);
    n->hash = hash_of(x, parent, c->key, n->tokens);
    x->by_block[id] = n;
    return n;
}

/* Nodes for the blocks behind `parent` up to the first hole: all of them, or none. */
static kvg_status extend(kvg_prefix_index *x, const chain *c, node *parent, uint32_t *published)
{
    const uint32_t first = depth_below(x, parent);
    kvg_status status = KVG_OK;
    uint32_t end = first;
    node *last = parent;
    for (; end < c->blocks && c->ids[end] != KVG_BLOCK_NONE; end++) {
        node *n = make(x, c, end, last, &status);
        if (!n) break;
        last = n;
    }
    *published = end - first;
    for (node *up; last != parent; last = up) {
        up = last->parent;
        if (status == KVG_OK) {
            link_node(x, last);
        } else {
            x->by_block[last->block] = NULL;
            ref_memory_give(&x->memory, last);
        }
    }
    return status;
}

static kvg_status publish(void *self, const kvg_prefix_key *key, const int32_t *tokens, uint32_t blocks,
                          const uint32_t *ids, const uint64_t *unique_ids, uint32_t *published)
{
    kvg_prefix_index *x = self;
    const chain c = {key, tokens, blocks, ids, unique_ids};
    /* Nodes of these blocks' earlier lives go first; one of them may be above the node to continue at. */
    for (uint32_t i = depth_below(x, last_published(x, &c)); i < blocks; i++) {
        node *old = node_of(x, ids[i]);
        if (old && !node_alive(x, old)) drop(x, old);
    }
    bool collision;
    node *parent = follow(x, &c, last_published(x, &c), &collision);
    uint32_t added = 0;
    kvg_status status = collision ? KVG_OK : extend(x, &c, parent, &added);
    if (status == KVG_OK && published) *published = added;
    return status;
}

static kvg_status verify(void *self, const uint32_t *ids, uint32_t n, uint32_t *dropped)
{
    kvg_prefix_index *x = self;
    uint32_t count = 0;
    if (ids) {
        for (uint32_t i = 0; i < n; i++) {
            node *at = node_of(x, ids[i]);
            if (at && !node_alive(x, at)) count += drop(x, at);
        }
    } else {
        for (node *at = x->top.child, *next; at; at = next) {
            const bool dead = !node_alive(x, at);
            next = dead || !at->child ? after(x, at) : at->child;
            if (dead) count += drop(x, at);
        }
    }
    if (dropped) *dropped = count;
    return KVG_OK;
}

static uint32_t visit(void *self, bool (*see)(void *context, const kvg_prefix_node *node), void *context)
{
    const kvg_prefix_index *x = self;
    uint32_t seen = 0;
    for (node *at = x->top.child; at; at = at->child ? at->child : after(x, at)) {
        const kvg_prefix_node view = {at->hash,
                                      at->key,
                                      at->tokens,
                                      at->depth,
                                      {.id = at->block, .unique_id = at->unique_id},
                                      at->depth ? at->parent->block : KVG_BLOCK_NONE};
        seen++;
        if (!see(context, &view)) break;
    }
    return seen;
}

/* --- creation --- */

static uint64_t fnv_word(uint64_t hash, uint64_t word, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) hash = (hash ^ (word >> 8 * i & 0xFF)) * 0x100000001b3u;
    return hash;
}

uint64_t kvg_prefix_hash_default(void *context, uint64_t parent_hash, const kvg_prefix_key *key, const int32_t *tokens,
                                 uint32_t count)
{
    (void)context;
    const uint64_t head[] = {parent_hash, key->lora, key->salt, key->extra};
    uint64_t hash = 0xcbf29ce484222325u;
    for (unsigned i = 0; i < 4; i++) hash = fnv_word(hash, head[i], 8);
    for (uint32_t i = 0; i < count; i++) hash = fnv_word(hash, (uint32_t)tokens[i], 4);
    return hash;
}

kvg_status kvg_prefix_index_create(const kvg_prefix_config *config, kvg_prefix_index **index)
{
    if (config->span == 0 || !config->blocks.ops) {
        return kvg_fail(KVG_ERR_INVALID, "prefix index: it needs a block pool and a span of at least 1 token");
    }
    kvg_block_counts counts;
    config->blocks.ops->counts(config->blocks.self, &counts);
    const kvg_memory memory = ref_memory_of(config->memory);
    kvg_prefix_index *x = ref_memory_take(&memory, 1, sizeof *x);
    if (!x) return ref_memory_fail("prefix index");
    *x = (kvg_prefix_index){.memory = memory, .config = *config, .capacity = counts.capacity, .bucket_bits = 1};
    if (!config->hash) x->config.hash = kvg_prefix_hash_default;
    while ((uint64_t)1 << x->bucket_bits < counts.capacity) x->bucket_bits++;
    const uint64_t buckets = (uint64_t)1 << x->bucket_bits;
    x->buckets = ref_memory_take(&memory, buckets, sizeof *x->buckets);
    x->by_block = ref_memory_take(&memory, counts.capacity, sizeof *x->by_block);
    if (!x->buckets || !x->by_block) {
        kvg_prefix_index_destroy(x);
        return ref_memory_fail("prefix index");
    }
    for (uint64_t i = 0; i < buckets; i++) x->buckets[i] = NULL;
    for (uint32_t i = 0; i < counts.capacity; i++) x->by_block[i] = NULL;
    *index = x;
    return KVG_OK;
}

void kvg_prefix_index_destroy(kvg_prefix_index *index)
{
    if (!index) return;
    while (index->top.child) drop(index, index->top.child);
    const kvg_memory memory = index->memory;
    ref_memory_give(&memory, index->by_block);
    ref_memory_give(&memory, index->buckets);
    ref_memory_give(&memory, index);
}

kvg_prefix_pool kvg_prefix_index_pool(kvg_prefix_index *index)
{
    static const kvg_prefix_ops ops = {match, publish, verify, visit};
    return (kvg_prefix_pool){index, &ops};
}
