/* The special functions of sm_90 (docs/spec/numerics.md section 9): golden against slow, both against what the chip
 * gave, and faults that must be noticed. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/numbers/ref_special.h"
#include "second/slow_special.h"
#include "tests/gpu/special_draw.h"

enum { FRACTIONS = 1 << 23, DRAWS = 1 << 18, ONE = 0x3F800000 };

typedef enum function { EX2, RCP, DIV_FULL, DIV_FULL_FTZ, FUNCTIONS } function;
static const char *const names[FUNCTIONS] = {"ex2.approx.ftz.f32", "rcp.approx.ftz.f32", "div.full.f32",
                                             "div.full.ftz.f32"};

static uint32_t golden(function f, special_operands of)
{
    const float a = kvg_f32_of_bits(of.a), b = kvg_f32_of_bits(of.b);
    if (f == EX2) return kvg_bits_of_f32(ref_ex2_approx(a));
    if (f == RCP) return kvg_bits_of_f32(ref_rcp_approx(a));
    return kvg_bits_of_f32(ref_div_full(a, b, f == DIV_FULL_FTZ));
}

static uint32_t slow(function f, special_operands of, slow_special_fault fault)
{
    const slow_number a = slow_decode(&slow_f32, of.a), b = slow_decode(&slow_f32, of.b);
    if (f == EX2) return (uint32_t)slow_encode(&slow_f32, slow_ex2_approx(a, fault));
    if (f == RCP) return (uint32_t)slow_encode(&slow_f32, slow_rcp_approx(a, fault));
    return (uint32_t)slow_encode(&slow_f32, slow_div_full(a, b, f == DIV_FULL_FTZ, fault));
}

/* Pairs of edges, then draws, then every fraction of 1 ... 2. */
enum { EDGE_PAIRS = SPECIAL_EDGES * SPECIAL_EDGES, DRAWN = EDGE_PAIRS + DRAWS, QUESTIONS = DRAWN + FRACTIONS };

static special_operands question(int i)
{
    if (i < EDGE_PAIRS) {
        const uint32_t a = (uint32_t)i / SPECIAL_EDGES, b = (uint32_t)i % SPECIAL_EDGES;
        return (special_operands){special_edge(a), special_edge(b)};
    }
    if (i < DRAWN) return special_draw((uint64_t)i);
    return (special_operands){ONE + (uint32_t)(i - DRAWN), ONE};
}

static bool differs(function f, int i, slow_special_fault fault)
{
    return golden(f, question(i)) != slow(f, question(i), fault);
}

/* The first of `end` questions that tells the function from the second reference with that fault; QUESTIONS: none. */
static int first_difference(function f, int end, slow_special_fault fault)
{
    int first = QUESTIONS;
#pragma omp parallel for schedule(dynamic, 4096) reduction(min : first)
    for (int i = 0; i < end; i++) {
        if (i < first && differs(f, i, fault)) first = i;
    }
    return first;
}

static void test_golden_is_slow(void **state)
{
    (void)state;
    for (function f = EX2; f < FUNCTIONS; f++) {
        const int i = first_difference(f, f <= RCP ? QUESTIONS : DRAWN, SLOW_SPECIAL_FAULTS);
        if (i == QUESTIONS) continue;
        const special_operands of = question(i);
        fail_msg("%s of 0x%08" PRIX32 ", 0x%08" PRIX32 ": golden 0x%08" PRIX32 ", slow 0x%08" PRIX32, names[f], of.a,
                 of.b, golden(f, of), slow(f, of, SLOW_SPECIAL_FAULTS));
    }
}

static void test_faults_are_noticed(void **state)
{
    static const char *const what[] = {
#define FAULT(ENUM, text) text,
#include "second/special_faults.def"
#undef FAULT
    };
    (void)state;
    for (int fault = 0; fault < SLOW_SPECIAL_FAULTS; fault++) {
        function f = EX2;
        while (f < FUNCTIONS && first_difference(f, DRAWN, (slow_special_fault)fault) == QUESTIONS) f++;
        if (f == FUNCTIONS) fail_msg("no question notices that %s", what[fault]);
    }
}

/* FNV-1a of the results that an H200 and an H100 gave for every fraction of 1 ... 2. */
static void test_results_of_the_chip(void **state)
{
    static const uint64_t measured[] = {[EX2] = 0x8A01E7678D283C83, [RCP] = 0xF6C4479B058C7200};
    uint32_t *results = malloc(FRACTIONS * sizeof *results);
    (void)state;
    assert_non_null(results);
    for (function f = EX2; f <= RCP; f++) {
        for (uint32_t i = 0; i < FRACTIONS; i++) results[i] = golden(f, (special_operands){ONE + i, 0});
        assert_int_equal(kvg_hash64(results, FRACTIONS * sizeof *results), measured[f]);
    }
    free(results);
}

static void test_examples_of_the_page(void **state)
{
    (void)state;
    assert_int_equal(golden(EX2, (special_operands){0xC28E60FF, 0}), 0x1BE07F51);
    assert_int_equal(golden(RCP, (special_operands){0x40490FDB, 0}), 0x3EA2F983);
    assert_int_equal(golden(DIV_FULL, (special_operands){0x40000000, 0x42040000}), 0x3D783E0F); /* 2 / 33 */
    assert_int_equal(golden(EX2, (special_operands){0x7F800001, 0}), 0x7FFFFFFF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_is_slow),
        cmocka_unit_test(test_faults_are_noticed),
        cmocka_unit_test(test_results_of_the_chip),
        cmocka_unit_test(test_examples_of_the_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
