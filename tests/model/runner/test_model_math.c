/* The arithmetic of docs/spec/generate.md section 4: the reference and a second reading of the page
 * (second/slow_model.c) agree in every bit, on ordinary numbers and on every kind of odd ones, and every planted
 * deviation of that reading is seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "model/model_math.h"
#include "second/slow_model.h"

enum { MOST = 96, ROUNDS = 400 };

static uint64_t draws;

/* Mostly near 1; some of any size; some odd ones, if they are wanted. */
static float draw(bool odd)
{
    static const float odds[] = {0.0f, -0.0f, 1, -1, 7, -7, 0x1p-149f, -0x1p-126f, 0x1.fffffep+127f, 1e30f, -1e30f, 100,
                                 -100, 88, -104};
    const uint64_t n = draws++;
    const uint64_t word = kvg_rng_u64(5, 0, n);
    if (odd && word % 8 == 0) return odds[word / 8 % (sizeof odds / sizeof odds[0])];
    if (odd && word % 8 == 1) return kvg_f32_of_bits((uint32_t)(word >> 32)); /* NaN and Inf among them */
    return (float)kvg_rng_normal(5, 1, n);
}

static void fill(float *x, size_t count, bool odd)
{
    for (size_t i = 0; i < count; i++) x[i] = draw(odd);
}

/* NaNs have no bits. */
static bool same(float a, float b)
{
    return (a != a && b != b) || kvg_bits_of_f32(a) == kvg_bits_of_f32(b);
}

/* Whether the reading with this fault gives other bits than the reference somewhere. */
static bool differs(slow_model_fault fault)
{
    bool found = false;
    draws = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const bool odd = round % 4 == 3;
        const size_t count = 1 + (size_t)kvg_rng_below(6, 0, (uint64_t)round, MOST);
        float x[MOST], w[MOST], y[MOST], z[MOST], weights[MOST], slow_weights[MOST];
        uint32_t experts[MOST], slow_experts[MOST];
        fill(x, count, odd);
        fill(w, count, odd);
        found = found || !same(kvg_reference_dot(w, x, count), slow_model_dot(w, x, count, fault));
        for (size_t i = 0; i < count; i++) {
            const float limit = i % 2 ? 7.0f : i % 3 ? 0.5f : 0.0f;
            kvg_reference_swiglu(&x[i], &w[i], 1, limit, y);
            found = found || !same(y[0], slow_model_swiglu(x[i], w[i], limit, fault));
            found = found || !same(kvg_reference_sigmoid(x[i]), slow_model_sigmoid(x[i], fault));
        }
        const uint32_t of = (uint32_t)(count < 32 ? count : 32), chosen = 1 + of / 8;
        if (of > 2 && round % 2) x[1] = x[2] = x[0]; /* equal ones */
        kvg_reference_route(x, of, chosen, experts, weights);
        slow_model_route(x, of, chosen, slow_experts, slow_weights, fault);
        for (uint32_t j = 0; j < chosen; j++) {
            found = found || experts[j] != slow_experts[j] || !same(weights[j], slow_weights[j]);
        }
        if (odd) fill(x, count, false); /* a norm of squares beyond f32 is Inf, NaN or 0: nothing to compare */
        kvg_reference_rms_norm(x, w, count, 1e-5f, y);
        slow_model_rms_norm(x, w, count, 1e-5f, z, fault);
        for (size_t i = 0; i < count; i++) found = found || !same(y[i], z[i]);
    }
    return found;
}

static void test_the_page_is_read_alike(void **state)
{
    (void)state;
    assert_false(differs(SLOW_MODEL_RIGHT));
}

static void test_deviations_are_seen(void **state)
{
    (void)state;
    for (int fault = SLOW_MODEL_RIGHT + 1; fault < SLOW_MODEL_SHARE_OF_ONE; fault++) {
        if (!differs((slow_model_fault)fault)) fail_msg("deviation %d is not seen", fault);
    }
}

/* Whether another token is drawn somewhere. */
static bool draws_others(slow_model_fault fault)
{
    static const float temperatures[] = {0, 0.25f, 0.7f, 1, 1.3f, 50}, shares[] = {1, 0.9f, 0.5f, 0x1p-20f, 0.3f};
    draws = 0;
    for (uint64_t round = 0; round < 4000; round++) {
        float x[64];
        const uint32_t count = 1 + (uint32_t)kvg_rng_below(8, 0, round, 64);
        const kvg_sampling s = {.temperature = temperatures[round % 6], .top_p = shares[round % 5], .seed = 3,
                                .request = round / 7};
        const float u = (float)(kvg_rng_u64(3, round / 7, round) >> 40) / 16777216;
        uint32_t token;
        fill(x, count, false);
        if (round % 3 == 0 && count > 4) x[4] = x[3] = x[0]; /* equal ones */
        if (round % 11 == 0 && count > 4) x[2] = -INFINITY;
        for (uint32_t i = 0; i < count && round % 4 == 1; i++) x[i] = 2; /* shares that fall on a sum */
        assert_int_equal(kvg_reference_sample(x, count, &s, round, &token), KVG_OK);
        if (token != slow_model_sample(x, count, s.temperature, s.top_p, u, fault)) return true;
    }
    return false;
}

