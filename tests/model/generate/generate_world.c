#include "tests/model/generate/generate_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

static uint64_t mix(uint64_t a, uint64_t b)
{
    const uint64_t pair[2] = {a, b};
    return kvg_hash64(pair, sizeof pair);
}

/* What a row stores, from what the rows before it stored, the first visible one first. */
static uint64_t value_of(int32_t token, int32_t position, uint64_t before)
{
    return mix(mix((uint64_t)token, (uint64_t)position), before);
}

/* A few tokens are likely, so that drafts are right at times. */
static void logits_of(uint64_t value, float *out)
{
    for (uint32_t i = 0; i < WORLD_VOCAB; i++) {
        const uint64_t x = mix(value, i + 1);
        out[i] = (float)(x >> 44) / 131072.0f - (i % 4 ? 2.0f : 0.0f);
    }
}

/* A layer without a window sees everything, and the model with it. */
static bool slides(const kvg_model_config *c)
{
    return c->sliding[0] && c->sliding[1];
}

/* --- the runner --- */

typedef struct fake {
    const kvg_model_setup *setup;
    world *world;
    uint64_t *values; /* [blocks * block_tokens] */
    int32_t *last_table;
    size_t last_count;
} fake;

static kvg_status fake_open(const kvg_model_setup *setup, void **out)
{
    fake *f = calloc(1, sizeof *f);
    const size_t slots = (size_t)setup->blocks * setup->block_tokens;
    if (f) f->values = malloc(slots * sizeof *f->values);
    if (!f || !f->values) {
        free(f);
        return kvg_fail(KVG_ERR_MEMORY, "fake: out of memory");
    }
    for (size_t i = 0; i < slots; i++) f->values[i] = mix(99, i); /* never what a row stores */
    f->setup = setup;
    f->world = setup->run_context;
    *out = f;
    return KVG_OK;
}

static void fake_close(void *runner)
{
    fake *f = runner;
    if (!f) return;
    free(f->values);
    free(f->last_table);
    free(f);
}

/* The defects of what the step says. */
static void spoil(const fake *f, kvg_model_step *s, int32_t *positions, int64_t *slots, int32_t *table, uint32_t width)
{
    const world_defect d = f->world->defect;
    if (d == WORLD_LOST_COPY) s->copies = 0;
    for (uint32_t row = 1; row < s->rows && d == WORLD_STALE_SLOT; row++) {
        if (positions[row] == positions[row - 1] + 1) slots[row] = s->slots[row - 1];
    }
    if (d == WORLD_TABLE_LATE && f->last_count == (size_t)s->sequences * width) {
        memcpy(table, f->last_table, f->last_count * sizeof *table);
    }
    for (uint32_t i = 0, row = 0; i < s->sequences; row += (uint32_t)s->query_lengths[i++]) {
        int32_t *entries = table + (size_t)i * width;
        if (d == WORLD_TABLE_SWAPPED && width > 1 && entries[1] >= 0 && entries[0] >= 0) {
            const int32_t first = entries[0];
            entries[0] = entries[1];
            entries[1] = first;
        }
        if (d == WORLD_POSITION && positions[row] > 0) positions[row]--;
    }
}

