/* The table of RoPE: parameters that make no sense are refused, the reference and a second computation from the same
 * page (second/slow_rope_table.c) agree in every bit, and models have their published numbers.
 *
 *   test_rope                    the tests
 *   test_rope --angles STRIDE    every STRIDE-th float from 2^-12 to 2^24: how near cos and sin come to a tie, and that
 *                                the reference's short way gives the same floats */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/numbers/ref_double_double.h"
#include "reference/rope_table.h"
#include "second/slow_rope_table.h"

/* --- parameters --- */

static const kvg_rope_scaling gpt_oss = {.kind = KVG_ROPE_YARN, .theta = 150000, .factor = 32,
                                         .original_positions = 4096, .beta_fast = 32, .beta_slow = 1};
static const kvg_rope_scaling llama31 = {.kind = KVG_ROPE_LLAMA3, .theta = 500000, .factor = 8,
                                         .original_positions = 8192, .low_freq_factor = 1, .high_freq_factor = 4};
static const kvg_rope_scaling dynamic2 = {.kind = KVG_ROPE_DYNAMIC, .theta = 10000, .factor = 2,
                                          .original_positions = 2048, .length = 5000};

static kvg_rope rope_of(uint32_t dims, kvg_rope_scaling scaling)
{
    return (kvg_rope){.dims = dims, .positions = 4, .pairing = KVG_PAIRING_HALVES, .scaling = scaling};
}

#define WITH(start, member, number) changed(start, offsetof(kvg_rope_scaling, member), number)
static kvg_rope_scaling changed(kvg_rope_scaling s, size_t offset, float value)
{
    memcpy((char *)&s + offset, &value, sizeof value);
    return s;
}

static void test_bad_parameters_are_refused(void **state)
{
    (void)state;
    const kvg_rope_scaling plain = {.kind = KVG_ROPE_DEFAULT, .theta = 10000};
    const kvg_rope_scaling linear = {.kind = KVG_ROPE_LINEAR, .theta = 10000, .factor = 4};
    kvg_rope_scaling truncated = plain, typed = plain;
    truncated.truncate = true;
    typed.entries = KVG_DTYPE_I32;
    const struct {
        kvg_rope_scaling scaling;
        uint32_t dims;
        const char *text;
    } cases[] = {
        {{.kind = (kvg_rope_kind)77}, 64, "rope kind id 77 is not in core/rope_kinds.def"},
        {plain, 63, "rope turns 63 of 1024 elements"},
        {plain, 1026, "rope turns 1026 of 1024 elements"},
        {WITH(plain, theta, NAN), 64, "rope kind default needs theta from 2 to"},
        {WITH(plain, theta, 1), 64, "needs theta from 2 to"},
        {WITH(plain, theta, INFINITY), 64, "needs theta from 2 to"},
        {WITH(plain, theta, 0), 64, "needs theta from 2 to"},
        {WITH(plain, factor, 2), 64, "rope kind default takes no factor, which is 2"},
        {WITH(linear, factor, 0.5f), 64, "rope kind linear needs factor from 1 to"},
        {WITH(linear, factor, -4), 64, "needs factor from 1 to"},
        {WITH(linear, factor, NAN), 64, "needs factor from 1 to"},
        {WITH(linear, beta_fast, 32), 64, "rope kind linear takes no beta_fast"},
        {WITH(linear, beta_fast, NAN), 64, "rope kind linear takes no beta_fast"},
        {WITH(linear, attention_factor, -1), 64, "needs attention_factor from"},
        {WITH(linear, attention_factor, NAN), 64, "needs attention_factor from"},
        {WITH(dynamic2, length, 0), 64, "rope kind dynamic needs length from 1 to 1.67772e+07, an integer"},
        {WITH(dynamic2, original_positions, 2048.5f), 64, "needs original_positions from 1 to 1.67772e+07, an integer"},
        {dynamic2, 2, "turn 4 elements or more"},
        {WITH(WITH(WITH(dynamic2, factor, 0x1p20f), original_positions, 1), length, 0x1p24f), 4, "above 2^80"},
        {WITH(llama31, high_freq_factor, 1), 64, "high_freq_factor 1 must be above low_freq_factor 1"},
        {WITH(llama31, low_freq_factor, 0), 64, "rope kind llama3 needs low_freq_factor"},
        {WITH(gpt_oss, beta_slow, 32), 64, "beta_fast 32 must be above beta_slow 32"},
        {WITH(gpt_oss, beta_fast, 0.5f), 64, "beta_fast 0.5 must be above beta_slow 1"},
        {WITH(gpt_oss, mscale, 1), 64, "from mscale and mscale_all_dim together"},
        {WITH(WITH(WITH(gpt_oss, mscale, 1), mscale_all_dim, 1), attention_factor, 1), 64, "or from neither"},
        {WITH(gpt_oss, original_positions, 4), 64, "rope kind yarn: its range would go from pair 0 to pair"},
        {truncated, 64, "rope kind default has no range to truncate"},
        {typed, 64, "rope entries of type i32: use f32, f16 or bf16"},
        {{.kind = KVG_ROPE_TABLE}, 64, "a rope table follows from a kind"},
        {plain, 0, "and from dims above 0"},
    };
    float frequencies[KVG_MAX_HEAD_DIM / 2];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const kvg_rope rope = rope_of(cases[i].dims, cases[i].scaling);
        assert_int_equal(kvg_reference_rope_frequencies(&rope, frequencies), KVG_ERR_INVALID);
        if (!strstr(kvg_error_text(), cases[i].text)) fail_msg("%zu: %s", i, kvg_error_text());
    }
    kvg_rope rope = rope_of(64, plain);
    rope.positions = (1u << 24) + 1;
    assert_int_equal(kvg_rope_check(&rope, 64), KVG_ERR_INVALID);
    rope.positions = 1;
    assert_int_equal(kvg_rope_check(&rope, 64), KVG_OK);
    kvg_rope_kind kind;
    assert_int_equal(kvg_rope_kind_find("yarn", &kind), KVG_OK);
    assert_int_equal(kind, KVG_ROPE_YARN);
    assert_int_equal(kvg_rope_kind_find("ntk", &kind), KVG_ERR_NOT_FOUND);
    assert_string_equal(kvg_error_text(), "no rope kind 'ntk'; known: default, linear, dynamic, llama3, yarn");
}

