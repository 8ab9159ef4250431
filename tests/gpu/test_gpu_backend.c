/* The backend "cuda", with a GPU or without one: what it claims, what it says where it cannot, and that holding it does
 * not open CUDA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "gpu/ops.h"
#include "harness/run/backends.h"
#include "harness/trial/judge/judge.h"
#include "harness/trial/question/mma_inputs.h"
#include "reference/reference.h"
#include "tests/gpu/codecs.h"

#define TENSOR_CORES KVG_PROFILE_SM90_MMA16816_V2
#define PLAIN_F32 KVG_PROFILE_SIMT_FMA_V1

enum { TILES = 26 };

static bool driver_is_loaded(void)
{
    char line[1024];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) found |= strstr(line, "libcuda.so") != NULL;
    fclose(maps);
    return found;
}

/* Runs first: a process that only hands the backend on must stay free of CUDA. */
static void test_getting_it_does_not_open_cuda(void **state)
{
    (void)state;
    const kvg_backend *backend;
    assert_int_equal(kvg_check_backend("cuda", &backend), KVG_OK);
    assert_ptr_equal(backend, kvg_gpu_backend());
    assert_string_equal(backend->name, "cuda");
    assert_int_equal(backend->abi, KVG_BACKEND_ABI);
    assert_int_equal(backend->struct_size, sizeof *backend);
    assert_false(driver_is_loaded());
}

static void test_capabilities_follow_from_the_chip(void **state)
{
    (void)state;
    assert_int_equal(kvg_gpu_caps(75), 0);
    assert_int_equal(kvg_gpu_caps(80), KVG_GPU_SM80);
    assert_int_equal(kvg_gpu_caps(89), KVG_GPU_SM80);
    assert_int_equal(kvg_gpu_caps(90), KVG_GPU_SM80 | KVG_GPU_SM90);
    assert_int_equal(kvg_gpu_caps(121), KVG_GPU_SM80 | KVG_GPU_SM90 | KVG_GPU_FP4);
}

static kvg_problem tiles_of(kvg_profile profile, kvg_dtype dtype)
{
    const kvg_storage storage = {dtype == KVG_DTYPE_F16 ? KVG_FORMAT_F16 : KVG_FORMAT_BF16, "canonical"};
    return (kvg_problem){
        .op = KVG_OP_MMA,
        .layout = KVG_LAYOUT_ROWS,
        .dtype = dtype,
        .storage = {storage, storage},
        .tokens = TILES,
        .kv_heads = 1,
        .head_dim = KVG_MMA_K,
        .profile = profile,
    };
}

static void run(const kvg_problem *p, bool own)
{
    static uint16_t a[TILES * KVG_TILE_A], b[TILES * KVG_TILE_B];
    static float c[TILES * KVG_TILE_C], expected[TILES * KVG_TILE_C], got[TILES * KVG_TILE_C];
    void *data[] = {a, b, c};
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_impl *impl;
    kvg_tensor in[3], want = kvg_problem_tensor(p, KVG_ROLE_MMA_D, KVG_K), out = want;
    for (int i = 0; i < 3; i++) {
        in[i] = kvg_problem_tensor(p, op->inputs[i], KVG_K);
        in[i].data = data[i];
    }
    for (size_t i = 0; i < TILES; i++) {
        kvg_mma_tile_fill(&kvg_mma_classes[i % kvg_mma_class_count], p->dtype, 1, i, a + i * KVG_TILE_A,
                          b + i * KVG_TILE_B, c + i * KVG_TILE_C);
    }
    want.data = expected;
    out.data = got;
    memset(got, 0x5A, sizeof got);
    assert_int_equal(kvg_backend_choose(kvg_gpu_backend(), p, &impl), KVG_OK);
    if (own) {
        assert_int_equal(kvg_reference_run(p, in, &want), KVG_OK);
        assert_int_equal(impl->run(p, in, &out, NULL), KVG_OK);
        assert_memory_equal(got, expected, sizeof got);
        return;
    }
    assert_int_equal(impl->run(p, in, &out, NULL), KVG_ERR_UNIMPLEMENTED);
    for (size_t i = 0; i < sizeof got; i++) assert_int_equal(((uint8_t *)got)[i], 0x5A);
}

