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
#include "harness/check.h"
#include "harness/mma_inputs.h"

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
        const bool own = found && profile[i / 2].sm == device.sm;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_getting_it_does_not_open_cuda),
        cmocka_unit_test(test_capabilities_follow_from_the_chip),
        cmocka_unit_test(test_mma_is_for_the_profile_of_the_chip),
        cmocka_unit_test(test_other_ops_are_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
