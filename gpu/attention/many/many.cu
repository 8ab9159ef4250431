/* Op decode on tensor cores for many query rows: kernels in a chain. The bands, by the lengths of
 * the sequences (many_list.cuh); a CTA takes item after item (many_kernel.cuh); the tree
 * above several pieces (many_merge.cuh). */
#include "gpu/attention/many/many.h"

#include <cstring>

#include "gpu/attention/few/few.h"
#include "gpu/attention/many/many_list.cuh"
#include "gpu/attention/many/many_merge.cuh"
#include "gpu/attention/shared/family.h"
#include "gpu/attention/shared/setup.cuh"

namespace {

const many_kernel *kernel_of(const kvg_problem *p, uint32_t groups)
{
    const kvg_format_info *k = kvg_format_get(p->storage[KVG_K].format);
    const bool affine = p->storage[KVG_K].format == KVG_FORMAT_INT8 || p->storage[KVG_K].format == KVG_FORMAT_INT4;
    const bool bf16 = p->storage[KVG_K].format == KVG_FORMAT_BF16 || (affine && p->dtype == KVG_DTYPE_BF16);
    const bool row_scales = k->row_param_bytes == 2;
    const uint32_t width = many_width(p);
    for (const auto *kernels : {&many_64, &many_128, &many_256, &many_shared, &many_padded_128,
                                &many_padded_256, &many_padded_320}) {
        if (kernels->padded != many_is_padded(p)) continue;
        for (int i = 0; i < kernels->count; i++) {
            const many_kernel &row = kernels->rows[i];
            if (row.dim == width && row.bf16 == bf16 && row.row_scales == row_scales && row.groups == groups) {
                return &row;
            }
        }
    }
    return nullptr;
}

int many_threads(uint32_t groups)
{
    return KVG_WARP * (MANY_FILLERS + 4 * (int)groups);
}

/* What the current GPU has. */
kvg_status ask_chip(const kvg_problem *p, many_chip *chip, bool *chains)
{
    int device = 0, multiprocessors = 0, shared = 0, shared_all = 0, registers = 0;
    cudaFuncAttributes code = {}, wide_code = {};
    kvg_status s = kvg_cuda_status("decode", cudaGetDevice(&device));
    const auto ask = [&](cudaDeviceAttr what, int *value) {
        if (!s) s = kvg_cuda_status("decode", cudaDeviceGetAttribute(value, what, device));
    };
    ask(cudaDevAttrMultiProcessorCount, &multiprocessors);
    ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, &shared);
    ask(cudaDevAttrMaxSharedMemoryPerMultiprocessor, &shared_all);
    ask(cudaDevAttrMaxRegistersPerMultiprocessor, &registers);
    if (!s) s = kvg_decode_check_profile(p, device);
    const bool shared_row = p->paging.shared_kv;
    const uint32_t least = shared_row ? (uint32_t)MANY_SHARED_GROUPS : 1;
    const uint32_t most = shared_row ? least : (uint32_t)MANY_MOST_GROUPS;
    if (!s) s = kvg_cuda_status("decode", cudaFuncGetAttributes(&code, kernel_of(p, least)->run));
    if (!s && !shared_row && code.maxThreadsPerBlock < many_threads(least)) { /* an empty kernel */
        return kvg_decode_unimplemented("this GPU's kernels have no head_dim %u", p->head_dim);
    }
    const many_kernel *wide = kernel_of(p, most);
    if (!s && wide) s = kvg_cuda_status("decode", cudaFuncGetAttributes(&wide_code, wide->run));
    if (s) return s;
    *chains = code.ptxVersion >= 90;
    const int ctas = registers / (code.numRegs * many_threads(least));
    const bool has_wide = wide_code.maxThreadsPerBlock >= many_threads(most); /* else it is empty */
    *chip = {(uint32_t)multiprocessors, (uint32_t)shared, (uint32_t)shared_all, (uint32_t)(ctas > 0 ? ctas : 1),
             has_wide ? most : shared_row ? 0u : 1u, kvg_contract_of((uint32_t)code.ptxVersion).leaf};
    return KVG_OK;
}

/* V is whole parts of 64 columns, and whole segments of K's order
 * (docs/spec/decode-contract.md section 4). */
kvg_status check_shared(const kvg_problem *p)
{
    kvg_status s = kvg_decode_check_common(p);
    if (s) return s;
    static const kvg_format formats[] = {KVG_FORMAT_F16,  KVG_FORMAT_BF16,  KVG_FORMAT_E4M3,
                                         KVG_FORMAT_E5M2, KVG_FORMAT_NVFP4, KVG_FORMAT_MX16};
    const kvg_format format = p->storage[KVG_K].format;
    const kvg_paging &g = p->paging;
    bool known = false;
    for (kvg_format f : formats) known |= f == format;
    if (!known || p->head_dim != MANY_SHARED_DIM || g.v_dim != MANY_SHARED_V_DIM ||
        g.v_first % (kvg_format_get(format)->element_bits == 4 ? 128 : 64)) {
        return kvg_decode_unimplemented("rows that K and V share: f16, bf16, e4m3, e5m2, nvfp4 or mx16, head_dim 576, "
                                        "v_dim 512, v_first 0 or, without block scales, 64");
    }
    return KVG_OK;
}

