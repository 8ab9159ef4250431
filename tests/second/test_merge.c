/* Op merge: the same bits by both references, the example of docs/spec/attention.md section 6, and what the bound lets
 * kernels do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "reference/attention_spec.h"
#include "reference/reference.h"
#include "tests/second/test_slowref.h"

enum { TOKENS = 400, HEADS = 5, DIM = 24, ROWS = TOKENS * HEADS };

static kit open_merge(kvg_dtype dtype, uint32_t tokens, uint32_t heads, uint32_t dim)
{
    const kvg_storage storage = {KVG_FORMAT_BF16, "canonical"};
    const kvg_problem p = {.op = KVG_OP_MERGE, .layout = KVG_LAYOUT_ROWS, .dtype = dtype, .storage = {storage, storage},
                           .tokens = tokens, .kv_heads = heads, .head_dim = dim};
    return kit_open_problem(&p);
}

/* LSEs up to `spread` apart near 0 or far from it, parts without keys, whose outputs are NaN, and NaN or Inf as an
 * LSE. */
static void draw_rows(const kit *k, uint64_t seed)
{
    static const float near[] = {0, 0, 1e4F, -3e38F, 88}, spread[] = {0, 0.5F, 3, 50, 200};
    for (size_t row = 0; row < ROWS; row++) {
        for (int part = 0; part < 2; part++) {
            float x[DIM], *lse = (float *)k->tensor[KVG_ROLE_PART_LSE][part].data + row;
            const uint64_t kind = kvg_rng_below(seed, 2 * row + (uint64_t)part, DIM + 1, 8);
            *lse = near[row % 5] + spread[row / 5 % 5] * (float)kvg_rng_normal(seed, 2 * row + (uint64_t)part, DIM);
            if (kind == 0) *lse = -INFINITY;
            if (kind == 1 && row % 10 == 0) *lse = row % 20 ? NAN : INFINITY;
            for (uint32_t d = 0; d < DIM; d++)
                x[d] = kind == 0 ? NAN : (float)kvg_rng_normal(seed, 2 * row + (uint64_t)part, d);
            kvg_reference_store(k->problem.dtype, x, DIM, (uint8_t *)k->tensor[KVG_ROLE_PART][part].data +
                                                             row * DIM * kvg_dtype_bytes(k->problem.dtype));
        }
    }
}

static void compare(tally *t, kvg_dtype dtype, const kvg_tensor *a, const kvg_tensor *b)
{
    const size_t width = kvg_dtype_bytes(dtype);
    for (size_t i = 0; i < a->bytes / width; i++) {
        float x, y;
        kvg_reference_load(dtype, (const uint8_t *)a->data + i * width, 1, &x);
        kvg_reference_load(dtype, (const uint8_t *)b->data + i * width, 1, &y);
        t->compared++;
        t->differing += !(isnan(x) && isnan(y)) && memcmp(&x, &y, sizeof x) != 0;
    }
}

void test_merge_bits(void **state)
{
    (void)state;
    static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16, KVG_DTYPE_F32};
    tally t = {0};
    for (size_t i = 0; i < 3; i++) {
        kit golden = open_merge(dtypes[i], TOKENS, HEADS, DIM), slow = open_merge(dtypes[i], TOKENS, HEADS, DIM);
        draw_rows(&golden, 7 + i);
        kit_copy(&golden, &slow);
        assert_int_equal(kit_run(&golden, golden_backend(), KVG_OP_MERGE), KVG_OK);
        assert_int_equal(kit_run(&slow, slow_backend(), KVG_OP_MERGE), KVG_OK);
        compare(&t, dtypes[i], &golden.tensor[KVG_ROLE_OUT][0], &slow.tensor[KVG_ROLE_OUT][0]);
        compare(&t, KVG_DTYPE_F32, &golden.tensor[KVG_ROLE_LSE][0], &slow.tensor[KVG_ROLE_LSE][0]);
        kit_close(&golden);
        kit_close(&slow);
    }
    tally_close(&t, __func__);
}

/* Part a: 3 keys with scores 0; part b: one. So 3/4 of a's output and 1/4 of b's, and LSE ln 4. */
void test_merge_example(void **state)
{
    (void)state;
    const float lse[] = {1.0986123F, 0}, values[] = {8, -4};
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    for (size_t b = 0; b < 2; b++) {
        kit k = open_merge(KVG_DTYPE_F32, 1, 1, 1);
        for (int part = 0; part < 2; part++) {
            memcpy(k.tensor[KVG_ROLE_PART_LSE][part].data, &lse[part], sizeof lse[part]);
            memcpy(k.tensor[KVG_ROLE_PART][part].data, &values[part], sizeof values[part]);
        }
        assert_int_equal(kit_run(&k, backends[b], KVG_OP_MERGE), KVG_OK);
        assert_true(fabsf(*(float *)k.tensor[KVG_ROLE_OUT][0].data - 5) < 0x1p-20F);
        assert_true(fabsf(*(float *)k.tensor[KVG_ROLE_LSE][0].data - 1.3862944F) < 0x1p-20F);
        kit_close(&k);
    }
}

/* The largest error, in bounds, of a kernel in f32 whose weights `weights` rounds, over rows of which both parts saw a
 * key. */
static double worst_of(const kit *k, float weights(float))
{
    double *numbers = malloc(2 * ROWS * (DIM + 1) * sizeof *numbers), worst = 0;
    assert_non_null(numbers);
    const kvg_attention_answer exact = {numbers, numbers + ROWS * DIM, numbers + ROWS * (DIM + 1),
                                        numbers + ROWS * (2 * DIM + 1), NULL};
    kvg_arithmetic class;
    kvg_tensor in[4];
    kvg_arithmetic_init(&k->problem, &class);
    kit_list(k, kvg_op_get(KVG_OP_MERGE)->inputs, in);
    assert_int_equal(kvg_attention_spec(&k->problem, in, &class, &exact), KVG_OK);
    for (size_t i = 0; i < ROWS; i++) {
        const float a = ((float *)in[2].data)[i], b = ((float *)in[3].data)[i], top = fmaxf(a, b);
        if (!(a < INFINITY && b < INFINITY)) assert_true(isinf(exact.lse_bound[i]) && isinf(exact.out_bound[i * DIM]));
        if (!(isfinite(a) && isfinite(b))) continue;
        const float p = weights(expf(a - top)), q = weights(expf(b - top)), sum = p + q;
        worst = fmax(worst, kvg_attention_ratio((double)(top + logf(sum)), exact.lse[i], exact.lse_bound[i]));
        for (size_t d = 0; d < DIM; d++) {
            const float x = ((float *)in[0].data)[i * DIM + d], y = ((float *)in[1].data)[i * DIM + d];
            const double out = (double)(x * (p / sum) + y * (q / sum));
            worst = fmax(worst, kvg_attention_ratio(out, exact.out[i * DIM + d], exact.out_bound[i * DIM + d]));
        }
    }
    free(numbers);
    return worst;
}

static float kept(float x) { return x; }

static float in_bf16(float x)
{
    uint16_t code;
    kvg_reference_store(KVG_DTYPE_BF16, &x, 1, &code);
    kvg_reference_load(KVG_DTYPE_BF16, &code, 1, &x);
    return x;
}

void test_merge_bound(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        kit k = open_merge(KVG_DTYPE_F32, TOKENS, HEADS, DIM);
        draw_rows(&k, seed);
        assert_true(worst_of(&k, kept) <= 1);
        assert_true(worst_of(&k, in_bf16) > 100);
        kit_close(&k);
    }
}