/* --- two computations --- */

typedef struct tally {
    uint64_t ropes, broken, frequencies, entries;
} tally;

static void compare_bits(const char *what, const kvg_rope *rope, uint32_t at, float a, slow_number b)
{
    const uint32_t bits = kvg_bits_of_f32(a), wanted = (uint32_t)slow_encode(&slow_f32, b);
    if (bits == wanted) return;
    const kvg_rope_scaling *s = &rope->scaling;
    fail_msg("%s of %s: dims %u theta %a factor %a original %g length %g low %g high %g fast %g slow %g m %g "
             "mscale %g %g truncate %d, at %u: %08x, second computation %08x",
             what, kvg_rope_kind_name(s->kind), rope->dims, (double)s->theta, (double)s->factor,
             (double)s->original_positions, (double)s->length, (double)s->low_freq_factor,
             (double)s->high_freq_factor, (double)s->beta_fast, (double)s->beta_slow, (double)s->attention_factor,
             (double)s->mscale, (double)s->mscale_all_dim, s->truncate, at, bits, wanted);
}

/* All frequencies, and rows at `positions`. */
static void compare_rope(const kvg_rope *rope, const uint32_t *positions, size_t count, tally *t)
{
    float frequencies[KVG_MAX_HEAD_DIM / 2], row[KVG_MAX_HEAD_DIM];
    slow_number wanted[KVG_MAX_HEAD_DIM];
    slow_rope_plan plan;
    slow_rope_prepare(rope, &plan);
    const kvg_status s = kvg_reference_rope_frequencies(rope, frequencies);
    t->ropes++;
    if (s || plan.broken) {
        if (!s || !plan.broken) fail_msg("one refuses it, one does not: %s", s ? kvg_error_text() : "");
        t->broken++;
        return;
    }
    for (uint32_t i = 0; i < rope->dims / 2; i++) {
        compare_bits("frequency", rope, i, frequencies[i], plan.frequency[i]);
    }
    t->frequencies += rope->dims / 2;
    for (size_t p = 0; p < count; p++) {
        assert_int_equal(kvg_reference_rope_rows(rope, frequencies, positions[p], 1, row), KVG_OK);
        slow_rope_row(&plan, positions[p], wanted);
        for (uint32_t i = 0; i < rope->dims; i++) compare_bits("entry", rope, positions[p], row[i], wanted[i]);
    }
    t->entries += count * rope->dims;
}

