/* A generation's life: its runner and managers, and the requests that are submitted to it. Its steps are in
 * model/generate/generate_step.c. */
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "model/generate/generate_parts.h"
#include "reference/rope_table.h"

/* --- cache identity --- */

static void mix(uint64_t *hash, const void *bytes, size_t size)
{
    const uint64_t parts[2] = {*hash, kvg_hash64(bytes, size)};
    *hash = kvg_hash64(parts, sizeof parts);
}

/* What a block's bytes follow from, beside its tokens: the model and the storage mode. Of the weights it takes the
 * first row of K and of V of every layer, where there are any. */
static kvg_status identify(const kvg_model_setup *s, kvg_prefix_key *key)
{
    const kvg_model_config *c = s->config;
    const uint32_t numbers[] = {c->family, c->vocab, c->hidden, c->layers, c->query_heads, c->kv_heads, c->head_dim,
                                s->dtype, s->layout, s->profile, s->products, s->storage[KVG_K].format,
                                s->storage[KVG_V].format, s->block_tokens};
    uint64_t hash = 0;
    mix(&hash, numbers, sizeof numbers);
    mix(&hash, s->cos_sin, (size_t)s->max_tokens * c->head_dim * sizeof *s->cos_sin);
    for (int side = KVG_K; side <= KVG_V; side++) {
        mix(&hash, s->storage[side].dialect, strlen(s->storage[side].dialect));
    }
    if (s->tensor_scale) mix(&hash, s->tensor_scale, c->layers * sizeof *s->tensor_scale);
    float *row = malloc(c->hidden * sizeof *row);
    if (!row) return kvg_fail(KVG_ERR_MEMORY, "generation: cannot hold a row of %u weights", c->hidden);
    for (uint32_t layer = 0; s->source.row && layer < c->layers; layer++) {
        mix(&hash, row, s->source.row(s->source.weights, KVG_WEIGHT_K, layer, 0, row) * sizeof *row);
        mix(&hash, row, s->source.row(s->source.weights, KVG_WEIGHT_V, layer, 0, row) * sizeof *row);
    }
    free(row);
    *key = (kvg_prefix_key){.extra = hash};
    return KVG_OK;
}

/* --- managers --- */

/* A window is the managers' only where every layer has it: one table serves all. */
static uint32_t common_window(const kvg_model_config *c)
{
    uint32_t window = c->window;
    for (uint32_t layer = 0; layer < c->layers; layer++) window = c->sliding[layer] ? window : 0;
    return window;
}

/* Whether block scales lie in a pool of their own. */
static kvg_status has_scale_pool(const kvg_model_setup *setup, bool *out)
{
    const kvg_problem problem = kvg_model_append(setup, 0, 1);
    kvg_status s = kvg_problem_check(&problem);
    *out = false;
    for (int side = KVG_K; side <= KVG_V && !s; side++) {
        uint64_t bytes = 0;
        s = kvg_problem_pool_bytes(&problem, KVG_ROLE_SCALE_POOL, (kvg_side)side, &bytes);
        *out |= bytes > 0;
    }
    return s;
}

static kvg_status open_managers(kvg_generation *g)
{
    const kvg_model_setup *setup = &g->settings.setup;
    const kvg_block_config blocks = {.capacity = setup->blocks};
    kvg_sequence_config sequences = {.block_tokens = setup->block_tokens,
                                     .cp_size = 1,
                                     .window = common_window(setup->config)};
    bool scales;
    kvg_status s = has_scale_pool(setup, &scales);
    if (!s) s = kvg_block_manager_create(&blocks, &g->blocks[0]);
    if (!s && scales) s = kvg_block_manager_create(&blocks, &g->blocks[1]);
    if (s) return s;
    sequences.data = kvg_block_manager_pool(g->blocks[0]);
    if (scales) sequences.scale = kvg_block_manager_pool(g->blocks[1]);
    if (g->settings.share_prefixes) {
        const kvg_prefix_config prefixes = {.span = setup->block_tokens, .blocks = sequences.data};
        s = kvg_prefix_index_create(&prefixes, &g->index);
        if (!s) sequences.prefix = kvg_prefix_index_pool(g->index);
    }
    if (!s) s = kvg_sequence_manager_create(&sequences, &g->manager);
    if (!s) g->sequences = kvg_sequence_manager_pool(g->manager);
    return s;
}

