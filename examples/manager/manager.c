/* A block manager with a prefix cache, as a plug-in of `kvgold pool check`.
 *
 * A full block is known by a hash of its tokens and of the block before it. The hash finds a block; whether it is the
 * right one is decided by its tokens, its salt and the block before it. A block that no sequence holds stays known
 * until it is needed: the one that was held longest ago is given away first. Each group of layers has blocks of its
 * own; a sequence begins with the tokens that all groups find. */
#include <stdbool.h>
#include <string.h>

#include "paging/paging_plugin.h"

enum { NONE = -1, MOST_GROUPS = 8 };
enum {
    CLAIMS = KVG_MANAGER_WINDOWS | KVG_MANAGER_GROUPS | KVG_MANAGER_MEMORY | KVG_MANAGER_SWAP | KVG_MANAGER_HOST_CACHE,
    PROMISES = KVG_MANAGER_LOWEST_FIRST | KVG_MANAGER_FREE_FIRST | KVG_MANAGER_OLDEST_FIRST | KVG_MANAGER_TAIL_FIRST
};
static const uint32_t PASSED = KVG_MANAGER_NO_BLOCK; /* an entry of a table that a window has passed */

typedef struct block {
    uint32_t users;
    uint64_t released;    /* when the last user let it go; larger is later */
    bool known;           /* its tokens are written, and others may use it */
    uint32_t group;
    uint64_t hash, salt;
    int32_t *tokens;      /* block_tokens of them, if it is known */
    uint64_t life;        /* of what is in it: another life has other tokens, and a copy has the same */
    uint64_t before;      /* the life of the block before it; 0: it is the first */
} block;

/* What a sequence has in one group. */
typedef struct part {
    uint32_t known, *table, entries; /* known: its leading blocks that are known, */
    uint64_t hash, life;             /* and the last one of these; 0: there is none */
} part;

typedef struct sequence {
    struct sequence *next;
    uint64_t id, salt;
    int32_t *tokens;
    uint32_t count, written;
    part parts[MOST_GROUPS];
} sequence;

typedef struct manager {
    kvg_manager_pool pool;
    block *blocks; /* of the pool, and behind them those of the host */
    sequence *sequences;
    uint64_t clock;
} manager;

static sequence *find(const manager *m, uint64_t id)
{
    sequence *q = m->sequences;
    while (q && q->id != id) q = q->next;
    return q;
}

static uint64_t hash_of(const int32_t *tokens, uint32_t count, uint64_t before)
{
    uint64_t hash = before ^ 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < count; i++) hash = (hash ^ (uint32_t)tokens[i]) * 0x100000001B3u;
    return hash;
}

/* --- memory, which kvgold can make fail --- */

static void *get_memory(const manager *m, size_t bytes)
{
    return m->pool.memory->take(m->pool.memory->context, bytes);
}

static void give_memory(const manager *m, void *memory)
{
    m->pool.memory->give(m->pool.memory->context, memory);
}

/* --- blocks --- */

/* Whether a block is the one that follows `before` with these tokens. */
static bool is_it(const manager *m, const block *b, uint64_t hash, uint64_t salt, uint64_t before,
                  const int32_t *tokens)
{
    return b->known && b->hash == hash && b->salt == salt && b->before == before &&
           memcmp(b->tokens, tokens, m->pool.groups[b->group].block_tokens * sizeof *tokens) == 0;
}

static uint32_t all_blocks(const manager *m)
{
    return m->pool.blocks + m->pool.host_blocks;
}

/* A block of the pool before one of the host. A manager for more blocks keeps a table from hashes to blocks. */
static int look_up(const manager *m, uint32_t group, uint64_t hash, uint64_t salt, uint64_t before,
                   const int32_t *tokens)
{
    for (uint32_t i = 0; i < all_blocks(m); i++) {
        const block *b = &m->blocks[i];
        if (b->group == group && is_it(m, b, hash, salt, before, tokens)) return (int)i;
    }
    return NONE;
}

/* The leading blocks of a group that are there, at most all but the one of the last token. */
static uint32_t match(const manager *m, sequence *q, uint32_t group)
{
    const uint32_t size = m->pool.groups[group].block_tokens, most = (q->count - 1) / size;
    part *of = &q->parts[group];
    uint64_t hash = 0, before = 0;
    for (of->known = 0; of->known < most; of->known++) {
        const int32_t *tokens = q->tokens + (size_t)of->known * size;
        hash = hash_of(tokens, size, hash);
        const int found = look_up(m, group, hash, q->salt, before, tokens);
        if (found == NONE) break;
        of->table[of->known] = (uint32_t)found;
        before = m->blocks[found].life;
    }
    return of->known * size;
}

