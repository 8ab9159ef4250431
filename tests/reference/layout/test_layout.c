/* docs/spec/layouts.md by the engines' own formulas, what it refuses, and the bits of a row.
 * tests/second/test_layout_text.c holds the two readings of every text against each other. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turbomind_formulas),
        cmocka_unit_test(test_turbomind_example),
        cmocka_unit_test(test_trtllm_formulas),
        cmocka_unit_test(test_vllm_views),
        cmocka_unit_test(test_slot_formula),
        cmocka_unit_test(test_plain_formulas),
        cmocka_unit_test(test_known_places),
        cmocka_unit_test(test_minimax_pages), cmocka_unit_test(test_rocm_pages),
        cmocka_unit_test(test_indexer_pages),
        cmocka_unit_test(test_swizzle_tile),
        cmocka_unit_test(test_refusals_table),
        cmocka_unit_test(test_element_bits),
        cmocka_unit_test(test_written_elements),
        cmocka_unit_test(test_scale_bytes),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
