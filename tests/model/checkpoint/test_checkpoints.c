/* The loaders and the reference's runner against Hugging Face transformers: small random checkpoints of every family,
 * their logits frozen with how far a right runner may be from them (golden/data/checkpoints/README.md). Configs with
 * one thing wrong must be farther off.
 *
 *   test_checkpoints           the small ones
 *   test_checkpoints --more    deviations of them; golden/data/model */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "golden/golden.h"
#include "model/checkpoint/model_weights.h"
#include "model/model_run.h"
#include "reference/reference.h"
#include "reference/rope_table.h"

#define DATA KVG_SOURCE_DIR "/golden/data/"

static void must(kvg_status s)
{
    if (s) fail_msg("%s", kvg_error_text());
}

/* --- a checkpoint and its vectors --- */

typedef struct checkpoint {
    const char *name;
    kvg_model_config config;
    kvg_model_weights *weights;
    kvg_safetensors *files[2]; /* vectors; bounds, where they have a file of their own */
    uint32_t tokens;
    int32_t *ids;
    float *expected, *got;     /* [tokens][vocab] */
    float *bounds[2];          /* of f16 and bf16 */
} checkpoint;

static const kvg_dtype dtypes[2] = {KVG_DTYPE_F16, KVG_DTYPE_BF16};

/* A copy of a tensor, from the first file that has it. */
static void *tensor(const checkpoint *c, const char *name, size_t bytes)
{
    const kvg_safetensors_entry *entry;
    if (kvg_safetensors_find(c->files[0], name, &entry)) must(kvg_safetensors_find(c->files[1], name, &entry));
    void *copy = malloc(entry->bytes);
    assert_non_null(copy);
    memcpy(copy, entry->data, entry->bytes);
    if (bytes) assert_int_equal(entry->bytes, bytes);
    return copy;
}

static void open_checkpoint(const char *name, checkpoint *c)
{
    static const char *const parts[2] = {"vectors", "bounds"};
    const kvg_safetensors_entry *tokens;
    const bool carried = strcmp(name, "model") == 0;
    char folder[512], path[600];
    *c = (checkpoint){.name = name};
    snprintf(folder, sizeof folder, DATA "%s%s", carried ? "" : "checkpoints/", name);
    snprintf(path, sizeof path, "%s/config.json", folder);
    must(kvg_model_config_open(path, &c->config));
    must(kvg_model_weights_open(folder, &c->config, &c->weights));
    must(kvg_model_weights_check(c->weights));
    for (int i = 0; i <= carried; i++) {
        snprintf(path, sizeof path, "%s/%s.safetensors", folder, parts[i]);
        must(kvg_safetensors_open(path, &c->files[i]));
    }
    must(kvg_safetensors_find(c->files[0], "tokens", &tokens));
    c->tokens = (uint32_t)tokens->shape[0];
    const size_t bytes = (size_t)c->tokens * c->config.vocab * sizeof(float);
    c->ids = tensor(c, "tokens", c->tokens * sizeof *c->ids);
    c->expected = tensor(c, "logits", bytes);
    c->bounds[0] = tensor(c, "bound_f16", bytes);
    c->bounds[1] = tensor(c, "bound_bf16", bytes);
    c->got = malloc(bytes);
    assert_non_null(c->got);
}

static void close_checkpoint(checkpoint *c)
{
    kvg_model_weights_close(c->weights);
    for (int i = 0; i < 2; i++) kvg_safetensors_close(c->files[i]);
    free(c->ids);
    free(c->expected);
    free(c->got);
    for (int i = 0; i < 2; i++) free(c->bounds[i]);
}

/* --- running it --- */

enum { BLOCK = 16, CHUNK = 31, MOST_BLOCKS = 16, MOST_ROWS = 256 };

