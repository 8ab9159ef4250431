/* Which rows a step has: who is let into the batch, what the managers grant, and where it lies in the cache. */
#include <string.h>

#include "model/generate/generate_parts.h"

/* --- letting in --- */

/* The waiting request that goes first, or NULL. */
static kvg_generate_entry *next_waiting(const kvg_generation *g)
{
    kvg_generate_entry *best = NULL;
    for (size_t i = 0; i < g->entry_count; i++) {
        kvg_generate_entry *e = g->entries[i];
        if (e->phase != KVG_GENERATE_WAITS || e->ask.joins > g->now) continue;
        if (!best || e->ask.priority < best->ask.priority) best = e;
    }
    return best;
}

/* Time passes at once where nothing runs and nobody has come yet. */
static void wait_for_somebody(kvg_generation *g)
{
    uint64_t first = UINT64_MAX;
    for (size_t i = 0; i < g->entry_count; i++) {
        const kvg_generate_entry *e = g->entries[i];
        if (e->phase == KVG_GENERATE_WAITS && e->ask.joins < first) first = e->ask.joins;
    }
    if (g->batch_count == 0 && first != UINT64_MAX && first > g->now) g->now = first;
}

/* The running request with the longest prompt that is the start of this one's and is still being read. */
static kvg_generate_entry *parent_of(const kvg_generation *g, const kvg_generate_entry *e)
{
    kvg_generate_entry *best = NULL;
    for (uint32_t i = 0; i < g->batch_count && g->settings.share_prefixes; i++) {
        kvg_generate_entry *p = g->batch[i];
        const uint32_t n = p->ask.prompt_tokens;
        if (p->phase != KVG_GENERATE_RUNS || p->known > n || n > e->ask.prompt_tokens) continue;
        if (memcmp(p->tokens, e->tokens, n * sizeof *p->tokens) != 0) continue;
        if (!best || n > best->ask.prompt_tokens) best = p;
    }
    return best;
}

static kvg_status let_in(kvg_generation *g, kvg_generate_entry *e)
{
    const kvg_sequence_pool *pool = &g->sequences;
    e->parent = parent_of(g, e);
    if (!e->parent) {
        kvg_status s = pool->ops->create(pool->self, e->ask.id, &g->key, e->tokens, e->known);
        if (s) return s;
    }
    e->phase = e->parent ? KVG_GENERATE_FORKS : KVG_GENERATE_RUNS;
    g->batch[g->batch_count++] = e;
    return KVG_OK;
}

/* A parent stops before the last token of its prompt, which gives the first logits; all those that wait for it share
 * what it has then, and each reads that token itself. */
static kvg_status fork_child(kvg_generation *g, kvg_generate_entry *child)
{
    const kvg_sequence_pool *pool = &g->sequences;
    const kvg_generate_entry *parent = child->parent;
    const uint32_t shared = parent->ask.prompt_tokens;
    kvg_sequence_info info;
    kvg_status s = pool->ops->verify(pool->self, parent->ask.id, NULL);
    if (!s) s = pool->ops->get(pool->self, parent->ask.id, &info);
    if (s || info.cache_len + 1 < shared) return s;
    s = pool->ops->fork(pool->self, parent->ask.id, child->ask.id);
    if (s) return s;
    if (child->known > shared) {
        s = pool->ops->append_tokens(pool->self, child->ask.id, child->tokens + shared, child->known - shared);
    }
    if (s && pool->ops->erase(pool->self, child->ask.id)) g->broken = true;
    if (s) return s;
    child->phase = KVG_GENERATE_RUNS;
    child->parent = NULL;
    return KVG_OK;
}

kvg_status kvg_generate_admit(kvg_generation *g)
{
    kvg_status s = KVG_OK;
    wait_for_somebody(g);
    while (!s && g->batch_count < g->settings.batch) {
        kvg_generate_entry *e = next_waiting(g);
        if (!e) break;
        s = let_in(g, e);
    }
    for (uint32_t i = 0; i < g->batch_count && !s; i++) {
        if (g->batch[i]->phase == KVG_GENERATE_FORKS) s = fork_child(g, g->batch[i]);
    }
    return s;
}

