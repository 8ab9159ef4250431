/* The scheduler of generations against a model that is nothing but a cache
 * (tests/model/generate/generate_world.h): whatever the batch, the chunks, the blocks and the order, every row has
 * the logits that it has alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "model/generate/generate_parts.h"
#include "tests/model/generate/generate_world.h"

static world w;

/* --- memory that runs out once --- */

static uint64_t allocations, failing_allocation; /* 0: none fails */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_malloc(size_t size)
{
    return ++allocations == failing_allocation ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return ++allocations == failing_allocation ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return ++allocations == failing_allocation ? NULL : __real_realloc(old, size);
}

/* --- tests --- */

static void add(kvg_generate_counts *sum, const kvg_generate_counts *c)
{
    sum->steps += c->steps;
    sum->rows += c->rows;
    sum->shared_tokens += c->shared_tokens;
    sum->copies += c->copies;
    sum->preemptions += c->preemptions;
    sum->drafted += c->drafted;
    sum->accepted += c->accepted;
}

/* Random requests and settings, some with requests taken out by hand; every feature must have been there. */
static void test_any_order(void **state)
{
    (void)state;
    kvg_generate_counts sum = {0}, c;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        world_make(&w, seed);
        if (world_run(&w, seed % 4 ? 0 : seed, &c)) fail_msg("seed %d: %s", (int)seed, kvg_error_text());
        if (w.wrong[0]) fail_msg("seed %d: %s", (int)seed, w.wrong);
        add(&sum, &c);
    }
    print_message("%d steps, %d rows, %d shared tokens, %d copies, %d preemptions, %d of %d drafts accepted\n",
                  (int)sum.steps, (int)sum.rows, (int)sum.shared_tokens, (int)sum.copies, (int)sum.preemptions,
                  (int)sum.accepted, (int)sum.drafted);
    assert_true(sum.shared_tokens > 1000 && sum.copies > 50 && sum.preemptions > 500);
    assert_true(sum.accepted > 1000 && sum.drafted > sum.accepted + 500);
}

static void run_well(kvg_generate_counts *c)
{
    if (world_run(&w, 0, c)) fail_msg("%s", kvg_error_text());
    if (w.wrong[0]) fail_msg("%s", w.wrong);
}

/* Drafts that are all right: as few steps as can be, and as many tokens for each. */
static void test_drafts(void **state)
{
    (void)state;
    kvg_generate_counts c;
    for (uint32_t drafts = 0; drafts < 9; drafts++) {
        world_make_equal(&w, 3, 7, 24);
        w.settings.chunk = 3;
        w.settings.drafts = drafts;
        for (uint32_t r = 0; r < 3; r++) {
            w.requests[r].drafts = drafts;
            w.prompts[r][2] = (int32_t)r; /* other prompts, other drafts */
        }
        world_right(&w);
        run_well(&c);
        assert_int_equal(c.accepted, c.drafted);
        assert_int_equal(c.rows, 3 * (7 + 23));
        /* Two steps read the prompt but for its last token, each of the others draws a token for each of its rows. */
        assert_int_equal(c.steps, 2 + (24 + drafts) / (drafts + 1));
    }
}