/* Rows first to first + rows - 1 of the sequence. Blocks lie in the pool in reverse. */
static kvg_status run_chunk(const kvg_model_runner *runner, void *model, const checkpoint *c, uint32_t first,
                            uint32_t rows)
{
    int32_t positions[CHUNK], table[MOST_BLOCKS];
    int64_t slots[CHUNK];
    uint32_t wanted[CHUNK];
    const int32_t length = (int32_t)(first + rows), count = (int32_t)rows, blocks = (length - 1) / BLOCK + 1;
    const int32_t all = ((int32_t)c->tokens - 1) / BLOCK + 1;
    for (int32_t i = 0; i < blocks; i++) table[i] = all - 1 - i;
    for (uint32_t i = 0; i < rows; i++) {
        positions[i] = (int32_t)(first + i);
        slots[i] = (int64_t)table[positions[i] / BLOCK] * BLOCK + positions[i] % BLOCK;
        wanted[i] = i;
    }
    const kvg_model_step step = {
        .rows = rows, .tokens = c->ids + first, .positions = positions, .slots = slots, .sequences = 1,
        .longest = (uint32_t)length, .block_table = table, .lengths = &length, .query_lengths = &count, .wanted = rows,
        .wanted_rows = wanted, .logits = c->got + (size_t)first * c->config.vocab};
    return runner->step(model, &step);
}

/* The logits of all tokens by a config, in chunks: c->got. */
static void run(checkpoint *c, const kvg_model_config *config, kvg_dtype dtype)
{
    const kvg_model_runner *runner = kvg_reference_model_runner();
    const kvg_storage storage = {dtype == KVG_DTYPE_F16 ? KVG_FORMAT_F16 : KVG_FORMAT_BF16, "canonical"};
    kvg_rope rope = config->rope;
    void *model;
    rope.positions = c->tokens;
    float *cos_sin = malloc((size_t)rope.positions * rope.dims * sizeof *cos_sin);
    assert_non_null(cos_sin);
    must(kvg_reference_rope_table(&rope, cos_sin));
    const kvg_model_setup setup = {
        .config = config, .source = kvg_model_weights_source(c->weights), .dtype = dtype, .layout = KVG_LAYOUT_HND,
        .storage = {storage, storage}, .blocks = (c->tokens - 1) / BLOCK + 1, .block_tokens = BLOCK,
        .profile = KVG_PROFILE_SIMT_FMA_V1, .products = KVG_PRODUCTS_FIXED, .max_tokens = c->tokens, .cos_sin = cos_sin,
        .max_rows = CHUNK, .max_sequences = 1, .max_wanted = CHUNK};
    assert_true(c->tokens <= MOST_ROWS);
    must(runner->open(&setup, &model));
    for (uint32_t first = 0; first < c->tokens; first += CHUNK) {
        must(run_chunk(runner, model, c, first, c->tokens - first < CHUNK ? c->tokens - first : CHUNK));
    }
    runner->close(model);
    free(cos_sin);
}

/* The largest |got - expected| / bound; a NaN counts as infinite. */
static double ratio(const checkpoint *c, int type)
{
    const size_t count = (size_t)c->tokens * c->config.vocab;
    double worst = 0;
    for (size_t i = 0; i < count; i++) {
        const double bound = (double)c->bounds[type][i];
        const double r = fabs((double)c->got[i] - (double)c->expected[i]) / bound;
        if (!(bound > 0 && isfinite(bound) && r <= worst)) worst = isfinite(r) && bound > 0 ? r : INFINITY;
    }
    return worst;
}

/* --- configs with one thing wrong --- */

static void wrong_eps(kvg_model_config *c) { c->rms_eps = 1e-6f; }
static void short_window(kvg_model_config *c) { c->window -= c->window > 0; }
static void long_window(kvg_model_config *c) { c->window += c->window > 0; }
static void wrong_theta(kvg_model_config *c) { c->rope.scaling.theta *= 1.1f; }
static void no_sinks(kvg_model_config *c) { c->sinks = false; }
static void no_qk_norm(kvg_model_config *c) { c->qk_norm = false; }
static void no_biases(kvg_model_config *c) { c->attention_bias = false; }
static void no_mlp_biases(kvg_model_config *c) { c->mlp_bias = false; }
static void no_clamp(kvg_model_config *c) { c->swiglu_limit *= 1000; }
static void one_expert(kvg_model_config *c) { c->top_k = c->experts ? 1 : 0; }
static void input_embedding(kvg_model_config *c) { c->tied = true; }

static void plain_rope(kvg_model_config *c)
{
    c->rope.scaling = (kvg_rope_scaling){.kind = KVG_ROPE_DEFAULT, .theta = c->rope.scaling.theta};
}

static void other_layers(kvg_model_config *c)
{
    for (uint32_t i = 0; i < c->layers && c->window; i++) c->sliding[i] = !c->sliding[i];
}