static kvg_status check(const fake *f, const kvg_model_step *s, uint32_t width)
{
    const int64_t tokens = f->setup->block_tokens;
    uint32_t row = 0;
    for (uint32_t i = 0; i < s->sequences; i++) {
        for (int64_t k = (s->lengths[i] + tokens - 1) / tokens; k < width; k++) {
            if (s->block_table[(size_t)i * width + k] != -1) return kvg_fail(KVG_ERR_INVALID, "fake: a stale entry");
        }
        for (int32_t k = 0; k < s->query_lengths[i]; k++, row++) {
            const int32_t position = s->positions[row];
            if (position != s->lengths[i] - s->query_lengths[i] + k || s->lengths[i] > (int32_t)s->longest) {
                return kvg_fail(KVG_ERR_INVALID, "fake: row %u at position %d of %d", row, position, s->lengths[i]);
            }
            const int32_t block = s->block_table[(size_t)i * width + position / tokens];
            if (s->slots[row] != block * tokens + position % tokens) {
                return kvg_fail(KVG_ERR_INVALID, "fake: row %u goes to slot %lld, not to its block %d", row,
                                (long long)s->slots[row], block);
            }
            if (s->tokens[row] < 0 || s->tokens[row] >= WORLD_VOCAB) return kvg_fail(KVG_ERR_INVALID, "fake: token");
        }
    }
    const bool sizes = row == s->rows && s->rows <= f->setup->max_rows && s->sequences <= f->setup->max_sequences &&
                       s->wanted <= f->setup->max_wanted && s->longest <= f->setup->max_tokens;
    return sizes ? KVG_OK : kvg_fail(KVG_ERR_INVALID, "fake: a step of %u rows", s->rows);
}

static kvg_status read_rows(fake *f, const kvg_model_step *s, const int32_t *positions, const int64_t *slots,
                            const int32_t *table, uint32_t width, uint64_t *values)
{
    const int32_t tokens = (int32_t)f->setup->block_tokens;
    const world_defect d = f->world->defect;
    const kvg_model_config *c = f->setup->config;
    const int32_t window = slides(c) ? (int32_t)c->window - (d == WORLD_SHORT_WINDOW) : INT32_MAX;
    uint32_t row = 0;
    for (uint32_t i = 0; i < s->sequences; i++) {
        for (int32_t k = 0; k < s->query_lengths[i]; k++, row++) {
            uint64_t before = d == WORLD_NEIGHBOUR && i > 0 ? values[0] : 0;
            const int32_t position = positions[row];
            for (int32_t p = position < window ? 0 : position - window + 1; p < position; p++) {
                const int32_t block = table[(size_t)i * width + p / tokens];
                if (block < 0) return kvg_fail(KVG_ERR_INVALID, "fake: a hole at position %d", p);
                before = mix(before, f->values[(size_t)block * tokens + p % tokens]);
            }
            values[row] = value_of(s->tokens[row], position, before);
            const bool unread = d == WORLD_UNREAD_ROW && k == 0 && s->query_lengths[i] > 1 && position > 0;
            if (!unread) f->values[slots[row]] = values[row];
        }
    }
    return KVG_OK;
}

static void give_logits(const fake *f, const kvg_model_step *s, const uint64_t *values)
{
    const world_defect d = f->world->defect;
    for (uint32_t i = 0; i < s->wanted; i++) {
        const uint32_t row = s->wanted_rows[d == WORLD_LOGITS_SHIFTED && i ? i - 1 : i];
        float *logits = s->logits + (size_t)i * WORLD_VOCAB;
        logits_of(values[row], logits);
        if (d == WORLD_WRONG_DRAFT && row + 1 < s->rows && s->positions[row + 1] == s->positions[row] + 1) {
            logits[s->tokens[row + 1]] = 1000;
        }
    }
}

static kvg_status compute(fake *f, const kvg_model_step *given, int32_t *positions, int64_t *slots, int32_t *table,
                          uint64_t *values)
{
    kvg_model_step s = *given;
    const uint32_t tokens = f->setup->block_tokens, width = (s.longest + tokens - 1) / tokens;
    const size_t count = (size_t)s.sequences * width;
    memcpy(positions, s.positions, s.rows * sizeof *positions);
    memcpy(slots, s.slots, s.rows * sizeof *slots);
    memcpy(table, s.block_table, count * sizeof *table);
    spoil(f, &s, positions, slots, table, width);
    for (uint32_t i = 0; i < s.copies; i++) {
        const uint32_t from = f->world->defect == WORLD_COPY_SHORT;
        for (uint32_t k = from; k < tokens; k++) {
            f->values[(size_t)s.copy[i][1] * tokens + k] = f->values[(size_t)s.copy[i][0] * tokens + k];
        }
    }
    kvg_status status = read_rows(f, &s, positions, slots, table, width, values);
    if (status) return status;
    give_logits(f, &s, values);
    int32_t *kept = realloc(f->last_table, count * sizeof *kept);
    if (!kept) return kvg_fail(KVG_ERR_MEMORY, "fake: out of memory");
    memcpy(kept, s.block_table, count * sizeof *kept);
    f->last_table = kept;
    f->last_count = count;
    return KVG_OK;
}

