#include "tests/second/probes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/bits.h"
#include "core/rng.h"

const uint32_t special_values[] = {
    0x00000000, 0x80000000, /* zeros */
    0x7F800000, 0xFF800000, /* Inf */
    0x7FC00000, 0xFFC00000, /* quiet NaN */
    0x7F800001, 0xFF800001, /* signalling NaN, payload lost in 16 bits */
    0x7F802000, 0xFF812345, /* the same, payload kept by f16, by both */
    0x00000001, 0x80000003, 0x007FFFFF, /* f32 subnormals */
    0x00800000, 0x80800001,             /* smallest normals */
    0x33800000, 0x387FC000, 0xB8800000, /* f16 subnormals and smallest normal */
    0x7F7FFFFF, 0xFF7FFFFF, 0x7E800000, /* huge */
    0x477FE000, 0xC77FF000,             /* 65504 and the tie to Inf beyond it */
    0x3F800000, 0xBF800000, 0x40C00000, 0x3E800000, 0xC0E00000, 0x43E00000, /* 1, -1, 6, 0.25, -7, 448 */
};
const size_t special_count = sizeof special_values / sizeof special_values[0];

const uint32_t tensor_scales[] = {
    0x3F800000, /* 1 */
    0x3D36DB6E, /* 20/448 */
    0x3BF3CF3D, /* 20/2688 */
    0x3F400000, /* 0.75 */
    0x411D70A4, /* 9.84 */
    0x3A83126F, /* 0.001 */
    0x00000001, 0x00000005, 0x00123457, 0x00800000, /* subnormal: S is Inf, rcp too; smallest normal */
    0x01000001, 0x7E000001,                         /* where a reciprocal is about to become subnormal */
    0x7E800000, 0x7F000003, 0x7F7FFFFF,             /* the reciprocal is subnormal; 6g is Inf */
};
const size_t tensor_scale_count = sizeof tensor_scales / sizeof tensor_scales[0];
const size_t tensor_scale_extreme = 6;

void probes_add(probes *p, float x)
{
    if (p->count == p->capacity) {
        p->capacity = p->capacity ? 2 * p->capacity : 1024;
        p->x = realloc(p->x, p->capacity * sizeof *p->x);
        assert_non_null(p->x);
    }
    p->x[p->count++] = x;
}

void probes_free(probes *p)
{
    free(p->x);
    *p = (probes){0};
}

void probes_add_near(probes *p, double x, int ulps)
{
    int64_t bits = kvg_bits_of_f32((float)x);
    for (int64_t i = bits - ulps; i <= bits + ulps; i++) {
        if (i >= 0 && i <= 0x7F7FFFFF) probes_add(p, kvg_f32_of_bits((uint32_t)i));
    }
}

void probes_add_e2m1(probes *p, double step, int ulps)
{
    static const double marks[] = {0.25, 0.5,  0.75, 1,    1.25, 1.5,  1.75, 2, 2.25,
                                   2.5,  2.75, 3,    3.25, 3.5,  3.75, 4,    5, 6};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) probes_add_near(p, marks[i] * step, ulps);
}

void probes_add_blocks(probes *p, float amax, const probes *candidates, size_t block)
{
    for (size_t next = 0; next < candidates->count;) {
        probes_add(p, amax);
        for (size_t i = 1; i < block; i++, next++) {
            float x = next < candidates->count ? candidates->x[next] : 0;
            if (x > amax) x = amax;
            probes_add(p, i % 2 ? -x : x);
        }
    }
}

size_t probes_pad(probes *p, size_t dim)
{
    while (p->count % dim != 0) probes_add(p, 0);
    return p->count / dim;
}

void probes_add_random(probes *p, random_kind kind, uint64_t stream, size_t rows, size_t dim)
{
    for (size_t r = 0; r < rows; r++) {
        /* 2^-30 ... 2^17: the range of f16 and a little more */
        uint32_t exponent = 127 - 30 + (uint32_t)kvg_rng_below(SEED, stream, r * (dim + 1), 48);
        float unit = kvg_f32_of_bits(exponent << 23);
        for (size_t i = 0; i < dim; i++) {
            uint64_t bits = kvg_rng_u64(SEED, stream, r * (dim + 1) + 1 + i);
            float wide = (float)((int64_t)(bits >> 32) - 0x80000000) / 0x10000000; /* (-8, 8) */
            float coarse = (float)((int)(bits >> 57) - 64) / 8;
            probes_add(p, kind == RANDOM_BITS     ? kvg_f32_of_bits((uint32_t)bits)
                          : kind == RANDOM_SPREAD ? wide * unit
                                                  : coarse * unit);
        }
    }
}
