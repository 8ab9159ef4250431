#include <inttypes.h>
#include <string.h>

#include "paging/pool/pool_guest_play.h"

typedef pool_guest_sequence sequence;

kvg_manager_table *pool_guest_empty_answer(pool_guest_play *p)
{
    for (uint32_t g = 0; g < p->pool.group_count; g++)
        p->answer[g].count = p->answer[g].cached = p->answer[g].copy_count = 0;
    return p->answer;
}

void pool_guest_ignore_cached(pool_guest_play *p)
{
    for (uint32_t g = 0; g < p->pool.group_count; g++) p->answer[g].cached = 0;
}

static bool is_copied(const kvg_manager_table *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < t->copy_count; i++) {
        if (t->copies[i].from == from && t->copies[i].to == to) return true;
    }
    return false;
}

/* An entry of an answer is what the sequence had there, or what that was copied to. Of an entry that `passed` is behind
 * it may be no block from now on. `had`: NULL for a new entry. */
static kvg_status check_entry(const pool_guest_play *p, const kvg_manager_table *t, uint32_t i, uint32_t passed,
                              const uint32_t *had)
{
    const uint32_t is = t->blocks[i];
    if (is == KVG_MANAGER_NO_BLOCK && i < passed) return KVG_OK;
    if (is == KVG_MANAGER_NO_BLOCK)
        return pool_guest_broke(p, "gives no block as entry %" PRIu32 ": no window has passed its tokens", i);
    if (!had || is == *had) return KVG_OK;
    if (*had == KVG_MANAGER_NO_BLOCK)
        return pool_guest_broke(p, "gives block %" PRIu32 " as entry %" PRIu32 ", which it had given up", is, i);
    if (is_copied(t, *had, is)) return KVG_OK;
    return pool_guest_broke(p, "gives block %" PRIu32 " in place of %" PRIu32 ": keep the blocks that a table has, or "
                            "copy them", is, *had);
}

static kvg_status check_size(const pool_guest_play *p, const sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    const uint32_t wanted = kvg_guest_pool_blocks(&p->pool.groups[g], q->count);
    if (t->count != wanted)
        return pool_guest_broke(p, "gives %" PRIu32 " blocks for %" PRIu32 " tokens: give %" PRIu32, t->count,
                                q->count, wanted);
    if (t->copy_count > kvg_guest_pool_all(&p->pool))
        return pool_guest_broke(p, "gives %" PRIu32 " copies: set copy_count to those that it makes", t->copy_count);
    return KVG_OK;
}

static bool is_of_host(const pool_guest_play *p, uint32_t block)
{
    return block >= p->pool.blocks && block < kvg_guest_pool_all(&p->pool);
}

/* Whether a copy keeps a block in the host: `swap_out` moves a sequence there instead. */
static bool is_offload(const pool_guest_play *p, kvg_manager_copy c)
{
    return p->call != CALL_SWAP_OUT && is_of_host(p, c.to);
}

/* The block of the host that a block is loaded from; the block itself if it is not loaded. */
static uint32_t find_source(const pool_guest_play *p, const kvg_manager_table *t, uint32_t block)
{
    for (uint32_t i = 0; i < t->copy_count; i++) {
        if (t->copies[i].to == block && is_of_host(p, t->copies[i].from)) return t->copies[i].from;
    }
    return block;
}

/* Whether a copy is to an entry of the sequence's table, from what it had there, or from the host if it is found. */
static bool has_place(const pool_guest_play *p, const sequence *q, uint32_t g, kvg_manager_copy c)
{
    const kvg_manager_table *t = &p->answer[g];
    const pool_guest_part *part = &q->parts[g];
    const uint32_t found = t->cached / p->pool.groups[g].block_tokens;
    const bool loads = is_of_host(p, c.from) && find_source(p, t, c.to) == c.from;
    for (uint32_t i = 0; i < t->count; i++) {
        const bool fits = i < part->entries ? part->table[i] == c.from : i < found && loads;
        if (t->blocks[i] == c.to && fits) return true;
    }
    return false;
}

static kvg_status check_copies(const pool_guest_play *p, const sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    for (uint32_t i = 0; i < t->copy_count; i++) {
        const kvg_manager_copy c = t->copies[i];
        const bool keeps = p->manager.claims & KVG_MANAGER_HOST_CACHE && c.from < p->pool.blocks;
        if (is_offload(p, c) ? keeps : has_place(p, q, g, c)) continue;
        return pool_guest_broke(p, "copies block %" PRIu32 " into %" PRIu32 ", which is not in its place in the table",
                                c.from, c.to);
    }
    return KVG_OK;
}