static const uint32_t some_positions[] = {1048575, 1, 4095, 16777215, 0, 2, 3, 127, 4096, 131071, 524288, 1048576};
enum { SOME_POSITIONS = sizeof some_positions / sizeof some_positions[0] };

static void test_models(void **state)
{
    (void)state;
    const kvg_rope_scaling scalings[] = {
        {.kind = KVG_ROPE_DEFAULT, .theta = 10000},
        {.kind = KVG_ROPE_DEFAULT, .theta = 500000, .entries = KVG_DTYPE_BF16},
        {.kind = KVG_ROPE_DEFAULT, .theta = 1e6f, .entries = KVG_DTYPE_F16},
        {.kind = KVG_ROPE_DEFAULT, .theta = 5e6f, .attention_factor = 0.3f},
        {.kind = KVG_ROPE_LINEAR, .theta = 10000, .factor = 4},
        {.kind = KVG_ROPE_LINEAR, .theta = 1e6f, .factor = 2.5f},
        dynamic2,
        WITH(dynamic2, length, 1),
        WITH(dynamic2, length, 2048),
        WITH(dynamic2, length, 2049),
        WITH(dynamic2, length, 4096), /* t = 3: with dims 4 the base is 90000 */
        WITH(WITH(dynamic2, length, 0x1p20f), factor, 1.7f),
        llama31,
        WITH(llama31, factor, 32),
        gpt_oss,
        WITH(WITH(gpt_oss, theta, 10000), attention_factor, 1), /* low ends on a pair for some dims */
        {.kind = KVG_ROPE_YARN, .theta = 1e6f, .factor = 4, .original_positions = 32768, .beta_fast = 32,
         .beta_slow = 1, .truncate = true},
        {.kind = KVG_ROPE_YARN, .theta = 10000, .factor = 40, .original_positions = 4096, .beta_fast = 32,
         .beta_slow = 1, .truncate = true, .mscale = 1, .mscale_all_dim = 1},
        {.kind = KVG_ROPE_YARN, .theta = 10000, .factor = 40, .original_positions = 4096, .beta_fast = 32,
         .beta_slow = 1, .truncate = true, .mscale = 1, .mscale_all_dim = 0.707f, .entries = KVG_DTYPE_BF16},
    };
    static const uint32_t dims[] = {2, 4, 16, 64, 80, 96, 128, 192, 576};
    tally t = {0};
    for (size_t i = 0; i < sizeof scalings / sizeof scalings[0]; i++) {
        for (size_t d = scalings[i].kind == KVG_ROPE_DYNAMIC; d < sizeof dims / sizeof dims[0]; d++) {
            const kvg_rope rope = rope_of(dims[d], scalings[i]);
            compare_rope(&rope, some_positions, dims[d] > 192 ? 4 : SOME_POSITIONS, &t);
        }
    }
    printf("%llu ropes: %llu frequencies, %llu entries equal in every bit\n", (unsigned long long)t.ropes,
           (unsigned long long)t.frequencies, (unsigned long long)t.entries);
    assert_int_equal(t.broken, 0);
}

static float between(uint64_t random, double low, double high)
{
    return (float)(low * exp2((double)(random >> 11) * 0x1p-53 * log2(high / low)));
}

