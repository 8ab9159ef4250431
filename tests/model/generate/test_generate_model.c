/* usage: test_generate_model [TOKENS]
 *
 * The carried model through every format, computed by the reference: each request alone, one token at a time, against
 * all of them at once in every way in which a batch may be run. Logits are compared as bits at every position. TOKENS
 * new ones for each request (default 10; then one way for each format, else all). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "model/generate/generate.h"
#include "model/checkpoint/model_weights.h"
#include "model/model_run.h"

#define CARRIED KVG_SOURCE_DIR "/golden/data/model"

enum { REQUESTS = 6, MOST_PROMPT = 160, VOCAB = 256 };

/* How a run differs from the plain one. */
typedef struct way {
    const char *name;
    uint32_t batch, chunk, block_tokens, spare_blocks, drafts; /* spare_blocks: beyond what the longest request needs */
    bool share, own_drafts, preempt, late;
} way;

static const way plain = {"one by one", 1, MOST_PROMPT, 16, 0, 0, false, false, false, false};
static const way ways[] = {
    {"shared, late, by chunks of 7", REQUESTS, 7, 16, 60, 0, true, false, false, true},
    {"few blocks, drafts", REQUESTS, 32, 8, 4, 3, false, false, false, false},
    {"shared, few blocks, preempted, self-drafted, late", 4, 13, 4, 6, 4, true, true, true, true},
    {"drafts of a whole block, blocks of 1 token", 3, 64, 1, 200, 16, true, false, false, false},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static kvg_model_config config;
static kvg_model_weights *weights;
static uint32_t new_tokens = 10;
static bool thorough;
static int32_t prompts[REQUESTS][MOST_PROMPT];
static uint32_t prompt_tokens[REQUESTS];

/* What is right: of the plain run. */
static float *right; /* [REQUESTS][MOST_PROMPT + new][VOCAB] */
static int32_t *tokens, *drafts; /* [REQUESTS][MOST_PROMPT + new] */

static size_t place(size_t request, size_t position)
{
    return request * (MOST_PROMPT + new_tokens) + position;
}

/* --- observing --- */

typedef struct watch {
    bool learns;
    uint64_t rows, wrong;
} watch;

static kvg_status see(void *context, const kvg_generate_row *row)
{
    watch *w = context;
    float *expected = right + place(row->request, row->position) * VOCAB;
    if (!row->logits) return KVG_OK;
    w->rows++;
    if (w->learns) memcpy(expected, row->logits, VOCAB * sizeof *expected);
    else w->wrong += memcmp(expected, row->logits, VOCAB * sizeof *expected) != 0;
    return KVG_OK;
}

/* --- runs --- */

static kvg_generate_settings settings_of(const way *y, kvg_dtype dtype, kvg_format k, kvg_format v)
{
    const uint32_t longest = MOST_PROMPT + new_tokens;
    kvg_generate_settings g = {.runner = kvg_reference_model_runner(), .chunk = y->chunk, .batch = y->batch,
                               .drafts = y->drafts, .share_prefixes = y->share};
    g.setup = (kvg_model_setup){.config = &config,
                                .source = kvg_model_weights_source(weights),
                                .dtype = dtype,
                                .layout = KVG_LAYOUT_HND,
                                .storage = {{k, "canonical"}, {v, "canonical"}},
                                .blocks = (longest + y->block_tokens - 1) / y->block_tokens + y->spare_blocks,
                                .block_tokens = y->block_tokens,
                                .profile = KVG_PROFILE_SIMT_FMA_V1,
                                .max_tokens = longest};
    return g;
}

static void submit(kvg_generation *g, const way *y)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        const kvg_generate_request request = {
            .id = i, .prompt = prompts[i], .prompt_tokens = prompt_tokens[i], .new_tokens = new_tokens,
            .sampling = {.temperature = i % 2 ? 0.8f : 0, .top_p = 0.95f, .seed = 7, .request = i},
            .priority = i % 3, .joins = y->late ? 2 * i : 0, .drafts = y->drafts,
            .draft = y->own_drafts ? NULL : drafts + place(i, 0),
        };
        if (kvg_generation_submit(g, &request)) fail_msg("%s", kvg_error_text());
    }
}

