/* docs/spec/decode-contract.md and docs/spec/simt-contract.md against the profile tier: parts, probes, relations
 * and the bound. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "reference/attention_profile.h"
#include "tests/reference/attention/test_profile.h"

const kvg_profile profile_of_contract[CONTRACTS] = {KVG_PROFILE_SM90_MMA16816_V1, KVG_PROFILE_SM90_MMA16816_V2,
                                                      KVG_PROFILE_SIMT_FMA_V1};

void for_contracts(void (*test)(kvg_profile profile))
{
    for (int i = 0; i < CONTRACTS; i++) test(profile_of_contract[i]);
}

void decode_world_open(const world_plan *plan, kvg_profile profile, world *w)
{
    world_open(plan, w);
    w->p.profile = profile ? profile : KVG_PROFILE_SM90_MMA16816_V1;
}

decode_answer decode_open(const world *w)
{
    const decode_answer a = {calloc(w->outputs, sizeof *a.out), calloc(w->rows, sizeof *a.lse)};
    assert_true(a.out && a.lse);
    return a;
}

void decode_close(decode_answer *a)
{
    free(a->out);
    free(a->lse);
}

void decode_profile(const world *w, decode_answer *answer)
{
    void *numbers = malloc(w->outputs * sizeof(float)); /* of T, which may be f32 */
    assert_non_null(numbers);
    kvg_tensor out[2] = {{.data = numbers}, {.data = answer->lse}};
    if (kvg_attention_profile(&w->p, w->in, out)) fail_msg("profile: %s", kvg_error_text());
    kvg_reference_load(w->p.dtype, numbers, w->outputs, answer->out);
    free(numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp2),
        cmocka_unit_test(test_log2),
        cmocka_unit_test(test_score_order),
        cmocka_unit_test(test_profile_refusals),
        cmocka_unit_test(test_profile_values_of_one),
        cmocka_unit_test(test_profile_mean),
        cmocka_unit_test(test_profile_one_hot),
        cmocka_unit_test(test_profile_without_keys),
        cmocka_unit_test(test_profile_nan),
        cmocka_unit_test(test_profile_nan_scale),
        cmocka_unit_test(test_same_pages),
        cmocka_unit_test(test_same_unowned_bytes),
        cmocka_unit_test(test_same_batch),
        cmocka_unit_test(test_same_chunks),
        cmocka_unit_test(test_same_window),
        cmocka_unit_test(test_same_old_ring),
        cmocka_unit_test(test_same_empty_leaves),
        cmocka_unit_test(test_same_aliased),
        cmocka_unit_test(test_same_threads),
        cmocka_unit_test(test_some_rows),
        cmocka_unit_test(test_profile_bound),
        cmocka_unit_test(test_profile_bound_of_others),
        cmocka_unit_test(test_profile_out_of_range),
    };
    return cmocka_run_group_tests_name("decode", tests, NULL, NULL);
}
