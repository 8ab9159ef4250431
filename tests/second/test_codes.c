/* Every code decoded, and every conversion at its rounding boundaries: docs/spec/formats.md section 2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"
#include "reference/numbers/ref_round.h"
#include "reference/reference.h"
#include "second/slow_convert.h"
#include "tests/second/conversions.h"
#include "tests/second/pair.h"
#include "tests/second/probes.h"
#include "tests/second/test_slowref.h"

static void check(tally *t, const char *what, uint64_t input, uint64_t golden, uint64_t slow)
{
    t->compared++;
    if (golden == slow) return;
    if (t->differing++ < 40) {
        print_error("  %s of 0x%llX: golden 0x%llX, slow 0x%llX\n", what, (unsigned long long)input,
                    (unsigned long long)golden, (unsigned long long)slow);
    }
}

static uint64_t slow_as_f32(const slow_layout *layout, uint64_t code)
{
    return slow_encode(&slow_f32, slow_decode(layout, code));
}

void test_every_code(void **state)
{
    (void)state;
    tally t = {0};
    for (unsigned c = 0; c < 16; c++) {
        check(&t, "e2m1", c, kvg_bits_of_f32(kvg_ref_f32_of_e2m1((uint8_t)c)), slow_as_f32(&slow_e2m1, c));
    }
    for (unsigned c = 0; c < 256; c++) {
        uint8_t code = (uint8_t)c;
        check(&t, "e4m3", c, kvg_bits_of_f32(kvg_ref_f32_of_e4m3(code)), slow_as_f32(&slow_e4m3, c));
        check(&t, "e5m2", c, kvg_bits_of_f32(kvg_ref_f32_of_e5m2(code)), slow_as_f32(&slow_e5m2, c));
        check(&t, "e8m0", c, kvg_bits_of_f32(kvg_ref_f32_of_e8m0(code)),
              slow_encode(&slow_f32, slow_e8m0_decode(code)));
    }
    for (unsigned c = 0; c < 65536; c++) {
        uint16_t code = (uint16_t)c;
        check(&t, "f16", c, kvg_bits_of_f32(kvg_ref_f32_of_f16(code)), slow_as_f32(&slow_f16, c));
        check(&t, "bf16", c, kvg_bits_of_f32(kvg_ref_f32_of_bf16(code)), slow_as_f32(&slow_bf16, c));
        check(&t, "f16 to f16", c, kvg_ref_f16_of_f32(kvg_ref_f32_of_f16(code)), c);
        check(&t, "bf16 to bf16", c, kvg_ref_bf16_of_f32(kvg_ref_f32_of_bf16(code)), c);
    }
    tally_close(&t, __func__);
}

static void check_conversions(tally *t, uint32_t magnitude)
{
    for (uint32_t sign = 0; sign < 2; sign++) {
        uint32_t bits = magnitude | sign << 31;
        const char *name = conversions_differ(bits);
        t->compared += CONVERSION_COUNT;
        if (name && t->differing++ < 40) print_error("  %s of 0x%08X differs\n", name, bits);
    }
}

/* Code values and midpoints of `layout` between neighbours, up to where the one above the largest would be. */
static double boundary(const slow_layout *layout, uint64_t code, double beyond)
{
    double low = kvg_f32_of_bits((uint32_t)slow_as_f32(layout, code));
    double high = code == layout->largest ? beyond : kvg_f32_of_bits((uint32_t)slow_as_f32(layout, code + 1));
    return (low + high) / 2;
}

void test_conversion_boundaries(void **state)
{
    (void)state;
    static const struct {
        const slow_layout *layout;
        double beyond;
    } layouts[] = {
        {&slow_e2m1, 8}, {&slow_e4m3, 480}, {&slow_e5m2, 65536}, {&slow_f16, 65536}, {&slow_bf16, 0x1p128},
    };
    tally t = {0};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        probes p = {0};
        for (uint64_t code = 0; code <= layouts[i].layout->largest; code++) {
            probes_add_near(&p, kvg_f32_of_bits((uint32_t)slow_as_f32(layouts[i].layout, code)), 1);
            probes_add_near(&p, boundary(layouts[i].layout, code, layouts[i].beyond), 1);
        }
        for (size_t j = 0; j < p.count; j++) check_conversions(&t, kvg_bits_of_f32(p.x[j]));
        probes_free(&p);
    }
    for (size_t i = 0; i < special_count; i++) check_conversions(&t, special_values[i] & 0x7FFFFFFF);
    for (uint32_t i = 0; i < 1000000; i++) check_conversions(&t, (uint32_t)kvg_rng_u64(SEED, 1, i) & 0x7FFFFFFF);
    tally_close(&t, __func__);
}

/* 16 bits from binary64: NaN gives 0x7FFF (reference/numbers/ref_round.h). */
static void check_f64(tally *t, double x)
{
    static const slow_layout f64 = {11, 52, 0x7FEFFFFFFFFFFFFF, SLOW_IEEE};
    uint64_t bits = kvg_bits_of_f64(x);
    slow_number n = slow_decode(&f64, bits);
    if (n.kind == SLOW_NAN) n = slow_nan();
    check(t, "f16 from f64", bits, kvg_ref_f16_of_f64(x), slow_encode(&slow_f16, n));
    check(t, "bf16 from f64", bits, kvg_ref_bf16_of_f64(x), slow_encode(&slow_bf16, n));
}