static kvg_status fake_step(void *runner, const kvg_model_step *s)
{
    fake *f = runner;
    const uint32_t tokens = f->setup->block_tokens, width = (s->longest + tokens - 1) / tokens;
    kvg_status status = check(f, s, width);
    if (status) return status;
    int32_t *positions = malloc(s->rows * sizeof *positions);
    int64_t *slots = malloc(s->rows * sizeof *slots);
    int32_t *table = malloc((size_t)s->sequences * width * sizeof *table);
    uint64_t *values = malloc(s->rows * sizeof *values);
    status = positions && slots && table && values ? compute(f, s, positions, slots, table, values)
                                                   : kvg_fail(KVG_ERR_MEMORY, "fake: out of memory");
    if (++f->world->steps == f->world->fail_at) { /* having written all it liked */
        for (uint32_t i = 0; i < s->rows && !status; i++) f->values[slots[i]] = 0;
        for (uint32_t i = 0; i < s->copies && !status; i++) f->values[(size_t)s->copy[i][1] * tokens] = 0;
        status = kvg_fail(KVG_ERR_DEVICE, "fake: the step is lost");
    }
    free(positions);
    free(slots);
    free(table);
    free(values);
    return status;
}

static const kvg_model_runner fake_runner = {.name = "fake", .open = fake_open, .close = fake_close,
                                             .step = fake_step};

/* --- requests, and what is right for them --- */

/* One by one, without a cache. */
static void find_right(world *w, uint32_t r)
{
    const kvg_generate_request *q = &w->requests[r];
    const uint32_t end = q->prompt_tokens + q->new_tokens;
    const uint32_t window = slides(&w->config) ? w->config.window : UINT32_MAX;
    uint64_t values[WORLD_TOKENS];
    memcpy(w->right[r], w->prompts[r], q->prompt_tokens * sizeof w->right[r][0]);
    for (uint32_t i = 0; i < end; i++) {
        uint64_t before = 0;
        for (uint32_t p = i < window ? 0 : i - window + 1; p < i; p++) before = mix(before, values[p]);
        values[i] = value_of(w->right[r][i], (int32_t)i, before);
        logits_of(values[i], w->logits[r][i]);
        uint32_t token;
        if (i + 1 < q->prompt_tokens || i + 1 >= end) continue;
        if (kvg_reference_sample(w->logits[r][i], WORLD_VOCAB, &q->sampling, i + 1, &token)) abort();
        w->right[r][i + 1] = (int32_t)token;
    }
}

/* A prompt of its own, or the start or all of an earlier one, longer or not. */
static void make_prompt(world *w, uint32_t r, uint64_t seed, uint32_t tokens)
{
    uint32_t taken = 0;
    if (r > 0 && kvg_rng_below(seed, 1, r, 3)) {
        const uint32_t from = (uint32_t)kvg_rng_below(seed, 2, r, r), all = w->requests[from].prompt_tokens;
        taken = kvg_rng_below(seed, 3, r, 2) ? all : (uint32_t)kvg_rng_below(seed, 4, r, all + 1);
        if (taken > tokens) taken = tokens;
        memcpy(w->prompts[r], w->prompts[from], taken * sizeof w->prompts[r][0]);
    }
    for (uint32_t i = taken; i < tokens; i++) {
        w->prompts[r][i] = (int32_t)kvg_rng_below(seed, 100 + r, i, WORLD_VOCAB);
    }
}

