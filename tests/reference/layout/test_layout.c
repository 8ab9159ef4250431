/* docs/spec/layouts.md against the reference's maps, for every layout, format pair, option and a grid of geometries:
 * proofs over all rows, not samples. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/reference/layout/layout_sweep.h"

/* The full grid: all of it up to 128 rows, and every 499th combination (499 divides none of its axes) of any size. */
static void test_full_grid(void **state)
{
    (void)state;
    static const struct {
        uint64_t stride, max_rows;
    } parts[] = {{1, 128}, {499, UINT64_MAX}};
    for (size_t i = 0; i < 2; i++) {
        const layout_sweep done = layout_sweep_run(&layout_grid_full, 0, parts[i].stride, parts[i].max_rows);
        layout_sweep_print(&done);
        if (done.failures) layout_sweep_explain(&layout_grid_full, done.first_failure);
        assert_int_equal(done.failures, 0);
        assert_true(done.combinations > 0 && done.refused > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_grid),
        cmocka_unit_test(test_planted_maps),
        cmocka_unit_test(test_turbomind_formulas),
        cmocka_unit_test(test_turbomind_example),
        cmocka_unit_test(test_trtllm_formulas),
        cmocka_unit_test(test_vllm_views),
        cmocka_unit_test(test_slot_formula),
        cmocka_unit_test(test_known_places),
        cmocka_unit_test(test_minimax_pages), cmocka_unit_test(test_rocm_pages),
        cmocka_unit_test(test_indexer_pages),
        cmocka_unit_test(test_swizzle_tile),
        cmocka_unit_test(test_top_of_huge_pools),
        cmocka_unit_test(test_largest_pools),
        cmocka_unit_test(test_refusals_table),
        cmocka_unit_test(test_element_bits),
        cmocka_unit_test(test_written_elements),
        cmocka_unit_test(test_scale_bytes),
    };
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