static const struct {
    const char *name;
    void (*apply)(kvg_model_config *c);
} deviations[] = {
    {"eps", wrong_eps}, {"window one short", short_window}, {"window one long", long_window},
    {"sliding and full layers swapped", other_layers}, {"RoPE not scaled", plain_rope}, {"theta", wrong_theta},
    {"no sinks", no_sinks}, {"no QK-norm", no_qk_norm}, {"no biases of attention", no_biases},
    {"no biases of the MLP", no_mlp_biases}, {"no clamp", no_clamp}, {"one expert", one_expert},
    {"the input's embedding for the output", input_embedding},
};
enum { WRONG_EPS, SHORT_WINDOW, LONG_WINDOW, DEVIATIONS = sizeof deviations / sizeof deviations[0] };

/* --- tests --- */

static void agree(checkpoint *c)
{
    for (int type = 0; type < 2; type++) {
        run(c, &c->config, dtypes[type]);
        const double r = ratio(c, type);
        print_message("%s in %s: %.3g of the bound\n", c->name, kvg_dtype_name(dtypes[type]), r);
        if (!(r <= 1)) fail_msg("%s in %s: %g of the bound", c->name, kvg_dtype_name(dtypes[type]), r);
    }
}

/* One NaN, in the place that is looked at first or last, is enough. */
static void nan_fails(checkpoint *c)
{
    const size_t last = (size_t)c->tokens * c->config.vocab - 1;
    memcpy(c->got, c->expected, (last + 1) * sizeof *c->got);
    assert_true(ratio(c, 1) <= 1);
    c->got[0] = NAN;
    assert_false(ratio(c, 1) <= 1);
    c->got[0] = c->expected[0];
    c->got[last] = NAN;
    assert_false(ratio(c, 1) <= 1);
    c->got[last] = c->expected[last];
    c->bounds[1][3] = NAN;
    assert_false(ratio(c, 1) <= 1);
}

static const char *const small[] = {"llama_tied", "llama_biases", "qwen3_shards", "qwen3_biases", "gpt_oss",
                                    "gpt_oss_mxfp4"};
enum { SMALL = sizeof small / sizeof small[0] };

static void test_small(void **state)
{
    (void)state;
    checkpoint c;
    for (size_t i = 0; i < SMALL; i++) {
        open_checkpoint(small[i], &c);
        agree(&c);
        nan_fails(&c);
        close_checkpoint(&c);
    }
}

/* Runs the deviations that change this config: the result is their set. `seen`: those that must be outside the bound;
 * the others must be within it, so that this list stays true. */
static unsigned reject(checkpoint *c, unsigned seen)
{
    unsigned planted = 0;
    for (unsigned k = 0; k < DEVIATIONS; k++) {
        kvg_model_config wrong = c->config;
        deviations[k].apply(&wrong);
        if (memcmp(&wrong, &c->config, sizeof wrong) == 0) continue;
        run(c, &wrong, KVG_DTYPE_F16);
        const double r = ratio(c, 0);
        print_message("%s, %s: %.3g of the bound\n", c->name, deviations[k].name, r);
        if ((r > 1) != (seen >> k & 1)) {
            fail_msg("%s, %s: %g of the bound is %s", c->name, deviations[k].name, r, r > 1 ? "seen" : "not seen");
        }
        planted |= 1u << k;
    }
    return planted;
}

/* Each is seen wherever it changes the config, and each changes one. */
static void test_deviations(void **state)
{
    (void)state;
    checkpoint c;
    unsigned planted = 0;
    for (size_t i = 0; i < SMALL; i++) {
        open_checkpoint(small[i], &c);
        planted |= reject(&c, ~0u);
        close_checkpoint(&c);
    }
    assert_int_equal(planted, (1u << DEVIATIONS) - 1);
}

/* Its bound is wide where the roundings of T may change the choice of an expert; three deviations lie within it. */
static void test_carried(void **state)
{
    (void)state;
    checkpoint c;
    open_checkpoint("model", &c);
    agree(&c);
    reject(&c, ~(1u << WRONG_EPS | 1u << SHORT_WINDOW | 1u << LONG_WINDOW));
    nan_fails(&c);
    close_checkpoint(&c);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest all[] = {cmocka_unit_test(test_small)};
    const struct CMUnitTest more[] = {cmocka_unit_test(test_deviations), cmocka_unit_test(test_carried)};
    if (argc == 2 && strcmp(argv[1], "--more") == 0) return cmocka_run_group_tests(more, NULL, NULL);
    return cmocka_run_group_tests(all, NULL, NULL);
}
