/* Op decode after docs/spec/simt-contract.md: every format, head_dim and model type, on any GPU from SM 80 on. Three
 * kernels: which keys each query sees; a warp per leaf, query and 8 query heads of a KV head; the tree above the leaves
 * and its root, a thread for four elements of an output. */
#include <algorithm>
#include <cmath>

#include "gpu/attention/plain/plain_scores.cuh"
#include "gpu/attention/plain/plain_sums.cuh"
#include "gpu/attention/shared/decode_rows.cuh"
#include "gpu/attention/shared/family.h"
#include "gpu/attention/shared/node.cuh"
#include "gpu/device/cuda_status.cuh"
#include "gpu/rows/gpu_layout.h"

namespace {

enum { MERGE_THREADS = 128, LEVELS = 24 /* of leaves among 2^31 positions */ };

/* --- a warp: one leaf --- */

__device__ float load(const void *values, uint64_t i, kvg_dtype dtype)
{
    if (dtype == KVG_DTYPE_F32) return ((const float *)values)[i];
    return kvg_simt_widen(((const uint16_t *)values)[i], dtype == KVG_DTYPE_BF16);
}

template <kvg_format K, kvg_format V>
__global__ void __launch_bounds__(KVG_SIMT_WARP, 16) decode_simt_leaf(const kvg_simt_args a)
{
    extern __shared__ __align__(16) uint8_t memory[];
    kvg_simt_shared &s = *(kvg_simt_shared *)memory;
    constexpr int GROUP = KVG_SIMT_TOGETHER * KVG_SIMT_TILE;
    const int lane = threadIdx.x;
    const uint32_t chunks = (a.group + KVG_SIMT_HEADS - 1) / KVG_SIMT_HEADS;
    uint32_t rest = blockIdx.x;
    const uint32_t first_head = rest % chunks * KVG_SIMT_HEADS, kv_head = rest / chunks % a.kv_heads;
    rest /= chunks * a.kv_heads;
    const uint32_t query = rest % a.queries, nth = rest / a.queries;
    const int4 row = a.rows[query];
    const int leaf = row.y / KVG_SIMT_LEAF + (int)nth;
    if ((uint32_t)leaf * KVG_SIMT_LEAF >= (uint32_t)row.z) return; /* in a ring positions come near to 2^31 */
    const int start = leaf * KVG_SIMT_LEAF;
    const uint32_t heads = min(a.group - first_head, (uint32_t)KVG_SIMT_HEADS), stride = kvg_simt_stride(a.dim);
    const uint64_t q_row = (uint64_t)query * a.query_heads + kv_head * a.group + first_head;
    for (uint32_t h = 0; h < KVG_SIMT_HEADS; h++) {
        for (uint32_t d = lane; d < stride; d += KVG_SIMT_WARP) {
            s.q()[h * stride + d] = h < heads && d < a.dim ? load(a.q, (q_row + h) * a.dim + d, a.dtype) : 0;
        }
    }
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < KVG_SIMT_LEAF; first += GROUP) {
        if (start + first > row.y - GROUP && start + first < row.z) {
            kvg_simt_scores<K, V>(a, s, row, leaf, first, kv_head, lane);
        } else if (lane < KVG_SIMT_TOGETHER) {
            s.seen[first / KVG_SIMT_TILE + lane] = 0;
        }
    }
    __syncwarp();
    const int low = max(row.y - start, 0) / KVG_SIMT_AHEAD * KVG_SIMT_AHEAD, high = min(row.z - start, KVG_SIMT_LEAF);
    float m, l;
    kvg_simt_weights(s, lane, &m, &l);
    __syncwarp();
    const uint64_t floats = 4 * a.quads + 4;
    float *node = a.nodes + ((uint64_t)nth * a.queries * a.query_heads + q_row) * floats;
    if (lane < (int)heads) *(float2 *)(node + lane * floats + 4 * a.quads) = make_float2(m, l);
#pragma unroll 1
    for (uint32_t quad = lane; quad < a.quads; quad += KVG_SIMT_WARP) {
        float o[KVG_SIMT_HEADS][4] = {};
        kvg_simt_sums<V>(a, s, low, (high + KVG_SIMT_AHEAD - 1) / KVG_SIMT_AHEAD * KVG_SIMT_AHEAD, quad, o);
#pragma unroll
        for (uint32_t h = 0; h < KVG_SIMT_HEADS; h++) {
            if (h < heads) *(float4 *)(node + h * floats + 4 * quad) = make_float4(o[h][0], o[h][1], o[h][2], o[h][3]);
        }
    }
}