static void test_random_ropes(void **state)
{
    (void)state;
    enum { ROPES = 800 };
    tally t = {0};
    unsigned kinds[KVG_ROPE_END] = {0};
    for (uint32_t n = 0; n < ROPES; n++) {
        uint64_t r[12];
        for (uint64_t i = 0; i < 12; i++) r[i] = kvg_rng_u64(0x726F7065, n, i);
        kvg_rope_scaling s = {.kind = 1 + n % (KVG_ROPE_END - 1), .theta = between(r[0], 2, 0x1p40)};
        if (s.kind != KVG_ROPE_DEFAULT) s.factor = between(r[1], 1, 64);
        if (s.kind >= KVG_ROPE_DYNAMIC) s.original_positions = (float)(uint32_t)between(r[2], 1, 0x1p20);
        if (s.kind == KVG_ROPE_DYNAMIC) s.length = (float)(uint32_t)between(r[3], 1, 0x1p20);
        if (s.kind == KVG_ROPE_LLAMA3) {
            s.low_freq_factor = between(r[4], 0.01, 100);
            s.high_freq_factor = s.low_freq_factor * between(r[5], 1.01, 100);
        }
        if (s.kind == KVG_ROPE_YARN) {
            s.beta_slow = between(r[6], 0.01, 100);
            s.beta_fast = s.beta_slow * between(r[7], 1.01, 100);
            s.truncate = r[8] & 1;
            if (r[8] & 2) s.mscale = between(r[9], 0.1, 2), s.mscale_all_dim = between(r[10], 0.1, 2);
        } else if (r[8] & 4) {
            s.attention_factor = between(r[9], 0.1, 2);
        }
        const kvg_rope rope = rope_of(4 + 2 * (uint32_t)(r[11] % 30), s);
        const uint32_t positions[] = {(uint32_t)(r[0] % 4096), (uint32_t)(r[1] >> 44), 1048576};
        compare_rope(&rope, positions, 3, &t);
        kinds[s.kind]++;
    }
    printf("%llu ropes: %llu frequencies, %llu entries equal in every bit, %llu refused by both\n",
           (unsigned long long)t.ropes, (unsigned long long)t.frequencies, (unsigned long long)t.entries,
           (unsigned long long)t.broken);
    for (int kind = 1; kind < KVG_ROPE_END; kind++) assert_true(kinds[kind] > 100);
    assert_true(t.broken > 0 && t.broken < ROPES / 5);
}

static void compare_angle(float angle, double *least)
{
    float c, s;
    slow_number cos, sin;
    ref_cos_sin(angle, &c, &s);
    slow_cos_sin(slow_decode(&slow_f32, kvg_bits_of_f32(angle)), &cos, &sin);
    assert_int_equal(kvg_bits_of_f32(c), slow_encode(&slow_f32, cos));
    assert_int_equal(kvg_bits_of_f32(s), slow_encode(&slow_f32, sin));
    if (angle > 1) *least = fmin(*least, fmin(fabs((double)c), fabs((double)s)));
}

/* Floats of every size below 2^24, and those next to a multiple of pi/2, where all digits of the angle cancel. */
static void test_angles(void **state)
{
    (void)state;
    double least = 1;
    unsigned near_multiples = 0;
    for (uint32_t n = 0; n < 20000; n++) {
        compare_angle(kvg_f32_of_bits((uint32_t)(kvg_rng_u64(0x616E676C, 0, n) % 0x4B800000u)), &least);
    }
    for (uint32_t k = 1; k < 10000000; k++) {
        const double multiple = k * 0x1.921fb54442d18p0;
        if (fabs(multiple - (double)(float)multiple) > 0x1p-20) continue;
        compare_angle((float)multiple, &least);
        near_multiples++;
    }
    printf("20000 angles and %u next to multiples of pi/2; the least cos or sin is 2^%.1f\n", near_multiples,
           log2(least));
    assert_true(near_multiples > 200 && least < 0x1p-24);
}

/* --- known numbers --- */

