/* Op decode for nvfp4 after docs/decode-contract.md: D 128, up to 8 query heads per KV head, pages of 16, 32, 64 or 128
 * tokens whose rows of a head lie one after the other. Three kernels in a chain: which keys each query sees; a CTA per
 * piece (a query, a KV head, a run of leaves for each of its warps); the tree above the pieces and the root.
 *
 * A warp holds 8 query heads. K's codes are the matrix instruction's a, 16 tokens of it, q is b; for the output V's
 * dims are the rows of a, so that codes go from shared memory to operands without changing lanes. */
#include <cmath>

#include "gpu/cuda_status.cuh"
#include "gpu/decode_merge.cuh"
#include "gpu/decode_run.cuh"
#include "gpu/gpu_layout.h"
#include "gpu/ops.h"

namespace {

enum {
    WARPS = KVG_DECODE_WARPS, LEVELS = KVG_DECODE_LEVELS, LEAF = KVG_DECODE_LEAF, CTAS = 3, /* of a multiprocessor */
    NODES_AT = WARPS * KVG_DECODE_STAGES * KVG_STAGE, SHARED = NODES_AT + WARPS * LEVELS * KVG_NODE_BYTES,
    ROWS_THREADS = 1024,
};

/* --- which keys a query sees: docs/attention.md section 2, without a window --- */

__global__ void __launch_bounds__(ROWS_THREADS) decode_rows(const kvg_decode_args a)
{
    __shared__ uint32_t sums[ROWS_THREADS];
    kvg_start_kernel_after();
    const uint32_t share = (a.sequences + ROWS_THREADS - 1) / ROWS_THREADS;
    const uint32_t first = min(threadIdx.x * share, a.sequences), end = min(first + share, a.sequences);
    uint32_t row = 0;
    for (uint32_t s = first; s < end; s++) row += a.query_lengths[s];
    sums[threadIdx.x] = row;
    for (int step = 1; step < ROWS_THREADS; step *= 2) { /* rows of all threads before */
        __syncthreads();
        const uint32_t before = (int)threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += before;
    }
    row = sums[threadIdx.x] - row;
    for (uint32_t s = first; s < end; s++) {
        const int queries = a.query_lengths[s], keys = min((uint32_t)max(a.lengths[s], 0), a.tokens);
        for (int j = 0; j < queries && row < a.queries; j++, row++) {
            a.rows[row] = make_int2(s, max(keys - queries + j + 1, 0));
        }
    }
}

template <int PAGE> __global__ void __launch_bounds__(KVG_WARP * WARPS, CTAS) decode_pieces(const kvg_decode_args a)
{
    extern __shared__ __align__(16) uint8_t shared[];
    kvg_wait_for_kernel_before();
    kvg_start_kernel_after();
    const int lane = threadIdx.x % KVG_WARP, warp = threadIdx.x / KVG_WARP;
    const uint32_t kv_head = blockIdx.x % a.kv_heads, rest = blockIdx.x / a.kv_heads, query = rest % a.queries;
    const int first_leaf = rest / a.queries * WARPS * a.run, first_token = (first_leaf + warp * a.run) * LEAF;
    const int2 row = a.rows[query];
    const int leaves = (row.y + LEAF - 1) / LEAF, tokens = min(row.y - first_token, (int)a.run * LEAF);
    const uint32_t start = (uint32_t)__cvta_generic_to_shared(shared);
    const uint32_t slots = start + NODES_AT + warp * LEVELS * KVG_NODE_BYTES;
    if (first_leaf && first_leaf >= leaves) return;
    kvg_warp_state w;
    kvg_clear(w.node);
    if (tokens > 0) {
        const uint32_t stages = start + warp * KVG_DECODE_STAGES * KVG_STAGE;
        kvg_run_leaves<PAGE>(a, w, row, query, kv_head, first_token, tokens, stages, slots, lane);
    }
    /* The nodes (0 1) (2 3), then (0 2). Whoever has given its node away is done. */
    bool mine = true;
#pragma unroll
    for (int step = 1; step < WARPS; step *= 2) {
        if (mine && warp & step) {
            if (tokens > 0) kvg_put_shared(slots, w.node, lane);
            mine = false;
        }
        __syncthreads();
        if (mine && first_leaf + (int)a.run * (warp + step) < leaves) {
            kvg_merge_shared<false>(slots + step * LEVELS * KVG_NODE_BYTES, w.node, lane);
        }
    }
    if (warp == 0) kvg_put_global(a.nodes + (size_t)blockIdx.x * (KVG_NODE_BYTES / 16), w.node, lane);
}

/* --- host --- */

/* A kernel that may begin before the one before it has ended, and waits for it where it must. */
kvg_status launch(void (*kernel)(kvg_decode_args), uint32_t blocks, uint32_t threads, uint32_t shared, bool chained,
                  const kvg_decode_args &a, kvg_stream *stream)
{
    cudaLaunchAttribute chain = {};
    chain.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    chain.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks, config.blockDim = threads, config.dynamicSmemBytes = shared;
    config.stream = (cudaStream_t)stream, config.attrs = &chain, config.numAttrs = chained;
    return kvg_cuda_status("decode", cudaLaunchKernelEx(&config, kernel, a));
}

const struct {
    uint32_t page;
    void (*kernel)(kvg_decode_args);
} kernels[] = {{16, decode_pieces<16>}, {32, decode_pieces<32>}, {64, decode_pieces<64>}, {128, decode_pieces<128>}};

void (*kernel_of(uint32_t page))(kvg_decode_args)
{
    for (const auto &k : kernels) {
        if (k.page == page) return k.kernel;
    }
    return nullptr;
}

kvg_status unimplemented(const char *what)
{
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on a GPU: %s", what);
}

kvg_status check(const kvg_problem *p)
{
    const kvg_attention &a = p->attention;
    kvg_status s = kvg_problem_check(p);
    if (s) return s;
    if (p->storage[KVG_K].format != KVG_FORMAT_NVFP4 || p->storage[KVG_V].format != KVG_FORMAT_NVFP4) {
        return unimplemented("K and V must be nvfp4");
    }
    if (p->dtype != KVG_DTYPE_F16 && p->dtype != KVG_DTYPE_BF16) return unimplemented("rows must be f16 or bf16");
    if (p->head_dim != KVG_DECODE_DIM) return unimplemented("head_dim must be 128");
    if (a.query_heads / p->kv_heads > KVG_DECODE_HEADS) return unimplemented("at most 8 query heads per KV head");
    if (a.window || a.softcap != 0) return unimplemented("no window and no softcap yet");
    if (p->paging.shared_kv) return unimplemented("K and V must have rows of their own");
    if (p->layout == KVG_LAYOUT_RING || p->layout == KVG_LAYOUT_CONTIGUOUS) {
        return unimplemented("the layout must have pages");
    }
    if (!kernel_of(p->paging.block_tokens)) return unimplemented("pages must have 16, 32, 64 or 128 tokens");
    return KVG_OK;
}

/* The pools, if the rows of a head lie one after the other in a page and start at multiples of 16 bytes. */
kvg_status open_pools(const kvg_problem *p, const kvg_tensor *in, kvg_decode_pools *out)
{
    const kvg_role *inputs = kvg_op_get(p->op)->inputs;
    kvg_gpu_layout layout;
    kvg_gpu_layout_of(p, &layout);
    for (int i = 0; i < 4; i++) {
        const int side = i / 2, scales = i % 2;
        const kvg_gpu_rows &rows = scales ? layout.scales[side] : layout.codes[side];
        const uint8_t *start = (const uint8_t *)in[kvg_roles_index(inputs, rows.pool, rows.pool_side)].data + rows.base;
        if (rows.group || rows.token != rows.bytes) {
            return unimplemented("a head's rows must lie one after the other in a page");
        }
        if (((uint64_t)start | rows.block | rows.head) % 16) {
            return unimplemented("a head's rows must start at multiples of 16 bytes");
        }
        if (rows.block > UINT32_MAX) return unimplemented("a page is too large");
        (scales ? out->scales : out->codes)[side] = start;
        (scales ? out->scale_head : out->code_head)[side] = rows.head;
        (scales ? out->scale_block : out->code_block)[side] = (uint32_t)rows.block;
    }
    return KVG_OK;
}

} // namespace

