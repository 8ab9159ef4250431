/* The table of options and the reader of command lines: what holds for every row. */
#include <getopt.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/arguments.h"
#include "cli/command_help.h"

/* Reads `kvgold COMMAND --NAME VALUE`. */
static kvg_status read_one(const kvg_option *o, const char *value, kvg_arguments *a)
{
    static char command[32], name[64], text[64];
    snprintf(command, sizeof command, "%s", o->command);
    snprintf(name, sizeof name, "--%s", o->name);
    snprintf(text, sizeof text, "%s", value ? value : "");
    char *argv[] = {command, name, value ? text : NULL, NULL};
    return kvg_arguments_read(value ? 3 : 2, argv, a);
}

static void refuse(const kvg_option *o, const char *value)
{
    kvg_arguments a;
    char prefix[80];
    assert_int_not_equal(read_one(o, value, &a), KVG_OK);
    snprintf(prefix, sizeof prefix, "--%s: ", o->name);
    assert_memory_equal(kvg_error_text(), prefix, strlen(prefix));
}

static void test_rows(void **state)
{
    const kvg_command *command;
    (void)state;
    for (int i = 0; i < KVG_OPTION_COUNT; i++) {
        const kvg_option *o = kvg_option_get((kvg_option_id)i);
        assert_int_equal(kvg_command_find(o->command, &command), KVG_OK);
        assert_true(strcmp(o->name, "help") != 0 && o->letter != 'h');
        assert_true(o->help[0] != 0 && o->min <= o->max);
        assert_int_equal(o->kind == KVG_ARGUMENT_NONE, o->value == NULL);
        for (int k = 0; k < i; k++) {
            const kvg_option *other = kvg_option_get((kvg_option_id)k);
            if (strcmp(other->command, o->command) != 0) continue;
            assert_string_not_equal(other->name, o->name);
            assert_true(!o->letter || other->letter != o->letter);
        }
    }
}

/* What a kind refuses, whichever option has it. */
static void test_limits(void **state)
{
    static const char *const wrong[KVG_ARGUMENT_KINDS][4] = {
        [KVG_ARGUMENT_WHOLE] = {"", "-1", "1x", "99999999999999999999"},
        [KVG_ARGUMENT_NUMBER] = {"", "-1", "0x", "4294967296"},
        [KVG_ARGUMENT_BYTES] = {"", "0", "1k", "18446744073709551616"},
        [KVG_ARGUMENT_SEED] = {"", "12", "0x", "0x10000000000000000"},
        [KVG_ARGUMENT_SHARD] = {"", "0/1", "2/1", "1/10001"},
        [KVG_ARGUMENT_PADDING] = {"", "1,2", "1,2,3,4", "1,2,1048577"},
        [KVG_ARGUMENT_REAL] = {"", "one", "1e40", "1 "},
        [KVG_ARGUMENT_UP_TO] = {"", "0", "nan", "1e9"},
        [KVG_ARGUMENT_SCALES] = {"", "0", "1,", "1,2,3"},
        [KVG_ARGUMENT_WORDS] = {"", "neither", " ", "0"},
        [KVG_ARGUMENT_FORMAT] = {"", "none", "NVFP4", "0"},
        [KVG_ARGUMENT_MODEL_TYPE] = {"", "f32", "BF16", "u8"},
        [KVG_ARGUMENT_LAYOUT] = {"", "none", "HND", "0"},
        [KVG_ARGUMENT_PROFILE] = {"", "none", "simt", "0"},
        [KVG_ARGUMENT_PRODUCTS] = {"", "none", "Fixed", "0"},
        [KVG_ARGUMENT_DOMAIN] = {"", "none", "bits", "0"},
    };
    (void)state;
    for (int i = 0; i < KVG_OPTION_COUNT; i++) {
        const kvg_option *o = kvg_option_get((kvg_option_id)i);
        for (int k = 0; k < 4 && wrong[o->kind][0]; k++) refuse(o, wrong[o->kind][k]);
    }
}