static void test_published_numbers(void **state)
{
    (void)state;
    kvg_rope rope = rope_of(64, gpt_oss);
    kvg_rope_numbers n;
    float f[32], row[64];
    assert_int_equal(kvg_reference_rope_numbers(&rope, &n), KVG_OK);
    assert_true(fabsf(n.low - 8.0928f) < 5e-5f);
    assert_true(fabsf(n.low + n.width - 17.3980f) < 5e-5f);
    assert_true(fabsf(n.attention_factor - 1.346574f) < 5e-7f);
    rope.scaling.truncate = true;
    assert_int_equal(kvg_reference_rope_numbers(&rope, &n), KVG_OK);
    assert_true(n.low == 8 && n.width == 10);
    rope.scaling.original_positions = 6; /* just less than one turn: both ends become pair 0 */
    assert_int_equal(kvg_reference_rope_numbers(&rope, &n), KVG_OK);
    assert_true(n.low == 0 && n.width == 0.001f);
    tally t = {0};
    compare_rope(&rope, some_positions, SOME_POSITIONS, &t);

    rope.scaling = dynamic2; /* up to the original length the base is theta itself, exactly */
    rope.scaling.length = 2048;
    assert_int_equal(kvg_reference_rope_numbers(&rope, &n), KVG_OK);
    assert_true(n.base == 10000);
    rope.dims = 4; /* exponent 2, t = 3 */
    rope.scaling.length = 4096;
    assert_int_equal(kvg_reference_rope_numbers(&rope, &n), KVG_OK);
    assert_true(n.base == 90000);
    /* 2 (4097/4096)^2 = 16785409 / 2^23 has 25 bits, the last one set: a tie */
    rope.scaling = (kvg_rope_scaling){.kind = KVG_ROPE_DYNAMIC, .theta = 2, .factor = 1, .original_positions = 4096,
                                      .length = 4097};
    assert_int_equal(kvg_reference_rope_numbers(&rope, &n), KVG_OK);
    assert_true(n.base == 16785408 * 0x1p-23f);
    compare_rope(&rope, some_positions, SOME_POSITIONS, &t);

    rope = rope_of(64, (kvg_rope_scaling){.kind = KVG_ROPE_DEFAULT, .theta = 10000});
    assert_int_equal(kvg_reference_rope_frequencies(&rope, f), KVG_OK);
    assert_true(f[0] == 1 && f[8] == 0.1f && f[16] == 0.01f && f[24] == 0.001f);
    assert_int_equal(kvg_reference_rope_rows(&rope, f, 0, 1, row), KVG_OK);
    for (int i = 0; i < 64; i++) assert_int_equal(kvg_bits_of_f32(row[i]), i % 2 ? 0 : 0x3F800000);
    assert_int_equal(kvg_reference_rope_rows(&rope, f, 1, 1, row), KVG_OK);
    assert_int_equal(kvg_bits_of_f32(row[0]), 0x3F0A5140); /* cos 1 = 0.54030230586813971740... */
    assert_int_equal(kvg_bits_of_f32(row[1]), 0x3F576AA4); /* sin 1 = 0.84147098480789650665... */
}

/* The table is its rows, whatever the number of threads. */
static void test_table(void **state)
{
    (void)state;
    kvg_rope rope = rope_of(16, gpt_oss);
    rope.positions = 1000;
    float f[8], *table = malloc(1000 * 16 * sizeof *table), row[16];
    assert_non_null(table);
    assert_int_equal(kvg_reference_rope_table(&rope, table), KVG_OK);
    assert_int_equal(kvg_reference_rope_frequencies(&rope, f), KVG_OK);
    for (uint32_t p = 0; p < 1000; p++) {
        assert_int_equal(kvg_reference_rope_rows(&rope, f, p, 1, row), KVG_OK);
        assert_memory_equal(table + p * 16, row, sizeof row);
    }
    free(table);
}

/* --- how near to a tie --- */

/* Distance of x from the nearest midpoint of two floats, relative to x. */
static double from_tie(ref_dd x)
{
    const uint64_t bits = kvg_bits_of_f64(x.high), place = 1ull << 29; /* a float's last place among a double's bits */
    const double tie = kvg_f64_of_bits((bits & ~(place - 1)) | place >> 1);
    return fabs(((x.high - tie) + x.low) / x.high);
}

static int sweep_angles(uint32_t stride)
{
    const int64_t first = 0x39800000, end = 0x4B800000; /* 2^-12, 2^24 */
    int64_t wrong = 0;
    double least = 1;
#pragma omp parallel for schedule(dynamic, 65536) reduction(min : least) reduction(+ : wrong)
    for (int64_t bits = first; bits < end; bits += stride) {
        const float angle = kvg_f32_of_bits((uint32_t)bits);
        float cos, sin;
        ref_dd c, s;
        ref_cos_sin(angle, &cos, &sin);
        ref_dd_cos_sin(angle, &c, &s);
        least = fmin(least, fmin(from_tie(c), from_tie(s)));
        wrong += cos != ref_dd_to_f32(c) || sin != ref_dd_to_f32(s);
    }
    printf("%lld angles: cos and sin stay 2^%.2f away from a tie, relative, and are known to 2^-80; %lld differ when "
           "double decides\n", (long long)((end - first + stride - 1) / stride), log2(least), (long long)wrong);
    return least > 0x1p-78 && wrong == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--angles") == 0) return sweep_angles((uint32_t)strtoul(argv[2], NULL, 10));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_parameters_are_refused),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_random_ropes),
        cmocka_unit_test(test_angles),
        cmocka_unit_test(test_published_numbers),
        cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
