/* The tensor-core model against a second one written from docs/spec/numerics.md section 5 alone, against answers
 * computed by hand, and against tensor cores that break one rule each. `test_mma N` compares about N million
 * outputs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/attention.h"
#include "core/bits.h"
#include "core/rng.h"
#include "harness/trial/question/mma_inputs.h"
#include "reference/tensor_core.h"
#include "reference/tensor_core/ref_mma.h"
#include "second/slow_mma.h"
#include "tests/gpu/mma_compare.h"

enum { SEED = 0x6D6D61 };
static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16};
static double million_outputs = 0.1;

/* One tile through the reference and through the second model with `faults`. */
typedef struct tile {
    uint16_t a[KVG_TILE_A], b[KVG_TILE_B];
    float c[KVG_TILE_C], golden[KVG_TILE_C], slow[KVG_TILE_C];
} tile;

static void tile_run(tile *t, const kvg_profile_info *profile, kvg_dtype dtype, uint32_t faults)
{
    assert_int_equal(kvg_reference_mma(profile->profile, dtype, 1, t->a, t->b, t->c, t->golden), KVG_OK);
    for (int i = 0; i < KVG_TILE_C; i++) {
        uint16_t row[KVG_MMA_K], column[KVG_MMA_K];
        kvg_mma_operands(t->a, t->b, i, row, column);
        const uint32_t c = kvg_bits_of_f32(t->c[i]);
        t->slow[i] = kvg_f32_of_bits(slow_mma_output(profile->chip, dtype, faults, row, column, c));
    }
}

static void tile_compare(mma_tally *tally, const tile *t, const kvg_profile_info *profile, kvg_dtype dtype)
{
    mma_compare(tally, profile, dtype, 1, t->a, t->b, t->c, t->golden, t->slow);
}

/* --- the table --- */

/* A row of each chip: those of its other contracts have the same tensor core. */
static const kvg_profile_info *chips(size_t *count)
{
    static kvg_profile_info chip[KVG_PROFILE_END];
    size_t rows;
    const kvg_profile_info *table = kvg_profile_table(&rows);
    *count = 0;
    for (size_t i = 0; i < rows; i++) {
        kvg_profile own;
        if (!kvg_profile_is_chip(&table[i]) || kvg_profile_of_sm(table[i].chip->sm, &own)) continue;
        if (own == table[i].profile) chip[(*count)++] = table[i];
    }
    return chip;
}

static void test_profiles(void **state)
{
    (void)state;
    size_t rows;
    const kvg_profile_info *table = kvg_profile_table(&rows);
    for (size_t i = 0; i < rows; i++) {
        kvg_profile found;
        char name[32];
        assert_int_equal(table[i].profile, i + 1);
        assert_ptr_equal(kvg_profile_get(table[i].profile), &table[i]);
        assert_int_equal(kvg_profile_find(table[i].name, &found), KVG_OK);
        assert_int_equal(found, table[i].profile);
        if (!kvg_profile_is_own(&table[i])) {
            assert_int_not_equal(kvg_profile_leaf(found), 0);
            continue;
        }
        assert_int_equal(table[i].contract->leaf % KVG_ATTENTION_TILE, 0);
        assert_int_equal(table[i].contract->leaf, kvg_profile_leaf(found));
        if (!kvg_profile_is_chip(&table[i])) continue;
        assert_int_equal(kvg_profile_of_sm(table[i].chip->sm, &found), KVG_OK);
        assert_int_equal(kvg_profile_get(found)->chip->sm, table[i].chip->sm);
        const char version = table[i].contract->exp2 == KVG_EXP2_APPROX ? '2' : '1';
        snprintf(name, sizeof name, "sm%u.mma16816.v%c", table[i].chip->sm, version);
        assert_string_equal(table[i].name, name);
        assert_int_equal(table[i].chip->sum_terms, table[i].chip->sm < 90 ? 8 : 16);
        assert_int_equal(table[i].chip->fraction_bits, table[i].chip->sm < 90 ? 24 : 25);
        assert_int_equal(table[i].chip->least_exponent, -133);
    }
    kvg_profile unset = KVG_PROFILE_END;
    assert_int_equal(kvg_profile_of_sm(0, &unset), KVG_ERR_NOT_FOUND); /* a chip that nobody knows */
    assert_null(kvg_profile_get((kvg_profile)0));
    assert_null(kvg_profile_get(KVG_PROFILE_END));
    assert_int_equal(kvg_profile_find("sm80.mma16816.v3", &unset), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "did you mean 'sm80.mma16816.v1'"));
    assert_int_equal(kvg_profile_of_sm(75, &unset), KVG_ERR_NOT_FOUND);
    assert_non_null(strstr(kvg_error_text(), "SM 75"));
    assert_int_equal(unset, KVG_PROFILE_END);
}

