/* The bytes of the fills themselves: packs whose cases are recipes rest on them (docs/spec/golden-pack.md section
 * 7), so no compiler and no later version may give others. A change here is a change of every published pack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "harness/config/config.h"
#include "harness/trial/question/question.h"

typedef struct pinned {
    const char *fill, *format;
    uint64_t hash; /* of all inputs */
} pinned;

static uint64_t hash_of(const char *fill, const char *format)
{
    char text[512];
    kvg_config config;
    kvg_question data;
    snprintf(text, sizeof text,
             "{\"kvgold\": 1, \"name\": \"fill\", \"seed\": \"0xf111\", \"cases\": [{\"op\": \"%s\", "
             "\"format\": \"%s\", \"dtype\": \"f16\", \"kv_heads\": 2, \"head_dim\": 64, \"tokens\": 30, "
             "\"scale\": \"P4\", \"fill\": \"%s\"}]}",
             strcmp(fill, "codes") == 0 ? "dequantise" : "quantise", format, fill);
    if (kvg_config_parse("fill.json", text, strlen(text), ".", NULL, &config)) fail_msg("%s", kvg_error_text());
    assert_int_equal(config.case_count, 1);
    if (kvg_question_make(&config.cases[0], &data) != KVG_OK) fail_msg("%s", kvg_error_text());
    uint64_t hash = 0;
    for (size_t i = 0; i < data.in.count; i++) {
        hash = hash * 31 + kvg_hash64(data.in.tensors[i].data, data.in.tensors[i].bytes);
    }
    kvg_question_free(&data);
    kvg_config_close(&config);
    return hash;
}

static void test_pinned(void **state)
{
    (void)state;
    static const pinned list[] = {
        {"adversarial", "f16", UINT64_C(0x0986effc35155c7b)},
        {"adversarial", "e4m3", UINT64_C(0x4e202ca6ee344a8c)},
        {"adversarial", "int4", UINT64_C(0x0da833f1534d7632)},
        {"adversarial", "nvfp4", UINT64_C(0xd2dc4a6f02c7a67d)},
        {"adversarial", "rowfp4", UINT64_C(0xf5950d2e21beafcc)},
        {"adversarial", "mxfp4", UINT64_C(0xcf693796e8906f3a)},
        {"random", "nvfp4", UINT64_C(0x1a26fc9bfa56b1a9)},
        {"exact", "nvfp4", UINT64_C(0xef8f55690116564c)},
        {"exact", "int8", UINT64_C(0x59e70063bd113f45)},
        {"codes", "nvfp4", UINT64_C(0x015cb3b0d2d8e640)},
        {"zero", "nvfp4", UINT64_C(0x0d91924f536eafa0)},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++) {
        const uint64_t hash = hash_of(list[i].fill, list[i].format);
        if (hash != list[i].hash) {
            fail_msg("fill %s for %s gives other bytes: 0x%016llx", list[i].fill, list[i].format,
                     (unsigned long long)hash);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pinned)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
