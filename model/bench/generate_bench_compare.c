/* A few short requests through two runners: rows of prompts in chunks, then a token each, of sequences of different
 * lengths side by side. Every logit is compared, as bits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "model/bench/generate_bench.h"
#include "model/model_run.h"

enum { SEQUENCES = 3, STEPS = 5, MOST_ROWS = 16, MOST_TOKENS = 64, STREAM_TOKENS = 77 };

/* Rows of each sequence in each step: prompts of 9, 14 and 5 tokens, then one by one. */
static const uint32_t rows_of[STEPS][SEQUENCES] = {{4, 6, 5}, {5, 8, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};

typedef struct requests {
    kvg_model_setup setup;
    uint64_t seed;
    int32_t lengths[SEQUENCES];
} requests;

typedef struct step_data {
    kvg_model_step step;
    int32_t tokens[MOST_ROWS], positions[MOST_ROWS], query_lengths[SEQUENCES], table[SEQUENCES * MOST_TOKENS];
    int64_t slots[MOST_ROWS];
    uint32_t wanted[MOST_ROWS];
} step_data;

/* Blocks of the sequences in turn: block w of sequence s is w * SEQUENCES + s. */
static void make_step(requests *r, uint32_t index, step_data *d)
{
    const uint32_t block_tokens = r->setup.block_tokens;
    uint32_t rows = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        for (uint32_t i = 0; i < rows_of[index][s]; i++, rows++) {
            const uint32_t position = (uint32_t)r->lengths[s] + i;
            const uint64_t draw = kvg_rng_below(r->seed, STREAM_TOKENS + s, position, r->setup.config->vocab);
            d->tokens[rows] = (int32_t)draw;
            d->positions[rows] = (int32_t)position;
            d->slots[rows] = (int64_t)(position / block_tokens * SEQUENCES + s) * block_tokens +
                             position % block_tokens;
            d->wanted[rows] = rows;
        }
        r->lengths[s] += (int32_t)rows_of[index][s];
        d->query_lengths[s] = (int32_t)rows_of[index][s];
    }
    uint32_t longest = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        if ((uint32_t)r->lengths[s] > longest) longest = (uint32_t)r->lengths[s];
    }
    const uint32_t width = (longest - 1) / block_tokens + 1;
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        const uint32_t own = ((uint32_t)r->lengths[s] - 1) / block_tokens + 1;
        for (uint32_t w = 0; w < width; w++) d->table[s * width + w] = w < own ? (int32_t)(w * SEQUENCES + s) : -1;
    }
    d->step = (kvg_model_step){.rows = rows, .tokens = d->tokens, .positions = d->positions, .slots = d->slots,
                               .sequences = SEQUENCES, .longest = longest, .block_table = d->table,
                               .lengths = r->lengths, .query_lengths = d->query_lengths, .wanted = rows,
                               .wanted_rows = d->wanted};
}

/* How many of two rows of logits are not the same bits. */
static size_t count_unlike(const float *a, const float *b, size_t count)
{
    size_t unlike = 0;
    for (size_t i = 0; i < count; i++) unlike += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
    return unlike;
}

static kvg_status run_both(requests *r, const kvg_model_runner *const *runners, void *const *opened,
                           float *const *logits, uint64_t *bytes, char *wrong, size_t size)
{
    const uint32_t vocab = r->setup.config->vocab;
    kvg_status s = KVG_OK;
    for (uint32_t i = 0; i < STEPS && !s && !wrong[0]; i++) {
        step_data d = {0};
        make_step(r, i, &d);
        for (int k = 0; k < 2 && !s; k++) {
            d.step.logits = logits[k];
            s = runners[k]->step(opened[k], &d.step);
        }
        const size_t count = (size_t)d.step.wanted * vocab, unlike = s ? 0 : count_unlike(logits[0], logits[1], count);
        if (!s) *bytes += count * sizeof **logits;
        if (unlike) snprintf(wrong, size, "step %u: %zu of %zu logits are not the reference's", i, unlike, count);
    }
    return s;
}

kvg_status kvg_generate_bench_compare(const kvg_model_setup *setup, const kvg_model_runner *runner, uint64_t seed,
                                      uint64_t *bytes, char *wrong, size_t size)
{
    const kvg_model_runner *const runners[2] = {kvg_reference_model_runner(), runner};
    requests r = {.setup = *setup, .seed = seed};
    void *opened[2] = {NULL, NULL};
    float *logits[2] = {NULL, NULL};
    kvg_status s = KVG_OK;
    if (setup->max_tokens < MOST_TOKENS) return KVG_OK;
    r.setup.max_tokens = MOST_TOKENS;
    r.setup.max_rows = r.setup.max_wanted = MOST_ROWS;
    r.setup.max_sequences = SEQUENCES;
    r.setup.blocks = SEQUENCES * ((MOST_TOKENS - 1) / setup->block_tokens + 1);
    *bytes = 0;
    wrong[0] = 0;
    for (int k = 0; k < 2 && !s; k++) {
        logits[k] = calloc(MOST_ROWS * (size_t)setup->config->vocab, sizeof *logits[k]);
        s = logits[k] ? runners[k]->open(&r.setup, &opened[k]) : kvg_fail(KVG_ERR_MEMORY, "cannot hold logits");
    }
    if (!s) s = run_both(&r, runners, opened, logits, bytes, wrong, size);
    for (int k = 0; k < 2; k++) {
        if (opened[k]) runners[k]->close(opened[k]);
        free(logits[k]);
    }
    return s;
}
