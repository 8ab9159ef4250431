/* Rows built around every rounding boundary: of the codes, for every scale that a block or row can get, and of the
 * scales themselves. f32 inputs, so that midpoints and their neighbours exist. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

/* Every code value and midpoint between neighbours. */
void test_boundaries_fp8(void **state)
{
    (void)state;
    tally t = {0};
    for (kvg_format format = KVG_FORMAT_E4M3; format <= KVG_FORMAT_E5M2; format++) {
        unsigned largest = format == KVG_FORMAT_E4M3 ? 0x7E : 0x7B;
        for (size_t s = 0; s < tensor_scale_count; s++) {
            double g = kvg_f32_of_bits(tensor_scales[s]);
            probes p = {0};
            for (unsigned code = 0; code <= largest; code++) {
                double low = value_of(format, code);
                double high = code == largest ? 2 * low - value_of(format, code - 1) : value_of(format, code + 1);
                probes_add_near(&p, low * g, 3);
                probes_add_near(&p, (low + high) / 2 * g, 3);
            }
            compare_dialects(&t, format, (float)g, &p, 64);
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
            for (unsigned byte = 1; byte <= 0x7E && s < tensor_scale_extreme; byte++) assert_true(seen[byte]);
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
        assert_false(seen[255]);
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

/* One row: min and max, then all q and q + 1/2 in units of (max - min) / n, and their neighbours in the model type. */
static void compare_affine_row(tally *t, const storage_case *c, double min, double max)
{
    enum { DIM = 1024, NEIGHBOURS = 3 };
    int n = c->format == KVG_FORMAT_INT8 ? 255 : 15;
    float x[DIM];
    uint16_t row[DIM];
    size_t count = 0;
    x[count++] = (float)min;
    x[count++] = (float)max;
    for (int q = 0; q < n; q++) {
        for (int half = 0; half < 2; half++) x[count++] = (float)(min + (q + half / 2.0) * (max - min) / n);
    }
    kvg_reference_store(c->dtype, x, count, row);
    for (size_t i = 2, end = count; i < end; i++) {
        for (int step = -1; step <= 1; step += 2) {
            if (count < DIM && (row[i] & 0x7FFF) != 0) row[count++] = (uint16_t)(row[i] + step);
        }
    }
    while (count < DIM) row[count++] = row[0];
    kvg_reference_load(c->dtype, row, DIM, x);
    for (size_t i = 2; i < DIM; i++) { /* a neighbour outside would move the extremes */
        if (x[i] < x[0]) row[i] = row[0];
        if (x[i] > x[1]) row[i] = row[1];
    }
    pair_quantise(t, c, row, 1, DIM);
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
    int digits = c->dtype == KVG_DTYPE_F16 ? 11 : 8, n = c->format == KVG_FORMAT_INT8 ? 255 : 15;
    for (int i = 0; i < 1 << (digits - 1); i++) {
        int range = n * ((1 << digits) + 2 * i + 1), low = range % (c->format == KVG_FORMAT_INT8 ? 256 : 32);
        compare_affine_row(t, c, -low * power_of_two(-digits), (range - low) * power_of_two(-digits));
    }
    for (uint64_t i = 0; i < 200; i++) {
        double a = (double)(kvg_rng_u64(SEED, 6, i) >> 40) / 0x1p20 - 8; /* [-8, 8) */
        double b = (double)(kvg_rng_u64(SEED, 7, i) >> 40) / 0x1p20 - 8;
        double unit = power_of_two((int)kvg_rng_below(SEED, 8, i, 36) - 24);
        compare_affine_row(t, c, (a < b ? a : b) * unit, (a < b ? b : a) * unit);
    }
}

void test_boundaries_affine(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, KVG_FORMAT_INT8, KVG_FORMAT_INT4, compare_affine, NULL);
    tally_close(&t, __func__);
}
