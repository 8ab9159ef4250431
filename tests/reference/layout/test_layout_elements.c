/* Inside a row: every bit of the code bytes belongs to one element, every element has its bits, and they lie where
 * docs/spec/formats.md says, for readers and for writers. Seen from outside: one bit or one element is changed at a
 * time. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "reference/reference.h"

enum { ROWS = 257 }; /* of a call: the row as it was, then one change in each */

static const uint32_t dims[] = {16, 32, 64, 80, 96, 112, 128, 192, 256, 512, 576};
enum { DIMS = sizeof dims / sizeof dims[0] };

/* Rows of K; V rides along. */
typedef struct bench {
    kvg_problem p;
    size_t code_bytes, scale_bytes;
    float *values;          /* [ROWS][D] */
    uint8_t *codes, *scales; /* [ROWS][bytes] */
    void *stored;           /* values in the model type */
} bench;

static kvg_tensor tensor_of(const kvg_problem *p, kvg_role role, void *data)
{
    kvg_tensor t = kvg_problem_tensor(p, role, KVG_K);
    t.data = t.bytes ? data : NULL;
    return t;
}

/* Runs quantise (values to codes and scales) or dequantise (back). */
static void run(bench *b, kvg_op op)
{
    float g = 1;
    b->p.op = op;
    const kvg_tensor v = tensor_of(&b->p, KVG_ROLE_VALUES, b->stored), c = tensor_of(&b->p, KVG_ROLE_CODES, b->codes);
    const kvg_tensor s = tensor_of(&b->p, KVG_ROLE_SCALES, b->scales), t = tensor_of(&b->p, KVG_ROLE_TENSOR_SCALE, &g);
    const size_t count = (size_t)b->p.tokens * b->p.head_dim;
    if (op == KVG_OP_QUANTISE) {
        kvg_reference_store(b->p.dtype, b->values, count, b->stored);
        assert_int_equal(kvg_reference_run(&b->p, (kvg_tensor[]){v, v, t, t}, (kvg_tensor[]){c, c, s, s}), KVG_OK);
    } else {
        assert_int_equal(kvg_reference_run(&b->p, (kvg_tensor[]){c, c, s, s, t, t}, (kvg_tensor[]){v, v}), KVG_OK);
        kvg_reference_load(b->p.dtype, b->stored, count, b->values);
    }
}

static bench bench_open(kvg_format format, const char *dialect, uint32_t dim)
{
    bench b = {.p = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .tokens = ROWS, .kv_heads = 1, .head_dim = dim}};
    b.p.dtype = kvg_format_get(format)->scales == KVG_SCALES_AFFINE ? KVG_DTYPE_F16 : KVG_DTYPE_F32;
    b.p.storage[KVG_K] = b.p.storage[KVG_V] = (kvg_storage){format, dialect};
    assert_int_equal(kvg_problem_check(&b.p), KVG_OK);
    b.code_bytes = kvg_format_code_bytes(format, dim);
    b.scale_bytes = kvg_format_scale_bytes(format, dim);
    b.values = calloc((size_t)ROWS * dim, sizeof *b.values);
    b.stored = calloc((size_t)ROWS * dim, sizeof *b.values);
    b.codes = calloc(ROWS, b.code_bytes);
    b.scales = calloc(ROWS, b.scale_bytes + 1);
    assert_true(b.values && b.stored && b.codes && b.scales);
    return b;
}

static void bench_close(bench *b)
{
    free(b->values);
    free(b->stored);
    free(b->codes);
    free(b->scales);
}

/* +1 -1 +1 -1 in every row: no element is alone the largest of its block or row. */
static void fill_values(bench *b)
{
    for (size_t i = 0; i < (size_t)ROWS * b->p.head_dim; i++) b->values[i] = i % 2 ? -1.0f : 1.0f;
}

/* Scales of those values; codes that stay finite and change their value with each of their bits. */
static void fill_codes(bench *b)
{
    const uint32_t bits = kvg_format_get(b->p.storage[KVG_K].format)->element_bits;
    fill_values(b);
    run(b, KVG_OP_QUANTISE);
    for (size_t i = 0; i < ROWS * b->code_bytes; i++) {
        b->codes[i] = bits == 4 ? 0x55 : bits == 8 ? 0x34 : i % 2 ? 0x35 : 0x55;
    }
}

/* The page's packing: the element that bit `bit` of a row (bit 0: the lowest of byte 0) belongs to. */
static uint32_t element_of_bit(const bench *b, uint32_t bit)
{
    static const uint32_t turbomind[8] = {0, 2, 4, 6, 1, 3, 5, 7};
    const kvg_storage *s = &b->p.storage[KVG_K];
    const uint32_t bits = kvg_format_get(s->format)->element_bits, unit = bit / bits;
    if (s->format != KVG_FORMAT_INT4) return unit;
    const bool halves = strcmp(s->dialect, "pytorch") == 0 || strncmp(s->dialect, "lmdeploy-", 9) == 0;
    if (halves) return unit / 2 + (unit % 2 ? b->p.head_dim / 2 : 0);
    return unit / 8 * 8 + turbomind[unit % 8];
}

