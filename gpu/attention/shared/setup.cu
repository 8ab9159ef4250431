#include "gpu/attention/shared/setup.cuh"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gpu/ops.h"
#include "gpu/rows/gpu_layout.h"

bool kvg_decode_is_linear(const kvg_storage &side)
{
    return side.format == KVG_FORMAT_ROWFP4 && !strcmp(side.dialect, "marlin-linear");
}
kvg_format kvg_decode_format(const kvg_storage &side)
{
    return kvg_decode_is_linear(side) ? KVG_FORMAT_ROWINT4 : side.format;
}

kvg_status kvg_decode_check_common(const kvg_problem *p)
{
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    if (p->dtype != KVG_DTYPE_F16 && p->dtype != KVG_DTYPE_BF16) {
        return kvg_decode_unimplemented("rows must be f16 or bf16");
    }
    return KVG_OK;
}

kvg_status kvg_decode_check_profile(const kvg_problem *p, int device)
{
    int major = 0, minor = 0;
    kvg_profile own = KVG_PROFILE_NONE;
    kvg_status s = kvg_cuda_status("decode", cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    if (!s) s = kvg_cuda_status("decode", cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (s) return s;
    const uint32_t sm = (uint32_t)(10 * major + minor);
    if (p->profile != KVG_PROFILE_NONE && (kvg_profile_of_sm(sm, &own) || own != p->profile)) {
        return kvg_decode_unimplemented("an sm_%u does not give the bits of %s", sm, kvg_profile_get(p->profile)->name);
    }
    return KVG_OK;
}

namespace {

/* The strides of a kind of rows that starts at multiples of `align` bytes of its pool. */
kvg_status find_strides(const kvg_problem *p, const kvg_gpu_rows &rows, uint32_t align, kvg_decode_pool *out)
{
    const uint64_t strides = rows.block | rows.token, unit = strides & (0 - strides);
    const uint64_t most = (p->paging.blocks * rows.block + (p->paging.block_tokens + 16) * rows.token) / unit;
    if ((rows.base | strides | rows.head) % align) {
        return kvg_decode_unimplemented("rows must start at multiples of %u bytes", align);
    }
    if (most > UINT32_MAX || unit > UINT32_MAX) return kvg_decode_unimplemented("a pool is too large");
    out->head = rows.head;
    out->block = (uint32_t)(rows.block / unit), out->token = (uint32_t)(rows.token / unit), out->unit = (uint32_t)unit;
    return KVG_OK;
}

/* Where the rows of a kind start. */
kvg_status open_pool(const kvg_problem *p, const kvg_gpu_rows &rows, const kvg_tensor *in, kvg_decode_pool *out)
{
    const kvg_tensor &pool = in[kvg_roles_index(kvg_op_get(p->op)->inputs, rows.pool, rows.pool_side)];
    if ((uintptr_t)pool.data % 16) {
        return kvg_fail(KVG_ERR_INVALID, "decode on tensor cores: pools must start at multiples of 16 bytes");
    }
    out->start = (const uint8_t *)pool.data + rows.base;
    return KVG_OK;
}

kvg_status open_pools(const kvg_problem *p, const kvg_tensor *in, kvg_decode_args *a)
{
    kvg_gpu_layout layout;
    kvg_status checked = kvg_gpu_layout_of(p, &layout);
    if (checked) return checked;
    for (int side = 0; side < 2; side++) {
        const kvg_side own = kvg_gpu_own_side(p, side);
        const kvg_gpu_rows &codes = layout.codes[own], &scales = layout.scales[own];
        kvg_status s = open_pool(p, codes, in, &a->codes[side]);
        if (!s && scales.bytes) s = open_pool(p, scales, in, &a->scales[side]);
        if (s) return s;
    }
    a->v_swizzle = layout.scales[KVG_V].group != 0;
    const auto together = [](const kvg_gpu_rows *rows) {
        return rows[0].token == rows[0].bytes && rows[1].token == rows[1].bytes;
    };
    bool dense = together(layout.scales); /* and at multiples of 16 bytes */
    for (int side = 0; side < 2; side++) {
        dense &= ((uint64_t)a->scales[side].start | layout.scales[side].block | layout.scales[side].head) % 16 == 0;
    }
    a->rows_lie = p->paging.block_tokens % KVG_GROUP ? KVG_ROWS_ANY
                  : !together(layout.codes)          ? KVG_ROWS_PAGES
                  : !dense                           ? KVG_ROWS_TOGETHER
                                                     : KVG_ROWS_DENSE;
    return KVG_OK;
}

/* Powers of two that a format's operands leave to the factors; docs/spec/decode-contract.md section
 * 2. */
float base_of(kvg_format format)
{
    return format == KVG_FORMAT_NVFP4 ? 0x1p14f : format == KVG_FORMAT_MX16 || format == KVG_FORMAT_MXFP4 ? 0x1p5f : 1;
}

/* What V's dims are in a warp's sums: what unpacking makes of rows in ldmatrix's order
 * (unpack.cuh). */
void set_dims(kvg_format v, kvg_decode_args *a)
{
    static const struct {
        uint8_t lane[2], sum[4];
    } orders[] = {{{8, 4}, {0, 2, 1, 3}}, {{8, 1}, {0, 4, 2, 6}}, {{4, 2}, {0, 1, 16, 17}}, {{2, 1}, {0, 8, 16, 24}}};
    const uint32_t bits = kvg_format_get(v)->element_bits;
    const auto &order = orders[v == KVG_FORMAT_INT4 ? 1 : bits == 4 ? 0 : bits == 8 ? 2 : 3];
    memcpy(a->out_lane, order.lane, sizeof order.lane);
    memcpy(a->out_sum, order.sum, sizeof order.sum);
}

/* f16 pairs: n - 8 = (1024 + n) - 1032 = (1024 + 16 n) / 16 - 72, or half of it. */
kvg_factors factors_of(bool half)
{
    const uint32_t exponent = half ? 0x04000400u : 0;
    return {2,
            256,
            1u << 23,
            {0x3C003C00u - exponent, 0xE408E408u - exponent, 0x2C002C00u - exponent, 0xD480D480u - exponent}};
}

} // namespace

kvg_status kvg_decode_set_strides(const kvg_problem *p, kvg_decode_args *a)
{
    kvg_gpu_layout layout;
    kvg_status checked = kvg_gpu_layout_of(p, &layout);
    if (checked) return checked;
    for (int side = 0; side < 2; side++) {
        const kvg_side own = kvg_gpu_own_side(p, side);
        const kvg_gpu_rows &codes = layout.codes[own], &scales = layout.scales[own];
        kvg_status s = find_strides(p, codes, codes.bytes % 16 ? 8 : 16, &a->codes[side]);
        if (!s && scales.bytes) s = find_strides(p, scales, scales.bytes & (0 - scales.bytes), &a->scales[side]);
        if (s) return s;
    }
    return KVG_OK;
}

kvg_status kvg_decode_set_tensors(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, int4 *rows,
                                  kvg_decode_args *a)
{
    const kvg_op_info *op = kvg_op_get(KVG_OP_DECODE);
    const auto input = [&](kvg_role role, kvg_side side) { return in[kvg_roles_index(op->inputs, role, side)].data; };
    const auto output = [&](kvg_role role) { return out[kvg_roles_index(op->outputs, role, KVG_K)].data; };
    const auto tensor_scale = [&](kvg_side side) {
        const bool has = kvg_format_get(p->storage[side].format)->tensor_scale;
        return has ? (const float *)input(KVG_ROLE_TENSOR_SCALE, kvg_gpu_own_side(p, side)) : nullptr;
    };
    kvg_status s = open_pools(p, in, a);
    if (s) return s;
    const kvg_attention &attention = p->attention;
    const float scale = attention.scale != 0 ? attention.scale : 1.0f / sqrtf((float)p->head_dim);
    a->q = (const uint16_t *)input(KVG_ROLE_Q, KVG_K);
    a->k_scale = tensor_scale(KVG_K), a->v_scale = tensor_scale(KVG_V);
    a->sinks = attention.sinks ? (const float *)input(KVG_ROLE_SINKS, KVG_K) : nullptr;
    a->table = (const int32_t *)input(KVG_ROLE_BLOCK_TABLE, KVG_K);
    a->out = (uint16_t *)output(KVG_ROLE_OUT);
    a->lse = (float *)output(KVG_ROLE_LSE);
    const bool ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING, one_block = kvg_problem_blocks(p) == KVG_BLOCKS_ONE;
    const uint32_t most = one_block ? std::min(p->tokens, p->paging.block_tokens) : p->tokens; /* of a sequence */
    a->ranges = {(const int32_t *)input(KVG_ROLE_LENGTHS, KVG_K),
                 (const int32_t *)input(KVG_ROLE_QUERY_LENGTHS, KVG_K),
                 rows,
                 p->paging.sequences,
                 attention.queries,
                 ring ? 0 : most,
                 attention.window,
                 ring ? p->paging.block_tokens : 0};
    a->query_heads = attention.query_heads;
    a->width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    a->block_tokens = kvg_divisor_of(p->paging.block_tokens);
    a->group = attention.query_heads / p->kv_heads;
    a->blocks = (int32_t)p->paging.blocks;
    a->score_scale = scale * 0x1.715476p+0f;
    a->cap = attention.softcap;
    a->bf16 = p->dtype == KVG_DTYPE_BF16;
    a->ring = ring;
    set_dims(kvg_decode_format(p->storage[KVG_V]), a);
    a->k_base = base_of(p->storage[KVG_K].format), a->v_base = base_of(p->storage[KVG_V].format);
    a->factors = factors_of(kvg_decode_is_linear(p->storage[KVG_V]));
    return KVG_OK;
}