/* --- asking --- */

static bool has_children(const kvg_generation *g, const kvg_generate_entry *e)
{
    for (uint32_t i = 0; i < g->batch_count; i++) {
        if (g->batch[i]->phase == KVG_GENERATE_FORKS && g->batch[i]->parent == e) return true;
    }
    return false;
}

/* Drafts go with the one row that a request has to itself otherwise; the token after them is drawn, too. */
static uint32_t propose(const kvg_generate_entry *e, const kvg_sequence_info *info, int32_t *draft)
{
    const uint32_t end = e->ask.prompt_tokens + e->ask.new_tokens;
    if (e->ask.drafts == 0 || e->known + 1 >= end) return 0;
    if (info->state == KVG_SEQUENCE_CACHED || info->cache_len + 1 != e->known) return 0;
    return kvg_generate_propose(e, end - e->known - 1, draft);
}

/* What the requests of the batch want. */
static kvg_status ask(kvg_generation *g, uint32_t *asked)
{
    const kvg_sequence_pool *pool = &g->sequences;
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->batch_count; i++) {
        kvg_generate_entry *e = g->batch[i];
        if (e->phase != KVG_GENERATE_RUNS) continue;
        kvg_sequence_info info;
        kvg_status s = pool->ops->get(pool->self, e->ask.id, &info);
        if (s) return s;
        kvg_generate_share *share = &g->shares[n];
        int32_t *drafts = g->drafts + (size_t)n * g->settings.drafts;
        *share = (kvg_generate_share){.entry = e, .draft = drafts, .drafts = propose(e, &info, drafts)};
        share->held = info.state != KVG_SEQUENCE_CACHED && info.blocks > 0;
        g->asked[n++] = (kvg_sequence_request){
            .sequence = e->ask.id,
            .priority = e->ask.priority,
            .context = has_children(g, e) ? e->ask.prompt_tokens - 1 : e->known + share->drafts,
            .max_tokens = share->drafts ? share->drafts + 1 : g->settings.chunk,
        };
    }
    *asked = n;
    return KVG_OK;
}

/* --- what was granted --- */

static bool nobody_runs(const kvg_generation *g, uint32_t asked)
{
    for (uint32_t i = 0; i < asked; i++) {
        if (g->grants[i].active) return false;
    }
    return true;
}

/* Nobody was granted anything: the first request would copy a block that it shares with others of the batch, and with
 * all that they hold there is none to copy to. So they give up their part of it, and it writes in place. */
static kvg_status make_room(kvg_generation *g, uint32_t asked)
{
    const kvg_sequence_pool *pool = &g->sequences;
    uint32_t first = 0;
    kvg_status s = KVG_OK;
    for (uint32_t i = 1; i < asked; i++) {
        if (g->asked[i].priority < g->asked[first].priority) first = i;
    }
    for (uint32_t i = 0; i < asked && !s; i++) {
        if (i != first) s = kvg_generation_preempt(g, g->asked[i].sequence);
    }
    if (!s) s = ask(g, &asked);
    if (!s) s = pool->ops->materialise(pool->self, g->asked, asked, g->grants);
    if (s || !nobody_runs(g, asked)) return s;
    return kvg_fail(KVG_ERR_EXHAUSTED, "generation: no request gets the blocks that it needs");
}

static kvg_status materialise(kvg_generation *g, uint32_t *asked)
{
    const kvg_sequence_pool *pool = &g->sequences;
    kvg_status s = ask(g, asked);
    if (!s) s = pool->ops->materialise(pool->self, g->asked, *asked, g->grants);
    return s || !nobody_runs(g, *asked) ? s : make_room(g, *asked);
}

static kvg_status count_preempted(kvg_generation *g, const kvg_generate_share *share)
{
    const kvg_sequence_pool *pool = &g->sequences;
    kvg_sequence_info info;
    kvg_status s = pool->ops->get(pool->self, share->entry->ask.id, &info);
    if (!s && share->held && info.state == KVG_SEQUENCE_CACHED) g->counts.preemptions++;
    return s;
}