/* Runs `visit` for every format, dialect and head dim that fits; returns how many. */
typedef uint64_t visit_fn(bench *b);

static void for_each_dialect(const char *what, visit_fn *visit)
{
    size_t formats;
    const kvg_format_info *f = kvg_format_table(&formats);
    uint64_t found = 0, combinations = 0;
    for (size_t i = 0; i < formats; i++) {
        for (size_t d = 0; d < kvg_reference_dialect_count(f[i].format); d++) {
            for (size_t n = 0; n < DIMS; n++) {
                if (kvg_format_check_dim(f[i].format, dims[n])) continue;
                bench b = bench_open(f[i].format, kvg_reference_dialect(f[i].format, d)->name, dims[n]);
                found += visit(&b);
                combinations++;
                bench_close(&b);
            }
        }
    }
    printf("%s: %llu, over %llu combinations of format, dialect and head dim\n", what, (unsigned long long)found,
           (unsigned long long)combinations);
}

static bool differs(float a, float b)
{
    return kvg_bits_of_f32(a) != kvg_bits_of_f32(b);
}

/* Reading: flipping one bit changes one element, the one that the page names; each element has all its bits. */
static uint64_t read_bits(bench *b)
{
    const uint32_t D = b->p.head_dim, bits = (uint32_t)b->code_bytes * 8;
    const uint32_t element_bits = kvg_format_get(b->p.storage[KVG_K].format)->element_bits;
    uint32_t owned[KVG_MAX_HEAD_DIM] = {0};
    for (uint32_t first = 0; first < bits; first += ROWS - 1) {
        fill_codes(b);
        for (uint32_t i = 0; i < ROWS - 1 && first + i < bits; i++) {
            b->codes[(i + 1) * b->code_bytes + (first + i) / 8] ^= (uint8_t)(1u << (first + i) % 8);
        }
        run(b, KVG_OP_DEQUANTISE);
        for (uint32_t i = 0; i < ROWS - 1 && first + i < bits; i++) {
            const uint32_t bit = first + i, want = element_of_bit(b, bit);
            for (uint32_t e = 0; e < D; e++) {
                assert_int_equal(differs(b->values[(i + 1) * D + e], b->values[e]), e == want);
            }
            assert_int_equal(kvg_reference_code_dim(&b->p, KVG_K, bit / 8, bit / 4 % 2), want);
            owned[want]++;
        }
    }
    for (uint32_t e = 0; e < D; e++) assert_int_equal(owned[e], element_bits);
    return bits;
}

void test_element_bits(void **state)
{
    (void)state;
    for_each_dialect("bits read", read_bits);
}

/* Writing: changing one element, its block's and row's extremes kept, changes bits of its code and no others. */
static uint64_t write_elements(bench *b)
{
    const uint32_t D = b->p.head_dim;
    for (uint32_t first = 0; first < D; first += ROWS - 1) {
        fill_values(b);
        for (uint32_t i = 0; i < ROWS - 1 && first + i < D; i++) b->values[(i + 1) * D + first + i] *= 0.5f;
        run(b, KVG_OP_QUANTISE);
        for (uint32_t i = 0; i < ROWS - 1 && first + i < D; i++) {
            uint32_t changed = 0;
            for (uint32_t bit = 0; bit < b->code_bytes * 8; bit++) {
                const int flip = b->codes[(i + 1) * b->code_bytes + bit / 8] ^ b->codes[bit / 8];
                if ((flip >> bit % 8 & 1) == 0) continue;
                assert_int_equal(element_of_bit(b, bit), first + i);
                changed++;
            }
            assert_true(changed > 0);
            assert_memory_equal(b->scales + (i + 1) * b->scale_bytes, b->scales, b->scale_bytes);
        }
    }
    return D;
}

void test_written_elements(void **state)
{
    (void)state;
    for_each_dialect("elements written", write_elements);
}

/* Block scales in block order: the bytes of scale s decide the elements of block s and no others; a row parameter no
 * other row's. */
static uint64_t read_scales(bench *b)
{
    const kvg_format_info *f = kvg_format_get(b->p.storage[KVG_K].format);
    const uint32_t D = b->p.head_dim, block = f->block ? f->block : D;
    fill_codes(b);
    for (uint32_t s = 0; s < b->scale_bytes; s++) b->scales[(s + 1) * b->scale_bytes + s] ^= 0x08;
    run(b, KVG_OP_DEQUANTISE);
    for (uint32_t s = 0; s < b->scale_bytes; s++) {
        uint32_t changed = 0;
        for (uint32_t e = 0; e < D; e++) {
            const bool inside = f->block == 0 || e / block == s / f->block_scale_bytes;
            const bool differ = differs(b->values[(s + 1) * D + e], b->values[e]);
            changed += differ;
            assert_true(inside || !differ);
        }
        const bool few = f->row_param_bytes || f->scales == KVG_SCALES_AFFINE;
        assert_true(changed == block || (few && changed > 0));
    }
    return b->scale_bytes;
}

void test_scale_bytes(void **state)
{
    (void)state;
    for_each_dialect("scale bytes read", read_scales);
}
