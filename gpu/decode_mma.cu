/* Op decode on tensor cores after docs/spec/decode-contract.md. Kernels in a chain: which keys each query sees,
 * where there are many sequences; a CTA per piece (decode_pieces.cuh); the tree above the pieces and the root
 * (decode_merge.cuh). */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "gpu/cuda_status.cuh"
#include "gpu/decode.h"
#include "gpu/decode_merge.cuh"
#include "gpu/decode_mma.h"
#include "gpu/decode_rows.cuh"
#include "gpu/decode_shape.cuh"
#include "gpu/gpu_layout.h"
#include "gpu/ops.h"

namespace {

kvg_fast_divisor divisor_of(uint32_t divisor)
{
    uint32_t bits = 0;
    while (divisor > 1ull << bits) bits++;
    return {divisor, (uint32_t)(((1ull << (31 + bits)) + divisor - 1) / divisor), 31 + bits};
}

/* A kernel that may begin before the one before it has ended, and waits for it where it must. */
template <typename... ARGS>
kvg_status launch(void (*kernel)(ARGS...), uint32_t blocks, uint32_t threads, uint32_t shared, bool chained,
                  kvg_stream *stream, ARGS... args)
{
    cudaLaunchAttribute chain = {};
    chain.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    chain.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream, config.attrs = &chain, config.numAttrs = chained;
    return kvg_cuda_status("decode", cudaLaunchKernelEx(&config, kernel, args...));
}

template <typename... WHAT> kvg_status unimplemented(const char *format, WHAT... what)
{
    char text[160];
    snprintf(text, sizeof text, format, what...);
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on tensor cores: %s", text);
}

/* The format whose kernel takes a side: Metal Marlin's linear codes are the nibbles of rowint4, worth half as much. */
bool is_linear(const kvg_storage &side)
{
    return side.format == KVG_FORMAT_ROWFP4 && !strcmp(side.dialect, "marlin-linear");
}
kvg_format kernel_format(const kvg_storage &side)
{
    return is_linear(side) ? KVG_FORMAT_ROWINT4 : side.format;
}

const kvg_decode_kernel *kernel_of(const kvg_problem *p)
{
    const kvg_decode_kernels *const families[] = {&kvg_decode_16bit, &kvg_decode_8bit, &kvg_decode_int4,
                                                  &kvg_decode_fp4};
    for (const auto *family : families) {
        for (int i = 0; i < family->count; i++) {
            const kvg_decode_kernel &k = family->rows[i];
            if (k.format[0] == kernel_format(p->storage[0]) && k.format[1] == kernel_format(p->storage[1]) &&
                k.dim == p->head_dim && (k.any || k.dtype == p->dtype)) {
                return &k;
            }
        }
    }
    return nullptr;
}

kvg_status check(const kvg_problem *p)
{
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    if (p->dtype != KVG_DTYPE_F16 && p->dtype != KVG_DTYPE_BF16) return unimplemented("rows must be f16 or bf16");
    if (p->paging.shared_kv) return unimplemented("K and V must have rows of their own");
    for (const kvg_storage &side : p->storage) {
        const bool affine = side.format == KVG_FORMAT_INT8 || side.format == KVG_FORMAT_INT4;
        if (affine && strcmp(side.dialect, "canonical")) {
            return unimplemented("dialect %s of %s: canonical alone", side.dialect, kvg_format_get(side.format)->name);
        }
    }
    if (is_linear(p->storage[0]) != is_linear(p->storage[1])) return unimplemented("K and V must have one dialect");
    if (!kernel_of(p)) {
        return unimplemented("no kernel for K in %s, V in %s with head_dim %u: one format for both, or e4m3 and nvfp4, "
                             "and head_dim 64, 128 or 256", kvg_format_get(p->storage[0].format)->name,
                             kvg_format_get(p->storage[1].format)->name, p->head_dim);
    }
    return KVG_OK;
}

/* The GPU, and what the kernel takes there. */
struct decode_chip {
    kvg_decode_fit fit;
    int multiprocessors;
    bool chains; /* a kernel may begin before the one before it has ended */
};

/* A chip gives the bits of its own profile alone. What a kernel takes is for the chip that its code was made for. */
kvg_status check_device(const kvg_problem *p, const kvg_decode_kernel &kernel, decode_chip *chip)
{
    int device = 0, most = 0, major = 0, minor = 0;
    kvg_profile own = KVG_PROFILE_NONE;
    cudaFuncAttributes code = {};
    kvg_status s = kvg_cuda_status("decode", cudaGetDevice(&device));
    const auto ask = [&](cudaDeviceAttr what, int *value) {
        if (!s) s = kvg_cuda_status("decode", cudaDeviceGetAttribute(value, what, device));
    };
    ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most);
    ask(cudaDevAttrComputeCapabilityMajor, &major);
    ask(cudaDevAttrComputeCapabilityMinor, &minor);
    ask(cudaDevAttrMultiProcessorCount, &chip->multiprocessors);
    if (s) return s;
    const uint32_t sm = (uint32_t)(10 * major + minor);
    if (p->profile != KVG_PROFILE_NONE && (kvg_profile_of_sm(sm, &own) || own != p->profile)) {
        return unimplemented("an sm_%u does not give the bits of %s", sm, kvg_profile_get(p->profile)->name);
    }
    s = kvg_cuda_status("decode", cudaFuncGetAttributes(&code, kernel.run));
    if (s) return s;
    chip->fit = kernel.fit[kvg_is_small_chip(code.ptxVersion)];
    chip->chains = code.ptxVersion >= 90;
    if (chip->fit.shared > (uint32_t)most) {
        return unimplemented("a CTA needs %u bytes of shared memory and this GPU gives %d", chip->fit.shared, most);
    }
    return KVG_OK;
}

