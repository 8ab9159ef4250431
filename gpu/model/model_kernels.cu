/* The steps of docs/spec/generate.md section 4 outside of products and the cache. One written operation is one
 * rounding. */
#include <cstdint>

#include "gpu/device/cuda_status.cuh"
#include "gpu/attention/shared/scalar.cuh"
#include "gpu/model/model_parts.cuh"

namespace {

enum { WARP = 32, THREADS = 128, WARPS = THREADS / WARP, NORM_THREADS = 256, NORM_PART = 4096 };

unsigned blocks_for(uint64_t items, unsigned per_block)
{
    return (unsigned)((items + per_block - 1) / per_block);
}

kvg_status launched(const char *what)
{
    return kvg_cuda_status(what, cudaGetLastError());
}

/* --- embedding --- */

__global__ void model_embed(const kvg_model_matrix embed, const int32_t *tokens, float *x, uint32_t pitch)
{
    const kvg_model_vector row = {embed.rows + (size_t)tokens[blockIdx.x] * embed.pitch, embed.dtype};
    for (uint32_t i = threadIdx.x; i < embed.inputs; i += THREADS) x[(size_t)blockIdx.x * pitch + i] = row.at(i);
}

/* --- RMSNorm --- */

/* RN(1 / RN(sqrt(RN(RN(s / n) + eps)))) */
__device__ __forceinline__ float norm_factor(float s, uint32_t n, float eps)
{
    return __fdiv_rn(1, __fsqrt_rn(__fadd_rn(__fdiv_rn(s, (float)n), eps)));
}

/* One chain: of thread 0, over what all have put into shared memory. */
__device__ float squares_in_order(const float *x, uint32_t count)
{
    __shared__ __align__(16) float part[NORM_PART];
    float s = 0;
    for (uint32_t first = 0; first < count; first += NORM_PART) {
        const uint32_t here = min(count - first, (uint32_t)NORM_PART);
        for (uint32_t i = threadIdx.x; i < here; i += NORM_THREADS) part[i] = x[first + i];
        __syncthreads();
        if (threadIdx.x == 0) {
            uint32_t i = 0;
#pragma unroll 8
            for (; i + 4 <= here; i += 4) {
                const float4 v = *(const float4 *)(part + i);
                s = __fmaf_rn(v.x, v.x, s);
                s = __fmaf_rn(v.y, v.y, s);
                s = __fmaf_rn(v.z, v.z, s);
                s = __fmaf_rn(v.w, v.w, s);
            }
            for (; i < here; i++) s = __fmaf_rn(part[i], part[i], s);
        }
        __syncthreads();
    }
    return s;
}

/* A chain of each thread, then of warps, then of what they gave. */
__device__ float squares_in_any_order(const float *x, uint32_t count)
{
    __shared__ float warps[NORM_THREADS / WARP];
    float s = 0;
    for (uint32_t i = threadIdx.x; i < count; i += NORM_THREADS) s = __fmaf_rn(x[i], x[i], s);
    for (int offset = WARP / 2; offset; offset /= 2) s = __fadd_rn(s, __shfl_xor_sync(0xFFFFFFFFu, s, offset));
    if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = s;
    __syncthreads();
    s = 0;
    for (float w : warps) s = __fadd_rn(s, w);
    return s;
}

/* A CTA per row. Thread 0 has the sum. */
__global__ void __launch_bounds__(NORM_THREADS) model_norm(const kvg_model_norm a)
{
    __shared__ float factor;
    const float *x = a.x + (size_t)(a.chosen ? a.chosen[blockIdx.x] : blockIdx.x) * a.pitch;
    const float s = a.any_order ? squares_in_any_order(x, a.count) : squares_in_order(x, a.count);
    if (threadIdx.x == 0) factor = norm_factor(s, a.count, a.eps);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < a.count; i += NORM_THREADS) {
        const float y = __fmul_rn(a.weights.at(i), __fmul_rn(x[i], factor));
        kvg_model_put(a.y, (size_t)blockIdx.x * a.pitch + i, a.y_dtype, y);
    }
}

/* --- heads of q and k --- */

