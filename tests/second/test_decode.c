/* Every code with every scale, dequantised by both references. Each row is one scale and all the codes, so that the
 * pairs are complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/rng.h"
#include "tests/core/whole_blocks.h"
#include "tests/second/probes.h"
#include "tests/second/test_slowref.h"

/* 16 nibbles 0 ... 15, repeated. */
static void fill_nibbles(uint8_t *codes, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) codes[i] = (uint8_t)((2 * i % 16) | (2 * i % 16 + 1) << 4);
}

/* A block for each of the 256 scale bytes, and 256 codes for a format of whole bytes. */
static void decode_bytes(tally *t, const storage_case *c, const void *context)
{
    (void)context;
    enum { MAX_BLOCK = 32, DIM = 256 };
    const kvg_format_info *format = kvg_format_get(c->format);
    uint8_t codes[256 * MAX_BLOCK / 2], scales[256];
    for (size_t i = 0; i < 256; i++) scales[i] = (uint8_t)i;
    if (format->block == 0) {
        pair_dequantise(t, c, scales, NULL, 1, DIM);
    } else {
        fill_nibbles(codes, sizeof codes);
        pair_dequantise(t, c, codes, scales, format->block, DIM);
    }
}

static bool has_tensor_scale(const kvg_format_info *format)
{
    return format->tensor_scale;
}

static bool has_powers_of_two(const kvg_format_info *format)
{
    return format->scales == KVG_SCALES_E8M0;
}

static bool has_f16_scales(const kvg_format_info *format)
{
    return format->scales == KVG_SCALES_F16;
}

static bool has_f32_scales(const kvg_format_info *format)
{
    return format->scales == KVG_SCALES_F32;
}

static bool is_affine(const kvg_format_info *format)
{
    return format->scales == KVG_SCALES_AFFINE;
}

void test_decode_tensor_scale_formats(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, has_tensor_scale, decode_bytes, NULL);
    tally_close(&t, __func__);
}

void test_decode_mx(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, has_powers_of_two, decode_bytes, NULL);
    tally_close(&t, __func__);
}

/* Every f16 as the scale of a row of all 16 codes. */
static void decode_symmetric(tally *t, const storage_case *c, const void *context)
{
    (void)context;
    enum { ROWS = 65536, DIM = 16 };
    uint8_t *codes = malloc(ROWS * DIM / 2), *scales = malloc(ROWS * 2);
    assert_true(codes && scales);
    fill_nibbles(codes, ROWS * DIM / 2);
    for (size_t i = 0; i < ROWS; i++) {
        scales[2 * i] = (uint8_t)i;
        scales[2 * i + 1] = (uint8_t)(i >> 8);
    }
    pair_dequantise(t, c, codes, scales, ROWS, DIM);
    free(codes);
    free(scales);
}

void test_decode_symmetric(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, has_f16_scales, decode_symmetric, NULL);
    tally_close(&t, __func__);
}

/* Rows of all 256 codes: scales at the ends of the range of f32, and random ones. */
static void decode_f32_scales(tally *t, const storage_case *c, const void *context)
{
    (void)context;
    enum { RANDOM = 1000, DIM = 256 };
    const size_t rows = special_count + RANDOM;
    uint8_t *codes = malloc(rows * DIM), *scales = malloc(rows * 4);
    assert_true(codes && scales);
    for (size_t i = 0; i < rows * DIM; i++) codes[i] = (uint8_t)i;
    for (size_t r = 0; r < rows; r++) {
        uint32_t bits = r < special_count ? special_values[r] : (uint32_t)kvg_rng_u64(SEED, 15, r);
        for (int byte = 0; byte < 4; byte++) scales[4 * r + byte] = (uint8_t)(bits >> 8 * byte);
    }
    pair_dequantise(t, c, codes, scales, rows, DIM);
    free(codes);
    free(scales);
}

void test_decode_f32_scales(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, has_f32_scales, decode_f32_scales, NULL);
    tally_close(&t, __func__);
}

/* Every q with pairs of parameters: the specials of the 16-bit types and random ones of related magnitude, where the
 * single rounding of q * scale + min and two roundings part. The groups of a row have the same parameters. */
static void decode_affine(tally *t, const storage_case *c, const void *context)
{
    (void)context;
    static const uint16_t specials[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF,
                                        0xFBFF, 0x7C00, 0xFC00, 0x7C01, 0x7E00, 0xFE00, 0x7F7F, 0xFF7F, 0x7F80,
                                        0xFF80, 0x7F81, 0x7FFF, 0xFFFF, 0x3266, 0x2206, 0x0080, 0x0180};
    enum { SPECIALS = sizeof specials / sizeof specials[0], RANDOM = 1500, ROWS = SPECIALS * SPECIALS + RANDOM };
    const uint32_t bits_of_code = kvg_format_get(c->format)->element_bits;
    const uint32_t dim = whole_blocks(1u << bits_of_code, c->format);
    const size_t code_bytes = kvg_format_code_bytes(c->format, dim);
    const size_t scale_bytes = kvg_format_scale_bytes(c->format, dim);
    uint8_t *codes = malloc(ROWS * code_bytes), *scales = malloc(ROWS * scale_bytes);
    assert_true(codes && scales);
    for (size_t r = 0; r < ROWS; r++) {
        uint64_t bits = kvg_rng_u64(SEED, 5, r);
        unsigned exponent = 1u << (c->dtype == KVG_DTYPE_F16 ? 10 : 7);
        uint16_t scale = (uint16_t)bits, second = (uint16_t)(scale + (bits >> 16) % 16 * exponent);
        if (r % 2) second ^= 0x8000;
        if (r < SPECIALS * SPECIALS) {
            scale = specials[r / SPECIALS];
            second = specials[r % SPECIALS];
        }
        for (uint8_t *to = scales + scale_bytes * r; to < scales + scale_bytes * (r + 1); to += 4) {
            to[0] = (uint8_t)scale;
            to[1] = (uint8_t)(scale >> 8);
            to[2] = (uint8_t)second;
            to[3] = (uint8_t)(second >> 8);
        }
        if (bits_of_code == 4) {
            fill_nibbles(codes + r * code_bytes, code_bytes);
        } else {
            for (size_t i = 0; i < code_bytes; i++) codes[r * code_bytes + i] = (uint8_t)i;
        }
    }
    pair_dequantise(t, c, codes, scales, ROWS, dim);
    free(codes);
    free(scales);
}

void test_decode_affine(void **state)
{
    (void)state;
    tally t = {0};
    for_every_case(&t, is_affine, decode_affine, NULL);
    tally_close(&t, __func__);
}
