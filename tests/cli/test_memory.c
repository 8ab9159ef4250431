/* What pools weigh: against figures worked out by hand, and configs that demand a saving. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/memory.h"
#include "cli/memory_config.h"

static kvg_model load(const char *name)
{
    kvg_model m;
    if (kvg_model_load(KVG_SOURCE_DIR "/configs/models", name, &m)) fail_msg("%s", kvg_error_text());
    return m;
}

static void test_pools_weigh_what_the_engines_formulas_say(void **state)
{
    (void)state;
    /* per token, all layers, K and V: code bytes and scale bytes of a row, times rows */
    static const struct {
        const char *model;
        kvg_layout layout;
        kvg_format format;
        uint64_t data, scales; /* of one block of 64 tokens */
    } cases[] = {
        {"llama-3-8b", KVG_LAYOUT_TURBOMIND, KVG_FORMAT_BF16, 131072 * 64, 0},
        {"llama-3-8b", KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT8, 67584 * 64, 0},  /* parameters in the data pool */
        {"llama-3-8b", KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT4, 69632 * 32, 0},  /* layer_size of docs/spec/layouts.md */
        {"llama-3-8b", KVG_LAYOUT_TURBOMIND, KVG_FORMAT_NVFP4, 32768 * 64, 4096 * 64},
        {"llama-3-8b", KVG_LAYOUT_HND, KVG_FORMAT_INT8, 65536 * 64, 2048 * 64},
        {"llama-3-8b", KVG_LAYOUT_VLLM, KVG_FORMAT_NVFP4, 36864 * 64, 0},
        {"deepseek-v3-mla", KVG_LAYOUT_MLA, KVG_FORMAT_NVFP4, 61 * 288 * 64, 61 * 36 * 64},
        {"jamba-v0.1", KVG_LAYOUT_TURBOMIND, KVG_FORMAT_F16, 4 * 8 * 2 * 256 * 64, 0}, /* 4 of 32 layers */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const kvg_model m = load(cases[i].model);
        const kvg_memory_plan plan = {.layout = cases[i].layout, .format = cases[i].format, .dtype = KVG_DTYPE_BF16,
                                      .block_tokens = 64};
        kvg_memory_use use;
        if (kvg_memory_measure(&m, &plan, 640, &use)) fail_msg("%s", kvg_error_text());
        assert_int_equal(use.blocks, 10);
        assert_int_equal(use.data, 10 * cases[i].data);
        assert_int_equal(use.scales, 10 * cases[i].scales);
        assert_int_equal(use.padding + use.tail, 0);
    }
}

static void test_padding_and_the_last_blocks_tail_are_counted(void **state)
{
    (void)state;
    const kvg_model m = load("llama-3-8b");
    kvg_memory_plan plan = {.layout = KVG_LAYOUT_HND, .format = KVG_FORMAT_NVFP4, .dtype = KVG_DTYPE_BF16,
                            .block_tokens = 16, .row_padding = 3, .data_padding = 5, .scale_padding = 7};
    kvg_memory_use use;
    assert_int_equal(kvg_memory_measure(&m, &plan, 17, &use), KVG_OK);
    const uint64_t pages = 2 * 32 * 2; /* blocks, layers, K and V */
    assert_int_equal(use.padding, pages * (16 * 8 * 3 + 5 + 7));
    assert_int_equal(use.data, pages * (16 * 8 * (64 + 3) + 5));
    assert_int_equal(use.scales, pages * (16 * 8 * 8 + 7));
    assert_int_equal(use.tail, 15 * 36864);
}

static void test_what_cannot_be_held_is_refused(void **state)
{
    (void)state;
    const kvg_model m = load("llama-3-8b"), mla = load("deepseek-v3-mla");
    kvg_memory_plan plan = {.layout = KVG_LAYOUT_MLA, .format = KVG_FORMAT_NVFP4, .dtype = KVG_DTYPE_BF16,
                            .block_tokens = 64};
    kvg_memory_use use;
    assert_int_equal(kvg_memory_measure(&m, &plan, 64, &use), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "one row per token"));
    plan.layout = KVG_LAYOUT_HND;
    assert_int_equal(kvg_memory_measure(&mla, &plan, 64, &use), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "keeps K and V apart"));
    assert_int_equal(kvg_memory_measure(&m, &plan, 0, &use), KVG_ERR_INVALID);
}

