/* Rows built around every rounding boundary: of the codes, for every scale that a block or row can get, and of the
 * scales themselves. f32 inputs, so that midpoints and their neighbours exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/numbers/ref_round.h"
#include "reference/reference.h"
#include "tests/second/probes.h"
#include "tests/second/test_slowref.h"

static double power_of_two(int exponent)
{
    return kvg_f64_of_bits((uint64_t)(1023 + exponent) << 52);
}

static double value_of(kvg_format format, unsigned code)
{
    return format == KVG_FORMAT_E4M3 ? kvg_ref_f32_of_e4m3((uint8_t)code) : kvg_ref_f32_of_e5m2((uint8_t)code);
}

static void compare_dialect(tally *t, kvg_format format, size_t dialect, float g, probes *p, size_t dim)
{
    storage_case c = {format, kvg_reference_dialect(format, dialect)->name, KVG_DTYPE_F32, g};
    size_t rows = probes_pad(p, dim);
    pair_quantise_f32(t, &c, p->x, rows, dim);
}

static void compare_dialects(tally *t, kvg_format format, float g, probes *p, size_t dim)
{
    for (size_t d = 0; d < kvg_reference_dialect_count(format); d++) compare_dialect(t, format, d, g, p, dim);
}

/* The values of E4M3 or E5M2 and the midpoints between neighbours, in steps of s. */
static void add_fp8(probes *p, kvg_format format, double s, int ulps)
{
    const unsigned largest = format == KVG_FORMAT_E4M3 ? 0x7E : 0x7B;
    for (unsigned code = 0; code <= largest; code++) {
        const double low = value_of(format, code);
        const double high = code == largest ? 2 * low - value_of(format, code - 1) : value_of(format, code + 1);
        probes_add_near(p, low * s, ulps);
        probes_add_near(p, (low + high) / 2 * s, ulps);
    }
}

void test_boundaries_fp8(void **state)
{
    (void)state;
    tally t = {0};
    for (kvg_format format = KVG_FORMAT_E4M3; format <= KVG_FORMAT_E5M2; format++) {
        for (size_t s = 0; s < tensor_scale_count; s++) {
            const float g = kvg_f32_of_bits(tensor_scales[s]);
            probes p = {0};
            add_fp8(&p, format, g, 3);
            compare_dialects(&t, format, g, &p, 64);
            probes_free(&p);
        }
    }
    tally_close(&t, __func__);
}

/* Every scale byte: its own probing elements around amax = 6 * scale * g, and amax around the boundary to the next.
 * Byte 0, where the dialects' guards part, is probed on the grid of byte 1. */
static void add_nvfp4_blocks(probes *p, double g)
{
    for (unsigned byte = 0; byte <= 0x7E; byte++) {
        double sf = kvg_ref_f32_of_e4m3((uint8_t)byte);
        double next = byte < 0x7E ? kvg_ref_f32_of_e4m3((uint8_t)(byte + 1)) : 480;
        probes elements = {0}, few = {0}, maxima = {0};
        probes_add_e2m1(&elements, (byte ? sf : next) * g, 2);
        probes_add_e2m1(&few, (byte ? sf : next) * g, 0);
        if (few.count > 15) few.count = 15; /* one block is enough where the scale is what is tested */
        probes_add_near(&maxima, (sf + next) / 2 * 6 * g, 3);
        probes_add_blocks(p, (float)(6 * (byte ? sf : next / 8) * g), &elements, 16);
        for (size_t i = 0; i < maxima.count; i++) probes_add_blocks(p, maxima.x[i], &few, 16);
        probes_free(&elements);
        probes_free(&few);
        probes_free(&maxima);
    }
}

void test_boundaries_nvfp4(void **state)
{
    (void)state;
    tally t = {0};
    for (size_t s = 0; s < tensor_scale_count; s++) {
        float g = kvg_f32_of_bits(tensor_scales[s]);
        probes p = {0};
        add_nvfp4_blocks(&p, g);
        for (size_t d = 0; d < kvg_reference_dialect_count(KVG_FORMAT_NVFP4); d++) {
            uint8_t seen[256] = {0};
            t.scale_seen = seen;
            compare_dialect(&t, KVG_FORMAT_NVFP4, d, g, &p, 256);
            const char *name = kvg_reference_dialect(KVG_FORMAT_NVFP4, d)->name;
            const unsigned least = strcmp(name, "torchao") == 0 ? 8 : 1;
            for (unsigned byte = least; byte <= 0x7E && s < tensor_scale_extreme; byte++) assert_true(seen[byte]);
        }
        probes_free(&p);
    }
    tally_close(&t, __func__);
}

/* For every binary exponent of amax, mantissas on both sides of every rule's threshold; the elements are probed on the
 * grids of the three exponents that the rules choose among. */
