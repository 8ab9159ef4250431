/* What the GPU's runner of models refuses before it opens CUDA: setups and steps, each with one thing wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "gpu/model/model_check.h"
#include "tests/gpu/random_model.h"

enum { BLOCK = 4, BLOCKS = 9, ROWS = 6, SEQUENCES = 2, TOKENS = 20 };

/* A sequence of 7 tokens, 2 of them new, and one of 3, all new. */
typedef struct world {
    random_model model;
    kvg_model_setup setup;
    kvg_model_step step;
    int32_t tokens[5], positions[5], table[2][2], lengths[2], queries[2];
    int64_t slots[5];
    uint32_t wanted[2], copy[2][2];
    float cos_sin[1], scales[3][2], logits[1];
} world;

static void make(world *w)
{
    memset(w, 0, sizeof *w);
    random_model_make(1, &w->model); /* all layers slide, over 40 keys */
    const world right = {.tokens = {1, 2, 3, 4, 5}, .positions = {5, 6, 0, 1, 2}, .table = {{3, 1}, {8, -1}},
                         .lengths = {7, 3}, .queries = {2, 3}, .slots = {5, 6, 32, 33, 34}, .wanted = {1, 4},
                         .copy = {{0, 1}, {2, 8}}, .scales = {{1, 1}, {1, 1}, {1, 1}}, .model = w->model};
    *w = right;
    w->setup = (kvg_model_setup){
        .config = &w->model.config, .source = random_model_source(&w->model), .dtype = KVG_DTYPE_BF16,
        .layout = KVG_LAYOUT_HND, .storage = {{KVG_FORMAT_NVFP4, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
        .blocks = BLOCKS, .block_tokens = BLOCK, .tensor_scale = (const float(*)[2])w->scales,
        .profile = KVG_PROFILE_SIMT_FMA_V1, .max_tokens = TOKENS, .cos_sin = w->cos_sin, .max_rows = ROWS,
        .max_sequences = SEQUENCES, .max_wanted = 2};
    w->step = (kvg_model_step){
        .copies = 2, .copy = (const uint32_t(*)[2])w->copy, .rows = 5, .tokens = w->tokens, .positions = w->positions,
        .slots = w->slots, .sequences = 2, .longest = 7, .block_table = w->table[0], .lengths = w->lengths,
        .query_lengths = w->queries, .wanted = 2, .wanted_rows = w->wanted, .logits = w->logits};
}

static void refuse(world *w, kvg_status is, kvg_status wanted, const char *says)
{
    if (is != wanted || !strstr(kvg_error_text(), says)) {
        fail_msg("%s: '%s', not '%s'", kvg_status_name(is), kvg_error_text(), says);
    }
    random_model_free(&w->model);
    make(w);
}

#define SETUP(change, status, says) change, refuse(&w, kvg_gpu_model_check_setup(&w.setup), status, says)
#define STEP(change, says) change, refuse(&w, kvg_gpu_model_check_step(&w.setup, &w.step), KVG_ERR_INVALID, says)

static kvg_status answer(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out)
{
    (void)context, (void)problem, (void)in, (void)out;
    return KVG_OK;
}

static void test_setups(void **state)
{
    (void)state;
    world w;
    make(&w);
    assert_int_equal(kvg_gpu_model_check_setup(&w.setup), KVG_OK);
    SETUP(w.setup.run = answer, KVG_ERR_UNIMPLEMENTED, "itself");
    SETUP(w.setup.profile = KVG_PROFILE_NONE, KVG_ERR_INVALID, "profile");
    SETUP(w.setup.dtype = KVG_DTYPE_F32, KVG_ERR_INVALID, "f32");
    SETUP(w.setup.layout = KVG_LAYOUT_RING, KVG_ERR_INVALID, "block table");
    SETUP(w.setup.layout = KVG_LAYOUT_CONTIGUOUS, KVG_ERR_INVALID, "block table");
    SETUP(w.setup.layout = KVG_LAYOUT_ROWS, KVG_ERR_INVALID, "block table");
    SETUP(w.setup.max_rows = 0, KVG_ERR_INVALID, "at least 1");
    SETUP(w.setup.max_tokens = 4097, KVG_ERR_INVALID, "4096 positions");
    SETUP(w.setup.cos_sin = NULL, KVG_ERR_INVALID, "cos and sin");
    SETUP(w.setup.blocks = 0, KVG_ERR_INVALID, "blocks");
    SETUP(w.model.config.rope.dims = 64, KVG_ERR_UNIMPLEMENTED, "halves");
    SETUP(w.model.config.top_k = 1, KVG_ERR_INVALID, "experts");
    SETUP(w.model.config.head_dim = w.model.config.rope.dims = 24, KVG_ERR_INVALID, "24");
    SETUP(w.setup.storage[KVG_V].dialect = "unheard", KVG_ERR_UNIMPLEMENTED, "unheard");
    SETUP(w.scales[2][1] = 0, KVG_ERR_INVALID, "layer 2");
    random_model_free(&w.model);
}

static void test_steps(void **state)
{
    (void)state;
    world w;
    make(&w);
    assert_int_equal(kvg_gpu_model_check_step(&w.setup, &w.step), KVG_OK);
    STEP(w.step.rows = 0, "rows");
    STEP(w.step.rows = ROWS + 1, "rows");
    STEP(w.step.sequences = 0, "sequences");
    STEP(w.step.longest = TOKENS + 1, "tokens");
    STEP(w.step.wanted = 3, "logits");
    STEP(w.step.logits = NULL, "logits");
    STEP(w.tokens[3] = 130, "tokens[3]");
    STEP(w.tokens[0] = -1, "tokens[0]");
    STEP(w.positions[1] = 5, "positions[1]");
    STEP(w.slots[2] = 31, "slots[2]");
    STEP(w.slots[4] = -1, "slots[4]");
    STEP(w.table[0][1] = BLOCKS, "block_table[0][1]");
    STEP(w.table[0][0] = -1, "block_table[0][0]");
    STEP(w.table[1][1] = -2, "block_table[1][1]");
    STEP(w.lengths[0] = 8, "lengths[0]");
    STEP(w.lengths[1] = -1, "lengths[1]");
    STEP(w.queries[1] = 4, "query_lengths[1]");
    STEP(w.queries[1] = -1, "query_lengths[1]");
    STEP(w.queries[1] = 2, "positions[2]");
    STEP((w.queries[0] = 1, w.positions[0] = 6, w.slots[0] = 6, w.positions[1] = 0), "slots[1]");
    STEP(w.wanted[1] = 1, "wanted_rows[1]");
    STEP(w.wanted[1] = 5, "wanted_rows[1]");
    STEP(w.copy[0][1] = BLOCKS, "copy 0");
    STEP(w.copy[0][1] = 0, "copy 0");
    STEP(w.copy[1][1] = 1, "copy 0");
    STEP(w.copy[1][0] = 1, "copy 0");
    STEP((w.table[1][0] = 1, w.slots[2] = 4, w.slots[3] = 5, w.slots[4] = 6), "slot 5");
    random_model_free(&w.model);
}

/* Blocks before every window may be gone, and no other. */
static void test_holes(void **state)
{
    (void)state;
    world w;
    make(&w);
    w.model.config.window = 2; /* row 5 sees 4 and itself */
    w.table[0][0] = -1;
    assert_int_equal(kvg_gpu_model_check_step(&w.setup, &w.step), KVG_OK);
    w.model.config.window = 3;
    STEP((void)0, "block_table[0][0]");
    w.model.config.window = 2;
    w.model.config.sliding[1] = false;
    STEP(w.table[0][0] = -1, "block_table[0][0]");
    random_model_free(&w.model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_setups), cmocka_unit_test(test_steps),
                                       cmocka_unit_test(test_holes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