static void test_a_window_holds_the_blocks_that_it_spans(void **state)
{
    (void)state;
    kvg_model m = load("llama-3-8b");
    for (uint32_t window = 1; window <= 12; window++) {
        for (uint32_t block = 1; block <= 5; block++) {
            const kvg_memory_plan plan = {.layout = KVG_LAYOUT_HND, .format = KVG_FORMAT_F16,
                                          .dtype = KVG_DTYPE_BF16, .block_tokens = block};
            uint64_t most = 0; /* blocks, of all lengths so far */
            m.groups[0].window = window;
            for (uint64_t tokens = 1; tokens <= 24; tokens++) {
                const uint64_t first = tokens > window ? tokens - window : 0;
                const uint64_t held = (tokens - 1) / block - first / block + 1;
                kvg_memory_use use;
                if (held > most) most = held;
                if (kvg_memory_measure(&m, &plan, tokens, &use)) fail_msg("%s", kvg_error_text());
                assert_int_equal(use.blocks, most);
                assert_int_equal(use.data, most * block * 131072);
                assert_int_equal(use.tail, (most * block - (tokens - first)) * 131072);
                assert_int_equal(kvg_memory_row_bytes(&m, KVG_FORMAT_F16, tokens), (tokens - first) * 131072);
            }
        }
    }
}

static void test_groups_of_layers_are_added(void **state)
{
    (void)state;
    const kvg_model m = load("gpt-oss-120b");
    const kvg_memory_plan plan = {.layout = KVG_LAYOUT_TURBOMIND, .format = KVG_FORMAT_NVFP4, .dtype = KVG_DTYPE_BF16,
                                  .block_tokens = 64};
    const uint64_t tokens = 131072, slots = tokens + 192, rows = 18 * 8 * 2; /* of K and V, for a token of a group */
    kvg_memory_use use;
    if (kvg_memory_measure(&m, &plan, tokens, &use)) fail_msg("%s", kvg_error_text());
    assert_int_equal(use.blocks, slots / 64);
    assert_int_equal(use.data, rows * slots * 32);
    assert_int_equal(use.scales, rows * slots * 4);
    assert_int_equal(use.tail, rows * 64 * 36);
    assert_int_equal(kvg_memory_row_bytes(&m, KVG_FORMAT_NVFP4, tokens), rows * (tokens + 128) * 36);
}

/* Loads a model that has `fields`; the status. */
static kvg_status load_text(const char *fields, kvg_model *m)
{
    const char *path = KVG_BINARY_DIR "/test_memory_model.json";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"title\": \"t\", \"query_heads\": 8, \"kv_heads\": 4, \"head_dim\": 64, \"source\": \"s\"%s}",
            fields);
    fclose(f);
    return kvg_model_load(NULL, path, m);
}

static void test_bad_groups_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *error;
    } bad[] = {
        {"", "$: give \"layers\" or \"groups\", one of them"},
        {", \"layers\": 2, \"groups\": [{\"layers\": 2}]", "$: give \"layers\" or \"groups\", one of them"},
        {", \"groups\": []", "$.groups: expected a list of 1 to 8 groups of layers"},
        {", \"groups\": {\"layers\": 2}", "$.groups: expected a list of 1 to 8 groups of layers"},
        {", \"groups\": [{\"layers\": 2}, {\"window\": 8}]", "$.groups[1]: missing key 'layers'"},
        {", \"groups\": [{\"layers\": 2, \"windows\": 8}]", "$.groups[0]: unknown key 'windows'"},
        {", \"groups\": [{\"layers\": 2, \"window\": 0}]", "$.groups[0].window"},
        {", \"groups\": [{\"layers\": 2, \"kv_heads\": 3}]", "$.groups[0]: query_heads 8 is not a multiple"},
        {", \"groups\": [{\"layers\": 2, \"head_dim\": 1025}]", "$.groups[0].head_dim"},
        {", \"layers\": 2, \"window\": 8", "$: unknown key 'window'"},
    };
    kvg_model m;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (load_text(bad[i].fields, &m) != KVG_ERR_INVALID) fail_msg("must be refused: %s", bad[i].fields);
        if (!strstr(kvg_error_text(), bad[i].error)) fail_msg("%s, not %s", kvg_error_text(), bad[i].error);
    }
    kvg_model_group whole;
    assert_int_equal(load_text(", \"groups\": [{\"layers\": 2, \"window\": 8}, {\"layers\": 3}]", &m), KVG_OK);
    assert_int_equal(kvg_model_whole(&m, &whole), KVG_OK);
    assert_int_equal(whole.layers, 5);
    assert_int_equal(whole.window, 0);
}