/* --- opening --- */

static kvg_status check_settings(const kvg_generate_settings *settings)
{
    const kvg_model_setup *s = &settings->setup;
    if (settings->chunk == 0 || settings->batch == 0) {
        return kvg_fail(KVG_ERR_INVALID, "generation: chunk %u and batch %u: both are at least 1", settings->chunk,
                        settings->batch);
    }
    if (s->max_tokens == 0 || s->max_tokens > s->config->positions) {
        return kvg_fail(KVG_ERR_INVALID, "generation: sequences of up to %u tokens: the model has positions for %u",
                        s->max_tokens, s->config->positions);
    }
    if (s->blocks == 0 || s->block_tokens == 0) {
        return kvg_fail(KVG_ERR_INVALID, "generation: %u blocks of %u tokens: both are at least 1", s->blocks,
                        s->block_tokens);
    }
    if (settings->chunk > s->max_tokens || settings->drafts >= s->max_tokens || settings->batch > 1u << 16) {
        return kvg_fail(KVG_ERR_INVALID,
                        "generation: chunk %u, drafts %u, batch %u: the first two fit into %u tokens, batch is at most "
                        "65536", settings->chunk, settings->drafts, settings->batch, s->max_tokens);
    }
    return KVG_OK;
}

/* The most that a step can have. */
static kvg_status set_limits(kvg_generation *g)
{
    kvg_model_setup *s = &g->settings.setup;
    const uint64_t batch = g->settings.batch, drafted = (uint64_t)g->settings.drafts + 1;
    const uint64_t each = g->settings.chunk > drafted ? g->settings.chunk : drafted;
    const uint64_t wanted = g->observer.all_rows ? each : drafted;
    if (batch * each > 1u << 24) {
        return kvg_fail(KVG_ERR_INVALID, "generation: %llu rows in a step; at most 2^24",
                        (unsigned long long)(batch * each));
    }
    s->max_rows = (uint32_t)(batch * each);
    s->max_sequences = (uint32_t)batch;
    s->max_wanted = (uint32_t)(batch * wanted);
    return KVG_OK;
}

static kvg_status make_rope_table(kvg_generation *g)
{
    kvg_model_setup *s = &g->settings.setup;
    if (s->cos_sin) return KVG_OK;
    kvg_rope rope = s->config->rope;
    rope.positions = s->max_tokens;
    g->cos_sin = malloc((size_t)s->max_tokens * s->config->head_dim * sizeof *g->cos_sin);
    if (!g->cos_sin) return kvg_fail(KVG_ERR_MEMORY, "generation: cannot hold cos and sin of %u tokens", s->max_tokens);
    s->cos_sin = g->cos_sin;
    return kvg_reference_rope_table(&rope, g->cos_sin);
}

static kvg_status make_arrays(kvg_generation *g)
{
    const kvg_model_setup *s = &g->settings.setup;
    const size_t batch = g->settings.batch, rows = s->max_rows;
    const size_t columns = ((size_t)s->max_tokens + s->block_tokens - 1) / s->block_tokens;
    const struct {
        void *array; /* address of a pointer */
        size_t count, size;
    } arrays[] = {
        {&g->batch, batch, sizeof *g->batch},          {&g->asked, batch, sizeof *g->asked},
        {&g->grants, batch, sizeof *g->grants},        {&g->shares, batch, sizeof *g->shares},
        {&g->copy, batch, sizeof *g->copy},            {&g->tokens, rows, sizeof *g->tokens},
        {&g->positions, rows, sizeof *g->positions},   {&g->slots, rows, sizeof *g->slots},
        {&g->lengths, batch, sizeof *g->lengths},      {&g->query_lengths, batch, sizeof *g->query_lengths},
        {&g->drawn, rows, sizeof *g->drawn},           {&g->logits_of, rows, sizeof *g->logits_of},
        {&g->table_ids, columns, sizeof *g->table_ids}, {&g->table, batch * columns, sizeof *g->table},
        {&g->wanted_rows, s->max_wanted, sizeof *g->wanted_rows},
        {&g->drafts, batch * (g->settings.drafts + 1), sizeof *g->drafts},
        {&g->step.logits, (size_t)s->max_wanted * s->config->vocab, sizeof *g->step.logits},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) {
        void *made = calloc(arrays[i].count, arrays[i].size);
        if (!made) return kvg_fail(KVG_ERR_MEMORY, "generation: cannot hold steps of %zu rows", rows);
        memcpy(arrays[i].array, &made, sizeof made);
    }
    return KVG_OK;
}