/* A warp per head. All its lanes take the whole chain of the norm. */
template <kvg_dtype T> __global__ void __launch_bounds__(THREADS)
model_heads(const __grid_constant__ kvg_model_heads a)
{
    typedef typename kvg_scalar<T>::bits bits;
    extern __shared__ float memory[];
    const uint32_t lane = threadIdx.x % WARP, heads = a.query_heads + (a.k ? a.kv_heads : 0);
    const uint32_t index = blockIdx.x * WARPS + threadIdx.x / WARP, row = index / heads, head = index % heads;
    if (row >= a.rows) return;
    const bool is_q = head < a.query_heads;
    const uint32_t of = is_q ? head : head - a.query_heads, half = a.dim / 2;
    bits *to = is_q ? (bits *)a.q + ((size_t)row * a.query_heads + of) * a.dim
                    : (bits *)a.k + ((size_t)row * a.kv_heads + of) * a.dim;
    const bits *bias = (const bits *)(is_q ? a.q_bias : a.k_bias);
    const kvg_model_vector &norm = is_q ? a.q_norm : a.k_norm;
    float *u = memory + threadIdx.x / WARP * a.dim;
    for (uint32_t i = lane; i < a.dim; i += WARP) {
        float x = kvg_scalar<T>::widen(to[i]);
        if (bias) {
            const float b = kvg_scalar<T>::widen(bias[(size_t)of * a.dim + i]);
            x = kvg_scalar<T>::widen(kvg_scalar<T>::round(__fadd_rn(x, b)));
        }
        u[i] = x;
    }
    __syncwarp();
    if (norm.data) {
        float s = 0;
#pragma unroll 8
        for (uint32_t i = 0; i < a.dim; i++) s = __fmaf_rn(u[i], u[i], s);
        const float factor = norm_factor(s, a.dim, a.eps);
        __syncwarp();
        for (uint32_t i = lane; i < a.dim; i += WARP) {
            const float y = __fmul_rn(norm.at(i), __fmul_rn(u[i], factor));
            u[i] = kvg_scalar<T>::widen(kvg_scalar<T>::round(y));
        }
        __syncwarp();
    }
    const float *turns = a.cos_sin + (size_t)a.positions[row] * a.dim;
    for (uint32_t i = lane; i < half; i += WARP) {
        float first = u[i], second = u[i + half];
        if (is_q) {
            const float c = turns[2 * i], s = turns[2 * i + 1], u0 = first, u1 = second;
            first = __fsub_rn(__fmul_rn(u0, c), __fmul_rn(u1, s));
            second = __fadd_rn(__fmul_rn(u1, c), __fmul_rn(u0, s));
        }
        to[i] = kvg_scalar<T>::round(first);
        to[i + half] = kvg_scalar<T>::round(second);
    }
}

/* --- SwiGLU --- */

__device__ __forceinline__ float exp2_of(float x)
{
    return kvg_exp2(__fmul_rn(x, 0x1.715476p+0f));
}

__device__ __forceinline__ float sigmoid(float z)
{
    const float t = exp2_of(-fabsf(z)), all = __fadd_rn(1, t);
    if (z != z) return z;
    return __fdiv_rn(z >= 0 ? 1 : t, all);
}

__global__ void __launch_bounds__(THREADS) model_swiglu(const kvg_model_swiglu a)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.count) return;
    const size_t from = (size_t)blockIdx.y * a.pitch + (size_t)i * a.step;
    const size_t to = (size_t)blockIdx.y * a.y_pitch + i;
    float g = a.gate[from], u = a.up[from];
    if (a.limit == 0) {
        kvg_model_put(a.y, to, a.y_dtype, __fmul_rn(__fmul_rn(g, sigmoid(g)), u));
        return;
    }
    g = g > a.limit ? a.limit : g; /* a NaN stays */
    u = u > a.limit ? a.limit : u < -a.limit ? -a.limit : u;
    const float y = __fmul_rn(__fadd_rn(u, 1), __fmul_rn(g, sigmoid(__fmul_rn(1.702f, g))));
    kvg_model_put(a.y, to, a.y_dtype, y);
}

/* --- the router --- */

struct candidate {
    float logit;
    uint32_t expert; /* UINT32_MAX: none */
};

/* NaN, then the larger, then the lower index. */
__device__ __forceinline__ bool comes_before(const candidate &a, const candidate &b)
{
    if (a.expert == UINT32_MAX || b.expert == UINT32_MAX) return b.expert == UINT32_MAX && a.expert != UINT32_MAX;
    const bool a_nan = a.logit != a.logit, b_nan = b.logit != b.logit;
    if (a_nan || b_nan) return a_nan != b_nan ? a_nan : a.expert < b.expert;
    return a.logit != b.logit ? a.logit > b.logit : a.expert < b.expert;
}

/* A warp per row: the first of all candidates, then the first of those after it, ... */
__global__ void __launch_bounds__(THREADS) model_route(const kvg_model_route a)
{
    const uint32_t row = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (row >= a.rows) return;
    const float *logits = a.logits + (size_t)row * a.pitch;
    uint32_t *expert = a.expert + (size_t)row * a.chosen;
    float *weight = a.weight + (size_t)row * a.chosen, most = 0, sum = 0;
    candidate last = {0, UINT32_MAX};
    for (uint32_t j = 0; j < a.chosen; j++) {
        candidate best = {0, UINT32_MAX};
        for (uint32_t i = lane; i < a.experts; i += WARP) {
            const candidate one = {logits[i], i};
            if ((j == 0 || comes_before(last, one)) && comes_before(one, best)) best = one;
        }
#pragma unroll
        for (int step = WARP / 2; step > 0; step /= 2) {
            const candidate other = {__shfl_xor_sync(~0u, best.logit, step), __shfl_xor_sync(~0u, best.expert, step)};
            if (comes_before(other, best)) best = other;
        }
        if (j == 0) most = best.logit;
        const float below = __fsub_rn(best.logit, most), e = below != below ? below : exp2_of(below);
        sum = __fadd_rn(sum, e);
        if (lane == 0) expert[j] = best.expert, weight[j] = e;
        last = best;
    }
    __syncwarp();
    for (uint32_t j = lane; j < a.chosen; j += WARP) weight[j] = __fdiv_rn(weight[j], sum);
}