/* --- the tree and its root (docs/spec/decode-contract.md sections 8 and 9) --- */

typedef kvg_node<4, 1> quad_node; /* four elements of a query head */

/* x = merge(left, x) */
__device__ void join(quad_node left, quad_node &x)
{
    kvg_merge_nodes<kvg_simt_exp2>(left, x);
    x = left;
}

__device__ void store(const kvg_simt_args &a, uint64_t i, float y)
{
    if (a.dtype == KVG_DTYPE_F32) ((float *)a.out)[i] = y;
    else if (a.dtype == KVG_DTYPE_F16) ((__half *)a.out)[i] = __float2half_rn(y);
    else ((__nv_bfloat16 *)a.out)[i] = __float2bfloat16_rn(y);
}

__global__ void __launch_bounds__(MERGE_THREADS) decode_simt_merge(const kvg_simt_args a)
{
    const uint64_t thread = (uint64_t)blockIdx.x * MERGE_THREADS + threadIdx.x;
    const uint64_t out_row = thread / a.quads, heads = (uint64_t)a.queries * a.query_heads, floats = 4 * a.quads + 4;
    const uint32_t quad = (uint32_t)(thread % a.quads), head = (uint32_t)(out_row % a.query_heads);
    if (out_row >= heads) return;
    const int4 row = a.rows[out_row / a.query_heads];
    const int first = row.y / KVG_SIMT_LEAF, end = row.z ? (row.z - 1) / KVG_SIMT_LEAF + 1 : 0;
    quad_node waiting[LEVELS], x;
    uint32_t waits = 0; /* bit h: waiting[h] is a left node of level h */
#pragma unroll 2
    for (int leaf = first; leaf < end; leaf++) {
        const float *node = a.nodes + ((leaf - first) * heads + out_row) * floats;
        const float2 ml = *(const float2 *)(node + 4 * a.quads);
        const float4 o = *(const float4 *)(node + 4 * quad);
        x = {{o.x, o.y, o.z, o.w}, {ml.x}, {ml.y}};
        int level = 0;
        for (; leaf >> level & 1; level++) { /* a right node; its left one may have no tokens */
            if (waits >> level & 1) join(waiting[level], x);
            waits &= ~(1u << level);
        }
        waiting[level] = x;
        waits |= 1u << level;
    }
    x = {{0, 0, 0, 0}, {KVG_EMPTY}, {0}};
    for (int level = 0; waits; level++, waits >>= 1) {
        if (waits & 1) join(waiting[level], x);
    }
    if (a.sinks) kvg_add_sink<kvg_simt_exp2>(x, 0, a.sinks[head]);
    const float factor = a.v_scale ? *a.v_scale : 1;
    for (int i = 0; i < 4; i++) {
        const uint32_t element = a.v_first / 4 * 4 + 4 * quad + i - a.v_first; /* wraps below v_first */
        if (element < a.v_dim) store(a, out_row * a.v_dim + element, kvg_output(x.o[i], x.l[0], factor));
    }
    if (quad == 0) a.lse[out_row] = kvg_lse(x.m[0], x.l[0]);
}

/* --- host --- */

const struct {
    kvg_format k, v;
    void (*kernel)(kvg_simt_args);
} kernels[] = {
#define CODEC(ENUM) {KVG_FORMAT_##ENUM, KVG_FORMAT_##ENUM, decode_simt_leaf<KVG_FORMAT_##ENUM, KVG_FORMAT_##ENUM>},
#include "gpu/rows/codecs.def"
#undef CODEC
    {KVG_FORMAT_E4M3, KVG_FORMAT_NVFP4, decode_simt_leaf<KVG_FORMAT_E4M3, KVG_FORMAT_NVFP4>},
};

/* What a problem's shapes say about the work: leaves that a row may see, quads of V's elements; queries of one launch,
 * at most LAUNCH_QUERIES, whose nodes fit in NODE_BYTES if one's do. */
struct plan {
    void (*kernel)(kvg_simt_args);
    kvg_simt_dialect dialect[2];
    uint32_t leaves, quads, queries;
    uint64_t warps, outputs; /* of a query */
    uint64_t rows_bytes, node_bytes;
};
constexpr uint64_t NODE_BYTES = 1 << 28, LAUNCH_QUERIES = 512;

