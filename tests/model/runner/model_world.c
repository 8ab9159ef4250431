#include "tests/model/runner/model_world.h"

#include <assert.h> /* static_assert */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const uint32_t lengths[SEQUENCES] = {11, 5, 8};

static int32_t token_at(uint32_t sequence, uint32_t position)
{
    return (int32_t)((7 * sequence + 3 * position + position * position) % SMALL_VOCAB);
}

void must(kvg_status s)
{
    if (s) fail_msg("%s: %s", kvg_status_name(s), kvg_error_text());
}

/* --- what is run --- */

typedef struct variant {
    small_model_kind kind;
    kvg_dtype dtype;
    kvg_layout layout;
    kvg_storage storage[2];
    kvg_profile profile;
} variant;

#define BOTH(FORMAT, dialect) {{KVG_FORMAT_##FORMAT, dialect}, {KVG_FORMAT_##FORMAT, dialect}}
static const variant variants[] = {
    {SMALL_LLAMA, KVG_DTYPE_F16, KVG_LAYOUT_HND, BOTH(F16, "canonical"), KVG_PROFILE_SIMT_FMA_V1},
    {SMALL_LLAMA_BIASES, KVG_DTYPE_BF16, KVG_LAYOUT_TURBOMIND, BOTH(INT8, "canonical"), KVG_PROFILE_SIMT_FMA_V1},
    {SMALL_QWEN3, KVG_DTYPE_BF16, KVG_LAYOUT_VLLM, BOTH(NVFP4, "canonical"), KVG_PROFILE_SIMT_FMA_V1},
    {SMALL_GPT_OSS, KVG_DTYPE_BF16, KVG_LAYOUT_HND, BOTH(BF16, "canonical"), KVG_PROFILE_SIMT_FMA_V1},
    {SMALL_GPT_OSS, KVG_DTYPE_F16, KVG_LAYOUT_TRTLLM, BOTH(NVFP4, "canonical"), KVG_PROFILE_SM90_MMA16816_V1},
    {SMALL_GPT_OSS, KVG_DTYPE_BF16, KVG_LAYOUT_SLOT, {{KVG_FORMAT_E4M3, "canonical"}, {KVG_FORMAT_NVFP4, "canonical"}},
     KVG_PROFILE_SIMT_FMA_V1},
    {SMALL_QWEN3, KVG_DTYPE_F16, KVG_LAYOUT_NHD, BOTH(INT4, "canonical"), KVG_PROFILE_SIMT_FMA_V1},
    {SMALL_LLAMA, KVG_DTYPE_BF16, KVG_LAYOUT_VLLM_HND, BOTH(ROWFP4, "canonical"), KVG_PROFILE_SM90_MMA16816_V1},
    {SMALL_LLAMA, KVG_DTYPE_BF16, KVG_LAYOUT_TURBOMIND, BOTH(MX16, "canonical"), KVG_PROFILE_SIMT_FMA_V1},
};
static_assert(sizeof variants / sizeof variants[0] == VARIANTS, "as many as the header says");

static void set_world(const variant *v, world *w)
{
    w->setup = (kvg_model_setup){
        .config = &w->model.config,
        .source = small_model_source(&w->model),
        .dtype = v->dtype,
        .layout = v->layout,
        .storage = {v->storage[KVG_K], v->storage[KVG_V]},
        .blocks = BLOCKS,
        .block_tokens = BLOCK,
        .tensor_scale = (const float(*)[2])w->model.tensor_scale,
        .profile = v->profile,
        .max_tokens = SMALL_TOKENS,
        .cos_sin = w->model.cos_sin,
        .max_rows = SEQUENCES * SMALL_TOKENS,
        .max_sequences = SEQUENCES,
        .max_wanted = SEQUENCES * SMALL_TOKENS,
    };
}

/* The world of a variant; its logits are computed once. */
void open_world(int index, world *w)
{
    static world known[VARIANTS];
    static bool is_known[VARIANTS];
    world *first = &known[index];
    if (!is_known[index]) {
        small_model_make(variants[index].kind, &first->model);
        set_world(&variants[index], first);
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            for (uint32_t i = 0; i < SMALL_TOKENS; i++) first->tokens[s][i] = token_at(s, i);
            must(slow_run(&first->setup, first->tokens[s], lengths[s], SLOW_RIGHT, first->expected[s]));
        }
        is_known[index] = true;
    }
    *w = *first;
    set_world(&variants[index], w);
}

