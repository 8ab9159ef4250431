#include "second/slow_side.h"

#include <string.h>

const kvg_tensor *slow_tensor(const kvg_tensor *tensors, const kvg_role *roles, kvg_role role, kvg_side side)
{
    return &tensors[kvg_roles_index(roles, role, side)];
}

kvg_status slow_side_open(const kvg_problem *problem, kvg_side side, const kvg_tensor *in, slow_side *out)
{
    const kvg_storage *storage = &problem->storage[side];
    const kvg_format_info *format = kvg_format_get(storage->format);
    *out = (slow_side){
        .codec = slow_codec_find(storage->format, storage->dialect),
        .row = {.type = slow_layout_of(problem->dtype), .dim = problem->head_dim, .g = slow_scaled(1, 0)},
        .dtype = problem->dtype,
        .code_bytes = kvg_format_code_bytes(storage->format, problem->head_dim),
        .scale_bytes = kvg_format_scale_bytes(storage->format, problem->head_dim),
    };
    if (!out->codec) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "slowref has no dialect '%s' of format %s", storage->dialect,
                        format->name);
    }
    if (!format->tensor_scale) return KVG_OK;
    uint32_t bits;
    memcpy(&bits, slow_tensor(in, kvg_op_get(problem->op)->inputs, KVG_ROLE_TENSOR_SCALE, side)->data, sizeof bits);
    out->row.g = slow_decode(&slow_f32, bits);
    if (out->row.g.kind != SLOW_FINITE || out->row.g.negative || slow_is_zero(out->row.g)) {
        return kvg_fail(KVG_ERR_INVALID, "tensor scale of %s has bits 0x%08X: use a finite value above 0",
                        side == KVG_K ? "K" : "V", bits);
    }
    return KVG_OK;
}

void slow_load(kvg_dtype dtype, const uint8_t *from, size_t count, slow_number *x)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        if (dtype == KVG_DTYPE_F32) {
            memcpy(&bits, from + 4 * i, sizeof bits);
            x[i] = slow_decode(&slow_f32, bits);
        } else {
            x[i] = slow_get16(from + 2 * i, slow_layout_of(dtype));
        }
    }
}

void slow_store(kvg_dtype dtype, const slow_number *x, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == KVG_DTYPE_F32) {
            uint32_t bits = (uint32_t)slow_encode(&slow_f32, x[i]);
            memcpy(to + 4 * i, &bits, sizeof bits);
        } else {
            slow_put16(to + 2 * i, slow_layout_of(dtype), x[i]);
        }
    }
}