/* A warp per expert: the entries that chose it, in order. */
__global__ void __launch_bounds__(THREADS) model_lists(const kvg_model_route a)
{
    const uint32_t expert = blockIdx.x * WARPS + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t entries = a.rows * a.chosen;
    if (expert >= a.experts) return;
    uint32_t count = 0;
    for (uint32_t first = 0; first < entries; first += WARP) {
        const bool is_mine = first + lane < entries && a.expert[first + lane] == expert;
        const uint32_t mine = __ballot_sync(~0u, is_mine), before = __popc(mine & ((1u << lane) - 1));
        if (is_mine) a.entries[(size_t)expert * a.rows + count + before] = first + lane;
        count += __popc(mine);
    }
    if (lane == 0) a.counts[expert] = count;
}

__global__ void __launch_bounds__(THREADS) model_combine(const kvg_model_combine a)
{
    const uint32_t i = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    if (i >= a.count) return;
    float y = 0, *x = a.x + (size_t)row * a.pitch + i;
    for (uint32_t j = 0; j < a.chosen; j++) {
        const size_t entry = (size_t)row * a.chosen + j;
        y = __fmaf_rn(a.weight[entry], a.outputs[entry * a.pitch + i], y);
    }
    *x = __fadd_rn(*x, y);
}

/* --- copies --- */

__global__ void __launch_bounds__(THREADS) model_copy(const __grid_constant__ kvg_model_copy a)
{
    const kvg_model_copy::part &part = a.parts[blockIdx.z];
    const uint64_t all = (uint64_t)part.bytes * a.tokens * a.heads;
    uint8_t *const layer = part.start + blockIdx.y * part.layer;
    for (uint64_t i = blockIdx.x * THREADS + threadIdx.x; i < all; i += gridDim.x * THREADS) {
        const uint64_t row = i / part.bytes;
        uint8_t *const at = layer + row / a.tokens * part.head + row % a.tokens * part.token + i % part.bytes;
        at[a.to * part.block] = at[a.from * part.block];
    }
}

} // namespace

kvg_status kvg_model_embed(const kvg_model_matrix &embed, const int32_t *tokens, uint32_t rows, float *x,
                           uint32_t pitch, cudaStream_t stream)
{
    model_embed<<<rows, THREADS, 0, stream>>>(embed, tokens, x, pitch);
    return launched("an embedding");
}

kvg_status kvg_model_norm_run(const kvg_model_norm &a, cudaStream_t stream)
{
    model_norm<<<a.rows, NORM_THREADS, 0, stream>>>(a);
    return launched("a norm");
}

kvg_status kvg_model_heads_run(const kvg_model_heads &a, cudaStream_t stream)
{
    const unsigned blocks = blocks_for((uint64_t)a.rows * (a.query_heads + (a.k ? a.kv_heads : 0)), WARPS);
    const size_t shared = WARPS * a.dim * sizeof(float);
    if (a.dtype == KVG_DTYPE_F16) model_heads<KVG_DTYPE_F16><<<blocks, THREADS, shared, stream>>>(a);
    else model_heads<KVG_DTYPE_BF16><<<blocks, THREADS, shared, stream>>>(a);
    return launched("heads of q");
}

kvg_status kvg_model_swiglu_run(const kvg_model_swiglu &a, cudaStream_t stream)
{
    model_swiglu<<<dim3(blocks_for(a.count, THREADS), a.rows), THREADS, 0, stream>>>(a);
    return launched("a SwiGLU");
}

kvg_status kvg_model_route_run(const kvg_model_route &a, cudaStream_t stream)
{
    model_route<<<blocks_for(a.rows, WARPS), THREADS, 0, stream>>>(a);
    model_lists<<<blocks_for(a.experts, WARPS), THREADS, 0, stream>>>(a);
    return launched("a router");
}

kvg_status kvg_model_combine_run(const kvg_model_combine &a, cudaStream_t stream)
{
    model_combine<<<dim3(blocks_for(a.count, THREADS), a.rows), THREADS, 0, stream>>>(a);
    return launched("a sum of experts");
}

kvg_status kvg_model_copy_run(const kvg_model_copy &a, cudaStream_t stream)
{
    uint32_t most = 1;
    for (const auto &part : a.parts) most = part.bytes > most ? part.bytes : most;
    const unsigned blocks = blocks_for((uint64_t)most * a.tokens * a.heads, 16 * THREADS);
    model_copy<<<dim3(blocks, a.layers, 4), THREADS, 0, stream>>>(a);
    return launched("a copy of a block");
}
