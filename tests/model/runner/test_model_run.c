/* The reference's model runner (model/model_run.h) beside a second reading of docs/spec/generate.md: the same
 * bits for every family, format, layout, batch, chunk and order; every planted deviation of that reading is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/model_run.h"
#include "reference/reference.h"
#include "tests/model/runner/model_world.h"

/* --- bits --- */

static void test_the_page_is_read_alike(void **state)
{
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        world w;
        open_world(i, &w);
        const uint32_t wrong = run_alone(&w, &whole);
        if (wrong) fail_msg("variant %d: %u logits differ", i, wrong);
    }
}

static void test_deviations_are_seen(void **state)
{
    (void)state;
    static world worlds[4];
    for (int i = 0; i < 4; i++) open_world(i, &worlds[i]);
    for (int fault = SLOW_RIGHT + 1; fault < SLOW_FAULTS; fault++) {
        bool seen = false;
        for (int i = 0; i < 4 && !seen; i++) {
            const world *w = &worlds[i];
            float logits[LOGITS];
            must(slow_run(&w->setup, w->tokens[2], lengths[2], (slow_fault)fault, logits));
            seen = memcmp(logits, w->expected[2], lengths[2] * SMALL_VOCAB * sizeof *logits) != 0;
        }
        if (!seen) fail_msg("deviation %d is not seen", fault);
    }
}

/* Chunks, order, joining sequences, blocks and wanted rows change no bit, nor does what an earlier run left behind. */
static void test_steps(void **state)
{
    (void)state;
    static const plan plans[] = {
        {{1, 1, 1}, {0, 0, 0}, false, 1, 1},
        {{3, 2, 5}, {0, 1, 3}, true, 5, 1},
        {{4, 1, 8}, {2, 0, 1}, false, 12, 2},
        {{11, 5, 8}, {1, 2, 0}, true, 7, 5},
    };
    for (int i = 2; i < 5; i++) {
        world w;
        void *runner;
        open_world(i, &w);
        must(kvg_reference_model_runner()->open(&w.setup, &runner));
        for (size_t k = 0; k < sizeof plans / sizeof plans[0]; k++) {
            const uint32_t wrong = run_plan(&w, runner, &plans[k]);
            if (wrong) fail_msg("variant %d, plan %zu: %u logits differ", i, k, wrong);
        }
        kvg_reference_model_runner()->close(runner);
    }
}

/* Two sequences with a common beginning: the second takes the first one's full block, and a copy of its half one. */
static uint32_t run_fork(const world *w, bool copied)
{
    static const int32_t tables[2][WIDTH] = {{3, 8, 1}, {3, 11, 6}};
    const uint32_t common = BLOCK + 2;
    world forked = *w;
    rows *r = calloc(1, sizeof *r);
    void *runner;
    assert_non_null(r);
    memcpy(forked.tokens[1], w->tokens[0], common * sizeof(int32_t));
    must(slow_run(&w->setup, forked.tokens[1], SMALL_TOKENS - 1, SLOW_RIGHT, forked.expected[1]));
    must(kvg_reference_model_runner()->open(&w->setup, &runner));
    begin_step(r, common);
    add_sequence(r, 0, forked.tokens[0], 0, common, tables[0]);
    must(kvg_reference_model_runner()->step(runner, &r->step));
    begin_step(r, SMALL_TOKENS - 1);
    add_sequence(r, 0, forked.tokens[0], common, lengths[0] - common, tables[0]);
    add_sequence(r, 1, forked.tokens[1], common, SMALL_TOKENS - 1 - common, tables[1]);
    r->copy[0][0] = 8, r->copy[0][1] = 11;
    r->step.copies = copied;
    want(r, 1);
    must(kvg_reference_model_runner()->step(runner, &r->step));
    const uint32_t wrong = wrong_logits(&forked, r);
    kvg_reference_model_runner()->close(runner);
    free(r);
    return wrong;
}

static void test_copies(void **state)
{
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        world w;
        open_world(i, &w);
        const uint32_t wrong = run_fork(&w, true);
        if (wrong) fail_msg("variant %d: %u logits differ after a copy", i, wrong);
        assert_true(run_fork(&w, false) > 0);
    }
}

/* --- the hook --- */