/* `q` has the blocks that it had before. */
static kvg_status check_table(const pool_guest_play *p, const sequence *q, uint32_t g)
{
    const kvg_manager_group *group = &p->pool.groups[g];
    const kvg_manager_table *t = &p->answer[g];
    const uint32_t passed = kvg_guest_pool_passed(group, q->written > t->cached ? q->written : t->cached);
    kvg_status s = check_size(p, q, g);
    if (s) return s;
    if (t->cached % group->block_tokens || (t->cached && t->cached >= q->count))
        return pool_guest_broke(p, "finds %" PRIu32 " of %" PRIu32 " tokens: give a multiple of %" PRIu32 " below "
                                "them", t->cached, q->count, group->block_tokens);
    if (t->cached != p->answer->cached)
        return pool_guest_broke(p, "finds %" PRIu32 " tokens in group %" PRIu32 " and %" PRIu32 " in group 0: give "
                                "what all have", t->cached, g, p->answer->cached);
    for (uint32_t i = 0; i < t->count && !s; i++)
        s = check_entry(p, t, i, passed, i < q->parts[g].entries ? &q->parts[g].table[i] : NULL);
    return s ? s : check_copies(p, q, g);
}

/* What an answer does to an entry of a table. */
enum { GIVEN_UP = 1, REPLACED = 2 };

/* One event about the entries of a table to which an answer does one of these. `blocks`: the table, or the answer. */
static void log_changed(pool_guest_play *p, pool_guest_event event, const sequence *q, const uint32_t *blocks,
                        int changes)
{
    const pool_guest_part *part = &q->parts[p->log.group];
    const uint32_t *is = p->answer[p->log.group].blocks;
    for (uint32_t i = 0; i < part->entries; i++) {
        const int change = is[i] == part->table[i] ? 0 : is[i] == KVG_MANAGER_NO_BLOCK ? GIVEN_UP : REPLACED;
        p->changed[i] = change & changes ? blocks[i] : KVG_MANAGER_NO_BLOCK;
    }
    pool_guest_log_blocks(&p->log, event, q, p->changed, part->entries);
}

/* `q`: NULL for an offload, which is no sequence's. */
static void copy_block(pool_guest_play *p, const sequence *q, kvg_manager_copy c)
{
    pool_guest_log_copy(&p->log, q, c);
    if (p->bytes) pool_guest_bytes_copy(p->bytes, c);
}

/* Those of an answer come first, because the blocks may be given out by the same answer. */
static void offload_blocks(pool_guest_play *p)
{
    for (uint32_t g = 0; g < p->pool.group_count; g++) {
        const kvg_manager_table *t = &p->answer[g];
        for (uint32_t i = 0; i < t->copy_count; i++) {
            if (is_offload(p, t->copies[i])) copy_block(p, NULL, t->copies[i]);
        }
    }
}

/* What `admit` loads comes later, one by one. */
static void copy_blocks(pool_guest_play *p, const sequence *q, const kvg_manager_table *t)
{
    for (uint32_t i = 0; i < t->copy_count; i++) {
        const bool loads = p->call == CALL_ADMIT && is_of_host(p, t->copies[i].from);
        if (!loads && !is_offload(p, t->copies[i])) copy_block(p, q, t->copies[i]);
    }
}

/* Entry i of a table is one of the host, which was found. It is loaded into `block`. */
static void load_block(pool_guest_play *p, sequence *q, uint32_t i, uint32_t block)
{
    uint32_t *entry = &q->parts[p->log.group].table[i];
    const kvg_manager_copy c = {*entry, block};
    pool_guest_log_blocks(&p->log, GUEST_ALLOCATE, q, &c.to, 1);
    copy_block(p, q, c);
    pool_guest_log_blocks(&p->log, GUEST_FREE, q, &c.from, 1);
    *entry = block;
    pool_guest_log_store(&p->log, q, i);
}

/* Takes what an answer says of the blocks that a table had. One that is replaced is given back when it was copied.
 * `freed`: what is given back now. */
static void replace_blocks(pool_guest_play *p, const sequence *q, pool_guest_part *part, const kvg_manager_table *t,
                           int freed)
{
    log_changed(p, GUEST_ALLOCATE, q, t->blocks, REPLACED);
    copy_blocks(p, q, t);
    log_changed(p, GUEST_FREE, q, part->table, freed);
    memcpy(part->table, t->blocks, t->count * sizeof *part->table);
}

/* What a group's table gives up or finds comes before all that the answer takes, also for another group. Found blocks
 * are others' blocks, too. */
static void begin_table(pool_guest_play *p, sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    const uint32_t found = t->cached / p->pool.groups[g].block_tokens;
    uint32_t *table = q->parts[g].table;
    p->log.group = g;
    log_changed(p, GUEST_FREE, q, table, GIVEN_UP);
    for (uint32_t i = 0; i < found; i++) table[i] = find_source(p, t, t->blocks[i]);
    pool_guest_log_hit(&p->log, q, found);
}