static void make_request(world *w, uint32_t r, uint64_t seed)
{
    kvg_generate_request *q = &w->requests[r];
    const uint32_t prompt = 1 + (uint32_t)kvg_rng_below(seed, 5, r, kvg_rng_below(seed, 15, r, 2) ? 40 : 6);
    *q = (kvg_generate_request){.id = 1000 + r, .prompt = w->prompts[r], .prompt_tokens = prompt};
    q->new_tokens = kvg_rng_below(seed, 6, r, 8) ? 1 + (uint32_t)kvg_rng_below(seed, 7, r, 30) : 0;
    if (r > 0 && kvg_rng_below(seed, 14, r, 4) == 0) q->prompt_tokens = w->requests[r - 1].prompt_tokens;
    q->sampling = (kvg_sampling){.temperature = kvg_rng_below(seed, 8, r, 2) ? 0.5f : 0.0f, .top_p = 0.9f,
                                 .seed = seed, .request = q->id};
    make_prompt(w, r, seed, q->prompt_tokens);
    find_right(w, r);
    /* Drafts are what is right, with an error here and there. */
    for (uint32_t i = 0; i < q->new_tokens; i++) {
        const int32_t right = w->right[r][q->prompt_tokens + i];
        w->drafts[r][i] = kvg_rng_below(seed, 200 + r, i, 4) ? right : (right + 1) % WORLD_VOCAB;
    }
}

void world_settle(world *w, uint64_t seed)
{
    static const uint32_t block_tokens[] = {1, 2, 3, 4, 8, 16};
    kvg_generate_settings *g = &w->settings;
    kvg_model_setup *s = &g->setup;
    const bool scales = kvg_rng_below(seed, 20, 0, 2);
    *s = (kvg_model_setup){.config = &w->config, .dtype = KVG_DTYPE_F16, .layout = KVG_LAYOUT_HND, .run_context = w,
                           .max_tokens = WORLD_TOKENS, .profile = KVG_PROFILE_SIMT_FMA_V1};
    s->storage[0] = s->storage[1] = (kvg_storage){scales ? KVG_FORMAT_NVFP4 : KVG_FORMAT_F16, "canonical"};
    s->block_tokens = block_tokens[kvg_rng_below(seed, 20, 1, 6)];
    *g = (kvg_generate_settings){.runner = &fake_runner, .setup = *s};
    g->chunk = 1 + (uint32_t)kvg_rng_below(seed, 20, 2, kvg_rng_below(seed, 20, 3, 2) ? 60 : 5);
    g->batch = 1 + (uint32_t)kvg_rng_below(seed, 20, 4, 8);
    g->drafts = (uint32_t)kvg_rng_below(seed, 20, 5, 6);
    g->share_prefixes = kvg_rng_below(seed, 20, 6, 3);
    w->all_rows = kvg_rng_below(seed, 20, 9, 3) == 0;
    uint32_t longest = 0;
    for (uint32_t r = 0; r < w->count; r++) {
        kvg_generate_request *q = &w->requests[r];
        const uint32_t all = q->prompt_tokens + q->new_tokens;
        q->joins = kvg_rng_below(seed, 21, r, 2) ? kvg_rng_below(seed, 25, r, 12) : 0;
        q->priority = kvg_rng_below(seed, 22, r, 3);
        q->drafts = g->drafts ? (uint32_t)kvg_rng_below(seed, 23, r, g->drafts + 1) : 0;
        q->draft = kvg_rng_below(seed, 24, r, 4) ? w->drafts[r] : NULL;
        if (all > longest) longest = all;
    }
    const uint32_t least = (longest + s->block_tokens - 1) / s->block_tokens;
    g->setup.blocks = least + (uint32_t)kvg_rng_below(seed, 20, 7, kvg_rng_below(seed, 20, 8, 2) ? 3 : 4 * least);
}

