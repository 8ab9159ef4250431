/* The tests of the profile tier, one file each, and what they share. second/ has the contracts a second time:
 * tests/second/test_decode_pair.c. */
#ifndef KVG_TESTS_REFERENCE_ATTENTION_TEST_PROFILE_H
#define KVG_TESTS_REFERENCE_ATTENTION_TEST_PROFILE_H

#include "tests/reference/attention/attention_world.h"

/* A profile of each contract: sm90's, whose first 0 means below, and simt. */
enum { CONTRACTS = 3 };
extern const kvg_profile profile_of_contract[CONTRACTS];
void for_contracts(void (*test)(kvg_profile profile));

/* world_open with a profile; 0: sm90. */
void decode_world_open(const world_plan *plan, kvg_profile profile, world *w);

/* Numbers of T, widened, and lse. */
typedef struct decode_answer {
    float *out, *lse;
} decode_answer;

decode_answer decode_open(const world *w);
void decode_close(decode_answer *a);

/* The profile tier; fails the test on a status. */
void decode_profile(const world *w, decode_answer *out);

/* test_profile_parts.c: exp2, log2, the order of dims, refusals. */
void test_exp2(void **state);
void test_log2(void **state);
void test_score_order(void **state);
void test_profile_refusals(void **state);

/* test_profile_probes.c: answers that are known bit for bit. */
void test_profile_values_of_one(void **state);
void test_profile_mean(void **state);
void test_profile_one_hot(void **state);
void test_profile_without_keys(void **state);
void test_profile_nan(void **state);
void test_profile_nan_scale(void **state);

/* test_attention_relations.c: problems that must have the same bits, under the spec tier, too. */
void test_same_pages(void **state);
void test_same_unowned_bytes(void **state);
void test_same_batch(void **state);
void test_same_chunks(void **state);
void test_same_window(void **state);
void test_same_old_ring(void **state);
void test_same_empty_leaves(void **state);
void test_same_aliased(void **state);
void test_same_threads(void **state);
void test_some_rows(void **state);

/* test_profile_bound.c: attention.v1 of the profile's class. */
void test_profile_bound(void **state);
void test_profile_bound_of_others(void **state);
void test_profile_out_of_range(void **state);

#endif