typedef struct watch {
    const world *w;
    const rows *rows;
    uint32_t calls, fails_at; /* fails_at 0: never */
    bool poisons;             /* NaN everywhere before the first append */
    bool shortens;            /* decode sees a key less */
} watch;

static const kvg_tensor *tensor(const kvg_problem *p, const kvg_tensor *in, kvg_role role, kvg_side side)
{
    return &in[kvg_roles_index(kvg_op_get(p->op)->inputs, role, side)];
}

static void check_append(const watch *h, const kvg_problem *p, const kvg_tensor *in)
{
    const bool norm = h->w->model.config.qk_norm;
    const float *g = h->w->model.tensor_scale[p->paging.layer];
    assert_int_equal(p->tokens, h->rows->step.rows);
    assert_true(p->bias == h->w->model.config.attention_bias && p->rope.positions == SMALL_TOKENS);
    assert_ptr_equal(tensor(p, in, KVG_ROLE_SLOTS, KVG_K)->data, h->rows->slots);
    assert_ptr_equal(tensor(p, in, KVG_ROLE_POSITIONS, KVG_K)->data, h->rows->positions);
    assert_ptr_equal(tensor(p, in, KVG_ROLE_COS_SIN, KVG_K)->data, h->w->model.cos_sin);
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_tensor *bias = tensor(p, in, KVG_ROLE_BIAS, (kvg_side)side);
        const uint16_t *codes = bias->data;
        for (size_t i = 0; side == KVG_K && norm && i < bias->bytes / 2; i++) assert_int_equal(codes[i], 0x8000);
        if (kvg_format_get(p->storage[side].format)->tensor_scale)
            assert_true(*(const float *)tensor(p, in, KVG_ROLE_TENSOR_SCALE, (kvg_side)side)->data == g[side]);
    }
}

static void check_decode(const watch *h, const kvg_problem *p, const kvg_tensor *in)
{
    const kvg_model_config *c = &h->w->model.config;
    const kvg_attention *a = &p->attention;
    assert_int_equal(p->tokens, h->rows->step.longest);
    assert_int_equal(p->paging.sequences, h->rows->step.sequences);
    assert_int_equal(p->profile, h->w->setup.profile);
    assert_true(a->query_heads == c->query_heads && a->queries == h->rows->step.rows && a->sinks == c->sinks);
    assert_int_equal(a->window, c->sliding[p->paging.layer] ? c->window : 0);
    assert_true(a->scale == 0 && a->softcap == 0);
    assert_ptr_equal(tensor(p, in, KVG_ROLE_BLOCK_TABLE, KVG_K)->data, h->rows->table);
    assert_ptr_equal(tensor(p, in, KVG_ROLE_LENGTHS, KVG_K)->data, h->rows->lengths);
    assert_ptr_equal(tensor(p, in, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data, h->rows->counts);
}

/* Append and decode of layer 0, of layer 1, ... */
static kvg_status watched_run(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    watch *h = context;
    kvg_problem p = *problem;
    const uint32_t call = h->calls++ % (2 * h->w->model.config.layers);
    if (h->fails_at && h->calls == h->fails_at) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "not today");
    must(kvg_problem_check(&p));
    assert_int_equal(p.op, call % 2 ? KVG_OP_DECODE : KVG_OP_APPEND);
    assert_int_equal(p.paging.layer, call / 2);
    if (h->poisons && h->calls == 1) {
        for (size_t i = 0; i < kvg_roles_tensors(kvg_op_get(p.op)->outputs); i++)
            if (out[i].bytes) memset(out[i].data, 0xFF, out[i].bytes);
    }
    if (h->rows && p.op == KVG_OP_APPEND) check_append(h, &p, in);
    if (h->rows && p.op == KVG_OP_DECODE) check_decode(h, &p, in);
    if (h->shortens && p.attention.window) p.attention.window--;
    return kvg_reference_run(&p, in, out);
}

