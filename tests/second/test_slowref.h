/* The tests of test_slowref, by file. */
#ifndef KVG_TESTS_SECOND_TEST_SLOWREF_H
#define KVG_TESTS_SECOND_TEST_SLOWREF_H

#include "tests/second/pair.h"

/* test_vectors.c: docs/spec/formats.md section 10 */
void test_worked_bytes(void **state);
void test_rows_of_engines(void **state);
void test_flattened_rows(void **state);
void test_all_zero_blocks(void **state);
void test_tiny_block(void **state);
void test_affine_row(void **state);

/* test_codes.c: codes and conversions */
void test_every_code(void **state);
void test_conversion_boundaries(void **state);
void test_conversions_from_f64(void **state);
void test_load_and_store(void **state);
void test_scale_conventions(void **state);

/* test_decode.c: constructed codes and scales */
void test_decode_tensor_scale_formats(void **state);
void test_decode_mx(void **state);
void test_decode_symmetric(void **state);
void test_decode_f32_scales(void **state);
void test_decode_affine(void **state);

/* test_boundaries.c: every rounding boundary of every scale */
void test_boundaries_fp8(void **state);
void test_boundaries_nvfp4(void **state);
void test_boundaries_mx(void **state);
void test_boundaries_symmetric(void **state);
void test_boundaries_f32_scales(void **state);
void test_boundaries_affine(void **state);

/* test_rows.c: special values, every value of the 16-bit types, random rows */
void test_special_values(void **state);
void test_every_f16_and_bf16(void **state);
void test_random_rows(void **state);

/* test_paged.c: docs/spec/layouts.md by hand, the second reference alone */
void test_turbomind_example(void **state);
void test_places(void **state);
void test_large_places(void **state);
void test_scale_groups(void **state);
void test_partition(void **state);
void test_bias_and_rope(void **state);
void test_rope_roundings(void **state);
void test_grouped_append_and_probe(void **state);
void test_shared_row(void **state);
void test_ring_positions(void **state);
void test_paged_refusals(void **state);

/* test_merge.c: op merge */
void test_merge_bits(void **state);
void test_merge_example(void **state);
void test_merge_bound(void **state);

/* test_paged_pair.c: the paged ops by both references */
void test_paged_ops(void **state);
void test_paged_refusals_agree(void **state);
void test_paged_addresses(void **state);

/* Calls `visit` for every format that is `wanted` (NULL: for all of the table), dialect, model type and, if the format
 * has one, tensor scale. */
typedef bool wanted_fn(const kvg_format_info *format);
typedef void visit_fn(tally *t, const storage_case *c, const void *context);
void for_every_case(tally *t, wanted_fn *wanted, visit_fn *visit, const void *context);

#endif