static void run(const way *y, const kvg_generate_settings *settings, watch *w, kvg_generate_counts *counts)
{
    const kvg_generate_observer observer = {.context = w, .all_rows = true, .see = see};
    kvg_generation *g;
    if (kvg_generation_open(settings, &observer, &g)) fail_msg("%s: %s", y->name, kvg_error_text());
    submit(g, y);
    bool busy = true;
    for (uint64_t step = 0; busy; step++) {
        if (kvg_generation_step(g, &busy)) fail_msg("%s: %s", y->name, kvg_error_text());
        if (y->preempt && step % 5 == 4) {
            assert_int_equal(kvg_generation_preempt(g, kvg_rng_below(3, 1, step, REQUESTS)), KVG_OK);
        }
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        int32_t *expected = tokens + place(i, 0), made[2048];
        uint32_t count = MOST_PROMPT + new_tokens;
        assert_int_equal(kvg_generation_tokens(g, i, made, &count), KVG_OK);
        assert_int_equal(count, prompt_tokens[i] + new_tokens);
        if (w->learns) memcpy(expected, made, count * sizeof *made);
        else assert_memory_equal(expected, made, count * sizeof *made);
    }
    *counts = kvg_generation_counts(g);
    assert_int_equal(counts->blocks, 0);
    kvg_generation_close(g);
}

/* Drafts that are right but for every fourth. */
static void make_drafts(void)
{
    for (uint32_t i = 0; i < REQUESTS; i++) {
        for (uint32_t k = 0; k < new_tokens; k++) {
            const int32_t next = tokens[place(i, prompt_tokens[i] + k)];
            drafts[place(i, k)] = k % 4 == 3 ? (next + 1) % VOCAB : next;
        }
    }
}

static void compare_format(kvg_dtype dtype, kvg_format k, kvg_format v, unsigned turn)
{
    kvg_generate_counts counts, sum = {0};
    kvg_generate_settings settings = settings_of(&plain, dtype, k, v);
    watch learning = {.learns = true}, w = {0};
    run(&plain, &settings, &learning, &counts);
    make_drafts();
    for (unsigned i = 0; i < WAYS; i++) {
        const way *y = &ways[i];
        if (!thorough && i != turn % WAYS) continue;
        settings = settings_of(y, dtype, k, v);
        run(y, &settings, &w, &counts);
        if (w.wrong) fail_msg("%s: %d of %d rows differ", y->name, (int)w.wrong, (int)w.rows);
        sum.copies += counts.copies;
        sum.preemptions += counts.preemptions;
        sum.accepted += counts.accepted;
        sum.shared_tokens += counts.shared_tokens;
    }
    print_message("%s, %s and %s: %d rows of logits equal; %d shared tokens, %d copies, %d preemptions, %d drafts\n",
                  kvg_dtype_name(dtype), kvg_format_get(k)->name, kvg_format_get(v)->name, (int)w.rows,
                  (int)sum.shared_tokens, (int)sum.copies, (int)sum.preemptions, (int)sum.accepted);
}

/* Every format in both model types where all is wanted, else in the model's own; and a pair of two. */
static void test_formats(void **state)
{
    (void)state;
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    unsigned turn = 0;
    for (size_t i = 0; i < count; i++) {
        if (kvg_format_check_dim(formats[i].format, config.head_dim)) continue;
        const kvg_format f = formats[i].format;
        compare_format(KVG_DTYPE_BF16, f, f, turn++);
        if (thorough || f == KVG_FORMAT_NVFP4 || f == KVG_FORMAT_F16) compare_format(KVG_DTYPE_F16, f, f, turn++);
    }
    compare_format(KVG_DTYPE_F16, KVG_FORMAT_INT8, KVG_FORMAT_NVFP4, turn);
}

static int setup(void **state)
{
    (void)state;
    static const char text[] =
        "The cache holds the keys and the values of every token that came before. A block of the cache holds sixteen "
        "tokens, and the table of a sequence says which block is which.";
    static const uint32_t lengths[REQUESTS] = {21, 21, 40, 5, 33, MOST_PROMPT};
    const size_t all = REQUESTS * (MOST_PROMPT + (size_t)new_tokens);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        prompt_tokens[i] = lengths[i];
        for (uint32_t k = 0; k < lengths[i]; k++) {
            prompts[i][k] = (unsigned char)text[(i == 3 ? 50 : 0) + k + (i == 4 && k > 20)];
        }
    }
    right = malloc(all * VOCAB * sizeof *right);
    tokens = calloc(all, sizeof *tokens);
    drafts = calloc(all, sizeof *drafts);
    if (!right || !tokens || !drafts) return -1;
    if (kvg_model_config_open(CARRIED "/config.json", &config)) return -1;
    return kvg_model_weights_open(CARRIED, &config, &weights) ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    kvg_model_weights_close(weights);
    free(right);
    free(tokens);
    free(drafts);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        thorough = true;
        new_tokens = (uint32_t)atoi(argv[1]);
        if (new_tokens < 1 || new_tokens > 2048 - MOST_PROMPT) return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_formats)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