static void test_hook(void **state)
{
    (void)state;
    for (int i = 1; i < 5; i++) {
        world w;
        rows *r = calloc(1, sizeof *r);
        watch h = {.w = &w, .rows = r};
        void *runner;
        int32_t table[SEQUENCES][WIDTH];
        assert_non_null(r);
        open_world(i, &w);
        w.setup.run = watched_run;
        w.setup.run_context = &h;
        must(kvg_reference_model_runner()->open(&w.setup, &runner));
        deal(3, table);
        begin_step(r, 7);
        for (uint32_t s = 0; s < 2; s++) add_sequence(r, s, w.tokens[s], 0, s ? 4 : 7, table[s]);
        want(r, 1);
        must(kvg_reference_model_runner()->step(runner, &r->step));
        assert_int_equal(h.calls, 2 * w.model.config.layers);
        assert_int_equal(wrong_logits(&w, r), 0);
        h.fails_at = h.calls + 4;
        assert_int_equal(kvg_reference_model_runner()->step(runner, &r->step), KVG_ERR_UNIMPLEMENTED);
        assert_string_equal(kvg_error_text(), "layer 1, decode: not today");
        kvg_reference_model_runner()->close(runner);
        free(r);
    }
}

/* NaN in every byte that nobody wrote changes nothing; a hook that takes a key away does. */
static void test_poison(void **state)
{
    (void)state;
    for (int i = 0; i < VARIANTS; i++) {
        static const plan p = {{3, 2, 5}, {0, 1, 0}, false, 3, 1};
        world w;
        watch h = {.w = &w, .poisons = true};
        open_world(i, &w);
        w.setup.run = watched_run;
        w.setup.run_context = &h;
        const uint32_t wrong = run_alone(&w, &p);
        if (wrong) fail_msg("variant %d: %u logits differ beside NaN", i, wrong);
        h.shortens = true;
        assert_true((run_alone(&w, &p) > 0) == (w.model.config.window > 0));
    }
}

/* --- what is read back --- */

/* The pools hold what op append wrote to pools of the test's own. */
typedef struct mirror {
    uint8_t *pools[4];
} mirror;

static kvg_status mirrored_run(void *context, const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out)
{
    mirror *m = context;
    if (p->op == KVG_OP_APPEND) {
        kvg_tensor own[4];
        for (int i = 0; i < 4; i++) {
            own[i] = out[i];
            own[i].data = m->pools[i];
        }
        must(kvg_reference_run(p, in, own));
    }
    return kvg_reference_run(p, in, out);
}

static void test_pools(void **state)
{
    (void)state;
    static const kvg_role roles[2] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
    for (int i = 0; i < VARIANTS; i++) {
        world w;
        mirror m;
        void *runner;
        open_world(i, &w);
        for (int k = 0; k < 4; k++) assert_non_null(m.pools[k] = calloc(1, 1 << 16));
        w.setup.run = mirrored_run;
        w.setup.run_context = &m;
        must(kvg_reference_model_runner()->open(&w.setup, &runner));
        assert_int_equal(run_plan(&w, runner, &whole), 0);
        const kvg_problem p = kvg_model_append(&w.setup, 0, 1);
        for (int k = 0; k < 4; k++) {
            uint64_t bytes;
            must(kvg_problem_pool_bytes(&p, roles[k / 2], (kvg_side)(k % 2), &bytes));
            assert_true(bytes < 1 << 16);
            uint8_t *got = malloc(bytes + 1);
            assert_non_null(got);
            got[bytes] = 0xA5;
            must(kvg_reference_model_runner()->read_pool(runner, roles[k / 2], (kvg_side)(k % 2), got));
            assert_memory_equal(got, m.pools[k], bytes);
            assert_int_equal(got[bytes], 0xA5);
            free(got);
            free(m.pools[k]);
        }
        assert_int_equal(kvg_reference_model_runner()->read_pool(runner, KVG_ROLE_SLOTS, KVG_K, NULL), KVG_ERR_INVALID);
        kvg_reference_model_runner()->close(runner);
    }
}

/* --- what is refused --- */

typedef struct bad_step {
    const char *says;
    void (*spoil)(rows *r);
} bad_step;

