/* The tests of this folder, one file each. */
#ifndef KVG_TESTS_REFERENCE_ATTENTION_TEST_ATTENTION_H
#define KVG_TESTS_REFERENCE_ATTENTION_TEST_ATTENTION_H

/* test_attention_numbers.c: exp, log, tanh; decoded numbers. */
void test_elementary_functions(void **state);
void test_exact_numbers(void **state);

/* test_attention_probes.c: answers that are known without arithmetic. */
void test_mean_of_visible_values(void **state);
void test_values_of_one(void **state);
void test_one_hot_keys(void **state);
void test_extreme_scores(void **state);
void test_rows_without_keys(void **state);
void test_two_shards(void **state);
void test_measure(void **state);
void test_refusals(void **state);

/* test_attention_naive.c: the definition in long double. */
void test_naive_agrees(void **state);

/* test_attention_bound.c: right kernels stay within the bound, wrong ones do not. */
void test_right_kernels(void **state);
void test_wrong_kernels(void **state);
void test_codec_bound(void **state);

#endif