/* --- steps --- */

const plan whole = {{SMALL_TOKENS, SMALL_TOKENS, SMALL_TOKENS}, {0, 0, 0}, false, 1, 1};

void add_sequence(rows *r, uint32_t sequence, const int32_t *tokens, uint32_t first, uint32_t count,
                  const int32_t table[WIDTH])
{
    kvg_model_step *s = &r->step;
    const uint32_t width = (s->longest + BLOCK - 1) / BLOCK;
    for (uint32_t i = 0; i < width; i++)
        r->table[s->sequences * width + i] = i * BLOCK < first + count ? table[i] : -1;
    for (uint32_t i = first; i < first + count; i++, s->rows++) {
        r->tokens[s->rows] = tokens[i];
        r->positions[s->rows] = (int32_t)i;
        r->slots[s->rows] = (int64_t)table[i / BLOCK] * BLOCK + i % BLOCK;
    }
    r->lengths[s->sequences] = (int32_t)(first + count);
    r->counts[s->sequences] = (int32_t)count;
    r->of[s->sequences++] = sequence;
}

void begin_step(rows *r, uint32_t longest)
{
    r->step = (kvg_model_step){
        .copy = (const uint32_t(*)[2])r->copy,
        .tokens = r->tokens,
        .positions = r->positions,
        .slots = r->slots,
        .longest = longest,
        .block_table = r->table,
        .lengths = r->lengths,
        .query_lengths = r->counts,
        .wanted_rows = r->wanted,
        .logits = r->logits,
    };
}

void want(rows *r, uint32_t every)
{
    for (uint32_t i = every - 1; i < r->step.rows; i += every) r->wanted[r->step.wanted++] = i;
}

uint32_t wrong_logits(const world *w, const rows *r)
{
    uint32_t row = 0, wrong = 0, given = 0;
    for (uint32_t s = 0; s < r->step.sequences; s++) {
        for (int32_t p = r->lengths[s] - r->counts[s]; p < r->lengths[s]; p++, row++) {
            if (given == r->step.wanted || r->wanted[given] != row) continue;
            const float *got = r->logits + given++ * SMALL_VOCAB, *right = w->expected[r->of[s]] + p * SMALL_VOCAB;
            for (uint32_t i = 0; i < SMALL_VOCAB; i++) wrong += memcmp(&got[i], &right[i], sizeof *got) != 0;
        }
    }
    assert_int_equal(given, r->step.wanted);
    return wrong;
}

void deal(uint32_t stride, int32_t table[SEQUENCES][WIDTH])
{
    for (uint32_t i = 0; i < SEQUENCES * WIDTH; i++) table[i / WIDTH][i % WIDTH] = (int32_t)((5 + i * stride) % BLOCKS);
}

uint32_t run_plan(const world *w, void *runner, const plan *p)
{
    rows *r = calloc(1, sizeof *r);
    uint32_t done[SEQUENCES] = {0}, wrong = 0, left = SEQUENCES;
    int32_t table[SEQUENCES][WIDTH];
    assert_non_null(r);
    deal(p->stride, table);
    for (uint32_t number = 0; left > 0; number++) {
        uint32_t counts[SEQUENCES], longest = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            const uint32_t rest = lengths[s] - done[s];
            counts[s] = number < p->joins[s] ? 0 : rest < p->chunk[s] ? rest : p->chunk[s];
            if (counts[s] && done[s] + counts[s] > longest) longest = done[s] + counts[s];
        }
        begin_step(r, longest);
        for (uint32_t i = 0; i < SEQUENCES; i++) {
            const uint32_t s = p->reversed ? SEQUENCES - 1 - i : i;
            if (counts[s]) add_sequence(r, s, w->tokens[s], done[s], counts[s], table[s]);
            left -= counts[s] && done[s] + counts[s] == lengths[s];
            done[s] += counts[s];
        }
        want(r, p->wanted_of);
        must(kvg_reference_model_runner()->step(runner, &r->step));
        wrong += wrong_logits(w, r);
    }
    free(r);
    return wrong;
}

uint32_t run_alone(const world *w, const plan *p)
{
    void *runner;
    must(kvg_reference_model_runner()->open(&w->setup, &runner));
    const uint32_t wrong = run_plan(w, runner, p);
    kvg_reference_model_runner()->close(runner);
    return wrong;
}
