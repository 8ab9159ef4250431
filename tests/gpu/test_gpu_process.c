/* The process model on a GPU whose kernels fault and hang: each costs its own case alone, the GPU is free for the next
 * process, and this one, the parent, has never opened CUDA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "tests/planted/planted_run.h"

#define CONFIG KVG_SOURCE_DIR "/tests/planted/planted_cuda.json"
#define OUT KVG_BINARY_DIR "/test_gpu_process"

static const planted_case expected[] = {
    {1, KVG_VERDICT_PASS, ""},
    {2, KVG_VERDICT_CRASH, "illegal memory access"},
    {3, KVG_VERDICT_PASS, ""},
    {4, KVG_VERDICT_CRASH, "misaligned address"},
    {5, KVG_VERDICT_PASS, ""},
    {6, KVG_VERDICT_CRASH, ""}, /* a trap is "unspecified launch failure" or "illegal instruction" */
    {7, KVG_VERDICT_PASS, ""},
    {8, KVG_VERDICT_CRASH, "assert"},
    {9, KVG_VERDICT_PASS, ""},
    {10, KVG_VERDICT_HANG, "no result after 6 s"},
    {11, KVG_VERDICT_PASS, ""},
    {12, KVG_VERDICT_CRASH, ""}, /* which error a stack overflow is depends on the chip */
    {13, KVG_VERDICT_PASS, ""},
    {14, KVG_VERDICT_FAIL, "a planted kernel: invalid"},
    {15, KVG_VERDICT_PASS, ""},
    {20, KVG_VERDICT_PASS, ""}, /* what compute-sanitizer is for */
    {21, KVG_VERDICT_PASS, ""},
    {22, KVG_VERDICT_PASS, ""},
    {23, KVG_VERDICT_PASS, ""},
};
enum { EXPECTED_COUNT = sizeof expected / sizeof expected[0] };

/* The driver's library, or a device that it has mapped. */
static bool cuda_is_open_here(void)
{
    char line[1024];
    bool open = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) open |= strstr(line, "libcuda.so") || strstr(line, "/dev/nvidia");
    fclose(maps);
    return open;
}

static void run_in(unsigned jobs)
{
    assert_int_equal(planted_run(CONFIG, OUT, jobs, expected, EXPECTED_COUNT, NULL), EXPECTED_COUNT);
    assert_false(cuda_is_open_here());
}

static void test_a_fault_costs_its_own_case(void **state)
{
    (void)state;
    run_in(1);
}

/* A plug-in whose tensors lie on the GPU: guards and inputs are looked after there, too. */
static void test_tensors_on_the_gpu(void **state)
{
    (void)state;
    static const planted_case tensors[] = {
        {1, KVG_VERDICT_PASS, ""},
        {2, KVG_VERDICT_FAIL, "output k_codes: 1 bytes written past the end, first at +4000"},
        {3, KVG_VERDICT_FAIL, "output k_codes: 1 bytes written before the start, first at -1"},
        {4, KVG_VERDICT_FAIL, "input v was written"},
        {5, KVG_VERDICT_CRASH, "illegal memory access"},
        {6, KVG_VERDICT_PASS, ""},
        {7, KVG_VERDICT_FAIL, "bytes were never written"},
        {8, KVG_VERDICT_PASS, ""},
        {9, KVG_VERDICT_PASS, ""},
    };
    planted_run(KVG_SOURCE_DIR "/tests/gpu/plugin_device.json", OUT, 1, tensors, sizeof tensors / sizeof tensors[0],
                NULL);
    assert_false(cuda_is_open_here());
}

static void test_a_fault_leaves_processes_beside_it_alone(void **state)
{
    (void)state;
    run_in(3);
}

/* The last: after it this process is not what a parent must be. */
static void test_an_open_driver_would_have_been_seen(void **state)
{
    (void)state;
    kvg_gpu_device device;
    size_t count;
    assert_int_equal(kvg_gpu_devices(&device, 1, &count), KVG_OK);
    assert_int_equal(count, 1);
    assert_true(cuda_is_open_here());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fault_costs_its_own_case),
        cmocka_unit_test(test_a_fault_leaves_processes_beside_it_alone),
        cmocka_unit_test(test_tensors_on_the_gpu),
        cmocka_unit_test(test_an_open_driver_would_have_been_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