static void test_ends_of_ranges(void **state)
{
    (void)state;
    for (int i = 0; i < KVG_OPTION_COUNT; i++) {
        const kvg_option *o = kvg_option_get((kvg_option_id)i);
        const uint64_t ends[] = {o->min, o->max};
        char text[32];
        kvg_arguments a;
        if (o->kind != KVG_ARGUMENT_WHOLE) continue;
        for (int end = 0; end < 2; end++) {
            snprintf(text, sizeof text, "%llu", (unsigned long long)ends[end]);
            assert_int_equal(read_one(o, text, &a), KVG_OK);
            assert_true(kvg_given_number(&a, (kvg_option_id)i, ~ends[end]) == ends[end]);
            kvg_arguments_free(&a);
        }
        snprintf(text, sizeof text, "%llu", (unsigned long long)o->max + 1);
        refuse(o, text);
        snprintf(text, sizeof text, "%u", o->min - 1);
        if (o->min) refuse(o, text);
    }
}

static void test_values(void **state)
{
    kvg_arguments a;
    (void)state;
    assert_int_equal(read_one(kvg_option_get(KVG_OPTION_CHECK_SHARD), "3/7", &a), KVG_OK);
    assert_true(a.options[0].numbers[0] == 2 && a.options[0].numbers[1] == 7);
    kvg_arguments_free(&a);
    assert_int_equal(read_one(kvg_option_get(KVG_OPTION_MEMORY_PADDING), "1,0,1048576", &a), KVG_OK);
    assert_true(a.options[0].numbers[0] == 1 && a.options[0].numbers[1] == 0 && a.options[0].numbers[2] == 1048576);
    kvg_arguments_free(&a);
    assert_int_equal(read_one(kvg_option_get(KVG_OPTION_GENERATE_TENSOR_SCALE), "0.5,2", &a), KVG_OK);
    assert_true(a.options[0].reals[0] == 0.5 && a.options[0].reals[1] == 2);
    kvg_arguments_free(&a);
    assert_int_equal(read_one(kvg_option_get(KVG_OPTION_GENERATE_BUDGET), "18446744073709551615", &a), KVG_OK);
    assert_true(kvg_given_number(&a, KVG_OPTION_GENERATE_BUDGET, 0) == UINT64_MAX);
    kvg_arguments_free(&a);
}

/* Options in any order, the last one counts, files between them; what follows --help is not read. */
static void test_order(void **state)
{
    char command[] = "check", file[] = "a.json", more[] = "b.json", jobs[] = "-j3", again[] = "-j", four[] = "4";
    char seed[] = "--see=0x1f", either[] = "--se=0x1f", help[] = "-h", wrong[] = "--wrong";
    char *good[] = {command, file, jobs, seed, more, again, four, NULL};
    char *ambiguous[] = {command, either, NULL};
    kvg_arguments a;
    (void)state;
    assert_int_not_equal(kvg_arguments_read(2, ambiguous, &a), KVG_OK); /* --seed or --secret-seed */
    assert_int_equal(kvg_arguments_read(7, good, &a), KVG_OK);
    assert_true(a.file_count == 2 && strcmp(a.files[0], file) == 0 && strcmp(a.files[1], more) == 0);
    assert_true(kvg_given_number(&a, KVG_OPTION_CHECK_JOBS, 0) == 4);
    assert_true(kvg_given_number(&a, KVG_OPTION_CHECK_SEED, 0) == 0x1f);
    assert_null(kvg_given(&a, KVG_OPTION_CHECK_OUTPUT));
    assert_false(a.help);
    kvg_arguments_free(&a);
    char *helped[] = {command, help, wrong, NULL};
    assert_int_equal(kvg_arguments_read(3, helped, &a), KVG_OK);
    assert_true(a.help);
    kvg_arguments_free(&a);
}

static void test_actions(void **state)
{
    kvg_arguments a;
    (void)state;
    assert_int_equal(read_one(kvg_option_get(KVG_OPTION_POOL_DEFECT), "any", &a), KVG_OK);
    assert_int_equal(kvg_arguments_check_action(&a, "run"), KVG_OK);
    assert_int_equal(kvg_arguments_check_action(&a, "replay"), KVG_OK);
    assert_int_equal(kvg_arguments_check_action(&a, "bench"), KVG_ERR_INVALID);
    assert_int_equal(kvg_arguments_check_action(&a, "play"), KVG_ERR_INVALID);
    kvg_arguments_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_limits), cmocka_unit_test(test_ends_of_ranges),
        cmocka_unit_test(test_values), cmocka_unit_test(test_order),  cmocka_unit_test(test_actions),
    };
    opterr = 0; /* as in main */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
