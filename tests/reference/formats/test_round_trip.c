/* The round-trip bounds of docs/spec/numerics.md section 2 over the whole range of the model type: rows of noise times
 * each power of two, quantised and decoded by every dialect of every format. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "reference/formats/ref_codec.h"

enum { DIM = 128, ROWS = 4 };

static kvg_problem problem_of(kvg_format format, const char *dialect, kvg_dtype dtype)
{
    kvg_problem p = {.op = KVG_OP_QUANTISE,
                     .layout = KVG_LAYOUT_ROWS,
                     .dtype = dtype,
                     .tokens = 1,
                     .kv_heads = 1,
                     .head_dim = DIM};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){format, dialect};
    return p;
}

/* Noise between -1 and 1 times 2^exponent, one of two rows with its extremes at the ends of that. */
static void fill_row(const kvg_problem *p, int exponent, uint64_t row, float *x)
{
    const double top = ref_min(ldexp(1, exponent), ref_largest(p->dtype));
    for (uint64_t i = 0; i < DIM; i++) {
        const double noise = (double)kvg_rng_u64(row, (uint64_t)(exponent + 1000), i) * 0x1p-63 - 1;
        x[i] = ref_round_to(p->dtype, noise * top);
    }
    if (row % 2) x[row] = ref_round_to(p->dtype, top);
    if (row % 2) x[row + 1] = -x[row];
}

/* Rows for which something is promised; `held` is cleared by an error beyond its bound. */
static uint64_t judge(const kvg_problem *p, int exponent, bool *held)
{
    float x[DIM], y[DIM], g = 1;
    double bound[DIM];
    uint8_t codes[DIM * 2], scales[DIM];
    const kvg_tensor scale = {.data = &g, .bytes = kvg_format_get(p->storage[KVG_K].format)->tensor_scale ? 4 : 0};
    ref_side side;
    uint64_t promised = 0;
    assert_int_equal(ref_side_init(p, KVG_K, &scale, &side), KVG_OK);
    for (uint64_t row = 0; row < ROWS; row++) {
        fill_row(p, exponent, row, x);
        ref_side_quantise(&side, x, codes, scales);
        ref_side_dequantise(&side, codes, scales, y);
        kvg_reference_row_bound(p, KVG_K, g, x, bound);
        for (int i = 0; i < DIM; i++) {
            if (isinf(bound[i])) continue;
            promised++;
            if (fabs((double)y[i] - (double)x[i]) <= bound[i]) continue;
            if (*held) {
                print_error("%s.%s, %s, 2^%d, row %d, element %d: %a became %a, bound %a\n",
                            kvg_format_get(p->storage[KVG_K].format)->name, p->storage[KVG_K].dialect,
                            kvg_dtype_name(p->dtype), exponent, (int)row, i, (double)x[i], (double)y[i], bound[i]);
            }
            *held = false;
        }
    }
    return promised;
}

static void test_bounds_hold_over_the_range_of_the_type(void **state)
{
    (void)state;
    size_t formats;
    const kvg_format_info *format = kvg_format_table(&formats);
    bool all = true;
    for (size_t f = 0; f < formats; f++) {
        for (size_t d = 0; d < kvg_reference_dialect_count(format[f].format); d++) {
            for (int type = 0; type < 2; type++) {
                const kvg_dtype dtype = type ? KVG_DTYPE_BF16 : KVG_DTYPE_F16;
                const kvg_problem p = problem_of(format[f].format,
                                                 kvg_reference_dialect(format[f].format, d)->name, dtype);
                bool held = true;
                uint64_t promised = 0;
                const int most = type ? 128 : 16;
                for (int exponent = type ? -133 : -24; exponent <= most; exponent++) {
                    promised += judge(&p, exponent, &held);
                }
                assert_true(promised > 0);
                all = all && held;
            }
        }
    }
    assert_true(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds_hold_over_the_range_of_the_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