static void add_mx_blocks(probes *p, size_t block)
{
    static const float one_to_two[] = {1, 1.25f, 1.5f, 1.5f + 0x1p-23f, 2 - 0x1p-23f, 1.5f - 0x1p-23f,
                                       1.75f - 0x1p-23f, 1.75f, 1.75f + 0x1p-23f};
    enum { MANTISSAS = sizeof one_to_two / sizeof one_to_two[0], FULLY_PROBED = 5 };
    for (int k = -149; k <= 127; k++) {
        probes elements = {0};
        for (int e = k - 3; e <= k - 1; e++) probes_add_e2m1(&elements, power_of_two(e), 1);
        size_t all = elements.count;
        for (size_t m = 0; m < MANTISSAS; m++) {
            elements.count = m < FULLY_PROBED ? all : block - 1;
            probes_add_blocks(p, (float)(one_to_two[m] * power_of_two(k)), &elements, block);
        }
        probes_free(&elements);
    }
    probes infinite = {0};
    probes_add_e2m1(&infinite, 0x1p125, 1); /* byte 254 */
    probes_add_blocks(p, kvg_f32_of_bits(0x7F800000), &infinite, block);
    probes_free(&infinite);
}

void test_boundaries_mx(void **state)
{
    (void)state;
    tally t = {0};
    for (kvg_format format = KVG_FORMAT_MX16; format <= KVG_FORMAT_MXFP4; format++) {
        uint8_t seen[256] = {0};
        probes p = {0};
        add_mx_blocks(&p, kvg_format_get(format)->block);
        t.scale_seen = seen;
        compare_dialects(&t, format, 1, &p, 256);
        for (unsigned byte = 0; byte <= 254; byte++) assert_true(seen[byte]);
        assert_int_equal(seen[255], format == KVG_FORMAT_MX16); /* SGLang on sm_90 alone writes it */
        probes_free(&p);
    }
    tally_close(&t, __func__);
}

/* A spread of f16 scales, the smallest ones and the largest among them: elements on the grids of the codes, amax around
 * the boundary to the next scale. */
static void add_symmetric_rows(probes *p, double divisor, size_t dim)
{
    enum { LARGEST = 0x7BFF };
    for (unsigned code = 0; code <= LARGEST; code += code < 64 || code + 61 > LARGEST ? 1 : 61) {
        double s = kvg_ref_f32_of_f16((uint16_t)code), above = kvg_ref_f32_of_f16((uint16_t)(code + 1));
        if (code == LARGEST) above = 65536;
        probes elements = {0}, few = {0}, maxima = {0};
        for (int q = 0; q < 7; q++) {
            probes_add_near(&elements, (q + 0.5) * s, 2);
            probes_add_near(&elements, q * s, 1);
        }
        probes_add_e2m1(&elements, s, 2);
        probes_add_e2m1(&few, s, 0);
        probes_add_near(&maxima, (s + above) / 2 * divisor, 2);
        if (code == LARGEST) probes_add(&maxima, 0x1p100f);
        probes_add_blocks(p, (float)(divisor * s), &elements, dim);
        for (size_t i = 0; i < maxima.count; i++) probes_add_blocks(p, maxima.x[i], &few, dim);
        probes_free(&elements);
        probes_free(&few);
        probes_free(&maxima);
    }
}

void test_boundaries_symmetric(void **state)
{
    (void)state;
    tally t = {0};
    for (kvg_format format = KVG_FORMAT_ROWINT4; format <= KVG_FORMAT_ROWFP4; format++) {
        probes p = {0};
        add_symmetric_rows(&p, format == KVG_FORMAT_ROWINT4 ? 7 : 6, 64);
        compare_dialects(&t, format, 1, &p, 64);
        probes_free(&p);
    }
    tally_close(&t, __func__);
}

/* Scales of f32 from the least of a guard to the largest finite one, each with elements on the grid of the codes. */
static void add_f32_rows(probes *p, const kvg_format_info *format, size_t dim)
{
    static const double maxima[] = {0x1p-149, 1e-7, 0.9e-6, 1e-6, 1.1e-6, 1.2e-4, 1.3e-4, 4.4e-4, 4.5e-4,
                                    1e-3,     0.3,  1,      6.9,  127,    448,    1e5,    1e30,   3.4e38};
    for (size_t i = 0; i < sizeof maxima / sizeof maxima[0]; i++) {
        probes elements = {0};
        if (format->codes == KVG_CODES_E4M3) {
            add_fp8(&elements, KVG_FORMAT_E4M3, maxima[i] / 448, 2);
        } else {
            for (int q = 0; q < 255; q++) probes_add_near(&elements, q / 2.0 * maxima[i] / 127, 2);
        }
        probes_add_blocks(p, (float)maxima[i], &elements, dim);
        probes_free(&elements);
    }
}

