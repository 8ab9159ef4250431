/* The parts of the contract by themselves: exp2, log2, the order of dims; and what is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/bits.h"
#include "reference/attention/ref_profile_operand.h"
#include "reference/attention_profile.h"
#include "reference/numbers/ref_exp2.h"
#include "tests/reference/attention/test_profile.h"

/* What section 6 says of it. */
void test_exp2(void **state)
{
    (void)state;
    assert_true(ref_exp2(NAN) == 0 && ref_exp2(-INFINITY) == 0 && ref_exp2(-127) == 0 && ref_exp2(-0x1p100f) == 0);
    for (int n = -126; n <= 8; n++) assert_true(ref_exp2((float)n) == ldexpf(1, n));
    assert_true(ref_exp2(-0x1p-30f) == 1); /* f = 1 gives 2 */
    double worst = 0;
    float last = 0;
    for (uint32_t i = 0; i <= 1 << 24; i += 3) { /* f = i * 2^-24: the tail of x = f - 1, exact */
        const float f = (float)i * 0x1p-24f, x = f - 1, y = ref_exp2(x);
        worst = fmax(worst, fabs((double)(y / exp2l(x) - 1)));
        assert_true(y >= last);
        last = y;
    }
    print_message("  exp2: relative error at most %.3g\n", worst);
    assert_true(worst > 3e-6 && worst <= 3.40e-6);
    for (float x = -126.99f; x < -126; x += 0.01f)
        assert_true(fabsl(ref_exp2(x) - exp2l(x)) < 0x1p-127L);
}

/* What section 9 says of it: t * polynomial within 1.4e-7 of log2(1 + t). */
void test_log2(void **state)
{
    (void)state;
    double worst = 0;
    for (uint32_t bits = 0x3F3504F3; bits < 0x3FB504F3; bits += 5) {
        const float x = kvg_f32_of_bits(bits);
        const long double exact = log2l(x);
        if (x != 1) worst = fmax(worst, (double)fabsl((ref_log2(x) - exact) / exact));
    }
    print_message("  log2: relative error at most %.3g over an octave\n", worst);
    assert_true(worst <= 1.4e-7 + 0x1p-24);
    for (int n = -126; n <= 127; n++) assert_true(ref_log2(ldexpf(1, n)) == (float)n);
    assert_true(ref_log2(3) == (float)log2l(3));
}

/* The table of sets in section 4, and every D: a permutation. */
void test_score_order(void **state)
{
    (void)state;
    size_t formats;
    const kvg_format_info *format = kvg_format_table(&formats);
    for (size_t n = 0; n < formats * CONTRACTS; n++) {
        const kvg_profile_info *profile = kvg_profile_get(profile_of_contract[n % CONTRACTS]);
        const size_t f = n / CONTRACTS;
        const bool neighbours = profile->contract->widest_16 == KVG_MMA_K;
        if (!kvg_profile_is_chip(profile)) continue; /* one product after the other */
        for (size_t d = 0; d < kvg_reference_dialect_count(format[f].format); d++) {
            for (uint32_t D = 16; D <= KVG_MAX_HEAD_DIM; D += 16) {
                if (kvg_format_check_dim(format[f].format, D)) continue;
                kvg_problem p = {.dtype = KVG_DTYPE_F16, .head_dim = D, .profile = profile->profile};
                p.storage[KVG_K] = (kvg_storage){format[f].format,
                                                 kvg_reference_dialect(format[f].format, d)->name};
                ref_kv kv = {.p = &p};
                float g = 1;
                const kvg_tensor scale = {.data = &g, .bytes = sizeof g};
                assert_int_equal(ref_side_init(&p, KVG_K, &scale, &kv.side[KVG_K]), KVG_OK);
                uint16_t dims[KVG_MAX_HEAD_DIM];
                uint8_t seen[KVG_MAX_HEAD_DIM] = {0};
                memset(dims, 0xFF, sizeof dims);
                ref_score_order(&kv, dims);
                for (uint32_t i = 0; i < D; i++) {
                    assert_true(dims[i] < D && !seen[dims[i]]);
                    seen[dims[i]] = 1;
                }
                if (kv.side[KVG_K].packing == REF_PACK_TURBOMIND || kv.side[KVG_K].packing == REF_PACK_HALVES) continue;
                for (uint32_t s = 0; s < D / 16 && (D == 64 || D == 128 || D == 256); s++) {
                    uint8_t in_sum[KVG_MAX_HEAD_DIM] = {0};
                    for (uint32_t k = 0; k < 16; k++) in_sum[dims[16 * s + k]] = 1;
                    for (uint32_t c = 0; c < 4; c++) {
                        for (uint32_t i = 0; i < 4; i++) {
                            const uint32_t t = s % 8;
                            uint32_t dim = 64 * (s / 4) + 16 * c + 4 * (s % 4) + i;
                            if (format[f].element_bits == 16) dim = 32 * (s / 2) + 8 * c + 4 * (s % 2) + i;
                            if (format[f].element_bits == 16 && neighbours) dim = 16 * s + 4 * c + i;
                            if (format[f].element_bits == 4)
                                dim = (D == 64 ? 16 * c : 128 * (s / 8) + 32 * c) + 8 * (t / 2) + t % 2 + 2 * i;
                            assert_true(in_sum[dim]);
                        }
                    }
                }
            }
        }
    }
}

void test_profile_refusals(void **state)
{
    (void)state;
    world w;
    kvg_arithmetic class;
    decode_world_open(&(world_plan){.layout = KVG_LAYOUT_NHD, .lengths = {5}, .queries = {1},
                                    .storage = {{KVG_FORMAT_F16, NULL}, {KVG_FORMAT_F16, NULL}}}, 0, &w);
    decode_answer a = decode_open(&w);
    kvg_tensor out[2] = {{.data = a.out}, {.data = a.lse}};
    kvg_problem p = w.p;
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_OK);
    p.profile = KVG_PROFILE_NONE;
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_ERR_UNIMPLEMENTED);
    assert_int_equal(kvg_arithmetic_of_profile(&p, &class), KVG_ERR_UNIMPLEMENTED);
    p = w.p;
    p.profile = KVG_PROFILE_SIMT_FMA_V1; /* takes every problem of the op */
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_OK);
    p.dtype = KVG_DTYPE_F32;
    p.head_dim = 40;
    assert_int_equal(kvg_arithmetic_of_profile(&p, &class), KVG_OK);
    p.storage[KVG_V].dialect = "nobody's";
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_ERR_UNIMPLEMENTED);
    p = w.p;
    p.dtype = KVG_DTYPE_F32;
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(kvg_error_text(), "f32"));
    p = w.p;
    p.head_dim = 40;
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_ERR_UNIMPLEMENTED);
    p = w.p;
    p.storage[KVG_V].dialect = "nobody's";
    assert_int_equal(kvg_attention_profile(&p, w.in, out), KVG_ERR_UNIMPLEMENTED);
    ((int32_t *)world_input(&w, KVG_ROLE_QUERY_LENGTHS, KVG_K)->data)[0] = 2;
    assert_int_equal(kvg_attention_profile(&w.p, w.in, out), KVG_ERR_INVALID);
    decode_close(&a);
    world_close(&w);
}