static void make_config(world *w, uint64_t seed, uint32_t window)
{
    memset(w, 0, sizeof *w);
    w->config = (kvg_model_config){.vocab = WORLD_VOCAB, .hidden = 32, .layers = 2, .query_heads = 1, .kv_heads = 1,
                                   .head_dim = 32, .positions = WORLD_TOKENS, .window = window,
                                   .sliding = {window > 0, window > 0 && kvg_rng_below(seed, 10, 3, 3) > 0}};
    w->config.rope = (kvg_rope){.dims = 32, .pairing = KVG_PAIRING_HALVES,
                                .scaling = {.kind = KVG_ROPE_DEFAULT, .theta = 10000}};
}

void world_make(world *w, uint64_t seed)
{
    make_config(w, seed, kvg_rng_below(seed, 10, 0, 3) ? 0 : 3 + (uint32_t)kvg_rng_below(seed, 10, 1, 20));
    w->count = 1 + (uint32_t)kvg_rng_below(seed, 10, 2, WORLD_REQUESTS);
    for (uint32_t r = 0; r < w->count; r++) make_request(w, r, seed);
    world_settle(w, seed);
}

void world_right(world *w)
{
    for (uint32_t r = 0; r < w->count; r++) {
        const kvg_generate_request *q = &w->requests[r];
        find_right(w, r);
        memcpy(w->drafts[r], w->right[r] + q->prompt_tokens, q->new_tokens * sizeof w->drafts[r][0]);
    }
}

void world_make_equal(world *w, uint32_t count, uint32_t prompt_tokens, uint32_t new_tokens)
{
    make_config(w, 1, 0);
    w->count = count;
    for (uint32_t r = 0; r < count; r++) {
        w->requests[r] = (kvg_generate_request){.id = 1000 + r, .prompt = w->prompts[r], .new_tokens = new_tokens,
                                                .prompt_tokens = prompt_tokens, .sampling = {.top_p = 1},
                                                .draft = w->drafts[r]};
        for (uint32_t i = 0; i < prompt_tokens; i++) w->prompts[r][i] = (int32_t)(i % WORLD_VOCAB);
    }
    world_right(w);
    w->settings = (kvg_generate_settings){.runner = &fake_runner, .chunk = 64, .batch = count};
    w->settings.setup = (kvg_model_setup){.config = &w->config, .dtype = KVG_DTYPE_F16, .layout = KVG_LAYOUT_HND,
                                          .storage = {{KVG_FORMAT_F16, "canonical"}, {KVG_FORMAT_F16, "canonical"}},
                                          .blocks = 256, .block_tokens = 4, .profile = KVG_PROFILE_SIMT_FMA_V1,
                                          .max_tokens = WORLD_TOKENS, .run_context = w};
}

/* --- a run --- */

static void differ(world *w, const char *what, uint32_t request, uint32_t position)
{
    if (!w->wrong[0]) snprintf(w->wrong, sizeof w->wrong, "request %u, position %u: %s", request, position, what);
}

static kvg_status see(void *context, const kvg_generate_row *row)
{
    world *w = context;
    const uint32_t r = (uint32_t)(row->request - 1000), p = row->position;
    const kvg_generate_request *q = &w->requests[r];
    const uint32_t end = q->prompt_tokens + q->new_tokens;
    if (++w->rows == w->see_fails_at) return kvg_fail(KVG_ERR_IO, "the observer has enough");
    if (row->token != w->right[r][p]) differ(w, "token", r, p);
    if (row->next != (p + 1 < end ? w->right[r][p + 1] : -1)) differ(w, "next token", r, p);
    if (row->logits && memcmp(row->logits, w->logits[r][p], sizeof w->logits[r][p]) != 0) differ(w, "logits", r, p);
    if (!row->logits && (row->drawn || w->all_rows)) differ(w, "no logits", r, p);
    if (row->drawn && w->drawn[r][p + 1] && !w->forgiving) differ(w, "drawn twice", r, p);
    if (row->drawn) w->drawn[r][p + 1] = true;
    if (!w->begun[r] || row->step < w->first_step[r]) w->first_step[r] = row->step;
    if (row->step < q->joins) differ(w, "before it joined", r, p);
    w->begun[r] = true;
    w->seen[r][p]++;
    return KVG_OK;
}