kvg_status kvg_gpu_decode_workspace(const kvg_problem *p, size_t *bytes)
{
    kvg_decode_plan plan;
    kvg_status s = check(p);
    if (s) return s;
    kvg_decode_plan_of(p, &plan);
    *bytes = plan.rows_bytes + plan.node_bytes;
    return KVG_OK;
}

kvg_status kvg_gpu_decode(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, void *workspace,
                          kvg_stream *stream)
{
    const kvg_op_info *op = kvg_op_get(KVG_OP_DECODE);
    const auto input = [&](kvg_role role, kvg_side side) { return in[kvg_roles_index(op->inputs, role, side)].data; };
    const auto output = [&](kvg_role role) { return out[kvg_roles_index(op->outputs, role, KVG_K)].data; };
    kvg_decode_plan plan;
    kvg_decode_args a = {};
    kvg_status s = check(p);
    if (!s) s = open_pools(p, in, &a.pools);
    if (s) return s;
    kvg_decode_plan_of(p, &plan);
    const uint64_t ctas = (uint64_t)plan.pieces * p->attention.queries * p->kv_heads;
    if (ctas > INT32_MAX / 4) return unimplemented("too many queries");
    const float scale = p->attention.scale != 0 ? p->attention.scale : 1.0f / sqrtf((float)p->head_dim);
    a.q = (const uint16_t *)input(KVG_ROLE_Q, KVG_K);
    a.k_scale = (const float *)input(KVG_ROLE_TENSOR_SCALE, KVG_K);
    a.v_scale = (const float *)input(KVG_ROLE_TENSOR_SCALE, KVG_V);
    a.sinks = p->attention.sinks ? (const float *)input(KVG_ROLE_SINKS, KVG_K) : nullptr;
    a.table = (const int32_t *)input(KVG_ROLE_BLOCK_TABLE, KVG_K);
    a.lengths = (const int32_t *)input(KVG_ROLE_LENGTHS, KVG_K);
    a.query_lengths = (const int32_t *)input(KVG_ROLE_QUERY_LENGTHS, KVG_K);
    a.out = (uint16_t *)output(KVG_ROLE_OUT);
    a.lse = (float *)output(KVG_ROLE_LSE);
    a.rows = (int2 *)workspace;
    a.nodes = (float4 *)((uint8_t *)workspace + plan.rows_bytes);
    a.sequences = p->paging.sequences;
    a.queries = p->attention.queries;
    a.kv_heads = p->kv_heads;
    a.query_heads = p->attention.query_heads;
    a.group = p->attention.query_heads / p->kv_heads;
    a.width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    a.tokens = p->tokens;
    a.run = plan.run;
    a.pieces = plan.pieces;
    a.blocks = (int32_t)p->paging.blocks;
    a.score_scale = scale * 0x1.715476p+0f;
    a.bf16 = p->dtype == KVG_DTYPE_BF16;
    a.factors = KVG_FACTORS;
    const auto kernel = kernel_of(p->paging.block_tokens);
    s = kvg_cuda_status("decode", cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED));
    if (!s) s = launch(decode_rows, 1, ROWS_THREADS, 0, false, a, stream);
    if (!s) s = launch(kernel, (uint32_t)ctas, KVG_WARP * WARPS, SHARED, true, a, stream);
    if (!s) s = launch(kvg_decode_merge, a.queries * a.kv_heads * 4, KVG_WARP * plan.merge_warps, 0, true, a, stream);
    return s;
}