/* How many leading blocks the window has passed. */
static uint32_t blocks_passed(const kvg_manager_group *group, uint32_t written)
{
    const uint32_t window = group->window;
    return window && written >= window ? (written + 1 - window) / group->block_tokens : 0;
}

static void follow(part *of, const block *last)
{
    of->hash = last->hash;
    of->life = last->life;
}

/* The leading tokens that all groups have, in whole blocks of each. */
static uint32_t match_all(const manager *m, sequence *q)
{
    uint32_t found = q->count;
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        const uint32_t here = match(m, q, g);
        if (here < found) found = here;
    }
    for (bool whole = false; !whole;) {
        whole = true;
        for (uint32_t g = 0; g < m->pool.group_count; g++) {
            const uint32_t rest = found % m->pool.groups[g].block_tokens;
            whole = whole && rest == 0;
            found -= rest;
        }
    }
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        part *of = &q->parts[g];
        of->known = of->entries = found / m->pool.groups[g].block_tokens;
        if (found) follow(of, &m->blocks[of->table[of->known - 1]]);
        for (uint32_t i = 0; i < of->entries; i++) { /* hold them, so that `take` leaves them */
            if (i < blocks_passed(&m->pool.groups[g], found)) of->table[i] = PASSED;
            else m->blocks[of->table[i]].users++;
        }
    }
    return found;
}

/* The blocks of the pool, or of the host, are those from the first on up to the end. */
static uint32_t first_of(const manager *m, bool of_host)
{
    return of_host ? m->pool.blocks : 0;
}

static uint32_t end_of(const manager *m, bool of_host)
{
    return of_host ? all_blocks(m) : m->pool.blocks;
}

static uint32_t count_available(const manager *m, bool of_host)
{
    uint32_t available = 0;
    for (uint32_t i = first_of(m, of_host); i < end_of(m, of_host); i++) available += m->blocks[i].users == 0;
    return available;
}

/* Of the pool's blocks, or of the host's, that no sequence holds: the first one that nobody knows, else the one that
 * was let go first. NULL: all are held. */
static block *find_oldest(const manager *m, bool of_host)
{
    block *oldest = NULL;
    for (uint32_t i = first_of(m, of_host); i < end_of(m, of_host); i++) {
        block *b = &m->blocks[i];
        if (b->users) continue;
        const bool older = oldest && b->known && oldest->known && b->released < oldest->released;
        if (!oldest || b->known < oldest->known || older) oldest = b;
    }
    return oldest;
}

/* A block holds what another one does. */
static void become(const manager *m, block *b, const block *other)
{
    int32_t *const tokens = b->tokens;
    const uint32_t users = b->users;
    memcpy(tokens, other->tokens, m->pool.groups[other->group].block_tokens * sizeof *tokens);
    *b = *other;
    b->tokens = tokens;
    b->users = users;
}

/* Where the host is to keep what is known in a block of the pool; NULL: nothing is, or the host has it or no room. */
static block *find_keeper(const manager *m, const block *b)
{
    for (uint32_t i = m->pool.blocks; i < all_blocks(m); i++) {
        if (m->blocks[i].known && m->blocks[i].life == b->life) return NULL;
    }
    return b->known && b < m->blocks + m->pool.blocks ? find_oldest(m, true) : NULL;
}

/* The oldest block, for new tokens. */
static uint32_t take(manager *m, uint32_t group, bool of_host, kvg_manager_table *table)
{
    block *b = find_oldest(m, of_host), *kept = find_keeper(m, b);
    if (kept) {
        const kvg_manager_copy copy = {(uint32_t)(b - m->blocks), (uint32_t)(kept - m->blocks)};
        become(m, kept, b);
        table->copies[table->copy_count++] = copy;
    }
    b->users = 1;
    b->known = false;
    b->group = group;
    b->life = ++m->clock;
    return (uint32_t)(b - m->blocks);
}

/* A user less of a block. */
static void let_go(manager *m, uint32_t id)
{
    if (id != PASSED && --m->blocks[id].users == 0) m->blocks[id].released = ++m->clock;
}

