/* The tests of this folder, one file each. */
#ifndef KVG_TESTS_REFERENCE_LAYOUT_TEST_LAYOUT_H
#define KVG_TESTS_REFERENCE_LAYOUT_TEST_LAYOUT_H

/* test_layout_engines.c: the engines' own formulas, and the tile of section 4. */
void test_turbomind_formulas(void **state);
void test_turbomind_example(void **state);
void test_trtllm_formulas(void **state);
void test_vllm_views(void **state);
void test_slot_formula(void **state);
void test_plain_formulas(void **state);
void test_known_places(void **state);
void test_minimax_pages(void **state);
void test_rocm_pages(void **state);
void test_indexer_pages(void **state);
void test_swizzle_tile(void **state);

/* test_layout_refusals.c */
void test_refusals_table(void **state);

/* test_layout_elements.c: bits of a row and elements. */
void test_element_bits(void **state);
void test_written_elements(void **state);
void test_scale_bytes(void **state);

#endif