/* The chip's own profile gives the reference's bits; another one, and a machine without a GPU, a reason. */
static void test_mma_is_for_the_profile_of_the_chip(void **state)
{
    (void)state;
    static const kvg_dtype dtypes[] = {KVG_DTYPE_F16, KVG_DTYPE_BF16};
    kvg_gpu_device device;
    size_t found, profiles;
    assert_int_equal(kvg_gpu_devices(&device, 1, &found), KVG_OK);
    const kvg_profile_info *profile = kvg_profile_table(&profiles);
    for (size_t i = 0; i < 2 * profiles; i++) {
        if (!kvg_profile_is_chip(&profile[i / 2])) continue; /* op mma is not asked for it */
        const kvg_problem p = tiles_of(profile[i / 2].profile, dtypes[i % 2]);
        const bool own = found && profile[i / 2].chip->sm == device.sm;
        run(&p, own);
        if (own) continue;
        assert_non_null(strstr(kvg_error_text(), found ? device.name : "this machine has none"));
        if (found) assert_non_null(strstr(kvg_error_text(), profile[i / 2].name));
    }
    printf("%s\n", found ? device.name : "no GPU: refusals only");
}

static void test_other_ops_are_not_there(void **state)
{
    (void)state;
    const kvg_impl *impl;
    kvg_problem p = tiles_of(KVG_PROFILE_NONE, KVG_DTYPE_BF16);
    p.op = KVG_OP_QUANTISE;
    assert_int_equal(kvg_backend_choose(kvg_gpu_backend(), &p, &impl), KVG_ERR_UNIMPLEMENTED);
    assert_non_null(strstr(kvg_error_text(), "backend cuda has no quantise"));
}

/* --- op decode: what is refused for its formats, before CUDA is asked for anything --- */

static kvg_status ask(const kvg_problem *p)
{
    size_t bytes = 0;
    assert_int_equal(kvg_problem_check(p), KVG_OK);
    const kvg_status s = kvg_gpu_decode_workspace(p, &bytes);
    assert_true(s || bytes > 0);
    return s;
}

static kvg_problem decode_of(kvg_profile profile, kvg_dtype dtype, uint32_t dim, kvg_storage k, kvg_storage v)
{
    return (kvg_problem){
        .op = KVG_OP_DECODE,
        .layout = KVG_LAYOUT_HND,
        .dtype = dtype,
        .storage = {k, v},
        .tokens = 100,
        .kv_heads = 2,
        .head_dim = dim,
        .paging = {.layers = 1, .blocks = 9, .block_tokens = 16, .sequences = 1},
        .attention = {.query_heads = 8, .queries = 1},
        .profile = profile,
    };
}

/* The op's status for that storage. */
static kvg_status ask_decode(kvg_profile profile, kvg_dtype dtype, uint32_t dim, kvg_storage k, kvg_storage v)
{
    const kvg_problem p = decode_of(profile, dtype, dim, k, v);
    return ask(&p);
}

static void expect_refusal(kvg_status s, const char *first, const char *second)
{
    const char *text = s ? kvg_error_text() : "";
    if (s == KVG_ERR_UNIMPLEMENTED && strstr(text, first) && strstr(text, second)) return;
    fail_msg("%s '%s', not UNIMPLEMENTED with '%s' and '%s'", kvg_status_name(s), text, first, second);
}

/* Plain f32 asks nothing of the GPU. Tensor cores, on a machine that has not their chip, refuse for that alone. */
static void expect_answer(kvg_profile profile, kvg_status s)
{
    if (profile != TENSOR_CORES) assert_int_equal(s, KVG_OK);
    if (s == KVG_OK) return;
    assert_null(strstr(kvg_error_text(), "no kernel"));
    assert_null(strstr(kvg_error_text(), "dialect"));
}

