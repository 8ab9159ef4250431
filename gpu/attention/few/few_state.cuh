/* What a warp, or a lane, has summed up so far: nodes of the tree of docs/spec/decode-contract.md section 8. */
#ifndef KVG_GPU_ATTENTION_FEW_FEW_STATE_CUH
#define KVG_GPU_ATTENTION_FEW_FEW_STATE_CUH

#include "gpu/attention/shared/node.cuh"
#include "gpu/attention/shared/operand.cuh"

/* --- nodes of a whole warp: 4 N dims of 8 heads ---
 * Lane 4g + c holds heads 2c and 2c + 1. Sums 8i ... 8i + 7 are of four of the dims 32i ... 32i + 31, two heads each.
 * In memory a node is N / 4 arrays of float4 by lane, then m, m, l, l of the four lanes with g = 0. */
template <int N> static __host__ __device__ constexpr uint32_t kvg_node_bytes() { return N * 128 + 64; }

template <int N> static __device__ __forceinline__ void kvg_clear(kvg_node<N> &s)
{
    s.m[0] = s.m[1] = KVG_EMPTY;
    s.l[0] = s.l[1] = 0;
#pragma unroll
    for (int i = 0; i < N; i++) s.o[i] = 0;
}

template <int N> static __device__ __forceinline__ void kvg_put_shared(uint32_t at, const kvg_node<N> &s, int lane)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        kvg_store_shared_f32(at + i * 128 + lane * 16, s.o[i], s.o[i + 1], s.o[i + 2], s.o[i + 3]);
    }
    if (lane < 4) kvg_store_shared_f32(at + N * 128 + lane * 16, s.m[0], s.m[1], s.l[0], s.l[1]);
}

/* Sums first ... first + N - 1 of a node of ALL, from shared memory and to global. */
template <int ALL, int N>
static __device__ __forceinline__ void kvg_get_share(uint32_t at, int first, kvg_node<N> &s, int lane)
{
    const float4 h = kvg_load_shared_f32(at + ALL * 128 + lane % 4 * 16);
    s.m[0] = h.x, s.m[1] = h.y, s.l[0] = h.z, s.l[1] = h.w;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 v = kvg_load_shared_f32(at + (first + i) * 128 + lane * 16);
        s.o[i] = v.x, s.o[i + 1] = v.y, s.o[i + 2] = v.z, s.o[i + 3] = v.w;
    }
}
template <int ALL, int N>
static __device__ __forceinline__ void kvg_put_share(float4 *to, int first, const kvg_node<N> &s, int lane)
{
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        __stcg(to + (first + i) * 8 + lane, make_float4(s.o[i], s.o[i + 1], s.o[i + 2], s.o[i + 3]));
    }
    if (first == 0 && lane < 4) __stcg(to + ALL * 8 + lane, make_float4(s.m[0], s.m[1], s.l[0], s.l[1]));
}

/* s = merge(shared, s) */
template <int N> static __device__ __forceinline__ void kvg_merge_shared(uint32_t at, kvg_node<N> &s, int lane)
{
    const float4 h = kvg_load_shared_f32(at + N * 128 + lane % 4 * 16);
    const float m[2] = {h.x, h.y}, l[2] = {h.z, h.w};
    float theirs[2] = {}, ours[2] = {};
    const auto join = [&](float x, float y, int head) { return kvg_merge(x, theirs[head], y, ours[head]); };
#pragma unroll
    for (int head = 0; head < 2; head++) {
        s.m[head] = kvg_merge_weights(m[head], s.m[head], &theirs[head], &ours[head]);
        s.l[head] = join(l[head], s.l[head], head);
    }
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 v = kvg_load_shared_f32(at + i * 128 + lane * 16);
        s.o[i] = join(v.x, s.o[i], 0);
        s.o[i + 1] = join(v.y, s.o[i + 1], 1);
        s.o[i + 2] = join(v.z, s.o[i + 2], 0);
        s.o[i + 3] = join(v.w, s.o[i + 3], 1);
    }
}

#endif
