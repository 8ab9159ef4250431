/* probe: the codes and scales in the slots of a paged cache, through the addresses of append and flatten. Decode has
 * addresses of its own (few_places.cuh, kvg_simt_row), whose every mistake shows in its answers. */
#include "gpu/rows/cache_rows.cuh"
#include "gpu/device/cuda_status.cuh"
#include "gpu/ops.h"

namespace {

enum { THREADS = 256 };

/* A thread per byte. */
__global__ void __launch_bounds__(THREADS)
probe_bytes(kvg_cache_rows rows, kvg_slots slots, uint32_t tokens, uint32_t heads, uint8_t *out)
{
    const uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x, row = i / rows.bytes;
    const uint32_t token = (uint32_t)(row / heads), head = (uint32_t)(row % heads), byte = (uint32_t)(i % rows.bytes);
    kvg_place at;
    if (token >= tokens || !slots.place(slots.slots[token], &at)) return;
    out[i] = *rows.scale(rows.scales(at, head), byte); /* codes have no groups: byte after byte */
}

} // namespace

kvg_status kvg_gpu_probe(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    kvg_status checked = kvg_problem_check(p);
    if (checked) return checked;
    const kvg_op_info *op = kvg_op_get(p->op);
    const kvg_slots slots = kvg_slots::of(p, in[kvg_roles_index(op->inputs, KVG_ROLE_SLOTS, KVG_K)]);
    kvg_gpu_layout layout;
    checked = kvg_gpu_layout_of(p, &layout);
    if (checked) return checked;
    for (int i = 0; i < 2 * kvg_problem_sides(p); i++) {
        const kvg_side side = (kvg_side)(i / 2);
        const kvg_gpu_rows &kind = i % 2 ? layout.scales[side] : layout.codes[side];
        const kvg_tensor &to = out[kvg_roles_index(op->outputs, i % 2 ? KVG_ROLE_SCALES : KVG_ROLE_CODES, side)];
        const uint64_t blocks = ((uint64_t)p->tokens * p->kv_heads * kind.bytes + THREADS - 1) / THREADS;
        if (blocks == 0) continue;
        if (blocks > INT32_MAX) return kvg_fail(KVG_ERR_UNIMPLEMENTED, "probe: %u tokens are too many", p->tokens);
        probe_bytes<<<(unsigned)blocks, THREADS, 0, (cudaStream_t)stream>>>(
            kvg_cache_rows_of(kind, op->inputs, in), slots, p->tokens, p->kv_heads, (uint8_t *)to.data);
        kvg_status s = kvg_cuda_status("probe", cudaGetLastError());
        if (s) return s;
    }
    return KVG_OK;
}
