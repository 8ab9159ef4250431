/* docs/spec/attention.md against the spec tier: numbers, probes, the definition in long double, and the bound
 * against right and wrong kernels. */
#include "tests/reference/attention/test_attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementary_functions),
        cmocka_unit_test(test_exact_numbers),
        cmocka_unit_test(test_mean_of_visible_values),
        cmocka_unit_test(test_values_of_one),
        cmocka_unit_test(test_one_hot_keys),
        cmocka_unit_test(test_extreme_scores),
        cmocka_unit_test(test_rows_without_keys),
        cmocka_unit_test(test_two_shards),
        cmocka_unit_test(test_measure),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_naive_agrees),
        cmocka_unit_test(test_right_kernels),
        cmocka_unit_test(test_wrong_kernels),
        cmocka_unit_test(test_codec_bound),
    };
    return cmocka_run_group_tests_name("attention", tests, NULL, NULL);
}