kvg_status plan_of(const kvg_problem *p, plan *out)
{
    const kvg_attention &a = p->attention;
    const kvg_storage *storage = p->storage;
    *out = {};
    for (const auto &k : kernels) {
        if (k.k == storage[KVG_K].format && k.v == storage[KVG_V].format) out->kernel = k.kernel;
    }
    if (!out->kernel) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on a GPU: no kernel for K in %s with V in %s",
                        kvg_format_get(storage[KVG_K].format)->name, kvg_format_get(storage[KVG_V].format)->name);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_rule rule;
        const kvg_status s = kvg_row_rule_of(&storage[side], &rule);
        if (s) return s;
        out->dialect[side] = {(kvg_affine_rule)rule.affine, rule.linear};
    }
    const uint64_t leaf = KVG_SIMT_LEAF, ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING ? p->paging.block_tokens : 0;
    uint64_t leaves = ring ? UINT32_MAX : (p->tokens + leaf - 1) / leaf;
    for (const uint64_t keys : {ring, (uint64_t)a.window}) { /* they may begin anywhere in a leaf */
        if (keys && (keys + leaf - 2) / leaf + 1 < leaves) leaves = (keys + leaf - 2) / leaf + 1;
    }
    const uint32_t v_first = p->paging.shared_kv ? p->paging.v_first : 0;
    const uint32_t v_end = p->paging.shared_kv ? v_first + p->paging.v_dim : p->head_dim;
    const uint64_t chunks = (a.query_heads / p->kv_heads + KVG_SIMT_HEADS - 1) / KVG_SIMT_HEADS;
    out->leaves = (uint32_t)leaves;
    out->quads = (v_end + 3) / 4 - v_first / 4;
    const uint64_t node = leaves * a.query_heads * (4 * out->quads + 4) * sizeof(float); /* of a query */
    out->warps = leaves * p->kv_heads * chunks;
    out->outputs = (uint64_t)a.query_heads * out->quads;
    if (out->warps > INT32_MAX) {
        return kvg_fail(KVG_ERR_UNIMPLEMENTED, "decode on a GPU: %llu leaves and heads are too many",
                        (unsigned long long)out->warps);
    }
    const uint64_t most = std::min({std::max<uint64_t>(1, NODE_BYTES / node), LAUNCH_QUERIES,
                                    INT32_MAX / std::max(out->warps, out->outputs)});
    const uint64_t launches = (a.queries + most - 1) / most;
    out->queries = (uint32_t)((a.queries + launches - 1) / launches);
    out->rows_bytes = ((uint64_t)a.queries * sizeof(int4) + 255) / 256 * 256;
    out->node_bytes = node * out->queries;
    return KVG_OK;
}

kvg_status workspace_of(const kvg_problem *p, size_t *bytes)
{
    plan plan;
    kvg_status s = plan_of(p, &plan);
    if (!s) *bytes = plan.rows_bytes + plan.node_bytes;
    return s;
}

/* The rows of one kind of bytes; `least`: units that a kernel can do with, else element by element. */
kvg_simt_rows rows_of(const kvg_gpu_rows &rows, const kvg_role *inputs, const kvg_tensor *in, uint32_t least)
{
    const uint8_t *start = (const uint8_t *)in[kvg_roles_index(inputs, rows.pool, rows.pool_side)].data + rows.base;
    const uint64_t all = (uint64_t)start | rows.block | rows.head | rows.token | rows.bytes | 16;
    const uint32_t unit = (uint32_t)(all & (0 - all));
    return {start, rows.block, rows.head, rows.token, rows.group, unit < least ? 0 : unit};
}

kvg_status open_pools(const kvg_problem *p, const kvg_tensor *in, kvg_simt_args *a)
{
    const kvg_role *inputs = kvg_op_get(p->op)->inputs;
    kvg_gpu_layout layout;
    kvg_status s = kvg_gpu_layout_of(p, &layout);
    if (s) return s;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_side own = kvg_gpu_own_side(p, side);
        const kvg_format_info *f = kvg_format_get(p->storage[own].format);
        const kvg_tensor &scale = in[kvg_roles_index(inputs, KVG_ROLE_TENSOR_SCALE, own)];
        /* V's rows are read by fours; TurboMind's int4 by eights; halves of a row and a last part of four by ones. */
        const bool octets = f->format == KVG_FORMAT_INT4;
        const bool ones = (octets && a->dialect[side].affine == KVG_AFFINE_PYTORCH) || p->head_dim % 4;
        const uint32_t fours = octets ? 4 : f->element_bits / 2;
        a->codes[side] = rows_of(layout.codes[own], inputs, in, ones ? 32 : side == KVG_V ? fours : 4);
        if (layout.scales[own].bytes) a->scales[side] = rows_of(layout.scales[own], inputs, in, 0);
        (side == KVG_K ? a->k_scale : a->v_scale) = f->tensor_scale ? (const float *)scale.data : nullptr;
    }
    return KVG_OK;
}