static void take_table(pool_guest_play *p, sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    pool_guest_part *part = &q->parts[g];
    const uint32_t before = part->entries, found = t->cached / p->pool.groups[g].block_tokens;
    p->log.group = g;
    replace_blocks(p, q, part, t, REPLACED);
    part->entries = t->count;
    for (uint32_t i = 0; i < found; i++) part->table[i] = find_source(p, t, part->table[i]);
    for (uint32_t i = 0; i < found; i++) {
        if (is_of_host(p, part->table[i])) load_block(p, q, i, t->blocks[i]);
    }
    pool_guest_log_blocks(&p->log, GUEST_ALLOCATE, q, part->table + before + found, part->entries - before - found);
}

/* Takes an answer to `fork`: a block of the child is the parent's, or a new one. */
static void take_fork(pool_guest_play *p, const pool_guest_part *parent, sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    pool_guest_part *part = &q->parts[g];
    p->log.group = g;
    memcpy(part->table, t->blocks, t->count * sizeof *part->table);
    for (uint32_t i = 0; i < part->entries; i++) {
        const pool_guest_event event = part->table[i] == parent->table[i] ? GUEST_HIT : GUEST_ALLOCATE;
        pool_guest_log_blocks(&p->log, event, q, &part->table[i], 1);
    }
    copy_blocks(p, q, t);
    for (uint32_t i = 0; i < q->count / p->pool.groups[g].block_tokens; i++) {
        const bool is_new = part->table[i] != parent->table[i] && part->table[i] != KVG_MANAGER_NO_BLOCK;
        if (is_new) pool_guest_log_store(&p->log, q, i);
    }
}

kvg_status pool_guest_take_answer(pool_guest_play *p, const sequence *parent, sequence *q)
{
    const uint32_t groups = p->pool.group_count;
    kvg_status s = KVG_OK;
    for (uint32_t g = 0; g < groups && parent; g++) {
        const pool_guest_part *from = &parent->parts[g];
        memcpy(q->parts[g].table, from->table, from->entries * sizeof *from->table);
        q->parts[g].entries = from->entries;
    }
    for (uint32_t g = 0; g < groups && !s; g++) s = check_table(p, q, g);
    if (s) return s;
    offload_blocks(p);
    for (uint32_t g = 0; g < groups && !parent; g++) begin_table(p, q, g);
    for (uint32_t g = 0; g < groups; g++) {
        if (parent) take_fork(p, &parent->parts[g], q, g);
        else take_table(p, q, g);
    }
    return KVG_OK;
}

/* --- swapping --- */

/* An entry of a table that goes to the host, or comes back. Blocks `passed` to `filled` - 1 hold tokens that are
 * needed. */
static kvg_status check_swapped(const pool_guest_play *p, const kvg_manager_table *t, uint32_t i, uint32_t passed,
                                uint32_t filled, uint32_t had)
{
    const uint32_t is = t->blocks[i];
    const bool goes = p->call == CALL_SWAP_OUT, holds = i >= passed && i < filled;
    const bool needs = holds || (!goes && i >= filled);
    if (is == KVG_MANAGER_NO_BLOCK && needs)
        return pool_guest_broke(p, "gives no block as entry %" PRIu32 ": the sequence needs one there", i);
    if (!needs && is != KVG_MANAGER_NO_BLOCK)
        return pool_guest_broke(p, "gives block %" PRIu32 " as entry %" PRIu32 ": no tokens are needed there", is, i);
    if (!needs) return KVG_OK;
    if ((is >= p->pool.blocks) != goes)
        return pool_guest_broke(p, "gives block %" PRIu32 " as entry %" PRIu32 ": give one of the %s", is, i,
                                goes ? "host" : "pool");
    if (!holds || is_copied(t, had, is)) return KVG_OK;
    return pool_guest_broke(p, "gives block %" PRIu32 " in place of %" PRIu32 ": copy its tokens", is, had);
}

kvg_status pool_guest_take_swap(pool_guest_play *p, sequence *q)
{
    kvg_status s = KVG_OK;
    for (uint32_t g = 0; g < p->pool.group_count && !s; g++) {
        const kvg_manager_group *group = &p->pool.groups[g];
        const kvg_manager_table *t = &p->answer[g];
        const uint32_t passed = kvg_guest_pool_passed(group, q->written);
        const uint32_t filled = kvg_guest_pool_blocks(group, q->written);
        s = check_size(p, q, g);
        for (uint32_t i = 0; i < t->count && !s; i++)
            s = check_swapped(p, t, i, passed, filled, q->parts[g].table[i]);
        if (!s) s = check_copies(p, q, g);
    }
    if (s) return s;
    offload_blocks(p);
    for (p->log.group = 0; p->log.group < p->pool.group_count; p->log.group++) {
        pool_guest_part *part = &q->parts[p->log.group];
        const uint32_t full = q->written / p->pool.groups[p->log.group].block_tokens;
        replace_blocks(p, q, part, &p->answer[p->log.group], GIVEN_UP | REPLACED);
        for (uint32_t i = 0; i < full; i++) {
            if (part->table[i] != KVG_MANAGER_NO_BLOCK) pool_guest_log_store(&p->log, q, i);
        }
    }
    return KVG_OK;
}