/* What a request's own text proposes: what came after its last two tokens when they came last. */
static void test_own_drafts(void **state)
{
    (void)state;
    static const struct {
        int32_t tokens[8], proposed[4];
        uint32_t known, room, count;
    } cases[] = {
        {{1, 2, 3, 4, 1, 2}, {3, 4, 1, 2}, 6, 4, 4},
        {{1, 2, 3, 1, 2, 4, 1, 2}, {4, 1, 2}, 8, 3, 3},
        {{1, 2, 3, 1, 2}, {3, 1, 2, 3}, 5, 9, 4}, /* on into what it proposes; at most the request's drafts */
        {{5, 5, 5}, {5, 5, 5, 5}, 3, 4, 4},
        {{1, 2, 3, 4, 5, 6}, {0}, 6, 4, 0},
        {{1, 1}, {0}, 2, 4, 0},
        {{1}, {0}, 1, 4, 0},
        {{1, 2, 1, 2}, {0}, 4, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int32_t tokens[8], proposed[4] = {0};
        memcpy(tokens, cases[i].tokens, sizeof tokens);
        const kvg_generate_entry e = {.ask = {.drafts = 4}, .tokens = tokens, .known = cases[i].known};
        assert_int_equal(kvg_generate_propose(&e, cases[i].room, proposed), cases[i].count);
        assert_memory_equal(proposed, cases[i].proposed, sizeof proposed);
    }
}

/* Requests of one prompt: the first reads it, up to its last token; the others share that, and each but the last one to
 * write copies the partial block. */
static void test_equal_prompts(void **state)
{
    (void)state;
    kvg_generate_counts c;
    world_make_equal(&w, 5, 14, 3);
    w.settings.share_prefixes = true;
    run_well(&c);
    assert_int_equal(c.shared_tokens, 4 * 13);
    assert_int_equal(c.copies, 4);
    assert_int_equal(c.rows, 13 + 5 * 3);
    world_make_equal(&w, 5, 13, 3); /* nothing to copy: the shared part ends with a block */
    w.settings.share_prefixes = true;
    run_well(&c);
    assert_true(c.shared_tokens == 4 * 12 && c.copies == 0);
}

/* A pool that holds one request and no block more: of two that share all of it, one must give up its part before the
 * other can write. */
static void test_full_pool(void **state)
{
    (void)state;
    kvg_generate_counts c;
    for (uint32_t count = 2; count <= 4; count++) {
        world_make_equal(&w, count, 14, 3);
        w.settings.share_prefixes = true;
        w.settings.setup.blocks = 4;
        for (uint32_t r = 0; r < count; r++) w.requests[r].priority = count - r;
        run_well(&c);
        assert_true(c.preemptions > 0 && c.peak_blocks == 4);
        /* The first in order, which came last, loses nothing. */
        for (uint32_t p = 0; p < 16; p++) assert_true(w.seen[count - 1][p] <= 1);
    }
}

/* Who comes in: by the step of joining, then by priority, then by submission. */
static void test_order(void **state)
{
    (void)state;
    static const struct {
        uint64_t priority, joins;
    } requests[] = {{2, 0}, {1, 0}, {0, 3}, {1, 0}, {9, 1}};
    static const uint32_t right[] = {1, 2, 3, 0, 4}; /* the third comes while the second runs, and goes before others */
    kvg_generate_counts c;
    world_make_equal(&w, 5, 4, 6);
    w.settings.batch = 1;
    for (uint32_t r = 0; r < 5; r++) {
        w.requests[r].priority = requests[r].priority;
        w.requests[r].joins = requests[r].joins;
    }
    run_well(&c);
    for (uint32_t i = 1; i < 5; i++) assert_true(w.first_step[right[i - 1]] < w.first_step[right[i]]);
    world_make_equal(&w, 1, 4, 6);
    w.requests[0].joins = UINT64_MAX - 100; /* nobody waits for it step by step */
    run_well(&c);
    assert_int_equal(c.steps, 6);
}

/* Where all layers slide, what the window has passed is given back while the request runs. */
static void test_window(void **state)
{
    (void)state;
    for (int slides = 0; slides < 2; slides++) {
        kvg_generate_counts c;
        world_make_equal(&w, 1, 40, 40);
        w.config.window = 9;
        w.config.sliding[0] = true;
        w.config.sliding[1] = slides;
        world_right(&w);
        w.settings.chunk = 4;
        run_well(&c);
        assert_int_equal(c.peak_blocks, slides ? 10 : 20); /* the prompt's at once; 79 tokens */
    }
}

/* Requests that cannot be, and settings that cannot. */
static void test_refusals(void **state)
{
    (void)state;
    const int32_t prompt[] = {1, 2, 3, WORLD_VOCAB, -1};
    const kvg_generate_request good = {.id = 7, .prompt = prompt, .prompt_tokens = 3, .new_tokens = 3};
    kvg_generate_request bad;
    kvg_generation *g;
    world_make_equal(&w, 1, 4, 4);
    w.settings.setup.blocks = 3;
    w.settings.drafts = 2;
    assert_int_equal(kvg_generation_open(&w.settings, NULL, &g), KVG_OK);
#define REFUSED(change, text) \
    do { \
        bad = good; \
        change; \
        assert_int_equal(kvg_generation_submit(g, &bad), KVG_ERR_INVALID); \
        assert_non_null(strstr(kvg_error_text(), text)); \
    } while (0)
    REFUSED(bad.prompt_tokens = 0, "empty prompt");
    REFUSED(bad.prompt_tokens = 4, "token 3 of its prompt is 24");
    REFUSED(bad.prompt = prompt + 4; bad.prompt_tokens = 1, "token 0 of its prompt is -1");
    REFUSED(bad.new_tokens = 94, "at most 96");
    REFUSED(bad.new_tokens = 11, "need 4 blocks of 4 tokens: the pool has 3");
    REFUSED(bad.sampling.temperature = -1, "request 7: ");
    REFUSED(bad.sampling = ((kvg_sampling){.temperature = 1}), "request 7: ");
    REFUSED(bad.drafts = 3, "3 drafts, at most 2");
    REFUSED(bad.drafts = 1; bad.draft = prompt + 2, "token 1 of its draft");
    bad = good;
    bad.new_tokens = 10; /* the last token needs no room */
    assert_int_equal(kvg_generation_submit(g, &bad), KVG_OK);
    REFUSED(bad.id = 7, "there already");
    uint32_t room = 2;
    int32_t tokens[2];
    assert_int_equal(kvg_generation_tokens(g, 7, tokens, &room), KVG_ERR_INVALID);
    assert_int_equal(kvg_generation_tokens(g, 8, tokens, &room), KVG_ERR_NOT_FOUND);
    assert_int_equal(kvg_generation_preempt(g, 8), KVG_ERR_NOT_FOUND);
    assert_int_equal(kvg_generation_preempt(g, 7), KVG_OK);
    kvg_generation_close(g);
    kvg_generate_settings *s = &w.settings;
    const kvg_generate_settings kept = *s;
#define REFUSED_SETTING(change) \
    do { \
        change; \
        assert_int_equal(kvg_generation_open(s, NULL, &g), KVG_ERR_INVALID); \
        *s = kept; \
    } while (0)
    REFUSED_SETTING(s->chunk = 0);
    REFUSED_SETTING(s->batch = 0);
    REFUSED_SETTING(s->batch = 1u << 17);
    REFUSED_SETTING(s->chunk = WORLD_TOKENS + 1);
    REFUSED_SETTING(s->drafts = WORLD_TOKENS);
    REFUSED_SETTING(s->setup.max_tokens = 0);
    REFUSED_SETTING(s->setup.max_tokens = WORLD_TOKENS + 1);
    REFUSED_SETTING(s->setup.blocks = 0);
    REFUSED_SETTING(s->setup.block_tokens = 0);
    REFUSED_SETTING(s->setup.layout = KVG_LAYOUT_ROWS);
    kvg_generation_close(NULL);
}

/* A step that fails in the runner, and one whose rows the observer refuses, are tried again. */
static void test_failures(void **state)
{
    (void)state;
    kvg_generate_counts c;
    uint64_t failures = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world_make(&w, seed);
        w.fail_at = 1 + seed % 17;
        w.see_fails_at = seed % 3 ? 5 * (seed % 23) : 0;
        if (world_run(&w, 0, &c)) fail_msg("seed %d: %s", (int)seed, kvg_error_text());
        if (w.wrong[0]) fail_msg("seed %d: %s", (int)seed, w.wrong);
        failures += w.failures;
    }
    assert_true(failures > 200);
}