kvg_status check(const kvg_problem *p)
{
    if (p->paging.shared_kv) return check_shared(p);
    kvg_status s = kvg_decode_check(p);
    if (s) return s;
    if (p->head_dim % 16 || p->head_dim > MANY_MOST_DIM) {
        return kvg_decode_unimplemented("no kernel with head_dim %u: multiples of 16 up to %u", p->head_dim,
                                        (unsigned)MANY_MOST_DIM);
    }
    return KVG_OK;
}

/* All that can be known before there are tensors. */
kvg_status prepare(const kvg_problem *p, many_plan *plan, many_args *a, bool *chains)
{
    many_chip chip;
    kvg_status s = check(p);
    if (!s) s = ask_chip(p, &chip, chains);
    if (!s) s = kvg_decode_set_strides(p, &a->d);
    if (!s) s = many_plan_of(p, &chip, plan);
    if (s) return s;
    const kvg_format k = kvg_decode_format(p->storage[KVG_K]), v = kvg_decode_format(p->storage[KVG_V]);
    const uint32_t k_bits = kvg_format_get(k)->element_bits, v_bits = kvg_format_get(v)->element_bits;
    /* Nibbles come out of unpacking in the order 0, 4, 2, 6, 1, 5, 3, 7; TurboMind's int4 has dims
     * 0, 2, 4, 6, 1, 3, 5, 7 in them. */
    static const uint8_t in_order[8] = {0, 1, 2, 3, 4, 5, 6, 7}, nibbles[8] = {0, 4, 2, 6, 1, 5, 3, 7},
                         interleaved[8] = {0, 1, 4, 5, 2, 3, 6, 7};
    memcpy(a->dims, v == KVG_FORMAT_INT4 ? interleaved : v_bits == 4 ? nibbles : in_order, sizeof a->dims);
    a->order = k == KVG_FORMAT_INT4 ? MANY_ORDER_4_INTERLEAVED
               : k_bits == 4        ? MANY_ORDER_4
               : k_bits == 8        ? MANY_ORDER_8
                                    : MANY_ORDER_16;
    a->format[KVG_K] = k, a->format[KVG_V] = v;
    a->group = kvg_divisor_of(p->attention.query_heads / p->kv_heads);
    a->kv_heads = p->kv_heads, a->groups = plan->shape.groups;
    a->band_rows = plan->shape.rows, a->columns = plan->shape.columns;
    a->shared_row = p->paging.shared_kv, a->v_first = p->paging.v_first;
    a->out_dim = p->paging.shared_kv ? p->paging.v_dim : p->head_dim;
    a->cut = plan->cut;
    a->stages = plan->shape.stages, a->depth = plan->shape.depth, a->raw = plan->shape.raw,
    a->slots = plan->shape.slots;
    a->waiting = plan->waiting;
    return KVG_OK;
}

kvg_status workspace_of(const kvg_problem *p, size_t *bytes)
{
    many_plan plan;
    many_args a = {};
    bool chains;
    kvg_status s = prepare(p, &plan, &a, &chains);
    if (!s) *bytes = plan.list_bytes + plan.stack_bytes + plan.node_bytes;
    return s;
}

kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, void *workspace, kvg_stream *stream)
{
    many_plan plan;
    many_args a = {};
    bool chains;
    kvg_status s = prepare(p, &plan, &a, &chains);
    if (!s) s = kvg_decode_set_tensors(p, in, out, nullptr, &a.d);
    if (s) return s;
    a.list = (int4 *)workspace;
    a.stack = (float4 *)((uint8_t *)workspace + plan.list_bytes);
    a.nodes = (float4 *)((uint8_t *)workspace + plan.list_bytes + plan.stack_bytes);
    const auto kernel = kernel_of(p, a.groups)->run;
    s = kvg_cuda_status(
        "decode", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)plan.shape.shared));
    if (!s) s = kvg_decode_launch<many_args>(kvg_decode_many_list, 1, MANY_LIST_THREADS, 0, false, stream, a);
    if (!s)
        s = kvg_decode_launch<many_args>(kernel, plan.ctas, (uint32_t)many_threads(a.groups), plan.shape.shared,
                                         chains, stream, a);
    if (!s && plan.node_bytes) {
        const uint64_t cut = (uint64_t)plan.bands * p->kv_heads - plan.cut.whole;
        const uint64_t warps = cut * a.groups * 4 * (a.columns / MANY_SLICE);
        s = kvg_decode_launch<many_args>(kvg_decode_many_merge,
                                         (uint32_t)((warps + MANY_MERGE_WARPS - 1) / MANY_MERGE_WARPS),
                                         KVG_WARP * MANY_MERGE_WARPS, 0, chains, stream, a);
    }
    return s;
}

} // namespace

const kvg_decode_family kvg_decode_mma_many = {workspace_of, run};