kvg_status kvg_generation_open(const kvg_generate_settings *settings, const kvg_generate_observer *observer,
                               kvg_generation **out)
{
    kvg_status s = check_settings(settings);
    if (s) return s;
    kvg_generation *g = calloc(1, sizeof *g);
    if (!g) return kvg_fail(KVG_ERR_MEMORY, "generation: out of memory");
    g->settings = *settings;
    if (observer) g->observer = *observer;
    s = set_limits(g);
    if (!s) s = make_rope_table(g);
    if (!s) s = identify(&g->settings.setup, &g->key);
    if (!s) s = open_managers(g);
    if (!s) s = make_arrays(g);
    if (!s) s = settings->runner->open(&g->settings.setup, &g->runner);
    if (s) kvg_generation_close(g);
    else *out = g;
    return s;
}

static void free_entry(kvg_generate_entry *e)
{
    if (!e) return;
    free(e->tokens);
    free(e->draft);
    free(e);
}

void kvg_generation_close(kvg_generation *g)
{
    if (!g) return;
    g->settings.runner->close(g->runner);
    kvg_sequence_manager_destroy(g->manager);
    kvg_prefix_index_destroy(g->index);
    for (int i = 0; i < 2; i++) kvg_block_manager_destroy(g->blocks[i]);
    for (size_t i = 0; i < g->entry_count; i++) free_entry(g->entries[i]);
    void *const arrays[] = {g->entries, g->cos_sin, g->batch,   g->asked,         g->grants,      g->shares,
                            g->copy,    g->tokens,  g->positions, g->slots,       g->lengths,     g->query_lengths,
                            g->drawn,   g->logits_of, g->table_ids, g->table,     g->wanted_rows, g->step.logits,
                            g->drafts};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++) free(arrays[i]);
    free(g);
}

/* --- requests --- */

kvg_generate_entry *kvg_generate_find(const kvg_generation *g, uint64_t id)
{
    for (size_t i = 0; i < g->entry_count; i++) {
        if (g->entries[i]->ask.id == id) return g->entries[i];
    }
    kvg_fail(KVG_ERR_NOT_FOUND, "request %llu: there is none of this number", (unsigned long long)id);
    return NULL;
}

static kvg_status check_tokens(const kvg_generation *g, const kvg_generate_request *r, const int32_t *tokens,
                               uint32_t count, const char *what)
{
    const uint32_t vocab = g->settings.setup.config->vocab;
    for (uint32_t i = 0; i < count; i++) {
        if (tokens[i] >= 0 && (uint32_t)tokens[i] < vocab) continue;
        return kvg_fail(KVG_ERR_INVALID, "request %llu: token %u of its %s is %d: the model has ids 0 to %u",
                        (unsigned long long)r->id, i, what, tokens[i], vocab - 1);
    }
    return KVG_OK;
}

/* Whether a token can be drawn so at all. */
static kvg_status check_sampling(const kvg_generate_request *r)
{
    const float logit = 0;
    uint32_t token;
    kvg_status s = kvg_reference_sample(&logit, 1, &r->sampling, 0, &token);
    return s ? kvg_fail_in(s, "request %llu", (unsigned long long)r->id) : KVG_OK;
}