void test_boundaries_f32_scales(void **state)
{
    (void)state;
    enum { DIM = 64 };
    tally t = {0};
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    for (size_t f = 0; f < count; f++) {
        if (formats[f].scales != KVG_SCALES_F32) continue;
        probes p = {0};
        add_f32_rows(&p, &formats[f], DIM);
        compare_dialects(&t, formats[f].format, 1, &p, DIM);
        probes_free(&p);
    }
    tally_close(&t, __func__);
}

/* 15 for codes of 4 bits, 255 for those of 8. */
static int largest_code(kvg_format format)
{
    return (1 << kvg_format_get(format)->element_bits) - 1;
}

/* One row. Every group begins with min and max. The other elements are all q and q + 1/2 in units of (max - min) / n,
 * then the neighbours of these in the model type, as far as the row holds them: those of 4 bits fit in a short row. */
static void compare_affine_row(tally *t, const storage_case *c, double min, double max)
{
    enum { DIM = 1024, SHORT = 128, MARKS = 2 * 255 };
    const int n = largest_code(c->format);
    const size_t dim = n == 255 ? DIM : SHORT, block = kvg_format_get(c->format)->block, group = block ? block : dim;
    float x[2 + MARKS] = {(float)min, (float)max};
    uint16_t type[2 + MARKS], row[DIM];
    const size_t marks = 2 * (size_t)n;
    for (int mark = 0; mark < 2 * n; mark++) x[2 + mark] = (float)(min + mark / 2.0 * (max - min) / n);
    kvg_reference_store(c->dtype, x, 2 + marks, type);
    kvg_reference_load(c->dtype, type, 2, x);
    for (size_t i = 0, next = 0; i < dim; i++) {
        uint16_t bits = type[i % group < 2 ? i % group : 0];
        if (i % group >= 2 && next < 3 * marks) {
            bits = type[2 + next % marks];
            const uint16_t step[] = {0, UINT16_MAX, 1}; /* the mark, below it, above it */
            if ((bits & 0x7FFF) != 0) bits = (uint16_t)(bits + step[next / marks]);
            next++;
        }
        float value;
        kvg_reference_load(c->dtype, &bits, 1, &value);
        row[i] = value < x[0] ? type[0] : value > x[1] ? type[1] : bits; /* one outside would move the extremes */
    }
    pair_quantise(t, c, row, 1, dim);
}

static void compare_affine(tally *t, const storage_case *c, const void *context)
{
    (void)context;
    static const double extremes[][2] = {
        {-1, 2},         {0, 1},           {-3.5, 3.5},      {0.1, 0.3},       {-65504, 65504}, {1000, 1001},
        {-1e-6, 1e-6},   {-1e-7, 3e-7},    {5, 5.004},       {-448, 12},       {-0.0, 0x1p-14}, {0x1p-14, 0x1p-13},
        {3e-5, 4e-3},    {0, 9.7e-4},      {0, 0.0039},      {-30000, 65504},  {-1, 1e-7},      {0, 60000},
        {-0x1p-24, 0},   {0, 0x1p-20},     {-2e38, 3e38},    {-1e-38, 1e-38},  {1e-40, 3e-39},  {-7, 8},
    };
    for (size_t i = 0; i < sizeof extremes / sizeof extremes[0]; i++) {
        compare_affine_row(t, c, extremes[i][0], extremes[i][1]);
    }
    /* Ranges that are n times a midpoint m between neighbouring scales: the order of the roundings decides. The upper
     * digits of n * m are the maximum and the rest is the minimum, so that both are of the type. */
    int digits = c->dtype == KVG_DTYPE_F16 ? 11 : 8, n = largest_code(c->format);
    for (int i = 0; i < 1 << (digits - 1); i++) {
        int range = n * ((1 << digits) + 2 * i + 1), low = range % (n == 255 ? 256 : 32);
        compare_affine_row(t, c, -low * power_of_two(-digits), (range - low) * power_of_two(-digits));
    }
    for (uint64_t i = 0; i < 200; i++) {
        double a = (double)(kvg_rng_u64(SEED, 6, i) >> 40) / 0x1p20 - 8; /* [-8, 8) */
        double b = (double)(kvg_rng_u64(SEED, 7, i) >> 40) / 0x1p20 - 8;
        double unit = power_of_two((int)kvg_rng_below(SEED, 8, i, 36) - 24);
        compare_affine_row(t, c, (a < b ? a : b) * unit, (a < b ? b : a) * unit);
    }
}

static bool is_affine(const kvg_format_info *format)
{
    return format->scales == KVG_SCALES_AFFINE;
}

void test_boundaries_affine(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, is_affine, compare_affine, NULL);
    tally_close(&t, __func__);
}
