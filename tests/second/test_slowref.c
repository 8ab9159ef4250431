/* The second reference against the golden reference: two programs written from docs/spec/formats.md alone, compared
 * byte for byte. Neither is right by being first; the page decides. */
#include "tests/second/test_slowref.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/bits.h"
#include "reference/reference.h"
#include "second/slow_codec.h"
#include "tests/core/whole_blocks.h"
#include "tests/second/probes.h"

void for_every_case(tally *t, wanted_fn *wanted, visit_fn *visit, const void *context)
{
    static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16, KVG_DTYPE_F32};
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (size_t f = 0; f < formats; f++) {
        if (wanted && !wanted(&table[f])) continue;
        kvg_format format = table[f].format;
        size_t scales = table[f].tensor_scale ? tensor_scale_count : 1;
        for (size_t d = 0; d < kvg_reference_dialect_count(format); d++) {
            for (size_t i = 0; i < 3 * scales; i++) {
                storage_case c = {format, kvg_reference_dialect(format, d)->name, dtypes[i % 3],
                                  kvg_f32_of_bits(tensor_scales[i / 3])};
                if (type_fits(format, c.dtype)) visit(t, &c, context);
            }
        }
    }
}

/* A dialect of the golden reference without a second opinion fails here. */
static void test_dialects_complete(void **state)
{
    (void)state;
    tally t = {0};
    size_t count;
    const kvg_format_info *formats = kvg_format_table(&count);
    for (size_t f = 0; f < count; f++) {
        assert_string_equal(kvg_reference_dialect(formats[f].format, 0)->name, "canonical");
        for (size_t d = 0; d < kvg_reference_dialect_count(formats[f].format); d++) {
            const char *dialect = kvg_reference_dialect(formats[f].format, d)->name;
            t.compared++;
            if (slow_codec_find(formats[f].format, dialect)) continue;
            print_error("  slowref has no %s %s\n", formats[f].name, dialect);
            t.differing++;
        }
    }
    tally_close(&t, __func__);
}