static void test_sampling(void **state)
{
    (void)state;
    assert_false(draws_others(SLOW_MODEL_RIGHT));
    for (int fault = SLOW_MODEL_SHARE_OF_ONE; fault < SLOW_MODEL_FAULTS; fault++) {
        if (!draws_others((slow_model_fault)fault)) fail_msg("deviation %d is not seen", fault);
    }
}

/* Shares of weights 4 : 2 : 1 : 1 among 20,000 draws, each within five standard deviations. */
static void test_sampling_shares(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    const float logits[] = {0, 2 * 0x1.62e43p-1f, 0x1.62e43p-1f, 0}; /* multiples of ln 2 */
    static const double shares[] = {0.125, 0.5, 0.25, 0.125};
    const kvg_sampling s = {.temperature = 1, .top_p = 1, .seed = 11, .request = 2};
    unsigned counts[4] = {0};
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint32_t token;
        assert_int_equal(kvg_reference_sample(logits, 4, &s, i, &token), KVG_OK);
        counts[token]++;
    }
    for (int i = 0; i < 4; i++) {
        const double off = counts[i] - DRAWS * shares[i], variance = DRAWS * shares[i] * (1 - shares[i]);
        assert_true(off * off <= 25 * variance);
    }
}

static void test_sampling_refusals(void **state)
{
    (void)state;
    static const struct {
        float logits[2], temperature, top_p;
        const char *says;
    } bad[] = {
        {{0, NAN}, 0, 1, "token 1 is NaN"},        {{-INFINITY, -INFINITY}, 0, 1, "every logit is -Inf"},
        {{0, INFINITY}, 1, 1, "token 1 is Inf"},   {{0, 1}, -1, 1, "temperature -1"},
        {{0, 1}, NAN, 1, "temperature"},           {{0, 1}, INFINITY, 1, "temperature inf"},
        {{0, 1}, 1, 0, "top-p 0"},                 {{0, 1}, 1, 1.5f, "top-p 1.5"},
        {{0, 1}, 1, NAN, "top-p"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const kvg_sampling s = {.temperature = bad[i].temperature, .top_p = bad[i].top_p};
        uint32_t token;
        assert_int_equal(kvg_reference_sample(bad[i].logits, 2, &s, 0, &token), KVG_ERR_INVALID);
        if (!strstr(kvg_error_text(), bad[i].says)) fail_msg("%s: %s", bad[i].says, kvg_error_text());
    }
}

/* Numbers that can be worked out by hand. */
static void test_by_hand(void **state)
{
    (void)state;
    const float w[] = {1, 2, -3, 0.5f}, x[] = {4, 0.25f, 2, 8}, ones[] = {1, 1, 1, 1};
    const float logits[] = {1, 3, 3, -1};
    float y[4], weights[3];
    uint32_t experts[3];
    assert_true(kvg_reference_dot(w, x, 4) == 2.5f);
    assert_true(kvg_reference_dot(w, x, 0) == 0);
    const float big[] = {0x1p24f, 1, -0x1p24f}; /* the order of a sum */
    assert_true(kvg_reference_dot(big, ones, 3) == 0);
    kvg_reference_rms_norm(ones, x, 4, 0, y);
    assert_memory_equal(y, x, sizeof y);
    assert_true(kvg_reference_sigmoid(0) == 0.5f && kvg_reference_sigmoid(-0.0f) == 0.5f);
    assert_true(kvg_reference_sigmoid(NAN) != kvg_reference_sigmoid(NAN)); /* a NaN */
    assert_true(kvg_reference_sigmoid(200) == 1 && kvg_reference_sigmoid(-200) == 0);
    kvg_reference_route(logits, 4, 3, experts, weights);
    assert_true(experts[0] == 1 && experts[1] == 2 && experts[2] == 0 && weights[0] == weights[1]);
    assert_true(weights[0] > 0.46f && weights[0] < 0.47f); /* 1 / (2 + e^-2) */
    const float gate = 100, up = -100; /* clamped to 7 and -7: (-7 + 1) * 7 * sigma(11.914) */
    kvg_reference_swiglu(&gate, &up, 1, 7, y);
    assert_true(y[0] > -42 && y[0] < -41.999f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_page_is_read_alike),
        cmocka_unit_test(test_deviations_are_seen),
        cmocka_unit_test(test_sampling),
        cmocka_unit_test(test_sampling_shares),
        cmocka_unit_test(test_sampling_refusals),
        cmocka_unit_test(test_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