/* Gives up the blocks that the window has passed, if `written` tokens are written. */
static void give_up(manager *m, const kvg_manager_group *group, part *of, uint32_t written)
{
    for (uint32_t i = blocks_passed(group, written); i-- > 0;) {
        let_go(m, of->table[i]);
        of->table[i] = PASSED;
    }
}

/* Another block in place of the table's last one, of which others have the tokens, too. */
static void copy_last(manager *m, uint32_t group, part *of, kvg_manager_table *table)
{
    uint32_t *last = &of->table[of->entries - 1];
    const kvg_manager_copy copy = {*last, take(m, group, false, table)};
    m->blocks[*last].users--;
    *last = copy.to;
    table->copies[table->copy_count++] = copy;
}

static uint32_t blocks_for(const kvg_manager_group *group, uint32_t tokens)
{
    return (tokens + group->block_tokens - 1) / group->block_tokens;
}

/* Whether the last block is to be copied before the token `first` is written into it. */
static bool is_shared(const manager *m, const kvg_manager_group *group, const part *of, uint32_t first)
{
    return first % group->block_tokens && m->blocks[of->table[of->entries - 1]].users > 1;
}

static bool is_of_host(const manager *m, uint32_t id)
{
    return id != PASSED && id >= m->pool.blocks;
}

static uint32_t count_of_host(const manager *m, const part *of)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < of->entries; i++) count += is_of_host(m, of->table[i]);
    return count;
}

/* Blocks of the pool in place of those of the host that were found; table->blocks has these. */
static void load(manager *m, uint32_t group, part *of, kvg_manager_table *table)
{
    for (uint32_t i = 0; i < of->entries; i++) {
        table->blocks[i] = of->table[i];
        if (!is_of_host(m, of->table[i])) continue;
        const kvg_manager_copy copy = {of->table[i], take(m, group, false, table)};
        become(m, &m->blocks[copy.to], &m->blocks[copy.from]);
        table->copies[table->copy_count++] = copy;
        of->table[i] = copy.to;
    }
}

/* New blocks behind those of the sequence's tables, until they hold all of its tokens. `first`: where they begin; all
 * tokens before it are written. */
static kvg_status fill(manager *m, sequence *q, uint32_t first, kvg_manager_table *answer)
{
    kvg_manager_table *table = answer;
    uint32_t needed = 0;
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        const kvg_manager_group *group = &m->pool.groups[g];
        const part *of = &q->parts[g];
        needed += blocks_for(group, q->count) - of->entries + is_shared(m, group, of, first) + count_of_host(m, of);
    }
    if (count_available(m, false) < needed) return KVG_ERR_EXHAUSTED;
    for (uint32_t g = 0; g < m->pool.group_count; g++, table = table->next) {
        const kvg_manager_group *group = &m->pool.groups[g];
        part *of = &q->parts[g];
        const uint32_t wanted = blocks_for(group, q->count);
        give_up(m, group, of, first);
        if (is_shared(m, group, of, first)) copy_last(m, g, of, table);
        load(m, g, of, table);
        for (; of->entries < wanted; of->entries++)
            of->table[of->entries] = table->blocks[of->entries] = take(m, g, false, table);
    }
    table = answer;
    for (uint32_t g = 0; g < m->pool.group_count; g++, table = table->next) {
        const part *of = &q->parts[g];
        for (uint32_t i = 0; i < of->entries; i++) { /* only now: an answer loads from no block that it fills */
            if (is_of_host(m, table->blocks[i])) let_go(m, table->blocks[i]);
        }
        memcpy(table->blocks, of->table, of->entries * sizeof *of->table);
        table->count = of->entries;
    }
    return KVG_OK;
}

/* An `admit` that fails has found nothing. */
static void forget_found(manager *m, sequence *q)
{
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        part *of = &q->parts[g];
        for (; of->entries > 0; of->entries--) {
            const uint32_t id = of->table[of->entries - 1];
            if (id != PASSED) m->blocks[id].users--;
        }
    }
}

/* The last block is let go first, so that it is given away first: what stands before a block is worth more. */
static void drop(manager *m, sequence *q)
{
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        part *of = &q->parts[g];
        while (of->entries > 0) let_go(m, of->table[--of->entries]);
        give_memory(m, of->table);
    }
    give_memory(m, q->tokens);
    give_memory(m, q);
}

/* --- the functions of a manager --- */