static void expect_refusal(tally *t, const storage_case *c, kvg_status want)
{
    const kvg_backend *backends[] = {golden_backend(), slow_backend()};
    for (size_t b = 0; b < 2; b++) {
        for (kvg_op op = KVG_OP_QUANTISE; op <= KVG_OP_DEQUANTISE; op++) {
            kit k = kit_open((const storage_case[2]){*c, *c}, 1, whole_blocks(32, c->format));
            kvg_status got = kit_run(&k, backends[b], op);
            t->compared++;
            if (got != want) {
                print_error("  %s %s %s, g 0x%08X: %s\n", backends[b]->name, kvg_op_get(op)->name, c->dialect,
                            kvg_bits_of_f32(c->g), kvg_status_name(got));
                t->differing++;
            }
            kit_close(&k);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    static const uint32_t bad_scales[] = {0x00000000, 0x80000000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000};
    static const kvg_format scaled[] = {KVG_FORMAT_E4M3, KVG_FORMAT_E5M2, KVG_FORMAT_NVFP4};
    tally t = {0};
    for (size_t f = 0; f < 3; f++) {
        for (size_t s = 0; s < sizeof bad_scales / sizeof bad_scales[0]; s++) {
            storage_case c = {scaled[f], "canonical", KVG_DTYPE_F16, kvg_f32_of_bits(bad_scales[s])};
            expect_refusal(&t, &c, KVG_ERR_INVALID);
        }
    }
    size_t formats;
    const kvg_format_info *table = kvg_format_table(&formats);
    for (size_t f = 0; f < formats; f++) {
        storage_case c = {table[f].format, "no-such-dialect", KVG_DTYPE_BF16, 1};
        expect_refusal(&t, &c, KVG_ERR_UNIMPLEMENTED);
    }
    tally_close(&t, __func__);
}

/* K and V with formats, dialects and scales of their own. */
static void test_sides_apart(void **state)
{
    (void)state;
    enum { ROWS = 6, DIM = 64 };
    static const storage_case sides[][2] = {
        {{KVG_FORMAT_NVFP4, "modelopt", KVG_DTYPE_BF16, 0.75f}, {KVG_FORMAT_E4M3, "trtllm", KVG_DTYPE_BF16, 0.011f}},
        {{KVG_FORMAT_INT8, "canonical", KVG_DTYPE_F16, 1}, {KVG_FORMAT_INT4, "pytorch", KVG_DTYPE_F16, 1}},
        {{KVG_FORMAT_MXFP4, "ggml", KVG_DTYPE_F32, 1}, {KVG_FORMAT_NVFP4, "vllm-minimax", KVG_DTYPE_F32, 0.011f}},
        {{KVG_FORMAT_F16, "canonical", KVG_DTYPE_F32, 1}, {KVG_FORMAT_ROWFP4, "marlin-linear", KVG_DTYPE_F32, 1}},
        {{KVG_FORMAT_NVFP4, "seed", KVG_DTYPE_F32, 0.75f}, {KVG_FORMAT_NVFP4, "vllm", KVG_DTYPE_F32, 0.011f}},
    };
    tally t = {0};
    probes p = {0};
    probes_add_random(&p, RANDOM_SPREAD, 9, ROWS, DIM);
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++) {
        uint8_t values[ROWS * DIM * sizeof(float)];
        kvg_reference_store(sides[i][KVG_K].dtype, p.x, (size_t)ROWS * DIM, values);
        pair_quantise_sides(&t, sides[i], values, ROWS, DIM);
    }
    probes_free(&p);
    tally_close(&t, __func__);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dialects_complete),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_sides_apart),
        cmocka_unit_test(test_worked_bytes),
        cmocka_unit_test(test_rows_of_engines),
        cmocka_unit_test(test_flattened_rows),
        cmocka_unit_test(test_all_zero_blocks),
        cmocka_unit_test(test_tiny_block),
        cmocka_unit_test(test_affine_row),
        cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_conversion_boundaries),
        cmocka_unit_test(test_conversions_from_f64),
        cmocka_unit_test(test_load_and_store),
        cmocka_unit_test(test_scale_conventions),
        cmocka_unit_test(test_decode_tensor_scale_formats),
        cmocka_unit_test(test_decode_mx),
        cmocka_unit_test(test_decode_symmetric),
        cmocka_unit_test(test_decode_f32_scales),
        cmocka_unit_test(test_decode_affine),
        cmocka_unit_test(test_boundaries_fp8),
        cmocka_unit_test(test_boundaries_nvfp4),
        cmocka_unit_test(test_boundaries_mx),
        cmocka_unit_test(test_boundaries_symmetric),
        cmocka_unit_test(test_boundaries_f32_scales),
        cmocka_unit_test(test_boundaries_affine),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_every_f16_and_bf16),
        cmocka_unit_test(test_random_rows),
        cmocka_unit_test(test_turbomind_example),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_large_places),
        cmocka_unit_test(test_scale_groups),
        cmocka_unit_test(test_partition),
        cmocka_unit_test(test_bias_and_rope),
        cmocka_unit_test(test_rope_roundings),
        cmocka_unit_test(test_grouped_append_and_probe),
        cmocka_unit_test(test_shared_row),
        cmocka_unit_test(test_ring_positions),
        cmocka_unit_test(test_paged_refusals),
        cmocka_unit_test(test_merge_bits),
        cmocka_unit_test(test_merge_example),
        cmocka_unit_test(test_merge_bound),
        cmocka_unit_test(test_paged_ops),
        cmocka_unit_test(test_paged_refusals_agree),
        cmocka_unit_test(test_paged_addresses),
    };
    return cmocka_run_group_tests_name("slowref", tests, NULL, NULL);
}
