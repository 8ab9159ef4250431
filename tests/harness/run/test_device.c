/* What becomes of a run whose device breaks or goes away, on a device that is only pretended (planted_device.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/planted/planted_run.h"

#define CONFIG KVG_SOURCE_DIR "/tests/planted/planted_device.json"
#define OUT KVG_BINARY_DIR "/test_device"
#define DEVICE KVG_BINARY_DIR "/planted_device"

enum { CASES = 13 };

static void put_device(const char *word)
{
    FILE *f = fopen(DEVICE, "w");
    assert_non_null(f);
    fputs(word, f);
    fclose(f);
}

/* A fault, an ECC error, a hang and a death cost one case each. The device is gone after case `last`; that costs the
 * rest, which does not run, and no more. */
static void run_with(const char *lost_device, unsigned last, const char *probe_says)
{
    planted_case expected[CASES] = {
        {1, KVG_VERDICT_PASS, ""},
        {2, KVG_VERDICT_CRASH, "planted: an illegal address"},
        {3, KVG_VERDICT_PASS, ""},
        {4, KVG_VERDICT_DEVICE_LOST, "planted: an ECC error"},
        {5, KVG_VERDICT_PASS, ""},
        {6, KVG_VERDICT_HANG, "no result after 2 s"},
        {7, KVG_VERDICT_PASS, ""},
        {8, KVG_VERDICT_CRASH, "signal 7"},
        {9, KVG_VERDICT_PASS, ""},
        {10, KVG_VERDICT_DEVICE_LOST, "planted: fell off the bus"},
        {11, KVG_VERDICT_PASS, ""},
        {12, KVG_VERDICT_PASS, ""},
        {13, KVG_VERDICT_PASS, ""},
    };
    for (unsigned heads = last + 1; heads < CASES; heads++) {
        const char *says = heads == last + 1 ? probe_says : "not run: the device was lost in 'quantise/";
        expected[heads - 1] = (planted_case){heads, KVG_VERDICT_DEVICE_LOST, says};
    }
    put_device(lost_device);
    assert_int_equal(planted_run(CONFIG, OUT, 1, expected, CASES, NULL), last + 2);
    for (unsigned heads = 1; heads < CASES; heads++) {
        char line[32];
        snprintf(line, sizeof line, "ran %u heads", heads);
        assert_int_equal(planted_logged(OUT, line), heads <= last);
    }
    assert_true(planted_logged(OUT, "asked"));
}

static void test_a_device_that_refuses_is_lost(void **state)
{
    (void)state;
    run_with("refuses", 10, "the device does not answer: planted: no such device");
}

/* Here it is the hang that nobody comes back from. */
static void test_a_device_that_does_not_answer_is_lost(void **state)
{
    (void)state;
    run_with("hangs", 6, "the device does not answer: no result after 2 s");
}

static void test_a_driver_that_dies_has_lost_its_device(void **state)
{
    (void)state;
    run_with("dies", 8, "the device does not answer: killed by signal 11");
}

/* A backend that cannot be asked is taken at its word: the ECC error ends its part of the run. */
static void test_a_device_that_cannot_be_asked_is_lost_at_once(void **state)
{
    (void)state;
    put_device("mute");
    planted_case expected[CASES] = {
        {1, KVG_VERDICT_PASS, ""},
        {2, KVG_VERDICT_CRASH, "planted: an illegal address"},
        {3, KVG_VERDICT_PASS, ""},
        {4, KVG_VERDICT_DEVICE_LOST, "planted: an ECC error"},
    };
    for (unsigned heads = 5; heads < CASES; heads++) {
        expected[heads - 1] = (planted_case){heads, KVG_VERDICT_DEVICE_LOST, "not run: the device was lost in 'quan"};
    }
    expected[CASES - 1] = (planted_case){CASES, KVG_VERDICT_PASS, ""};
    planted_run(CONFIG, OUT, 1, expected, CASES, NULL);
    assert_false(planted_logged(OUT, "asked"));
    assert_false(planted_logged(OUT, "ran 6 heads"));
}

int main(void)
{
    setenv("KVGOLD_PLANTED_DEVICE", DEVICE, 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_device_that_refuses_is_lost),
        cmocka_unit_test(test_a_device_that_does_not_answer_is_lost),
        cmocka_unit_test(test_a_driver_that_dies_has_lost_its_device),
        cmocka_unit_test(test_a_device_that_cannot_be_asked_is_lost_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
