/* One step: plan it, let the runner compute it, draw tokens, show the rows, and report to the managers what is written
 * now. */
#include <stdio.h>
#include <string.h>

#include "model/generate/generate_parts.h"

static const float *logits_of(const kvg_generation *g, uint32_t row)
{
    const uint32_t place = g->logits_of[row];
    return place == UINT32_MAX ? NULL : g->step.logits + (size_t)place * g->settings.setup.config->vocab;
}

/* The tokens after the last known one: the first row draws always; a draft's row counts if it is what was drawn before
 * it, as if the tokens had come one by one. */
static kvg_status draw(kvg_generation *g, kvg_generate_share *share)
{
    const kvg_generate_entry *e = share->entry;
    const uint32_t vocab = g->settings.setup.config->vocab;
    for (uint32_t i = 0; i < share->rows; i++) {
        const uint32_t row = share->row + i, position = share->first + i;
        if (position >= e->known && g->drawn[row - 1] != g->tokens[row]) break;
        share->kept++;
        if (position + 1 < e->known || e->ask.new_tokens == 0) continue;
        uint32_t token;
        kvg_status s = kvg_reference_sample(logits_of(g, row), vocab, &e->ask.sampling, position + 1, &token);
        if (s) return kvg_fail_in(s, "request %llu, position %u", (unsigned long long)e->ask.id, position + 1);
        g->drawn[row] = (int32_t)token;
        share->drawn++;
    }
    return KVG_OK;
}

static kvg_status show(const kvg_generation *g, const kvg_generate_share *share)
{
    const kvg_generate_entry *e = share->entry;
    for (uint32_t i = 0; i < share->kept && g->observer.see; i++) {
        const uint32_t row = share->row + i, position = share->first + i;
        const bool drawn = i + share->drawn >= share->kept;
        const int32_t known = position + 1 < e->known ? e->tokens[position + 1] : -1;
        const kvg_generate_row seen = {.request = e->ask.id, .step = g->now, .position = position,
                                       .token = g->tokens[row], .next = drawn ? g->drawn[row] : known,
                                       .drawn = drawn, .logits = logits_of(g, row)};
        kvg_status s = g->observer.see(g->observer.context, &seen);
        if (s) return s;
    }
    return KVG_OK;
}

/* Tells the manager; then the request knows its new tokens. */
static kvg_status report(kvg_generation *g, const kvg_generate_share *share)
{
    const kvg_sequence_pool *pool = &g->sequences;
    kvg_generate_entry *e = share->entry;
    const int32_t *drawn = g->drawn + share->row + share->kept - share->drawn;
    kvg_status s = KVG_OK;
    if (share->drawn) s = pool->ops->append_tokens(pool->self, e->ask.id, drawn, share->drawn);
    if (!s) s = pool->ops->written(pool->self, e->ask.id, share->kept);
    const uint32_t known = e->known + share->drawn, end = e->ask.prompt_tokens + e->ask.new_tokens;
    const bool done = known == end && (e->ask.new_tokens || share->first + share->kept == end);
    if (!s && done) s = pool->ops->erase(pool->self, e->ask.id);
    if (s) return s;
    memcpy(e->tokens + e->known, drawn, share->drawn * sizeof *drawn);
    e->known = known;
    if (done) e->phase = KVG_GENERATE_DONE;
    if (!e->begun) g->counts.shared_tokens += share->first;
    e->begun = true;
    g->counts.drafted += share->drafts;
    g->counts.accepted += share->drawn > 1 ? share->drawn - 1 : 0;
    return KVG_OK;
}

/* Where a step failed nobody knows what its rows and copies are: requests that had a part in it start again from the
 * tokens that they know. */
static kvg_status take_back(kvg_generation *g, uint32_t from, kvg_status why)
{
    const kvg_sequence_pool *pool = &g->sequences;
    char text[512];
    snprintf(text, sizeof text, "%s", kvg_error_text());
    for (uint32_t i = from; i < g->share_count; i++) {
        const kvg_generate_entry *e = g->shares[i].entry;
        if (pool->ops->create(pool->self, e->ask.id, &g->key, e->tokens, e->known)) g->broken = true;
    }
    return kvg_fail(why, "%s", text);
}

static void retire(kvg_generation *g)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < g->batch_count; i++) {
        if (g->batch[i]->phase != KVG_GENERATE_DONE) g->batch[left++] = g->batch[i];
    }
    g->batch_count = left;
}

static bool is_busy(const kvg_generation *g)
{
    for (size_t i = 0; i < g->entry_count; i++) {
        if (g->entries[i]->phase != KVG_GENERATE_DONE) return true;
    }
    return false;
}

static kvg_status run(kvg_generation *g)
{
    uint32_t reported = 0;
    kvg_status s = kvg_generate_plan(g);
    if (!s) s = g->settings.runner->step(g->runner, &g->step);
    for (uint32_t i = 0; i < g->share_count && !s; i++) s = draw(g, &g->shares[i]);
    for (uint32_t i = 0; i < g->share_count && !s; i++) s = show(g, &g->shares[i]);
    while (reported < g->share_count && !s) {
        s = report(g, &g->shares[reported]);
        reported += !s;
    }
    retire(g);
    if (s) return take_back(g, reported, s);
    g->sequences.ops->commit(g->sequences.self); /* where it fails, the next step does it */
    g->counts.steps++;
    g->counts.rows += g->step.rows;
    g->counts.copies += g->step.copies;
    g->now++;
    return KVG_OK;
}

kvg_status kvg_generation_step(kvg_generation *g, bool *busy)
{
    if (g->broken) {
        return kvg_fail(KVG_ERR_INVALID, "generation: a step failed and could not be taken back: open another one");
    }
    *busy = is_busy(g);
    if (!*busy) return KVG_OK;
    kvg_status s = kvg_generate_admit(g);
    if (!s) s = run(g);
    *busy = is_busy(g);
    return s;
}