#define SPOIL(name, what) static void name(rows *r) { what; }
SPOIL(no_rows, r->step.rows = 0)
SPOIL(many_rows, r->step.rows = 1000)
SPOIL(no_sequences, r->step.sequences = 0)
SPOIL(many_sequences, r->step.sequences = SEQUENCES + 1)
SPOIL(no_longest, r->step.longest = 0)
SPOIL(long_longest, r->step.longest = SMALL_TOKENS + 1)
SPOIL(short_longest, r->step.longest = 6)
SPOIL(token_too_large, r->tokens[8] = SMALL_VOCAB)
SPOIL(token_negative, r->tokens[0] = -1)
SPOIL(position_late, r->positions[3]++)
SPOIL(position_negative, r->positions[0] = -1)
SPOIL(slot_of_another, r->slots[2]++)
SPOIL(slot_negative, r->slots[10] = -1)
SPOIL(slot_beyond, r->slots[0] = BLOCKS *BLOCK)
SPOIL(length_negative, r->lengths[1] = -1)
SPOIL(more_rows_than_tokens, r->counts[1] = 5)
SPOIL(rows_negative, r->counts[0] = -1)
SPOIL(rows_missing, r->counts[1] = 3)
SPOIL(block_beyond, r->table[1] = BLOCKS)
SPOIL(block_negative, r->table[3] = -2)
SPOIL(block_missing, r->table[0] = -1)
SPOIL(copy_from_beyond, (r->step.copies = 1, r->copy[0][0] = BLOCKS))
SPOIL(copy_to_beyond, (r->step.copies = 1, r->copy[0][1] = BLOCKS))
SPOIL(copy_to_itself, (r->step.copies = 1, r->copy[0][1] = r->copy[0][0]))
SPOIL(copy_twice, (r->step.copies = 2, r->copy[1][0] = 2, r->copy[1][1] = r->copy[0][1]))
SPOIL(copy_of_a_copy, (r->step.copies = 2, r->copy[1][0] = r->copy[0][1], r->copy[1][1] = 2))
SPOIL(many_wanted, r->step.wanted = 1000)
SPOIL(wanted_descending, (r->wanted[0] = 1, r->wanted[1] = 0))
SPOIL(wanted_twice, r->wanted[1] = 0)
SPOIL(wanted_beyond, r->wanted[10] = 11)

static void test_bad_steps(void **state)
{
    (void)state;
    static const bad_step steps[] = {
        {"a step of 0 rows", no_rows},
        {"a step of 1000 rows", many_rows},
        {"0 sequences", no_sequences},
        {"4 sequences", many_sequences},
        {"longest is 0", no_longest},
        {"longest is 13", long_longest},
        {"7 rows of 7 tokens", short_longest},
        {"tokens[8] is 19", token_too_large},
        {"tokens[0] is -1", token_negative},
        {"positions[3] is 4; by the lengths of sequence 0 it is 3", position_late},
        {"positions[0] is -1", position_negative},
        {"slots[2] is 23; by the block table of sequence 0 it is 22", slot_of_another},
        {"slots[10] is -1", slot_negative},
        {"slots[0] is 52", slot_beyond},
        {"sequence 1 has 4 rows of -1 tokens", length_negative},
        {"sequence 1 has 5 rows of 4 tokens", more_rows_than_tokens},
        {"sequence 0 has -1 rows", rows_negative},
        {"query_lengths add up to 10, not to the 11 rows", rows_missing},
        {"block_table[0][1] is 13", block_beyond},
        {"block_table[1][1] is -2", block_negative},
        {"block_table[0][0] is -1", block_missing},
        {"copy[0] is from block 13", copy_from_beyond},
        {"copy[0] is from block 1 to 13", copy_to_beyond},
        {"copy[0] writes block 1, and copy[0]", copy_to_itself},
        {"copy[0] writes block 4, and copy[1]", copy_twice},
        {"copy[0] writes block 4, and copy[1]", copy_of_a_copy},
        {"logits of 1000 rows", many_wanted},
        {"wanted_rows[1] is 0", wanted_descending},
        {"wanted_rows[1] is 0", wanted_twice},
        {"wanted_rows[10] is 11", wanted_beyond},
    };
    world w;
    void *runner;
    int32_t table[SEQUENCES][WIDTH];
    rows *r = calloc(1, sizeof *r);
    assert_non_null(r);
    open_world(GPT_OSS_BF16, &w);
    must(kvg_reference_model_runner()->open(&w.setup, &runner));
    deal(3, table);
    for (size_t i = 0; i <= sizeof steps / sizeof steps[0]; i++) {
        begin_step(r, 7);
        for (uint32_t s = 0; s < 2; s++) add_sequence(r, s, w.tokens[s], 0, s ? 4 : 7, table[s]);
        want(r, 1);
        r->copy[0][0] = 1, r->copy[0][1] = 4;
        if (i == sizeof steps / sizeof steps[0]) break;
        steps[i].spoil(r);
        assert_int_equal(kvg_reference_model_runner()->step(runner, &r->step), KVG_ERR_INVALID);
        if (!strstr(kvg_error_text(), steps[i].says)) fail_msg("'%s' is not in: %s", steps[i].says, kvg_error_text());
    }
    must(kvg_reference_model_runner()->step(runner, &r->step)); /* it can be used on */
    assert_int_equal(wrong_logits(&w, r), 0);
    kvg_reference_model_runner()->close(runner);
    free(r);
}