static void add_copy(kvg_generation *g, const kvg_sequence_grant *grant)
{
    if (grant->copy_to == KVG_BLOCK_NONE) return;
    g->copy[g->step.copies][0] = grant->copy_from;
    g->copy[g->step.copies++][1] = grant->copy_to;
}

/* The rows of one sequence: tokens, places, and which logits are wanted. */
static kvg_status add_rows(kvg_generation *g, kvg_generate_share *share, const kvg_sequence_grant *grant)
{
    const kvg_sequence_pool *pool = &g->sequences;
    kvg_model_step *step = &g->step;
    const kvg_generate_entry *e = share->entry;
    share->row = step->rows;
    share->rows = grant->count;
    share->first = grant->first;
    const uint32_t length = grant->first + grant->count;
    for (uint32_t i = 0; i < grant->count; i++) {
        const uint32_t row = step->rows + i, position = grant->first + i;
        g->tokens[row] = position < e->known ? e->tokens[position] : share->draft[position - e->known];
        g->positions[row] = (int32_t)position;
        const bool draws = position + 1 >= e->known && e->ask.new_tokens > 0;
        g->logits_of[row] = UINT32_MAX;
        if (!draws && !g->observer.all_rows) continue;
        g->logits_of[row] = step->wanted;
        g->wanted_rows[step->wanted++] = row;
    }
    g->lengths[step->sequences] = (int32_t)length;
    g->query_lengths[step->sequences++] = (int32_t)grant->count;
    if (length > step->longest) step->longest = length;
    kvg_status s = pool->ops->slots(pool->self, e->ask.id, 0, grant->first, grant->count, g->slots + step->rows);
    step->rows += grant->count;
    return s;
}

/* The block tables, all as wide as the longest needs. */
static kvg_status fill_table(kvg_generation *g)
{
    const kvg_sequence_pool *pool = &g->sequences;
    const uint32_t tokens = g->settings.setup.block_tokens, width = (g->step.longest + tokens - 1) / tokens;
    kvg_status s = KVG_OK;
    for (uint32_t i = 0; i < g->share_count && !s; i++) {
        const uint32_t blocks = ((uint32_t)g->lengths[i] + tokens - 1) / tokens;
        s = pool->ops->table(pool->self, g->shares[i].entry->ask.id, 0, blocks, g->table_ids, NULL);
        for (uint32_t k = 0; k < width && !s; k++) {
            const bool none = k >= blocks || g->table_ids[k] == KVG_BLOCK_NONE;
            g->table[(size_t)i * width + k] = none ? -1 : (int32_t)g->table_ids[k];
        }
    }
    return s;
}

static void count_blocks(kvg_generation *g)
{
    const uint32_t now = kvg_generation_counts(g).blocks;
    if (now > g->counts.peak_blocks) g->counts.peak_blocks = now;
}

kvg_status kvg_generate_plan(kvg_generation *g)
{
    uint32_t asked;
    g->share_count = 0;
    kvg_status s = materialise(g, &asked);
    if (s) return s;
    g->step = (kvg_model_step){.copy = (const uint32_t(*)[2])g->copy, .tokens = g->tokens, .positions = g->positions,
                               .slots = g->slots, .block_table = g->table, .lengths = g->lengths,
                               .query_lengths = g->query_lengths, .wanted_rows = g->wanted_rows,
                               .logits = g->step.logits};
    /* All that are granted are shares from here on, whatever fails: model/generate/generate_step.c takes them
     * back. */
    for (uint32_t i = 0; i < asked; i++) {
        const kvg_generate_share share = g->shares[i];
        const kvg_status counted = count_preempted(g, &share);
        s = s ? s : counted;
        if (!g->grants[i].active) continue;
        g->grants[g->share_count] = g->grants[i];
        g->shares[g->share_count++] = share;
    }
    count_blocks(g);
    for (uint32_t i = 0; i < g->share_count && !s; i++) {
        add_copy(g, &g->grants[i]);
        s = add_rows(g, &g->shares[i], &g->grants[i]);
    }
    return s ? s : fill_table(g);
}