/* The strides of a kind of rows that starts at multiples of `align` bytes of its pool. */
kvg_status find_strides(const kvg_problem *p, const kvg_gpu_rows &rows, uint32_t align, kvg_decode_pool *out)
{
    const uint64_t strides = rows.block | rows.token, unit = strides & (0 - strides);
    const uint64_t most = (p->paging.blocks * rows.block + (p->paging.block_tokens + 16) * rows.token) / unit;
    if ((rows.base | strides | rows.head) % align) {
        return unimplemented("rows must start at multiples of %u bytes", align);
    }
    if (most > UINT32_MAX || unit > UINT32_MAX) return unimplemented("a pool is too large");
    out->head = rows.head;
    out->block = (uint32_t)(rows.block / unit), out->token = (uint32_t)(rows.token / unit), out->unit = (uint32_t)unit;
    return KVG_OK;
}

/* What is left after rounds of as many CTAs as are resident at once is cut, so that all have some of it; and so on, as
 * far as a warp has a leaf. A single round is left as it is. */
void cut(uint32_t pieces, uint32_t resident, uint32_t run, uint32_t *ctas)
{
    for (uint32_t level = 0; pieces; level++) {
        const uint32_t parts = pieces << level;
        const bool all = run >> level == 1 || (level == 0 && parts <= resident);
        const uint32_t taken = all ? pieces : (parts - parts % resident) >> level;
        ctas[level] = taken << level;
        pieces -= taken;
    }
}

/* All that can be known before there are tensors. */
kvg_status prepare(const kvg_problem *p, decode_chip *chip, kvg_decode_plan *plan, kvg_decode_args *a)
{
    kvg_gpu_layout layout;
    kvg_status s = check(p);
    if (s) return s;
    s = check_device(p, *kernel_of(p), chip);
    if (s) return s;
    kvg_gpu_layout_of(p, &layout);
    for (int side = 0; side < 2 && !s; side++) {
        const uint32_t scale_bytes = layout.scales[side].bytes;
        s = find_strides(p, layout.codes[side], 16, &a->codes[side]);
        if (!s && scale_bytes) s = find_strides(p, layout.scales[side], scale_bytes, &a->scales[side]);
    }
    if (s) return s;
    kvg_decode_plan_of(p, chip->fit.levels, plan);
    const uint64_t rows = (uint64_t)p->attention.queries * p->kv_heads * plan->chunks;
    if (rows * plan->pieces > INT32_MAX || rows * p->head_dim / 32 > INT32_MAX) {
        return unimplemented("too many queries");
    }
    if (plan->pieces > KVG_MERGE_ROUNDS * KVG_DECODE_BATCH * plan->merge_warps) return unimplemented("too many tokens");
    const uint32_t resident = chip->fit.resident * (uint32_t)chip->multiprocessors;
    cut((uint32_t)(rows * plan->pieces), resident, plan->run, a->ctas);
    a->run = plan->run;
    while (1u << a->piece_log < KVG_DECODE_LEAF * KVG_DECODE_WARPS * a->run) a->piece_log++;
    a->ahead = (uint32_t)std::min<uint64_t>((resident / rows + 1) << a->piece_log, INT32_MAX);
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
    kvg_gpu_layout_of(p, &layout);
    for (int side = 0; side < 2; side++) {
        kvg_status s = open_pool(p, layout.codes[side], in, &a->codes[side]);
        if (!s && layout.scales[side].bytes) s = open_pool(p, layout.scales[side], in, &a->scales[side]);
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
                  : !dense                           ? KVG_ROWS_TOGETHER : KVG_ROWS_DENSE;
    return KVG_OK;
}

/* Powers of two that a format's operands leave to the factors; docs/spec/decode-contract.md section 2. */
float base_of(kvg_format format)
{
    return format == KVG_FORMAT_NVFP4 ? 0x1p14f : format == KVG_FORMAT_MX16 || format == KVG_FORMAT_MXFP4 ? 0x1p5f : 1;
}

/* What V's dims are in a warp's sums: what unpacking makes of rows in ldmatrix's order (decode_unpack.cuh). */
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
    return {2, 256, 1u << 23,
            {0x3C003C00u - exponent, 0xE408E408u - exponent, 0x2C002C00u - exponent, 0xD480D480u - exponent}};
}

