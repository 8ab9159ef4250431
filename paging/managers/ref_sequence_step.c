/* materialise: one step for a batch, in the order of docs/spec/paging.md section 4. What it changes can be taken
 * back: the pools have their transactions, sequences are remembered in the plans and block tables in the edits. */
#include <stdlib.h>
#include <string.h>

#include "paging/managers/ref_sequence.h"

/* --- going back --- */

/* Sets a block-table entry, for which there is room. */
static kvg_status set_entry(kvg_sequence_manager *m, const ref_plan *p, uint32_t entry, ref_reference to)
{
    ref_sequence *s = p->sequence;
    if (entry < p->before.blocks) {
        const uint64_t need = (uint64_t)m->edit_count + 1;
        ref_edit *edits = ref_memory_reserve(&m->memory, m->edits, &m->edit_room, need, sizeof *edits);
        if (!edits) return ref_memory_fail("edits of a step");
        m->edits = edits;
        m->edits[m->edit_count++] = (ref_edit){s, entry, {s->ids[entry], s->unique_ids[entry]}};
    }
    s->ids[entry] = to.id;
    s->unique_ids[entry] = to.unique_id;
    return KVG_OK;
}

static void undo_sequences(kvg_sequence_manager *m)
{
    while (m->edit_count > 0) {
        const ref_edit *e = &m->edits[--m->edit_count];
        e->sequence->ids[e->entry] = e->was.id;
        e->sequence->unique_ids[e->entry] = e->was.unique_id;
    }
    for (uint32_t i = 0; i < m->plan_count; i++) m->plans[i].sequence->info = m->plans[i].before;
}

/* --- the batch --- */

static kvg_status add_plan(kvg_sequence_manager *m, const kvg_sequence_request *r)
{
    const unsigned long long id = r->sequence;
    ref_sequence *s = ref_sequence_find(m, r->sequence);
    if (!s) return KVG_ERR_NOT_FOUND;
    if (s->in_batch) return kvg_fail(KVG_ERR_INVALID, "sequence %llu is twice in the batch", id);
    if (r->context == 0 || r->max_tokens == 0) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu: a step of %u tokens in a context of %u", id, r->max_tokens,
                        r->context);
    }
    m->plans[m->plan_count] = (ref_plan){.sequence = s,
                                         .request = r,
                                         .index = m->plan_count,
                                         .before = s->info,
                                         .copy_from = KVG_BLOCK_NONE,
                                         .copy_to = KVG_BLOCK_NONE,
                                         .revived = s->info.state == KVG_SEQUENCE_CACHED};
    m->plan_count++;
    s->in_batch = true;
    return KVG_OK;
}