/* Every allocation of a run fails once: opening fails cleanly, everything else is tried again and ends as ever. */
static void test_memory(void **state)
{
    (void)state;
    static const uint64_t seeds[] = {24, 86};
    for (size_t i = 0; i < sizeof seeds / sizeof seeds[0]; i++) {
        uint64_t tried = 0, retried = 0, total = 1;
        for (uint64_t k = 1; k <= total; k += 1 + k / 60) {
            kvg_generate_counts c;
            world_make(&w, seeds[i]);
            w.forgiving = true;
            allocations = 0;
            failing_allocation = k;
            const kvg_status s = world_run(&w, 0, &c);
            failing_allocation = 0;
            if (s && (s != KVG_ERR_MEMORY || w.failures)) fail_msg("allocation %d: %s", (int)k, kvg_error_text());
            if (w.wrong[0]) fail_msg("allocation %d: %s", (int)k, w.wrong);
            if (!s) total = allocations;
            else total = k + 1;
            tried++;
            retried += w.failures > 0;
        }
        print_message("%d allocations of %d failed, %d of them after opening\n", (int)tried, (int)total, (int)retried);
        assert_true(retried > 50);
    }
}

/* Every defect of what the runner makes of a step is seen by somebody. */
static void test_defects(void **state)
{
    (void)state;
    for (int d = WORLD_SOUND + 1; d < WORLD_DEFECTS; d++) {
        unsigned seen = 0;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            kvg_generate_counts c;
            world_make(&w, seed);
            w.defect = (world_defect)d;
            seen += world_run(&w, 0, &c) != KVG_OK || w.wrong[0];
        }
        print_message("defect %d: seen in %u of 40 worlds\n", d, seen);
        assert_true(seen > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_drafts),
        cmocka_unit_test(test_own_drafts),
        cmocka_unit_test(test_equal_prompts),
        cmocka_unit_test(test_full_pool),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_defects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