void test_conversions_from_f64(void **state)
{
    (void)state;
    tally t = {0};
    const struct {
        const slow_layout *layout;
        double beyond;
    } layouts[] = {{&slow_f16, 65536}, {&slow_bf16, 0x1p128}};
    for (size_t i = 0; i < 2; i++) {
        for (uint64_t code = 0; code <= layouts[i].layout->largest; code++) {
            uint64_t middle = kvg_bits_of_f64(boundary(layouts[i].layout, code, layouts[i].beyond));
            for (uint64_t bits = middle - 1; bits <= middle + 1; bits++) {
                check_f64(&t, kvg_f64_of_bits(bits));
                check_f64(&t, kvg_f64_of_bits(bits | (uint64_t)1 << 63));
            }
        }
    }
    static const uint64_t specials[] = {0,
                                        0x8000000000000000,
                                        1,
                                        0x7FF0000000000000,
                                        0xFFF0000000000000,
                                        0x7FF8000000000000,
                                        0xFFF0000000000001,
                                        0x7FEFFFFFFFFFFFFF};
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) check_f64(&t, kvg_f64_of_bits(specials[i]));
    for (uint64_t i = 0; i < 200000; i++) {
        uint64_t bits = kvg_rng_u64(SEED, 2, i);
        uint64_t near_one = (bits & 0x800FFFFFFFFFFFFF) | (0x3FF - 150 + bits % 300) << 52;
        check_f64(&t, kvg_f64_of_bits(bits));
        check_f64(&t, kvg_f64_of_bits(near_one));
    }
    tally_close(&t, __func__);
}

void test_load_and_store(void **state)
{
    (void)state;
    static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16};
    enum { COUNT = 65536 };
    uint16_t *codes = malloc(COUNT * sizeof *codes), *back = malloc(COUNT * sizeof *back);
    float *wide = malloc(COUNT * sizeof *wide), *same = malloc(COUNT * sizeof *same);
    tally t = {0};
    for (size_t d = 0; d < 2; d++) {
        for (unsigned c = 0; c < COUNT; c++) codes[c] = (uint16_t)c;
        kvg_reference_load(dtypes[d], codes, COUNT, wide);
        kvg_reference_store(dtypes[d], wide, COUNT, back);
        kvg_reference_load(KVG_DTYPE_F32, wide, COUNT, same);
        for (unsigned c = 0; c < COUNT; c++) {
            check(&t, "load", c, kvg_bits_of_f32(wide[c]), slow_as_f32(slow_layout_of(dtypes[d]), c));
            check(&t, "load f32", c, kvg_bits_of_f32(same[c]), kvg_bits_of_f32(wide[c]));
            check(&t, "store", c, back[c], c);
        }
        for (unsigned c = 0; c < COUNT; c++) wide[c] = kvg_f32_of_bits((uint32_t)kvg_rng_u64(SEED, 3, c));
        kvg_reference_store(dtypes[d], wide, COUNT, back);
        kvg_reference_store(KVG_DTYPE_F32, wide, COUNT, same);
        for (unsigned c = 0; c < COUNT; c++) {
            uint32_t bits = kvg_bits_of_f32(wide[c]);
            check(&t, "store", bits, back[c], slow_encode(slow_layout_of(dtypes[d]), slow_decode(&slow_f32, bits)));
            check(&t, "store f32", bits, kvg_bits_of_f32(same[c]), bits);
        }
    }
    free(codes);
    free(back);
    free(wide);
    free(same);
    tally_close(&t, __func__);
}

/* Section 9. The conversion is the exact ratio and one rounding. */
void test_scale_conventions(void **state)
{
    (void)state;
    static const int divisors[] = {[KVG_SCALE_P1] = 2688, [KVG_SCALE_P2] = 448, [KVG_SCALE_P3] = 6};
    tally t = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)kvg_rng_u64(SEED, 4, i) & 0x7FFFFFFF;
        if (bits == 0 || bits > 0x7F7FFFFF) continue;
        float x = kvg_f32_of_bits(bits), got;
        slow_number n = slow_decode(&slow_f32, bits);
        for (int from = KVG_SCALE_P1; from <= KVG_SCALE_P3; from++) {
            uint64_t g = slow_encode(&slow_f32, slow_divide(n, slow_scaled(divisors[from], 0)));
            if (kvg_scale_from_amax(from, x, &got) == KVG_OK) check(&t, "scale", bits, kvg_bits_of_f32(got), g);
            for (int to = KVG_SCALE_P1; to <= KVG_SCALE_P3; to++) {
                slow_number numerator = slow_multiply(n, slow_scaled(divisors[from], 0));
                slow_number converted = slow_divide(numerator, slow_scaled(divisors[to], 0));
                if (kvg_scale_convert(from, to, x, &got) != KVG_OK) continue;
                check(&t, "converted scale", bits, kvg_bits_of_f32(got), slow_encode(&slow_f32, converted));
            }
        }
        assert_int_equal(kvg_scale_from_amax(KVG_SCALE_P4, x, &got), KVG_OK);
        check(&t, "P4", bits, kvg_bits_of_f32(got), 0x3F800000);
    }
    tally_close(&t, __func__);
}