static kvg_status check_request(const kvg_generation *g, const kvg_generate_request *r)
{
    const kvg_model_setup *setup = &g->settings.setup;
    const unsigned long long id = r->id;
    if (kvg_generate_find(g, r->id)) return kvg_fail(KVG_ERR_INVALID, "request %llu is there already", id);
    if (r->prompt_tokens == 0) return kvg_fail(KVG_ERR_INVALID, "request %llu: an empty prompt", id);
    const uint64_t all = (uint64_t)r->prompt_tokens + r->new_tokens;
    if (all > setup->max_tokens) {
        return kvg_fail(KVG_ERR_INVALID, "request %llu: %u tokens of prompt and %u new ones: a sequence has at most %u",
                        id, r->prompt_tokens, r->new_tokens, setup->max_tokens);
    }
    const uint64_t written = r->new_tokens ? all - 1 : all; /* nobody asks for what follows the last token */
    const uint64_t blocks = (written + setup->block_tokens - 1) / setup->block_tokens;
    if (blocks > setup->blocks) {
        return kvg_fail(KVG_ERR_INVALID, "request %llu: %llu tokens need %llu blocks of %u tokens: the pool has %u", id,
                        (unsigned long long)written, (unsigned long long)blocks, setup->block_tokens, setup->blocks);
    }
    if (r->drafts > g->settings.drafts) {
        return kvg_fail(KVG_ERR_INVALID, "request %llu: %u drafts, at most %u are set", id, r->drafts,
                        g->settings.drafts);
    }
    kvg_status s = check_sampling(r);
    if (!s) s = check_tokens(g, r, r->prompt, r->prompt_tokens, "prompt");
    if (!s && r->drafts && r->draft) s = check_tokens(g, r, r->draft, r->new_tokens, "draft");
    return s;
}

static kvg_status make_entry(const kvg_generate_request *r, kvg_generate_entry **out)
{
    const size_t all = (size_t)r->prompt_tokens + r->new_tokens;
    const bool drafted = r->drafts && r->draft && r->new_tokens;
    kvg_generate_entry *e = calloc(1, sizeof *e);
    if (e) e->tokens = malloc(all * sizeof *e->tokens);
    if (e && drafted) e->draft = malloc(r->new_tokens * sizeof *e->draft);
    if (!e || !e->tokens || (drafted && !e->draft)) {
        free_entry(e);
        return kvg_fail(KVG_ERR_MEMORY, "request %llu: cannot hold %zu tokens", (unsigned long long)r->id, all);
    }
    e->ask = *r;
    e->ask.prompt = e->tokens;
    e->ask.draft = e->draft;
    e->known = r->prompt_tokens;
    memcpy(e->tokens, r->prompt, r->prompt_tokens * sizeof *e->tokens);
    if (drafted) memcpy(e->draft, r->draft, r->new_tokens * sizeof *e->draft);
    *out = e;
    return KVG_OK;
}

kvg_status kvg_generation_submit(kvg_generation *g, const kvg_generate_request *request)
{
    kvg_status s = check_request(g, request);
    if (s) return s;
    if (g->entry_count == g->entry_room) {
        const size_t room = 2 * g->entry_room + 8;
        kvg_generate_entry **entries = realloc(g->entries, room * sizeof(kvg_generate_entry *));
        if (!entries) return kvg_fail(KVG_ERR_MEMORY, "generation: cannot hold %zu requests", room);
        g->entries = entries;
        g->entry_room = room;
    }
    s = make_entry(request, &g->entries[g->entry_count]);
    if (!s) g->entry_count++;
    return s;
}

kvg_status kvg_generation_preempt(kvg_generation *g, uint64_t request)
{
    const kvg_generate_entry *e = kvg_generate_find(g, request);
    if (!e) return KVG_ERR_NOT_FOUND;
    if (e->phase != KVG_GENERATE_RUNS) return KVG_OK;
    const kvg_sequence_pool *pool = &g->sequences;
    kvg_sequence_info info;
    kvg_status s = pool->ops->get(pool->self, request, &info);
    if (!s) s = pool->ops->preempt(pool->self, request);
    if (!s && info.blocks > 0 && info.state != KVG_SEQUENCE_CACHED) g->counts.preemptions++;
    return s;
}

kvg_status kvg_generation_tokens(const kvg_generation *g, uint64_t request, int32_t *tokens, uint32_t *count)
{
    const kvg_generate_entry *e = kvg_generate_find(g, request);
    if (!e) return KVG_ERR_NOT_FOUND;
    const uint32_t room = *count;
    *count = e->known;
    if (room < e->known) {
        return kvg_fail(KVG_ERR_INVALID, "request %llu: %u tokens, room for %u", (unsigned long long)request, e->known,
                        room);
    }
    memcpy(tokens, e->tokens, e->known * sizeof *tokens);
    return KVG_OK;
}

kvg_generate_counts kvg_generation_counts(const kvg_generation *g)
{
    kvg_generate_counts counts = g->counts;
    kvg_block_counts blocks;
    const kvg_block_pool pool = kvg_block_manager_pool(g->blocks[0]);
    pool.ops->counts(pool.self, &blocks);
    counts.blocks = blocks.active;
    return counts;
}
