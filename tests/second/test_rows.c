/* Rows that no boundary analysis suggests: special values side by side, every 16-bit value, random bits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/bits.h"
#include "tests/core/whole_blocks.h"
#include "tests/second/probes.h"
#include "tests/second/test_slowref.h"

/* Values in rows of `dim`, and of more where a format's block is larger. */
typedef struct rows {
    probes p;
    uint32_t dim;
} rows;

static void compare_rows(tally *t, const storage_case *c, const void *context)
{
    const rows *r = context;
    const uint32_t dim = whole_blocks(r->dim, c->format);
    pair_quantise_f32(t, c, r->p.x, r->p.count / dim, dim);
}

/* The zeros at the end fill the last row of any format, so that no value is left out. */
static void compare_everywhere(tally *t, rows *r)
{
    for (size_t i = 0; i < KVG_MAX_HEAD_DIM; i++) probes_add(&r->p, 0);
    for_every_case(t, NULL, compare_rows, r);
    probes_free(&r->p);
}

/* Rows that are one special value but for one element, which is another. */
void test_special_values(void **state)
{
    (void)state;
    enum { DIM = 32 };
    tally t = {0};
    rows r = {.dim = DIM};
    for (size_t most = 0; most < special_count; most++) {
        for (size_t other = 0; other < special_count; other++) {
            for (size_t i = 0; i < DIM; i++) {
                probes_add(&r.p, kvg_f32_of_bits(special_values[i == (most + other) % DIM ? other : most]));
            }
        }
    }
    compare_everywhere(&t, &r);
    tally_close(&t, __func__);
}

typedef struct raw_rows {
    const uint16_t *values;
    size_t count;
    uint32_t dim;
} raw_rows;

static void compare_raw(tally *t, const storage_case *c, const void *context)
{
    const raw_rows *r = context;
    const uint32_t dim = whole_blocks(r->dim, c->format);
    if (c->dtype != KVG_DTYPE_F32) pair_quantise(t, c, r->values, r->count / dim, dim);
}

/* Neighbouring codes in one row, so that a block shares its exponent; then codes far apart. */
void test_every_f16_and_bf16(void **state)
{
    (void)state;
    enum { COUNT = 32768, DIM = 128 }; /* V has the other sign */
    static const uint16_t strides[] = {1, 8085};
    static uint16_t values[COUNT];
    tally t = {0};
    for (size_t s = 0; s < sizeof strides / sizeof strides[0]; s++) {
        for (unsigned i = 0; i < COUNT; i++) values[i] = (uint16_t)(i * strides[s] % COUNT);
        raw_rows r = {values, COUNT, DIM};
        for_every_case(&t, NULL, compare_raw, &r);
    }
    tally_close(&t, __func__);
}

void test_random_rows(void **state)
{
    (void)state;
    tally t = {0};
    for (random_kind kind = 0; kind < RANDOM_KINDS; kind++) {
        rows r = {.dim = 64};
        probes_add_random(&r.p, kind, 10 + kind, 128, r.dim);
        compare_everywhere(&t, &r);
    }
    tally_close(&t, __func__);
}