static void test_refusals(void **state)
{
    (void)state;
    tile t = {{0}, {0}, {0}, {0}, {0}};
    assert_int_equal(kvg_reference_mma((kvg_profile)0, KVG_DTYPE_F16, 1, t.a, t.b, t.c, t.golden), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "no profile 0"));
    assert_int_equal(kvg_reference_mma(KVG_PROFILE_SIMT_FMA_V1, KVG_DTYPE_F16, 1, t.a, t.b, t.c, t.golden),
                     KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "no tensor core"));
    assert_int_equal(kvg_reference_mma(KVG_PROFILE_SM90_MMA16816_V1, KVG_DTYPE_F32, 1, t.a, t.b, t.c, t.golden),
                     KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "f32"));
}

/* --- by hand --- */

/* Codes of f16 or bf16. Products that are not listed have factors +0. */
typedef struct vector {
    const char *what;
    kvg_dtype dtype;
    uint32_t c;
    struct {
        uint16_t places, a, b; /* places: first and last k, a hex digit each */
    } product[3];
    uint32_t sum16, sum8; /* one sum of 16 with F = 25; two of 8 with F = 24 */
} vector;

#define H KVG_DTYPE_F16
#define B KVG_DTYPE_BF16
static const vector vectors[] = {
    {"1 + 1.5 * 1.5 = 3.25", H, 0x3F800000, {{0x00, 0x3E00, 0x3E00}}, 0x40500000, 0x40500000},
    {"1.5 * 1.5 in bf16", B, 0, {{0x55, 0x3FC0, 0x3FC0}}, 0x40100000, 0x40100000},
    /* E = 0: units 2^-25 and 2^-24. 1 - 2^-24 has 24 bits; 1 - 2^-25 is cut to them; 2^-26 is below both units. */
    {"1 - 2^-24", H, 0x3F800000, {{0x00, 0x8C00, 0x0C00}}, 0x3F7FFFFF, 0x3F7FFFFF},
    {"1 - 2^-25", H, 0x3F800000, {{0x00, 0x8C00, 0x0800}}, 0x3F7FFFFF, 0x3F800000},
    {"1 - 2^-26", H, 0x3F800000, {{0x00, 0x8800, 0x0800}}, 0x3F800000, 0x3F800000},
    /* The product 2.25 has exponent 0, not 1: the unit stays 2^-25, so 2^-25 is seen; the result keeps 2^-22. */
    {"2.25 - 2^-25", H, 0, {{0x00, 0x3E00, 0x3E00}, {0x11, 0x8C00, 0x0800}}, 0x400FFFFF, 0x40100000},
    /* 1 - 1 is 0, but cuts off what lies below the unit in the same sum. */
    {"2^-24 + 1 - 1", H, 0, {{0x00, 0x0C00, 0x0C00}, {0x11, 0x3C00, 0x3C00}, {0x22, 0xBC00, 0x3C00}}, 0x33800000,
     0x33800000},
    {"2^-26 + 1 - 1", H, 0, {{0x00, 0x0800, 0x0800}, {0x11, 0x3C00, 0x3C00}, {0x22, 0xBC00, 0x3C00}}, 0, 0},
    {"2^-26 + 1, then - 1", H, 0, {{0x00, 0x0800, 0x0800}, {0x11, 0x3C00, 0x3C00}, {0x99, 0xBC00, 0x3C00}}, 0, 0},
    {"1 - 1, then 2^-26", H, 0, {{0x00, 0x3C00, 0x3C00}, {0x11, 0xBC00, 0x3C00}, {0x99, 0x0800, 0x0800}}, 0,
     0x32800000},
    /* Each term is cut off, not the sum: three times 2^-26 is nothing, three times 1.5 * 2^-25 is 3 * 2^-25. */
    {"1 + 3 * 2^-26", H, 0x3F800000, {{0x02, 0x0800, 0x0800}}, 0x3F800000, 0x3F800000},
    {"1 - 3 * 1.5 * 2^-25", H, 0x3F800000, {{0x02, 0x8E00, 0x0800}}, 0x3F7FFFFE, 0x3F800000},
    /* The largest sum: 16 * 2047^2 / 2^20 + 2 - 2^-23. In a second half the unit is 2^-19: 2047^2 loses a bit. */
    {"all ones", H, 0x3FFFFFFF, {{0x0F, 0x3FFF, 0x3FFF}}, 0x4283E001, 0x4283E000},
    {"all ones, negative", H, 0xBFFFFFFF, {{0x0F, 0x3FFF, 0xBFFF}}, 0xC283E001, 0xC283E000},
    {"f16 subnormals: 2^-24 * 2^-24", H, 0, {{0x00, 0x0001, 0x0001}}, 0x27800000, 0x27800000},
    /* A subnormal factor has exponent -14: units 2^-39 and 2^-38. */
    {"2^-24 * 1 + 2^-24 * 2^-15", H, 0, {{0x00, 0x0001, 0x3C00}, {0x11, 0x0001, 0x0200}}, 0x33800100, 0x33800000},
    {"2^-24 * 1 + 2^-24 * 2^-16", H, 0, {{0x00, 0x0001, 0x3C00}, {0x11, 0x0001, 0x0100}}, 0x33800000, 0x33800000},
    {"f32 subnormal c passes", B, 0x80000001, {{0}}, 0x80000001, 0x80000001},
    {"2^-70 * 2^-70 = 2^-140", B, 0, {{0x00, 0x1C80, 0x1C80}}, 0x00000200, 0x00000200},
    {"-2^-150", B, 0, {{0x99, 0x1A00, 0x9A00}}, 0, 0},
    /* c = 0 has no exponent: 16 times 2^-152 is 2^-148, 8 times 2^-149. c = 2^-149 has one, and cuts 2^-152 off. */
    {"16 * 2^-152", B, 0x80000000, {{0x0F, 0x1980, 0x1980}}, 0x00000002, 0x00000001},
    {"8 * 2^-152", B, 0, {{0x8F, 0x1980, 0x1980}}, 0x00000001, 0x00000001},
    {"2^-149 + 16 * 2^-152", B, 0x00000001, {{0x0F, 0x1980, 0x1980}}, 0x00000001, 0x00000001},
    /* E is -133 at least: 2^-158 and 2^-157 are the units. */
    {"2^-149 - 2^-157", B, 0, {{0x00, 0x1A80, 0x1A00}, {0x11, 0x9880, 0x1800}}, 0, 0},
    {"2^-149 - 2^-158", B, 0, {{0x00, 0x1A80, 0x1A00}, {0x11, 0x9800, 0x1800}}, 0, 0x00000001},
    {"2^-149 - 2^-159", B, 0, {{0x00, 0x1A80, 0x1A00}, {0x11, 0x9800, 0x1780}}, 0x00000001, 0x00000001},
    /* A factor 0 has none either: 2^127 * 0 does not cut off 2^-24. */
    {"2^127 * 0 + 2^-24", B, 0, {{0x00, 0x7F00, 0x8000}, {0x11, 0x3980, 0x3980}}, 0x33800000, 0x33800000},
    {"2^64 * 2^63 twice: 2^128", B, 0, {{0x00, 0x5F80, 0x5F00}, {0x11, 0x5F80, 0x5F00}}, 0x7F800000, 0x7F800000},
    {"2^100 * 2^100 - itself", B, 0x3F800000, {{0x00, 0x7180, 0x7180}, {0x11, 0xF180, 0x7180}}, 0, 0},
    {"-0 * 1 and c = -0", H, 0x80000000, {{0x00, 0x8000, 0x3C00}}, 0, 0},
    {"1 - 1", H, 0xBF800000, {{0x00, 0x3C00, 0x3C00}}, 0, 0},
    {"Inf", H, 0, {{0x00, 0xFC00, 0x3C00}}, 0xFF800000, 0xFF800000},
    {"Inf - Inf", H, 0x7F800000, {{0x00, 0xFC00, 0x3C00}}, 0x7FFFFFFF, 0x7FFFFFFF},
    {"Inf * 0", H, 0, {{0x00, 0x7C00, 0x8000}}, 0x7FFFFFFF, 0x7FFFFFFF},
    {"NaN", B, 0, {{0xFF, 0xFFC0, 0}}, 0x7FFFFFFF, 0x7FFFFFFF},
    {"NaN as c", B, 0xFF800001, {{0}}, 0x7FFFFFFF, 0x7FFFFFFF},
};
#undef H
#undef B

