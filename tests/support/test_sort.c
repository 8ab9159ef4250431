/* Selection against a sort. */
#include "support/sort.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_a_selection_is_that_of_a_sort(void **state)
{
    enum { MOST = 40 };
    uint32_t seed = 1;
    (void)state;
    for (size_t count = 1; count <= MOST; count++) {
        for (unsigned values = 1; values <= 64; values *= 4) { /* many are equal, or few */
            double given[MOST], sorted[MOST], moved[MOST];
            for (size_t i = 0; i < count; i++) given[i] = (seed = seed * 1664525 + 1013904223) >> 16 & (values - 1);
            memcpy(sorted, given, sizeof given);
            kvg_sort_doubles(sorted, count);
            for (size_t i = 0; i < count; i++) {
                memcpy(moved, given, sizeof given);
                if (kvg_select_double(moved, count, i) != sorted[i]) fail_msg("number %zu of %zu", i, count);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_selection_is_that_of_a_sort)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
