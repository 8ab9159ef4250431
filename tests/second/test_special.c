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

/* Each with ftz, then each without. */
typedef enum function { EX2, RCP, LG2, RSQRT, TANH, DIV_FULL, WITHOUT_FTZ, FUNCTIONS = 2 * WITHOUT_FTZ } function;
static const char *const names[WITHOUT_FTZ] = {"ex2.approx",   "rcp.approx",  "lg2.approx",
                                               "rsqrt.approx", "tanh.approx", "div.full"};

static uint32_t golden(function f, special_operands of)
{
    const float a = kvg_f32_of_bits(of.a), b = kvg_f32_of_bits(of.b);
    const bool ftz = f < WITHOUT_FTZ;
    switch (f % WITHOUT_FTZ) {
    case EX2: return kvg_bits_of_f32(ref_ex2_approx(a, ftz));
    case RCP: return kvg_bits_of_f32(ref_rcp_approx(a, ftz));
    case LG2: return kvg_bits_of_f32(ref_lg2_approx(a, ftz));
    case RSQRT: return kvg_bits_of_f32(ref_rsqrt_approx(a, ftz));
    case TANH: return kvg_bits_of_f32(ref_tanh_approx(a));
    default: return kvg_bits_of_f32(ref_div_full(a, b, ftz));
    }
}

static slow_number slow_of(function f, slow_number a, slow_number b, slow_special_fault fault)
{
    const bool ftz = f < WITHOUT_FTZ;
    switch (f % WITHOUT_FTZ) {
    case EX2: return slow_ex2_approx(a, ftz, fault);
    case RCP: return slow_rcp_approx(a, ftz, fault);
    case LG2: return slow_lg2_approx(a, ftz, fault);
    case RSQRT: return slow_rsqrt_approx(a, ftz, fault);
    case TANH: return slow_tanh_approx(a, fault);
    default: return slow_div_full(a, b, ftz, fault);
    }
}

static uint32_t slow(function f, special_operands of, slow_special_fault fault)
{
    const slow_number a = slow_decode(&slow_f32, of.a), b = slow_decode(&slow_f32, of.b);
    return (uint32_t)slow_encode(&slow_f32, slow_of(f, a, b, fault));
}

/* Pairs of edges, then draws, then every fraction of 1 ... 2 and, for rsqrt and tanh, of 2 ... 4. */
enum { EDGE_PAIRS = SPECIAL_EDGES * SPECIAL_EDGES, DRAWN = EDGE_PAIRS + DRAWS, QUESTIONS = DRAWN + 2 * FRACTIONS };

static int questions_of(function f)
{
    return f < RSQRT ? DRAWN + FRACTIONS : f <= TANH ? QUESTIONS : DRAWN;
}

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
        const int i = first_difference(f, questions_of(f), SLOW_SPECIAL_FAULTS);
        if (i == QUESTIONS) continue;
        const special_operands of = question(i);
        fail_msg("%s%s of 0x%08" PRIX32 ", 0x%08" PRIX32 ": golden 0x%08" PRIX32 ", slow 0x%08" PRIX32,
                 names[f % WITHOUT_FTZ], f < WITHOUT_FTZ ? ".ftz" : "", of.a, of.b, golden(f, of),
                 slow(f, of, SLOW_SPECIAL_FAULTS));
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

/* FNV-1a of the results that a chip gave for every fraction of 1 ... 2 and, of rsqrt and tanh, of 2 ... 4. */
static void test_results_of_the_chip(void **state)
{
    static const uint64_t measured[] = {[EX2] = 0x8A01E7678D283C83, [RCP] = 0xF6C4479B058C7200,
                                        [LG2] = 0x85E2708274AA4BAD, [RSQRT] = 0x7FD5EE41CC331920,
                                        [TANH] = 0x1C64A8CE01B60B75};
    uint32_t *results = malloc(2 * FRACTIONS * sizeof *results);
    (void)state;
    assert_non_null(results);
    for (function f = EX2; f <= TANH; f++) {
        const uint32_t count = (uint32_t)(questions_of(f) - DRAWN);
        for (uint32_t i = 0; i < count; i++) results[i] = golden(f, (special_operands){ONE + i, 0});
        assert_int_equal(kvg_hash64(results, count * sizeof *results), measured[f]);
    }
    free(results);
}

static void test_examples_of_the_page(void **state)
{
    (void)state;
    assert_int_equal(golden(EX2, (special_operands){0xC28E60FF, 0}), 0x1BE07F51);
    assert_int_equal(golden(RCP, (special_operands){0x40490FDB, 0}), 0x3EA2F983);
    assert_int_equal(golden(DIV_FULL, (special_operands){0x40000000, 0x42040000}), 0x3D783E0F); /* 2 / 33 */
    assert_int_equal(golden(RSQRT, (special_operands){0x40490FDB, 0}), 0x3F106EBA); /* 1 / sqrt(pi) */
    assert_int_equal(golden(LG2, (special_operands){0x3EAAAAAB, 0}), 0xBFCAE00C); /* log2(1 / 3) */
    assert_int_equal(golden(TANH, (special_operands){0x3F333333, 0}), 0x3F1AB7EA);
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