static const struct {
    kvg_profile profile;
    uint32_t dims[4];
} kernels[] = {
    {TENSOR_CORES, {64, 80, 256, 320}}, {PLAIN_F32, {64, 96, 128, 576}}, {KVG_PROFILE_NONE, {64, 96, 128, 256}}};

/* K and V of one format that the profile knows, or e4m3 and nvfp4. */
static bool is_known_pair(kvg_profile profile, kvg_format k, kvg_format v)
{
    const bool known = profile == TENSOR_CORES ? has_operands(k) : gpu_decodes(k);
    return (k == v && known) || (k == KVG_FORMAT_E4M3 && v == KVG_FORMAT_NVFP4);
}

/* Every other pair is refused, for every head_dim: by both names, or by that of a format that no kernel decodes. */
static void test_decode_is_for_pairs_of_formats(void **state)
{
    (void)state;
    for (size_t i = 0; i < 8 * sizeof kernels / sizeof *kernels; i++) {
        const kvg_profile profile = kernels[i / 8].profile;
        const uint32_t dim = kernels[i / 8].dims[i / 2 % 4];
        const kvg_dtype dtype = i % 2 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
        uint32_t refused = 0, known = 0;
        for (uint32_t k = 1; k < KVG_FORMAT_END; k++) {
            for (uint32_t v = 1; v < KVG_FORMAT_END; v++) {
                const kvg_format formats[2] = {(kvg_format)k, (kvg_format)v};
                char k_text[32], v_text[32];
                if (kvg_format_check_dim(formats[0], dim) || kvg_format_check_dim(formats[1], dim)) continue;
                const kvg_status s = ask_decode(profile, dtype, dim, (kvg_storage){formats[0], "canonical"},
                                                (kvg_storage){formats[1], "canonical"});
                snprintf(k_text, sizeof k_text, "K in %s", kvg_format_get(formats[0])->name);
                snprintf(v_text, sizeof v_text, "V in %s", kvg_format_get(formats[1])->name);
                const int lacking = !gpu_decodes(formats[0]) ? 0 : !gpu_decodes(formats[1]) ? 1 : -1;
                if (is_known_pair(profile, formats[0], formats[1])) {
                    expect_answer(profile, s), known++;
                } else if (lacking >= 0) {
                    expect_refusal(s, "no kernel", kvg_format_get(formats[lacking])->name), refused++;
                } else {
                    expect_refusal(s, k_text, v_text), refused++;
                }
            }
        }
        assert_true(known > 1 && refused > known);
    }
}

/* Tensor cores know int8 and int4 in the canonical dialect alone, and rowfp4's two not mixed; plain f32 knows those of
 * TurboMind and of LMDeploy's source, too. */