static void end(void *self)
{
    manager *m = self;
    while (m->sequences) {
        sequence *q = m->sequences;
        m->sequences = q->next;
        drop(m, q);
    }
    for (uint32_t i = 0; m->blocks && i < all_blocks(m); i++) give_memory(m, m->blocks[i].tokens);
    give_memory(m, m->blocks);
    give_memory(m, m);
}

static kvg_status begin(const kvg_manager_pool *pool, void **self)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < pool->group_count; g++) {
        if (pool->groups[g].block_tokens > most) most = pool->groups[g].block_tokens;
    }
    if (pool->group_count > MOST_GROUPS) return KVG_ERR_UNIMPLEMENTED;
    manager *m = pool->memory->take(pool->memory->context, sizeof *m);
    if (!m) return KVG_ERR_MEMORY;
    *m = (manager){.pool = *pool};
    m->blocks = get_memory(m, all_blocks(m) * sizeof *m->blocks);
    bool got = m->blocks;
    if (got) memset(m->blocks, 0, all_blocks(m) * sizeof *m->blocks);
    for (uint32_t i = 0; i < all_blocks(m) && got; i++) {
        m->blocks[i].tokens = get_memory(m, most * sizeof *m->blocks[i].tokens);
        got = m->blocks[i].tokens;
    }
    if (got) *self = m;
    else end(m);
    return got ? KVG_OK : KVG_ERR_MEMORY;
}

/* The sequence has these tokens now. */
static bool set_tokens(const manager *m, sequence *q, const int32_t *tokens, uint32_t count)
{
    int32_t *kept = get_memory(m, count * sizeof *kept);
    if (!kept) return false;
    give_memory(m, q->tokens);
    q->tokens = kept;
    q->count = count;
    memcpy(kept, tokens, count * sizeof *kept);
    return true;
}

/* A sequence without blocks; NULL: no memory. */
static sequence *make(manager *m, uint64_t id, uint64_t salt, const int32_t *tokens, uint32_t count)
{
    sequence *q = get_memory(m, sizeof *q);
    if (!q) return NULL;
    *q = (sequence){.id = id, .salt = salt};
    bool got = set_tokens(m, q, tokens, count);
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        q->parts[g].table = get_memory(m, m->pool.blocks * sizeof *q->parts[g].table);
        got = got && q->parts[g].table;
    }
    if (got) return q;
    drop(m, q);
    return NULL;
}

static void add(manager *m, sequence *q)
{
    q->next = m->sequences;
    m->sequences = q;
}

static kvg_status admit(void *self, uint64_t id, uint64_t salt, const int32_t *tokens, uint32_t count,
                        kvg_manager_table *table)
{
    manager *m = self;
    sequence *q = make(m, id, salt, tokens, count);
    if (!q) return KVG_ERR_MEMORY;
    const uint32_t found = q->written = match_all(m, q);
    for (kvg_manager_table *t = table; t; t = t->next) t->cached = found;
    const kvg_status s = fill(m, q, found, table);
    if (s) forget_found(m, q);
    if (s) drop(m, q);
    else add(m, q);
    return s;
}

static kvg_status grow(void *self, uint64_t id, const int32_t *tokens, uint32_t count, kvg_manager_table *table)
{
    manager *m = self;
    sequence *q = find(m, id);
    const uint32_t before = q->count;
    if (!set_tokens(m, q, tokens, count)) return KVG_ERR_MEMORY;
    const kvg_status s = fill(m, q, before, table);
    if (s) q->count = before;
    return s;
}

/* The blocks of one sequence are another's, too. */
static void share(manager *m, const part *from, part *of, kvg_manager_table *table)
{
    of->known = from->known;
    of->hash = from->hash;
    of->life = from->life;
    for (; of->entries < from->entries; of->entries++) {
        of->table[of->entries] = table->blocks[of->entries] = from->table[of->entries];
        if (of->table[of->entries] != PASSED) m->blocks[of->table[of->entries]].users++;
    }
    table->count = of->entries;
}

static kvg_status fork_sequence(void *self, uint64_t parent, uint64_t child, kvg_manager_table *table)
{
    manager *m = self;
    const sequence *from = find(m, parent);
    sequence *q = make(m, child, from->salt, from->tokens, from->count);
    if (!q) return KVG_ERR_MEMORY;
    for (uint32_t g = 0; g < m->pool.group_count; g++, table = table->next)
        share(m, &from->parts[g], &q->parts[g], table);
    q->written = from->written;
    add(m, q);
    return KVG_OK;
}