static void test_groups_have_their_own_geometry(void **state)
{
    (void)state;
    kvg_model m;
    kvg_model_group whole;
    kvg_memory_use use;
    const kvg_memory_plan plan = {.layout = KVG_LAYOUT_HND, .format = KVG_FORMAT_NVFP4, .dtype = KVG_DTYPE_BF16,
                                  .block_tokens = 16};
    static const char *const fields[] = {
        ", \"groups\": [{\"layers\": 5, \"window\": 32}, {\"layers\": 1, \"head_dim\": 128}]",
        ", \"groups\": [{\"layers\": 5, \"window\": 32}, {\"layers\": 1, \"kv_heads\": 8}]",
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (load_text(fields[i], &m)) fail_msg("%s", kvg_error_text());
        if (kvg_memory_measure(&m, &plan, 160, &use)) fail_msg("%s", kvg_error_text());
        assert_int_equal(use.blocks, 3 + 10);
        assert_int_equal(use.data, 2 * (5 * 4 * 48 + 2 * 4 * 160) * 32); /* twice the heads, or rows twice as long */
        assert_int_equal(use.scales, 2 * (5 * 4 * 48 + 2 * 4 * 160) * 4);
        assert_int_equal(kvg_model_whole(&m, &whole), KVG_ERR_INVALID);
        assert_non_null(strstr(kvg_error_text(), "test_memory_model differ in kv_heads or head_dim"));
        assert_int_equal(whole.layers, 6);
    }
}

/* The exit code of `kvgold memory --require PATH`. */
static int require_file(const char *path)
{
    char file[4096];
    char *argv[] = {"memory", "--require", file, NULL};
    snprintf(file, sizeof file, "%s", path);
    return kvg_command_run(3, argv);
}

/* Writes a config and returns the exit code of --require. */
static int require(const char *text)
{
    const char *path = KVG_BINARY_DIR "/test_memory.json";
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return require_file(path);
}

#define CONFIG(list) "{\"kvgold\": 1, \"name\": \"t\", \"memory\": [" list "]}"

static void test_a_config_can_demand_a_saving(void **state)
{
    (void)state;
    static const char *const good = CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"at_least\": 3.5555}");
    static const char *const shortfall[] = {
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"at_least\": 3.556}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"none\", \"at_least\": 1.001}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"against\": \"e4m3\", \"at_least\": 1.78}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"context\": 65, \"at_least\": 2}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"format\": \"nvfp4\", \"layout\": \"hnd\", \"row_padding\": 8, "
               "\"at_least\": 3.5}"),
    };
    static const char *const bad[] = {
        CONFIG(""),
        CONFIG("{\"model\": \"llama-3-8b\", \"at_least\": 3}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"format\": \"nvfp4\", \"at_least\": 3}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4\", \"at_least\": 3}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"at_least\": 0}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\"}"),
        CONFIG("{\"model\": \"llama\", \"mode\": \"fp4_nv\", \"at_least\": 3}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"at_least\": 3, \"blocks\": 3}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"fp4_nv\", \"layout\": \"rows\", \"at_least\": 3}"),
        CONFIG("{\"model\": \"llama-3-8b\", \"mode\": \"int4\", \"dtype\": \"f32\", \"at_least\": 3}"),
    };
    assert_int_equal(require(good), KVG_EXIT_PASS);
    for (size_t i = 0; i < sizeof shortfall / sizeof shortfall[0]; i++) {
        if (require(shortfall[i]) != KVG_EXIT_FAIL) fail_msg("must fall short: %s", shortfall[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (require(bad[i]) != KVG_EXIT_USAGE) fail_msg("must be refused: %s", bad[i]);
    }
    assert_int_equal(require_file(KVG_BINARY_DIR "/no such file.json"), KVG_EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools_weigh_what_the_engines_formulas_say),
        cmocka_unit_test(test_padding_and_the_last_blocks_tail_are_counted),
        cmocka_unit_test(test_what_cannot_be_held_is_refused),
        cmocka_unit_test(test_a_window_holds_the_blocks_that_it_spans),
        cmocka_unit_test(test_groups_of_layers_are_added),
        cmocka_unit_test(test_bad_groups_are_refused),
        cmocka_unit_test(test_groups_have_their_own_geometry),
        cmocka_unit_test(test_a_config_can_demand_a_saving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