/* Nothing is computed twice, but what a preemption or a failure has lost. */
static void compare_rows(world *w, const kvg_generate_counts *counts)
{
    for (uint32_t r = 0; r < w->count && counts->preemptions == 0 && w->failures == 0; r++) {
        for (uint32_t p = 0; p < WORLD_TOKENS; p++) {
            if (w->seen[r][p] > 1) differ(w, "computed twice", r, p);
        }
    }
}

static void compare(world *w, const kvg_generation *g)
{
    for (uint32_t r = 0; r < w->count; r++) {
        const kvg_generate_request *q = &w->requests[r];
        int32_t tokens[WORLD_TOKENS];
        uint32_t count = WORLD_TOKENS;
        if (kvg_generation_tokens(g, q->id, tokens, &count) || count != q->prompt_tokens + q->new_tokens) {
            differ(w, "count of tokens", r, count);
        } else if (memcmp(tokens, w->right[r], count * sizeof *tokens) != 0) {
            differ(w, "tokens", r, count);
        }
        for (uint32_t p = q->prompt_tokens; p < count; p++) {
            if (!w->drawn[r][p]) differ(w, "never seen drawn", r, p);
        }
    }
}

static kvg_status run(world *w, kvg_generation *g, uint64_t preempt_seed)
{
    bool drawn[WORLD_REQUESTS][WORLD_TOKENS], busy = true;
    kvg_status s = KVG_OK;
    for (uint32_t r = 0; r < w->count && !s; r++) {
        s = kvg_generation_submit(g, &w->requests[r]);
        if (s == KVG_ERR_MEMORY && w->forgiving && ++w->failures) s = kvg_generation_submit(g, &w->requests[r]);
    }
    for (uint64_t step = 0; busy && !s; step++) {
        if (step > 20000) return kvg_fail(KVG_ERR_EXHAUSTED, "the run does not end");
        const bool fails = w->steps + 1 == w->fail_at || w->rows < w->see_fails_at;
        memcpy(drawn, w->drawn, sizeof drawn);
        s = kvg_generation_step(g, &busy);
        if (s && fails && (w->steps == w->fail_at || w->rows == w->see_fails_at)) { /* once more, as if not at all */
            memcpy(w->drawn, drawn, sizeof drawn);
            w->failures++;
            busy = true;
            s = KVG_OK;
        }
        if (s == KVG_ERR_MEMORY && w->forgiving && ++w->failures < 3) { /* what was reported stays */
            busy = true;
            s = KVG_OK;
        }
        const uint32_t r = (uint32_t)kvg_rng_below(preempt_seed, 1, step, w->count);
        if (!s && preempt_seed && kvg_rng_below(preempt_seed, 2, step, 4) == 0) {
            s = kvg_generation_preempt(g, w->requests[r].id);
        }
    }
    return s;
}

kvg_status world_run(world *w, uint64_t preempt_seed, kvg_generate_counts *counts)
{
    const kvg_generate_observer observer = {.context = w, .all_rows = w->all_rows, .see = see};
    kvg_generation *g;
    w->wrong[0] = 0;
    w->steps = w->rows = w->failures = 0;
    memset(w->drawn, 0, sizeof w->drawn);
    memset(w->seen, 0, sizeof w->seen);
    memset(w->begun, 0, sizeof w->begun);
    kvg_status s = kvg_generation_open(&w->settings, &observer, &g);
    if (s) return s;
    s = run(w, g, preempt_seed);
    if (!s) compare(w, g);
    *counts = kvg_generation_counts(g);
    if (!s) compare_rows(w, counts);
    if (!s && counts->blocks != 0) differ(w, "blocks left in use", 0, counts->blocks);
    kvg_generation_close(g);
    return s;
}