static void test_vectors(void **state)
{
    (void)state;
    size_t count, wrong = 0;
    const kvg_profile_info *table = chips(&count);
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        tile t = {{0}, {0}, {0}, {0}, {0}};
        t.c[0] = kvg_f32_of_bits(vectors[v].c);
        for (size_t i = 0; i < 3; i++) {
            const int first = vectors[v].product[i].places >> 4, last = vectors[v].product[i].places & 15;
            if (vectors[v].product[i].a == 0 && vectors[v].product[i].b == 0) continue;
            for (int k = first; k <= last; k++) {
                t.a[k] = vectors[v].product[i].a;
                t.b[k * KVG_MMA_N] = vectors[v].product[i].b;
            }
        }
        for (size_t p = 0; p < count; p++) {
            const uint32_t want = table[p].chip->sum_terms == 16 ? vectors[v].sum16 : vectors[v].sum8;
            tile_run(&t, &table[p], vectors[v].dtype, 0);
            const uint32_t golden = kvg_bits_of_f32(t.golden[0]), slow = kvg_bits_of_f32(t.slow[0]);
            if (golden == want && slow == want) continue;
            print_error("  %s %s: %08X expected, reference %08X, second model %08X\n", table[p].name, vectors[v].what,
                        want, golden, slow);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* --- the two models --- */

static void test_models_agree(void **state)
{
    (void)state;
    size_t profiles, outputs = 0, mismatches = 0;
    const kvg_profile_info *table = chips(&profiles);
    const size_t runs = profiles * 2 * kvg_mma_class_count;
    const size_t tiles = (size_t)(million_outputs * 1e6 / (double)(runs * KVG_TILE_C)) + 1;
    for (size_t i = 0; i < runs; i++) {
        const kvg_profile_info *profile = &table[i % profiles];
        const kvg_dtype dtype = dtypes[i / profiles % 2];
        const kvg_mma_class *class = &kvg_mma_classes[i / profiles / 2];
        mma_tally tally = {0};
        for (size_t n = 0; n < tiles; n++) {
            tile t;
            kvg_mma_tile_fill(class, dtype, SEED + profile->chip->sm, n, t.a, t.b, t.c);
            tile_run(&t, profile, dtype, 0);
            tile_compare(&tally, &t, profile, dtype);
        }
        outputs += tally.outputs;
        mismatches += tally.mismatches;
        if (tally.mismatches == 0) continue;
        printf("  %s %s %s: %zu of %zu outputs differ\n", profile->name, kvg_dtype_name(dtype), class->name,
               (size_t)tally.mismatches, (size_t)tally.outputs);
        mma_tally_print(&tally);
    }
    printf("  %zu outputs of %zu profiles and %zu classes in f16 and bf16, %zu mismatches\n", outputs, profiles,
           kvg_mma_class_count, mismatches);
    assert_true(outputs > 0);
    assert_int_equal(mismatches, 0);
}

/* What a tensor core that breaks one rule does with a few tiles of every class: the tallies of all, added up. */
static mma_tally faulty_run(const kvg_profile_info *profile, slow_mma_fault fault, const char **best)
{
    enum { TILES = 1 };
    mma_tally sum = {0};
    uint64_t most = 0;
    *best = "none";
    for (size_t i = 0; i < 2 * kvg_mma_class_count; i++) {
        mma_tally tally = {0};
        for (size_t n = 0; n < TILES; n++) {
            tile t;
            kvg_mma_tile_fill(&kvg_mma_classes[i / 2], dtypes[i % 2], SEED, n, t.a, t.b, t.c);
            tile_run(&t, profile, dtypes[i % 2], 1u << fault);
            tile_compare(&tally, &t, profile, dtypes[i % 2]);
        }
        sum.outputs += tally.outputs;
        sum.mismatches += tally.mismatches;
        sum.examined += tally.examined;
        for (slow_mma_fault f = 0; f < SLOW_MMA_FAULTS; f++) sum.explained[f] += tally.explained[f];
        if (tally.mismatches > most) {
            most = tally.mismatches;
            *best = kvg_mma_classes[i / 2].name;
        }
    }
    return sum;
}

/* Every broken rule is noticed, and no two look the same: a fault that explains all wrong outputs of another one must
 * have more of its own. */
static void test_faults(void **state)
{
    (void)state;
    static const kvg_profile profiles[] = {KVG_PROFILE_SM89_MMA16816_V1, KVG_PROFILE_SM90_MMA16816_V1};
    size_t missed = 0, ambiguous = 0;
    for (int p = 0; p < 2; p++) {
        const kvg_profile_info *profile = kvg_profile_get(profiles[p]);
        mma_tally tallies[SLOW_MMA_FAULTS];
        for (slow_mma_fault fault = 0; fault < SLOW_MMA_FAULTS; fault++) {
            const char *best;
            const mma_tally *t = &tallies[fault];
            tallies[fault] = faulty_run(profile, fault, &best);
            printf("  %s %-20s %5zu of %zu outputs differ, most in %s\n", profile->name, slow_mma_fault_name(fault),
                   (size_t)t->mismatches, (size_t)t->outputs, best);
            missed += !mma_tally_explains(t, fault);
        }
        for (int i = 0; i < SLOW_MMA_FAULTS * SLOW_MMA_FAULTS; i++) {
            const int x = i / SLOW_MMA_FAULTS, y = i % SLOW_MMA_FAULTS;
            if (x == y || tallies[x].mismatches != tallies[y].mismatches) continue;
            if (!mma_tally_explains(&tallies[x], (slow_mma_fault)y)) continue;
            print_error("  %s: %s looks like %s\n", profile->name, slow_mma_fault_name((slow_mma_fault)x),
                        slow_mma_fault_name((slow_mma_fault)y));
            ambiguous++;
        }
    }
    assert_int_equal(missed, 0);
    assert_int_equal(ambiguous, 0);
}

/* --- the chain --- */

static void test_chain(void **state)
{
    (void)state;
    enum { N = 4 * KVG_MMA_K };
    size_t count, wrong = 0;
    const kvg_profile_info *table = chips(&count);
    for (size_t i = 0; i < count * kvg_mma_class_count; i++) {
        const kvg_profile_info *profile = &table[i % count];
        const kvg_mma_class *class = &kvg_mma_classes[i / count];
        const ref_sum sum = ref_sum_of(profile->chip);
        uint16_t a[N], b[N];
        ref_operand left[N], right[N];
        tile t;
        float c = 0;
        for (uint64_t step = 0; step < N / KVG_MMA_K; step++) {
            kvg_mma_tile_fill(class, KVG_DTYPE_BF16, SEED, step, t.a, t.b, t.c);
            if (step == 0) c = t.c[0];
            t.c[0] = step == 0 ? t.c[0] : t.golden[0];
            tile_run(&t, profile, KVG_DTYPE_BF16, 0);
            kvg_mma_operands(t.a, t.b, 0, a + step * KVG_MMA_K, b + step * KVG_MMA_K);
        }
        ref_operand_decode(KVG_DTYPE_BF16, a, N, left);
        ref_operand_decode(KVG_DTYPE_BF16, b, N, right);
        wrong += kvg_bits_of_f32(ref_mma_dot(&sum, left, right, N, c)) != kvg_bits_of_f32(t.slow[0]);
        wrong += kvg_bits_of_f32(ref_mma_dot(&sum, left, right, 0, c)) != kvg_bits_of_f32(c);
    }
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profiles),     cmocka_unit_test(test_refusals), cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_models_agree), cmocka_unit_test(test_faults),   cmocka_unit_test(test_chain),
    };
    if (argc > 1) million_outputs = atof(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
