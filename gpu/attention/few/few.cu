/* Op decode on tensor cores after docs/spec/decode-contract.md. Kernels in a chain: which keys each query sees,
 * where there are many sequences; a CTA per piece (few_pieces.cuh); the tree above the pieces and the root
 * (few_merge.cuh). */
#include <algorithm>
#include <cstring>

#include "gpu/attention/few/few.h"
#include "gpu/attention/few/few_merge.cuh"
#include "gpu/attention/few/few_shape.cuh"
#include "gpu/attention/shared/decode_rows.cuh"
#include "gpu/attention/shared/family.h"
#include "gpu/attention/shared/setup.cuh"

namespace {

/* Every kernel, to `work`. */
template <class WORK> void each_kernel(const WORK &work)
{
    for (const auto *family : {&kvg_decode_16bit, &kvg_decode_8bit, &kvg_decode_int4, &kvg_decode_fp4}) {
        for (int i = 0; i < family->count; i++) work(family->rows[i]);
    }
}

bool takes_formats(const kvg_decode_kernel &k, const kvg_problem *p)
{
    return k.format[0] == kvg_decode_format(p->storage[0]) && k.format[1] == kvg_decode_format(p->storage[1]) &&
           (k.any || k.dtype == p->dtype);
}

/* Of those whose teams fill the query tokens that a sequence has on the average, the one with the largest. A team that
 * lies in two sequences takes longer than two CTAs of one token each. */
const kvg_decode_kernel *kernel_of(const kvg_problem *p)
{
    const kvg_decode_kernel *best = nullptr;
    each_kernel([&](const kvg_decode_kernel &k) {
        if (!takes_formats(k, p) || k.dim != p->head_dim) return;
        if (k.queries > 1 && p->attention.queries % ((uint64_t)k.queries * p->paging.sequences)) return;
        if (!best || k.queries > best->queries) best = &k;
    });
    return best;
}

} // namespace

kvg_status kvg_decode_check(const kvg_problem *p)
{
    kvg_status s = kvg_decode_check_common(p);
    if (s) return s;
    if (p->paging.shared_kv) return kvg_decode_unimplemented("K and V must have rows of their own");
    for (const kvg_storage &side : p->storage) {
        const bool affine = side.format == KVG_FORMAT_INT8 || side.format == KVG_FORMAT_INT4;
        if (affine && strcmp(side.dialect, "canonical")) {
            return kvg_decode_unimplemented("dialect %s of %s: canonical alone", side.dialect,
                                            kvg_format_get(side.format)->name);
        }
    }
    if (kvg_decode_is_linear(p->storage[0]) != kvg_decode_is_linear(p->storage[1])) {
        return kvg_decode_unimplemented("K and V must have one dialect");
    }
    bool takes = false;
    each_kernel([&](const kvg_decode_kernel &k) { takes |= takes_formats(k, p); });
    if (!takes) {
        return kvg_decode_unimplemented("no kernel for K in %s, V in %s: one format for both, or e4m3 and nvfp4",
                                        kvg_format_get(p->storage[0].format)->name,
                                        kvg_format_get(p->storage[1].format)->name);
    }
    return KVG_OK;
}