static void test_decode_is_for_dialects(void **state)
{
    (void)state;
    static const kvg_format formats[] = {KVG_FORMAT_INT8, KVG_FORMAT_INT4};
    for (size_t i = 0; i < 2; i++) {
        const size_t count = kvg_reference_dialect_count(formats[i]);
        const kvg_storage canonical = {formats[i], "canonical"};
        assert_true(count > 1);
        for (size_t d = 1; d < count; d++) {
            const kvg_storage other = {formats[i], kvg_reference_dialect(formats[i], d)->name};
            const kvg_storage pairs[3][2] = {{other, other}, {other, canonical}, {canonical, other}};
            for (size_t j = 0; j < 6; j++) {
                const kvg_dtype dtype = j % 2 ? KVG_DTYPE_F16 : KVG_DTYPE_BF16;
                const kvg_storage k = pairs[j / 2][0], v = pairs[j / 2][1];
                expect_refusal(ask_decode(TENSOR_CORES, dtype, 128, k, v), other.dialect,
                               kvg_format_get(formats[i])->name);
                const kvg_status plain = ask_decode(PLAIN_F32, dtype, 128, k, v);
                const bool known = !strcmp(other.dialect, "turbomind-muladd") || !strcmp(other.dialect, "pytorch");
                if (known) expect_answer(PLAIN_F32, plain);
                else expect_refusal(plain, "no kernel", other.dialect);
            }
        }
    }
    const kvg_storage codes = {KVG_FORMAT_ROWFP4, "canonical"}, linear = {KVG_FORMAT_ROWFP4, "marlin-linear"};
    expect_refusal(ask_decode(TENSOR_CORES, KVG_DTYPE_F16, 64, codes, linear), "K and V", "one dialect");
    expect_refusal(ask_decode(TENSOR_CORES, KVG_DTYPE_F16, 64, linear, codes), "K and V", "one dialect");
    expect_answer(TENSOR_CORES, ask_decode(TENSOR_CORES, KVG_DTYPE_F16, 64, linear, linear));
    expect_answer(PLAIN_F32, ask_decode(PLAIN_F32, KVG_DTYPE_F16, 64, codes, linear));
}

/* Rows that K and V share: tensor cores know formats without scales of rows, in blocks of 16 or none, and V that begins
 * where a segment does. */
static void test_decode_is_for_shared_rows(void **state)
{
    (void)state;
    uint32_t known = 0, refused = 0;
    for (uint32_t f = 1; f < KVG_FORMAT_END; f++) {
        const kvg_format_info *info = kvg_format_get((kvg_format)f);
        const kvg_storage storage = {info->format, "canonical"};
        if (kvg_format_check_dim(info->format, KVG_MLA_HEAD_DIM)) continue;
        for (uint32_t first = 0; first <= 64; first += 32) {
            kvg_problem p = decode_of(TENSOR_CORES, KVG_DTYPE_BF16, KVG_MLA_HEAD_DIM, storage, storage);
            p.layout = KVG_LAYOUT_MLA;
            p.kv_heads = 1;
            p.paging.shared_kv = true;
            p.paging.v_first = first, p.paging.v_dim = 512;
            const bool knows = has_operands(info->format) && !info->row_param_bytes && info->block <= 16;
            if (knows && (first == 0 || (first == 64 && !info->block))) {
                if (ask(&p)) assert_null(strstr(kvg_error_text(), "v_dim 512"));
                known++;
            } else {
                expect_refusal(ask(&p), "rows that K and V share", "nvfp4 or mx16"), refused++;
            }
        }
    }
    assert_true(known > 1 && refused > known);
}

/* Tensor cores know multiples of 16 up to 320. */
static void test_decode_is_for_dims(void **state)
{
    (void)state;
    const kvg_storage storage = {KVG_FORMAT_E4M3, "canonical"};
    for (uint32_t dim = 8; dim <= 576; dim += 8) {
        char text[32];
        snprintf(text, sizeof text, "head_dim %u", (unsigned)dim);
        const kvg_status s = ask_decode(TENSOR_CORES, KVG_DTYPE_BF16, dim, storage, storage);
        if (dim % 16 || dim > 320) expect_refusal(s, text, "multiples of 16 up to 320");
        else expect_answer(TENSOR_CORES, s);
        expect_answer(PLAIN_F32, ask_decode(PLAIN_F32, KVG_DTYPE_BF16, dim, storage, storage));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_getting_it_does_not_open_cuda),
        cmocka_unit_test(test_capabilities_follow_from_the_chip),
        cmocka_unit_test(test_mma_is_for_the_profile_of_the_chip),
        cmocka_unit_test(test_other_ops_are_not_there),
        cmocka_unit_test(test_decode_is_for_pairs_of_formats),
        cmocka_unit_test(test_decode_is_for_dialects),
        cmocka_unit_test(test_decode_is_for_dims),
        cmocka_unit_test(test_decode_is_for_shared_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
