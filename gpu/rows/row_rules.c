#include "gpu/rows/row_rules.h"

#include <string.h>

#define HARDWARE {KVG_TIES_EVEN, KVG_SIGN_BIT, 7}

/* The mantissas 1.5 and 1.75 of section 7 as fractions of an f32; the largest fraction where m < 2 always holds. */
enum { M_1_5 = 0x400000, M_1_75 = 0x600000, M_2 = 0x7FFFFF };
#define CEIL6 M_1_5, -2, -127
#define FLOOR M_2, -2, -127
#define EVEN (M_1_75 - 1), -2, -127
#define TRUNC6 (M_1_5 - 1), -3, -127

/* The dialects of MLX's formats. */
#define MLX(ENUM)                                                                   \
    {KVG_FORMAT_##ENUM, "canonical", {.canonical = true}},                          \
    {KVG_FORMAT_##ENUM, "mlx-cpu", {.canonical = true, .affine = KVG_AFFINE_MULADD}}, \
    {KVG_FORMAT_##ENUM, "mlx-metal", {.metal = true}}

static const struct {
    kvg_format format;
    const char *dialect;
    kvg_row_rule rule;
} rows[] = {
    {KVG_FORMAT_F16, "canonical", {.canonical = true}},
    {KVG_FORMAT_BF16, "canonical", {.canonical = true}},
    {KVG_FORMAT_E4M3, "canonical", {.canonical = true}},
    {KVG_FORMAT_E4M3, "trtllm", {.encode_scale = true}},
    {KVG_FORMAT_E5M2, "canonical", {.canonical = true}},
    {KVG_FORMAT_E5M2, "trtllm", {.encode_scale = true}},
    {KVG_FORMAT_INT8, "canonical", {.canonical = true}},
    {KVG_FORMAT_INT8, "turbomind-muladd", {.canonical = true, .affine = KVG_AFFINE_MULADD}},
    {KVG_FORMAT_INT8, "pytorch", {.affine = KVG_AFFINE_PYTORCH}},
    {KVG_FORMAT_INT4, "canonical", {.canonical = true}},
    {KVG_FORMAT_INT4, "turbomind-muladd", {.canonical = true, .affine = KVG_AFFINE_MULADD}},
    {KVG_FORMAT_INT4, "pytorch", {.affine = KVG_AFFINE_PYTORCH}},
    {KVG_FORMAT_ROWINT4, "canonical", {.canonical = true}},
    {KVG_FORMAT_ROWFP4, "canonical", {.canonical = true, .e2m1 = HARDWARE}},
    {KVG_FORMAT_ROWFP4, "marlin-linear", {.linear = true}},
    {KVG_FORMAT_MX16, "canonical", {.canonical = true, .e2m1 = HARDWARE, .mx = {CEIL6, 0, false, false}}},
    {KVG_FORMAT_MX16, "turbomind", {.canonical = true, .e2m1 = HARDWARE, .mx = {CEIL6, 0, false, false}}},
    {KVG_FORMAT_MX16, "sglang",
     {.e2m1 = {KVG_TIES_AWAY, KVG_SIGN_LESS, 0}, .mx = {M_1_5, -2, -33, 0x5E, false, false}}},
    {KVG_FORMAT_MXFP4, "canonical", {.canonical = true, .e2m1 = HARDWARE, .mx = {CEIL6, 0, false, false}}},
    {KVG_FORMAT_MXFP4, "ocp", {.e2m1 = HARDWARE, .mx = {FLOOR, 0, false, false}}},
    {KVG_FORMAT_MXFP4, "modelopt", {.e2m1 = {KVG_TIES_ZERO, KVG_SIGN_NOTPOS, 8}, .mx = {CEIL6, 0, false, false}}},
    {KVG_FORMAT_MXFP4, "modelopt-floor", {.e2m1 = HARDWARE, .mx = {FLOOR, 0x7F, true, false}}},
    {KVG_FORMAT_MXFP4, "modelopt-ceil", {.e2m1 = HARDWARE, .mx = {CEIL6, 0x7F, true, false}}},
    {KVG_FORMAT_MXFP4, "trtllm", {.e2m1 = HARDWARE, .mx = {CEIL6, 0, false, true}}},
    {KVG_FORMAT_MXFP4, "vllm", {.e2m1 = HARDWARE, .mx = {EVEN, 0, false, false}}},
    {KVG_FORMAT_MXFP4, "vllm-old", {.e2m1 = HARDWARE, .mx = {TRUNC6, 0, false, false}}},
    {KVG_FORMAT_MXFP4, "ggml", {.e2m1 = {KVG_TIES_ZERO, KVG_SIGN_NONZERO, 0}, .mx = {FLOOR, 0, false, false}}},
    {KVG_FORMAT_NVFP4, "canonical", {.canonical = true, .e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_DIVIDE, KVG_V_DIVIDE, KVG_GUARD_SIGNED_ZERO, false, false, false}}},
    {KVG_FORMAT_NVFP4, "modelopt", {.e2m1 = {KVG_TIES_EVEN, KVG_SIGN_LESS, 7}, .decode_scale_first = true,
     .nvfp4 = {KVG_Q_DIVIDE, KVG_V_DIVIDE, KVG_GUARD_NONE, true, true, true}}},
    {KVG_FORMAT_NVFP4, "modelopt-fake", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_DIVIDE, KVG_V_DIVIDE, KVG_GUARD_PLUS_ZERO, false, false, false}}},
    {KVG_FORMAT_NVFP4, "modelopt-hopper", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_DIVIDE, KVG_V_DIVIDE, KVG_GUARD_SMALL, false, false, false}}},
    {KVG_FORMAT_NVFP4, "flashinfer-kv", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_RCP, KVG_V_RCP, KVG_GUARD_AMAX, false, false, false}}},
    {KVG_FORMAT_NVFP4, "trtllm", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_ENCODE, KVG_V_RCP_ENCODE, KVG_GUARD_Q, false, false, false}}},
    {KVG_FORMAT_NVFP4, "flashinfer-fast", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_ENCODE, KVG_V_RCP_ENCODE, KVG_GUARD_AMAX, false, false, false}}},
    {KVG_FORMAT_NVFP4, "flashinfer-te", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_TE, KVG_V_TE, KVG_GUARD_NONE, false, false, false}}},
    {KVG_FORMAT_NVFP4, "flashinfer-page", {.e2m1 = {KVG_TIES_EVEN, KVG_SIGN_BIT, KVG_NAN_SIGNED_ZERO},
     .nvfp4 = {KVG_Q_DIVIDE, KVG_V_RECIPROCAL, KVG_GUARD_SCALE, false, false, false}}},
    {KVG_FORMAT_NVFP4, "vllm", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_ENCODE, KVG_V_RCP_ENCODE, KVG_GUARD_SCALE, false, false, false}}},
    {KVG_FORMAT_NVFP4, "vllm-minimax", {.e2m1 = {KVG_TIES_EVEN, KVG_SIGN_NONZERO, 7},
     .nvfp4 = {KVG_Q_MINIMAX, KVG_V_DIVIDE, KVG_GUARD_NONE, true, false, false}}},
    {KVG_FORMAT_NVFP4, "seed", {.e2m1 = HARDWARE,
     .nvfp4 = {KVG_Q_DIVIDE, KVG_V_UNROUNDED, KVG_GUARD_SIGNED_ZERO, false, false, false}}},
    {KVG_FORMAT_INT8_TOKEN_HEAD, "canonical", {.canonical = true}},
    {KVG_FORMAT_FP8_TOKEN_HEAD, "canonical", {.canonical = true}},
    MLX(MLX4), MLX(MLX4_G32), MLX(MLX4_G128), MLX(MLX8), MLX(MLX8_G32), MLX(MLX8_G128),
};

kvg_status kvg_row_rule_of(const kvg_storage *storage, kvg_row_rule *out)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].format != storage->format || strcmp(rows[i].dialect, storage->dialect) != 0) continue;
        *out = rows[i].rule;
        out->block = kvg_format_get(storage->format)->block;
        return KVG_OK;
    }
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no kernel for %s.%s", kvg_format_get(storage->format)->name,
                    storage->dialect);
}