kvg_status run(const kvg_problem *p, const kvg_tensor *in, kvg_tensor *out, void *workspace, kvg_stream *stream)
{
    const kvg_op_info *op = kvg_op_get(KVG_OP_DECODE);
    const auto input = [&](kvg_role role) { return in[kvg_roles_index(op->inputs, role, KVG_K)].data; };
    const auto output = [&](kvg_role role) { return out[kvg_roles_index(op->outputs, role, KVG_K)].data; };
    const cudaStream_t queue = (cudaStream_t)stream;
    const bool ring = kvg_problem_blocks(p) == KVG_BLOCKS_RING;
    plan plan;
    kvg_simt_args a = {};
    kvg_status s = plan_of(p, &plan);
    if (s) return s;
    a.dialect[KVG_K] = plan.dialect[KVG_K], a.dialect[KVG_V] = plan.dialect[KVG_V];
    s = open_pools(p, in, &a);
    if (s) return s;
    a.q = input(KVG_ROLE_Q);
    a.sinks = p->attention.sinks ? (const float *)input(KVG_ROLE_SINKS) : nullptr;
    a.table = (const int32_t *)input(KVG_ROLE_BLOCK_TABLE);
    a.out = output(KVG_ROLE_OUT);
    a.lse = (float *)output(KVG_ROLE_LSE);
    a.rows = (const int4 *)workspace;
    a.nodes = (float *)((uint8_t *)workspace + plan.rows_bytes);
    a.kv_heads = p->kv_heads;
    a.query_heads = p->attention.query_heads;
    a.group = p->attention.query_heads / p->kv_heads;
    a.quads = plan.quads;
    a.dim = p->head_dim;
    a.v_first = p->paging.shared_kv ? p->paging.v_first : 0;
    a.v_dim = p->paging.shared_kv ? p->paging.v_dim : p->head_dim;
    a.block_tokens = p->paging.block_tokens;
    a.width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    a.blocks = p->paging.blocks;
    a.score_scale = (p->attention.scale != 0 ? p->attention.scale : 1.0f / sqrtf((float)p->head_dim)) * 0x1.715476p+0f;
    a.softcap = p->attention.softcap;
    a.dtype = p->dtype;
    a.one_block = kvg_problem_blocks(p) != KVG_BLOCKS_TABLE;
    kvg_decode_ranges ranges = {};
    ranges.lengths = (const int32_t *)input(KVG_ROLE_LENGTHS);
    ranges.query_lengths = (const int32_t *)input(KVG_ROLE_QUERY_LENGTHS);
    ranges.rows = (int4 *)workspace;
    ranges.sequences = p->paging.sequences;
    ranges.queries = p->attention.queries;
    ranges.tokens = ring ? 0 : p->tokens;
    ranges.window = p->attention.window;
    ranges.ring = ring ? p->paging.block_tokens : 0;
    const size_t shared = sizeof(kvg_simt_shared) + KVG_SIMT_HEADS * kvg_simt_stride(a.dim) * sizeof(float);
    const size_t element = kvg_dtype_bytes(p->dtype), q_bytes = (size_t)a.query_heads * a.dim * element;
    kvg_decode_rows<<<1, KVG_DECODE_ROWS_THREADS, 0, queue>>>(ranges);
    for (uint32_t first = 0; first < p->attention.queries; first += a.queries) {
        a.queries = std::min(plan.queries, p->attention.queries - first);
        const uint64_t outputs = a.queries * plan.outputs;
        plan.kernel<<<(unsigned)(a.queries * plan.warps), KVG_SIMT_WARP, shared, queue>>>(a);
        decode_simt_merge<<<(unsigned)((outputs + MERGE_THREADS - 1) / MERGE_THREADS), MERGE_THREADS, 0, queue>>>(a);
        a.rows += a.queries;
        a.q = (const uint8_t *)a.q + a.queries * q_bytes;
        a.out = (uint8_t *)a.out + (size_t)a.queries * a.query_heads * a.v_dim * element;
        a.lse += (size_t)a.queries * a.query_heads;
    }
    return kvg_cuda_status("decode", cudaGetLastError());
}

} // namespace

const kvg_decode_family kvg_decode_simt = {workspace_of, run};