static int by_priority(const void *left, const void *right)
{
    const ref_plan *a = left, *b = right;
    if (a->request->priority != b->request->priority) return a->request->priority < b->request->priority ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

static kvg_status plan_batch(kvg_sequence_manager *m, const kvg_sequence_request *requests, uint32_t count)
{
    m->plan_count = m->edit_count = m->evicted_count = 0;
    ref_plan *plans = ref_memory_reserve(&m->memory, m->plans, &m->plan_room, count, sizeof *plans);
    if (!plans) return ref_memory_fail("plans of a step");
    m->plans = plans;
    kvg_status status = KVG_OK;
    for (uint32_t i = 0; i < count && status == KVG_OK; i++) status = add_plan(m, &requests[i]);
    if (status == KVG_OK) qsort(plans, count, sizeof *plans, by_priority);
    return status;
}

/* --- what is still cached, and what others have cached --- */

static kvg_status revive(kvg_sequence_manager *m, const ref_plan *p)
{
    ref_sequence *s = p->sequence;
    if (!p->revived) return KVG_OK;
    kvg_status status = ref_sequence_rederive(m, s);
    if (status != KVG_OK || s->info.blocks == 0) return status;
    return ref_block_pair_change(&m->pair, REF_LOCK, s->ids + s->info.holes, s->info.blocks - s->info.holes);
}

static kvg_status reserve_scratch(kvg_sequence_manager *m, uint64_t n)
{
    uint32_t *ids = ref_memory_reserve(&m->memory, m->ids, &m->id_room, n, sizeof *ids);
    if (ids) m->ids = ids;
    uint64_t *unique_ids = ref_memory_reserve(&m->memory, m->unique_ids, &m->unique_room, n, sizeof *unique_ids);
    if (unique_ids) m->unique_ids = unique_ids;
    return ids && unique_ids ? KVG_OK : ref_memory_fail("scratch of a step");
}

/* Makes the first `matched` entries the index's, from entry `own` on; those that the window has passed are holes and
 * are not locked. */
static kvg_status adopt(kvg_sequence_manager *m, ref_plan *p, uint32_t own, uint32_t matched)
{
    ref_sequence *s = p->sequence;
    kvg_sequence_info *info = &s->info;
    const uint32_t passed = ref_sequence_passed(m, matched * m->span);
    const uint32_t unlocked = passed < own ? own : passed; /* entries from here on are locked now */
    kvg_status status = ref_sequence_reserve(m, s, matched);
    if (status == KVG_OK && info->blocks > own) {
        status = ref_block_pair_change(&m->pair, REF_UNLOCK, s->ids + own, info->blocks - own);
    }
    if (status == KVG_OK && passed > info->holes && own > info->holes) {
        const uint32_t last = passed < own ? passed : own;
        status = ref_block_pair_change(&m->pair, REF_UNLOCK, s->ids + info->holes, last - info->holes);
    }
    if (status == KVG_OK) {
        status = ref_block_pair_change(&m->pair, REF_LOCK, m->ids + unlocked, matched - unlocked);
    }
    for (uint32_t i = info->holes; i < matched && status == KVG_OK; i++) {
        const ref_reference hole = {KVG_BLOCK_NONE, 0}, found = {m->ids[i], m->unique_ids[i]};
        if (i < passed) status = set_entry(m, p, i, hole);
        else if (i >= own) status = set_entry(m, p, i, found);
    }
    info->blocks = matched;
    info->holes = passed;
    info->cache_len = matched * m->span;
    p->matched = matched - own;
    return status;
}

/* Prefix match: for a sequence that held nothing, where the index knows more full blocks than it has left itself. The
 * index never gives the whole of what it is shown. */
static kvg_status match(kvg_sequence_manager *m, ref_plan *p)
{
    const kvg_prefix_pool *prefix = &m->config.prefix;
    ref_sequence *s = p->sequence;
    const uint32_t own = s->info.cache_len / m->span;
    const uint32_t shown = s->info.tokens < p->request->context ? s->info.tokens : p->request->context;
    if (!p->revived || !prefix->ops || (shown - 1) / m->span <= own) return KVG_OK;
    kvg_status status = reserve_scratch(m, shown / m->span);
    if (status != KVG_OK) return status;
    uint32_t matched = 0;
    status = prefix->ops->match(prefix->self, &s->info.key, s->tokens, shown, m->ids, m->unique_ids, &matched);
    return status == KVG_OK && matched > own ? adopt(m, p, own, matched) : status;
}

static kvg_status check_input(const kvg_sequence_manager *m, const ref_plan *p, uint32_t capacity)
{
    const kvg_sequence_info *s = &p->sequence->info;
    const unsigned long long id = s->id;
    if (p->request->context <= s->cache_len) {
        return kvg_fail(KVG_ERR_INVALID, "sequence %llu: nothing to write: %u of %u tokens are in the cache", id,
                        s->cache_len, p->request->context);
    }
    const uint64_t blocks = ((uint64_t)p->request->context + m->span - 1) / m->span - s->holes;
    if (blocks > capacity) {
        return kvg_fail(KVG_ERR_EXHAUSTED, "sequence %llu: %u tokens need %llu blocks, the pool can have %u", id,
                        p->request->context, (unsigned long long)blocks, capacity);
    }
    return KVG_OK;
}

/* --- who gets blocks, and from whom --- */

/* Adds the blocks that become cached if this sequence lets go, too, to *room. */
static kvg_status count_victim(kvg_sequence_manager *m, ref_plan *p, uint64_t *room)
{
    const ref_sequence *s = p->sequence;
    kvg_status status = KVG_OK;
    p->victim = true;
    for (uint32_t i = s->info.holes; i < s->info.blocks && status == KVG_OK; i++) {
        kvg_block b = {0};
        status = ref_block_pair_get(&m->pair, s->ids[i], &b);
        if (b.use_count == ++m->going[s->ids[i]].victims) ++*room;
    }
    return status;
}

/* The blocks a sequence still needs. A block to be written that somebody else holds too is copied. */
static kvg_status count_need(kvg_sequence_manager *m, ref_plan *p)
{
    const kvg_sequence_info *s = &p->sequence->info;
    const uint64_t blocks = ((uint64_t)p->request->context + m->span - 1) / m->span;
    const uint32_t written = s->cache_len / m->span; /* the first block to be written */
    p->need = blocks > s->blocks ? (uint32_t)blocks - s->blocks : 0;
    if (written >= s->blocks) return KVG_OK;
    const uint32_t id = p->sequence->ids[written];
    kvg_block b = {0};
    kvg_status status = ref_block_pair_get(&m->pair, id, &b);
    if (b.use_count > 1 + m->going[id].victims + m->going[id].copied) {
        p->copy_from = id;
        p->need++;
    }
    return status;
}

/* Goes through the batch in order of priority. Where free and cached blocks do not do, the last sequences of the batch
 * become victims, one by one. The first sequence that cannot be served ends it: nobody overtakes. *served: how many are
 * served; *spared: the first victim. */
static kvg_status choose(kvg_sequence_manager *m, uint64_t room, uint32_t *served, uint32_t *spared)
{
    uint32_t last = m->plan_count, i = 0;
    for (; i < last; i++) {
        ref_plan *p = &m->plans[i];
        uint32_t victim = last;
        kvg_status status = count_need(m, p);
        while (status == KVG_OK && room < p->need && victim > i + 1) {
            status = count_victim(m, &m->plans[--victim], &room);
        }
        if (status != KVG_OK) return status;
        if (room < p->need) break;
        room -= p->need;
        last = victim;
        p->scheduled = true;
        if (p->copy_from != KVG_BLOCK_NONE) m->going[p->copy_from].copied++;
    }
    *served = i;
    *spared = last;
    return KVG_OK;
}

static void clear_going(kvg_sequence_manager *m)
{
    const ref_going none = {0, 0};
    for (uint32_t i = 0; i < m->plan_count; i++) {
        const ref_plan *p = &m->plans[i];
        const kvg_sequence_info *s = &p->sequence->info;
        if (p->copy_from != KVG_BLOCK_NONE) m->going[p->copy_from] = none;
        for (uint32_t e = s->holes; p->victim && e < s->blocks; e++) m->going[p->sequence->ids[e]] = none;
    }
}

/* --- carrying out --- */

/* Gives a scheduled sequence its blocks, from m->ids[*next] on: first the copy, then the end of the table. */
static kvg_status assign(kvg_sequence_manager *m, ref_plan *p, uint32_t *next)
{
    ref_sequence *s = p->sequence;
    kvg_sequence_info *info = &s->info;
    const uint32_t end = *next + p->need;
    kvg_status status = ref_sequence_reserve(m, s, (uint64_t)info->blocks + p->need);
    if (status == KVG_OK && p->copy_from != KVG_BLOCK_NONE) {
        const ref_reference copy = {m->ids[*next], m->unique_ids[*next]};
        status = set_entry(m, p, info->cache_len / m->span, copy);
        if (status == KVG_OK) status = ref_block_pair_change(&m->pair, REF_UNLOCK, &p->copy_from, 1);
        p->copy_to = copy.id;
        ++*next;
    }
    for (; *next < end && status == KVG_OK; ++*next) {
        status = set_entry(m, p, info->blocks++, (ref_reference){m->ids[*next], m->unique_ids[*next]});
    }
    const uint32_t left = p->request->context - info->cache_len;
    info->state = KVG_SEQUENCE_ACTIVE;
    info->granted = left < p->request->max_tokens ? left : p->request->max_tokens;
    return status;
}

/* Release victims, evict, allocate, assign. */
static kvg_status carry_out(kvg_sequence_manager *m, uint32_t served, uint32_t spared, uint64_t unused)
{
    kvg_status status = KVG_OK;
    uint64_t total = 0;
    for (uint32_t i = m->plan_count; i-- > spared && status == KVG_OK;) {
        status = ref_sequence_give_back(m, m->plans[i].sequence, false);
    }
    for (uint32_t i = 0; i < served; i++) total += m->plans[i].need;
    if (status == KVG_OK) status = reserve_scratch(m, total);
    if (status == KVG_OK && total > unused) {
        const uint32_t n = (uint32_t)(total - unused);
        uint32_t *evicted = ref_memory_reserve(&m->memory, m->evicted, &m->evicted_room, n, sizeof *evicted);
        if (!evicted) return ref_memory_fail("evicted blocks of a step");
        m->evicted = evicted;
        m->evicted_count = n;
        status = ref_block_pair_evict(&m->pair, n, evicted);
    }
    if (status == KVG_OK) status = ref_block_pair_allocate(&m->pair, (uint32_t)total, m->ids, m->unique_ids);
    uint32_t next = 0;
    for (uint32_t i = 0; i < served && status == KVG_OK; i++) status = assign(m, &m->plans[i], &next);
    for (uint32_t i = served; i < spared; i++) {
        m->plans[i].sequence->info.state = KVG_SEQUENCE_LOCKED;
        m->plans[i].sequence->info.granted = 0;
    }
    return status;
}

static kvg_status run_step(kvg_sequence_manager *m)
{
    kvg_block_counts counts;
    kvg_status status = ref_sequence_carry_out(m);
    for (uint32_t i = 0; i < m->plan_count && status == KVG_OK; i++) status = revive(m, &m->plans[i]);
    for (uint32_t i = 0; i < m->plan_count && status == KVG_OK; i++) status = match(m, &m->plans[i]);
    ref_block_pair_counts(&m->pair, &counts);
    for (uint32_t i = 0; i < m->plan_count && status == KVG_OK; i++) {
        status = check_input(m, &m->plans[i], counts.capacity);
    }
    if (status != KVG_OK) return status;
    const uint64_t unused = (uint64_t)counts.free + (counts.capacity - counts.total);
    uint32_t served = 0, spared = 0;
    status = choose(m, unused + counts.cached, &served, &spared);
    clear_going(m);
    if (status == KVG_OK) status = carry_out(m, served, spared, unused);
    const kvg_prefix_pool *prefix = &m->config.prefix;
    if (status == KVG_OK && prefix->ops && m->evicted_count) {
        status = prefix->ops->verify(prefix->self, m->evicted, m->evicted_count, NULL);
    }
    return status;
}

static kvg_sequence_grant grant_of(const kvg_sequence_manager *m, const ref_plan *p)
{
    const kvg_sequence_info *s = &p->sequence->info;
    const kvg_sequence_grant waits = {.sequence = s->id,
                                      .matched = p->matched,
                                      .copy_from = KVG_BLOCK_NONE,
                                      .copy_to = KVG_BLOCK_NONE};
    if (!p->scheduled) return waits;
    return (kvg_sequence_grant){.sequence = s->id,
                                .active = true,
                                .first = s->cache_len,
                                .count = s->granted,
                                .read_only = s->cache_len / m->span,
                                .matched = p->matched,
                                .copy_from = p->copy_from,
                                .copy_to = p->copy_to,
                                .copy_tokens = p->copy_to == KVG_BLOCK_NONE ? 0 : s->cache_len % m->span};
}

kvg_status ref_sequence_materialise(void *self, const kvg_sequence_request *requests, uint32_t count,
                                    kvg_sequence_grant *grants)
{
    kvg_sequence_manager *m = self;
    kvg_status status = plan_batch(m, requests, count);
    if (status == KVG_OK) {
        ref_block_pair_begin(&m->pair);
        status = run_step(m);
        if (status == KVG_OK) ref_block_pair_end(&m->pair);
        else ref_block_pair_undo(&m->pair);
        if (status != KVG_OK) undo_sequences(m);
    }
    for (uint32_t i = 0; i < m->plan_count; i++) {
        const ref_plan *p = &m->plans[i];
        p->sequence->in_batch = false;
        if (status == KVG_OK) grants[p->index] = grant_of(m, p);
    }
    if (status == KVG_OK) m->unlock_count = m->free_count = 0;
    return status;
}