/* Blocks that no layer's window reaches may be gone, others not. */
static void test_holes(void **state)
{
    (void)state;
    for (int slides = 0; slides < 2; slides++) {
        world w;
        void *runner;
        int32_t table[SEQUENCES][WIDTH];
        rows *r = calloc(1, sizeof *r);
        assert_non_null(r);
        open_world(GPT_OSS_BF16, &w);
        w.model.config.sliding[1] = slides;
        must(slow_run(&w.setup, w.tokens[0], lengths[0], SLOW_RIGHT, w.expected[0]));
        must(kvg_reference_model_runner()->open(&w.setup, &runner));
        deal(2, table);
        for (uint32_t done = 0; done < lengths[0]; done++) {
            begin_step(r, done + 1);
            add_sequence(r, 0, w.tokens[0], done, 1, table[0]);
            want(r, 1);
            const bool hole = done + 1 >= SMALL_WINDOW + BLOCK; /* the first position seen is in block 1 */
            if (hole) r->table[0] = -1;
            const kvg_status s = kvg_reference_model_runner()->step(runner, &r->step);
            assert_int_equal(s, hole && !slides ? KVG_ERR_INVALID : KVG_OK);
            if (s) break;
            assert_int_equal(wrong_logits(&w, r), 0);
        }
        kvg_reference_model_runner()->close(runner);
        free(r);
    }
}

static void test_bad_setups(void **state)
{
    (void)state;
    static const struct {
        kvg_status status;
        const char *says;
    } bad[] = {
        {KVG_ERR_INVALID, "layout ring has no block table"},
        {KVG_ERR_INVALID, "layout rows has no block table"},
        {KVG_ERR_INVALID, "model type f32"},
        {KVG_ERR_UNIMPLEMENTED, "no library"},
        {KVG_ERR_INVALID, "13 tokens: the model has 12 positions"},
        {KVG_ERR_INVALID, "0 rows"},
        {KVG_ERR_INVALID, "0 blocks"},
        {KVG_ERR_INVALID, "the table of cos and sin is missing"},
        {KVG_ERR_NOT_FOUND, "no nvfp4 dialect"},
        {KVG_ERR_INVALID, "head_dim"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        world w;
        void *runner = &w;
        open_world(2, &w);
        kvg_model_setup *s = &w.setup;
        if (i == 0) s->layout = KVG_LAYOUT_RING;
        if (i == 1) s->layout = KVG_LAYOUT_ROWS;
        if (i == 2) s->dtype = KVG_DTYPE_F32;
        if (i == 3) s->products = KVG_PRODUCTS_LIBRARY;
        if (i == 4) s->max_tokens = SMALL_TOKENS + 1;
        if (i == 5) s->max_rows = 0;
        if (i == 6) s->blocks = 0;
        if (i == 7) s->cos_sin = NULL;
        if (i == 8) s->storage[KVG_V].dialect = "nobody's";
        if (i == 9) s->storage[KVG_K].format = KVG_FORMAT_MXFP4;
        assert_int_equal(kvg_reference_model_runner()->open(s, &runner), bad[i].status);
        assert_null(runner);
        if (!strstr(kvg_error_text(), bad[i].says)) fail_msg("'%s' is not in: %s", bad[i].says, kvg_error_text());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_page_is_read_alike),
        cmocka_unit_test(test_deviations_are_seen),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_hook),
        cmocka_unit_test(test_poison),
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_bad_steps),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_bad_setups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