/* The next block of a sequence is written. */
static void know(manager *m, const sequence *q, uint32_t group, part *of)
{
    const uint32_t size = m->pool.groups[group].block_tokens;
    block *b = &m->blocks[of->table[of->known]];
    memcpy(b->tokens, q->tokens + (size_t)of->known * size, size * sizeof *b->tokens);
    b->salt = q->salt;
    b->hash = hash_of(b->tokens, size, of->hash);
    b->before = of->life;
    b->known = true;
    follow(of, b);
}

static kvg_status written(void *self, uint64_t id, uint32_t count)
{
    manager *m = self;
    sequence *q = find(m, id);
    q->written = count;
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        part *of = &q->parts[g];
        for (; of->known < count / m->pool.groups[g].block_tokens; of->known++) know(m, q, g, of);
    }
    return KVG_OK;
}

static kvg_status release(void *self, uint64_t id)
{
    manager *m = self;
    sequence **at = &m->sequences;
    while ((*at)->id != id) at = &(*at)->next;
    sequence *q = *at;
    *at = q->next;
    drop(m, q);
    return KVG_OK;
}

/* How many blocks it takes to move a sequence's tables: out to the host, or in again. */
static uint32_t blocks_to_move(const manager *m, const sequence *q, bool out)
{
    uint32_t needed = 0;
    for (uint32_t g = 0; g < m->pool.group_count; g++) {
        const kvg_manager_group *group = &m->pool.groups[g];
        needed += (out ? blocks_for(group, q->written) : q->parts[g].entries) - blocks_passed(group, q->written);
    }
    return needed;
}

/* Another block in place of each that holds tokens which the sequence needs, and none in place of the others. A table
 * that comes in again gets blocks for tokens that are not written, too. */
static void move(manager *m, sequence *q, bool out, kvg_manager_table *first)
{
    kvg_manager_table *table = first;
    for (uint32_t g = 0; g < m->pool.group_count; g++, table = table->next) {
        const kvg_manager_group *group = &m->pool.groups[g];
        part *of = &q->parts[g];
        const uint32_t passed = blocks_passed(group, q->written), filled = blocks_for(group, q->written);
        for (uint32_t i = of->entries; i-- > 0;) {
            const bool is_needed = i >= passed && (i < filled || !out);
            const kvg_manager_copy copy = {of->table[i], is_needed ? take(m, g, out, table) : PASSED};
            const bool is_filled = is_needed && i < filled;
            if (is_filled && m->blocks[copy.from].known) become(m, &m->blocks[copy.to], &m->blocks[copy.from]);
            if (is_filled) table->copies[table->copy_count++] = copy;
            table->blocks[i] = copy.to;
        }
        table->count = of->entries;
    }
    for (uint32_t g = 0; g < m->pool.group_count; g++, first = first->next) {
        part *of = &q->parts[g];
        for (uint32_t i = of->entries; i-- > 0;) let_go(m, of->table[i]);
        memcpy(of->table, first->blocks, of->entries * sizeof *of->table);
    }
}

static kvg_status swap_out(void *self, uint64_t id, kvg_manager_table *table)
{
    manager *m = self;
    sequence *q = find(m, id);
    if (count_available(m, true) < blocks_to_move(m, q, true)) return KVG_ERR_EXHAUSTED;
    move(m, q, true, table);
    return KVG_OK;
}

static kvg_status swap_in(void *self, uint64_t id, kvg_manager_table *table)
{
    manager *m = self;
    sequence *q = find(m, id);
    if (count_available(m, false) < blocks_to_move(m, q, false)) return KVG_ERR_EXHAUSTED;
    move(m, q, false, table);
    return KVG_OK;
}

static kvg_status available(void *self, uint32_t *blocks)
{
    *blocks = count_available(self, false);
    return KVG_OK;
}

KVG_PLUGIN_EXPORT const kvg_manager *kvg_manager_export(void)
{
    static const kvg_manager exported = {
        .abi = KVG_MANAGER_ABI,
        .struct_size = sizeof exported,
        .name = "example",
        .open = begin,
        .close = end,
        .admit = admit,
        .grow = grow,
        .written = written,
        .release = release,
        .available = available,
        .fork = fork_sequence,
        .claims = CLAIMS | PROMISES,
        .swap_out = swap_out,
        .swap_in = swap_in,
    };
    return &exported;
}