/* CTAs, each of which leaves a node. */
uint32_t ctas_of(const kvg_decode_args &a)
{
    uint32_t all = 0;
    for (uint32_t n : a.ctas) all += n;
    return all;
}

kvg_status workspace_of(const kvg_problem *p, size_t *bytes)
{
    decode_chip chip;
    kvg_decode_plan plan;
    kvg_decode_args a = {};
    kvg_status s = prepare(p, &chip, &plan, &a);
    if (!s) *bytes = plan.rows_bytes + ctas_of(a) * plan.node_bytes;
    return s;
}

kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, void *workspace, kvg_stream *stream)
{
    const kvg_op_info *op = kvg_op_get(KVG_OP_DECODE);
    const auto input = [&](kvg_role role, kvg_side side) { return in[kvg_roles_index(op->inputs, role, side)].data; };
    const auto output = [&](kvg_role role) { return out[kvg_roles_index(op->outputs, role, KVG_K)].data; };
    const auto tensor_scale = [&](kvg_side side) {
        const bool has = kvg_format_get(p->storage[side].format)->tensor_scale;
        return has ? (const float *)input(KVG_ROLE_TENSOR_SCALE, side) : nullptr;
    };
    decode_chip chip;
    kvg_decode_plan plan;
    kvg_decode_args a = {};
    kvg_status s = prepare(p, &chip, &plan, &a);
    if (!s) s = open_pools(p, in, &a);
    if (s) return s;
    const kvg_attention &attention = p->attention;
    const float scale = attention.scale != 0 ? attention.scale : 1.0f / sqrtf((float)p->head_dim);
    a.q = (const uint16_t *)input(KVG_ROLE_Q, KVG_K);
    a.k_scale = tensor_scale(KVG_K), a.v_scale = tensor_scale(KVG_V);
    a.sinks = attention.sinks ? (const float *)input(KVG_ROLE_SINKS, KVG_K) : nullptr;
    a.table = (const int32_t *)input(KVG_ROLE_BLOCK_TABLE, KVG_K);
    a.out = (uint16_t *)output(KVG_ROLE_OUT);
    a.lse = (float *)output(KVG_ROLE_LSE);
    const bool ring = p->layout == KVG_LAYOUT_RING, one_block = p->layout == KVG_LAYOUT_CONTIGUOUS;
    const uint32_t most = one_block ? std::min(p->tokens, p->paging.block_tokens) : p->tokens; /* of a sequence */
    a.ranges = {
        (const int32_t *)input(KVG_ROLE_LENGTHS, KVG_K), (const int32_t *)input(KVG_ROLE_QUERY_LENGTHS, KVG_K),
        (int4 *)workspace, p->paging.sequences, attention.queries, ring ? 0 : most, attention.window,
        ring ? p->paging.block_tokens : 0};
    a.nodes = (float4 *)((uint8_t *)workspace + plan.rows_bytes);
    a.queries = divisor_of(attention.queries);
    a.query_heads = attention.query_heads;
    a.width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    a.block_tokens = divisor_of(p->paging.block_tokens);
    a.group = attention.query_heads / p->kv_heads;
    a.chunks = divisor_of(plan.chunks);
    a.units = divisor_of(p->kv_heads * plan.chunks);
    a.blocks = (int32_t)p->paging.blocks;
    a.score_scale = scale * 0x1.715476p+0f;
    a.cap = attention.softcap;
    a.bf16 = p->dtype == KVG_DTYPE_BF16;
    a.ring = ring;
    set_dims(kernel_format(p->storage[KVG_V]), &a);
    a.k_base = base_of(p->storage[KVG_K].format), a.v_base = base_of(p->storage[KVG_V].format);
    a.factors = factors_of(is_linear(p->storage[KVG_V]));
    const auto kernel = kernel_of(p)->run;
    const uint64_t rows = (uint64_t)attention.queries * a.units.divisor;
    s = kvg_cuda_status("decode", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                       (int)chip.fit.shared));
    const bool many = a.ranges.sequences > KVG_DECODE_FEW;
    if (!s && many) {
        s = launch<kvg_decode_ranges>(kvg_decode_rows, 1, KVG_DECODE_ROWS_THREADS, 0, false, stream, a.ranges);
    }
    if (!s) s = launch<kvg_decode_args>(kernel, ctas_of(a), KVG_WARP * KVG_DECODE_WARPS, chip.fit.shared,
                                        many && chip.chains, stream, a);
    if (!s) {
        const bool one_round = !ring && !attention.window && plan.pieces <= KVG_DECODE_BATCH * plan.merge_warps;
        s = launch<kvg_decode_args, uint32_t>(kvg_decode_merge, (uint32_t)(rows * (p->head_dim / 32)),
                                              KVG_WARP * plan.merge_warps, kvg_merge_bytes(plan.merge_warps, one_round),
                                              chip.chains, stream, a, p->head_dim);
    }
    return s;
}

} // namespace

const kvg_decode_family kvg_decode_mma = {workspace_of, run};