namespace {

/* The GPU, and what the kernel takes there. */
struct decode_chip {
    kvg_decode_fit fit;
    int multiprocessors;
    uint32_t leaf;        /* tokens of one, in the contract that its code is made for */
    uint32_t leaf_shared; /* bytes of shared memory of the kernel whose CTAs have a leaf each; 0: none has room */
    bool chains; /* a kernel may begin before the one before it has ended */
};

/* What a kernel takes is for the chip that its code was made for. */
kvg_status check_device(const kvg_problem *p, const kvg_decode_kernel &kernel, decode_chip *chip)
{
    int device = 0, most = 0;
    cudaFuncAttributes code = {};
    kvg_status s = kvg_cuda_status("decode", cudaGetDevice(&device));
    const auto ask = [&](cudaDeviceAttr what, int *value) {
        if (!s) s = kvg_cuda_status("decode", cudaDeviceGetAttribute(value, what, device));
    };
    ask(cudaDevAttrMaxSharedMemoryPerBlockOptin, &most);
    ask(cudaDevAttrMultiProcessorCount, &chip->multiprocessors);
    if (!s) s = kvg_decode_check_profile(p, device);
    if (s) return s;
    s = kvg_cuda_status("decode", cudaFuncGetAttributes(&code, kernel.run));
    if (s) return s;
    chip->fit = kernel.fit[kvg_is_small_chip(code.ptxVersion)];
    chip->chains = code.ptxVersion >= 90;
    chip->leaf = kvg_contract_of((uint32_t)code.ptxVersion).leaf;
    chip->leaf_shared = 0;
    for (const kvg_leaf_fit &fit : kernel.leaves) {
        if (kernel.leaf && fit.leaf == chip->leaf && fit.shared <= (uint32_t)most) chip->leaf_shared = fit.shared;
    }
    if (chip->fit.shared > (uint32_t)most) {
        return kvg_decode_unimplemented("a CTA needs %u bytes of shared memory and this GPU gives %d", chip->fit.shared,
                                        most);
    }
    return KVG_OK;
}

/* What is left after rounds of as many CTAs as are resident at once is cut, so that all have some of it; and so on, as
 * far as a warp has `least` stretches, a leaf. A single round is left as it is. */
void cut(uint32_t pieces, uint32_t resident, uint32_t run, uint32_t least, uint32_t *ctas)
{
    for (uint32_t level = 0; pieces; level++) {
        const uint32_t parts = pieces << level;
        const bool all = run >> level == least || (level == 0 && parts <= resident);
        const uint32_t taken = all ? pieces : (parts - parts % resident) >> level;
        ctas[level] = taken << level;
        pieces -= taken;
    }
}

/* All that can be known before there are tensors. */
kvg_status prepare(const kvg_problem *p, decode_chip *chip, kvg_decode_plan *plan, kvg_decode_args *a)
{
    kvg_status s = kvg_decode_check(p);
    if (!s && !kernel_of(p)) {
        s = kvg_decode_unimplemented("no kernel of one query token with head_dim %u: 64, 128 or 256", p->head_dim);
    }
    if (!s) s = check_device(p, *kernel_of(p), chip);
    if (!s) s = kvg_decode_set_strides(p, a);
    if (s) return s;
    a->team = kernel_of(p)->queries;
    kvg_decode_plan_of(p, chip->leaf, chip->fit.levels, a->team, chip->leaf_shared > 0, plan);
    a->teams = kvg_divisor_of(plan->teams);
    a->chunks = kvg_divisor_of(plan->chunks);
    a->units = kvg_divisor_of(p->kv_heads * plan->chunks);
    const uint64_t rows = (uint64_t)plan->teams * a->units.divisor; /* of CTAs */
    if (rows * plan->pieces > INT32_MAX ||
        (uint64_t)p->attention.queries * a->units.divisor * p->head_dim / 32 > INT32_MAX) {
        return kvg_decode_unimplemented("too many queries");
    }
    if (plan->pieces > KVG_MERGE_ROUNDS * KVG_DECODE_BATCH * plan->merge_warps)
        return kvg_decode_unimplemented("too many tokens");
    const uint32_t resident = chip->fit.resident * (uint32_t)chip->multiprocessors;
    const uint32_t least = chip->leaf / KVG_DECODE_STRETCH;
    if (plan->run) cut((uint32_t)(rows * plan->pieces), resident, plan->run, least, a->ctas);
    else a->ctas[0] = (uint32_t)(rows * plan->pieces);
    a->run = plan->run;
    while (1u << a->piece_log < plan->piece) a->piece_log++;
    a->ahead = (uint32_t)std::min<uint64_t>((resident / rows + 1) << a->piece_log, INT32_MAX);
    return KVG_OK;
}

/* CTAs, each of which leaves a node of each of its query tokens. */
uint32_t ctas_of(const kvg_decode_args &a)
{
    uint32_t all = 0;
    for (uint32_t n : a.ctas) all += n;
    return all;
}

kvg_status rows_workspace(const kvg_problem *p, size_t *bytes)
{
    decode_chip chip;
    kvg_decode_plan plan;
    kvg_decode_args a = {};
    kvg_status s = prepare(p, &chip, &plan, &a);
    if (!s) *bytes = plan.rows_bytes + ctas_of(a) * plan.node_bytes;
    return s;
}

kvg_status run_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, void *workspace, kvg_stream *stream)
{
    decode_chip chip;
    kvg_decode_plan plan;
    kvg_decode_args a = {};
    kvg_status s = prepare(p, &chip, &plan, &a);
    if (!s) s = kvg_decode_set_tensors(p, in, out, (int4 *)workspace, &a);
    if (s) return s;
    a.nodes = (float4 *)((uint8_t *)workspace + plan.rows_bytes);
    const kvg_decode_kernel &code = *kernel_of(p);
    const auto kernel = plan.run ? code.run : code.leaf;
    const uint32_t shared = plan.run ? chip.fit.shared : chip.leaf_shared;
    const uint32_t threads = plan.run ? KVG_WARP * KVG_DECODE_WARPS : kvg_leaf_threads(chip.leaf);
    const uint64_t rows = (uint64_t)p->attention.queries * a.units.divisor;
    s = kvg_cuda_status("decode",
                        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared));
    const bool many = a.ranges.sequences > KVG_DECODE_FEW;
    if (!s && many) {
        s = kvg_decode_launch<kvg_decode_ranges>(kvg_decode_rows, 1, KVG_DECODE_ROWS_THREADS, 0, false, stream,
                                                 a.ranges);
    }
    if (!s)
        s = kvg_decode_launch<kvg_decode_args>(kernel, ctas_of(a), threads, shared,
                                               many && chip.chains, stream, a);
    if (!s) {
        const bool one_round = !a.ring && !p->attention.window && plan.pieces <= KVG_DECODE_BATCH * plan.merge_warps;
        s = kvg_decode_launch<kvg_decode_args, uint32_t>(
            kvg_decode_merge, (uint32_t)(rows * (p->head_dim / 32)), KVG_WARP * plan.merge_warps,
            kvg_merge_bytes(plan.merge_warps, one_round), chip.chains, stream, a, p->head_dim);
    }
    return s;
}

} // namespace

const kvg_decode_family kvg_decode_mma_few = {rows_workspace, run_rows};
