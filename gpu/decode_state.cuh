/* The f32 arithmetic of docs/decode-contract.md: exponentials (section 6), merges (8) and the root (9). One written
 * operation is one rounding; --fmad=false keeps it so. */
#ifndef KVG_GPU_DECODE_STATE_CUH
#define KVG_GPU_DECODE_STATE_CUH

#include "gpu/decode_operand.cuh"

static constexpr float KVG_EMPTY = -0x1.fffffep+127f; /* m of a state without tokens; its l and o are +0 */
#define KVG_INF __int_as_float(0x7F800000)
#define KVG_NAN __int_as_float(0x7FFFFFFF)

/* 2^x for x up to 8. At -127 and below, and for NaN, n = -127 and f = 0: the exponent field and all else becomes 0.
 * Adding 1.5 * 2^23 with rounding down leaves floor(x) in the last bits. */
static __device__ __forceinline__ float kvg_exp2(float x, uint32_t by23 = 1u << 23)
{
    x = fmaxf(x, -127.0f);
    const float shifted = __fadd_rd(x, 0x1.8p+23f), f = __fsub_rn(x, __fsub_rn(shifted, 0x1.8p+23f));
    float p = fmaf(0x1.bc31b2p-7f, f, 0x1.aa3fd8p-5f);
    p = fmaf(p, f, 0x1.ee587ep-3f);
    p = fmaf(p, f, 0x1.62d51cp-1f);
    p = fmaf(p, f, 1.0f);
    return __uint_as_float(__float_as_uint(shifted) * by23 + __float_as_uint(p));
}

static __device__ __forceinline__ float kvg_max_or_nan(float a, float b)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    return r;
}

/* log2 of a normal l > 0. */
static __device__ __forceinline__ float kvg_log2(float l)
{
    const float b[9] = {0x1.715476p+0f,   -0x1.71547p-1f,  0x1.ec73d6p-2f,  -0x1.715c4ep-2f, 0x1.26d394p-2f,
                        -0x1.e95c7ep-3f,  0x1.b9c8aap-3f,  -0x1.a877c8p-3f, 0x1.01b07cp-3f};
    const int k = (__float_as_int(l) - 0x3F3504F3) >> 23;
    const float t = __fsub_rn(__int_as_float(__float_as_int(l) - (k << 23)), 1.0f);
    float p = b[8];
#pragma unroll
    for (int i = 7; i >= 0; i--) p = fmaf(p, t, b[i]);
    return fmaf(t, p, (float)k);
}

/* The weights of two nodes: one of them is exactly 1. */
static __device__ __forceinline__ float kvg_merge_weights(float a_m, float b_m, float *a_weight, float *b_weight)
{
    const float m = fmaxf(a_m, b_m), w = kvg_exp2(__fsub_rn(fminf(a_m, b_m), m));
    *a_weight = a_m >= b_m ? 1.0f : w;
    *b_weight = a_m >= b_m ? w : 1.0f;
    return m;
}
/* a: the smaller positions. */
static __device__ __forceinline__ float kvg_merge(float a, float a_weight, float b, float b_weight)
{
    return fmaf(b, b_weight, __fmul_rn(a, a_weight));
}

/* A node of two query heads, N sums of each: o[i] is of head i mod 2. */
template <int N> struct kvg_node {
    float o[N], m[2], l[2];
};

/* a = merge(a, b) */
template <int N> static __device__ __forceinline__ void kvg_merge_nodes(kvg_node<N> &a, const kvg_node<N> &b)
{
    float wa[2], wb[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        a.m[h] = kvg_merge_weights(a.m[h], b.m[h], &wa[h], &wb[h]);
        a.l[h] = kvg_merge(a.l[h], wa[h], b.l[h], wb[h]);
    }
#pragma unroll
    for (int i = 0; i < N; i++) a.o[i] = kvg_merge(a.o[i], wa[i % 2], b.o[i], wb[i % 2]);
}

/* One more logit. */
template <int N> static __device__ __forceinline__ void kvg_add_sink(kvg_node<N> &x, int h, float sink)
{
    const float s = __fmul_rn(sink, 0x1.715476p+0f), m = fmaxf(x.m[h], s), w = kvg_exp2(__fsub_rn(x.m[h], m));
    x.l[h] = __fadd_rn(__fmul_rn(x.l[h], w), kvg_exp2(__fsub_rn(s, m)));
    x.m[h] = m;
#pragma unroll
    for (int i = h; i < N; i += 2) x.o[i] = __fmul_rn(x.o[i], w);
}

static __device__ __forceinline__ float kvg_output(float o, float l, float factor)
{
    return l == 0 ? 0.0f : __fadd_rn(__fdiv_rn(__fmul_rn(o, factor), l), 0.0f);
}

static __device__ __forceinline__ float kvg_lse(float m, float l)
{
    if (l == 0) return -KVG_INF;
    return l != l ? l : __fmul_rn(__fadd_rn(m, kvg_log2(l)), 0x1.62e43p-1f);
}

/* --- nodes of a whole warp: 128 dims of 8 heads ---
 * Lane 4g + c holds heads 2c and 2c + 1. Sums 8i + 0 ... 8i + 7 are of dims 32i + 4g + {0, 2, 1, 3}, two heads each. In
 * memory a node is eight arrays of float4 by lane, then m, m, l, l of the four lanes with g = 0. */
enum { KVG_NODE_M = 4096, KVG_NODE_BYTES = KVG_NODE_M + 64 };
typedef kvg_node<32> kvg_warp_node;

static __device__ __forceinline__ void kvg_clear(kvg_warp_node &s)
{
    s.m[0] = s.m[1] = KVG_EMPTY;
    s.l[0] = s.l[1] = 0;
#pragma unroll
    for (int i = 0; i < 32; i++) s.o[i] = 0;
}

static __device__ __forceinline__ void kvg_put_shared(uint32_t at, const kvg_warp_node &s, int lane)
{
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
        kvg_store_shared_f32(at + i * 128 + lane * 16, s.o[i], s.o[i + 1], s.o[i + 2], s.o[i + 3]);
    }
    if (lane < 4) kvg_store_shared_f32(at + KVG_NODE_M + lane * 16, s.m[0], s.m[1], s.l[0], s.l[1]);
}

static __device__ __forceinline__ void kvg_put_global(float4 *to, const kvg_warp_node &s, int lane)
{
#pragma unroll
    for (int i = 0; i < 32; i += 4) __stcg(to + i * 8 + lane, make_float4(s.o[i], s.o[i + 1], s.o[i + 2], s.o[i + 3]));
    if (lane < 4) __stcg(to + KVG_NODE_M / 16 + lane, make_float4(s.m[0], s.m[1], s.l[0], s.l[1]));
}

/* s = merge(s, shared), or merge(shared, s) if SHARED_FIRST. */
template <bool SHARED_FIRST>
static __device__ __forceinline__ void kvg_merge_shared(uint32_t at, kvg_warp_node &s, int lane)
{
    const float4 h = kvg_load_shared_f32(at + KVG_NODE_M + lane % 4 * 16);
    const float m[2] = {h.x, h.y}, l[2] = {h.z, h.w};
    float theirs[2] = {}, ours[2] = {};
    const auto join = [&](float x, float y, int head) {
        return SHARED_FIRST ? kvg_merge(x, theirs[head], y, ours[head]) : kvg_merge(y, ours[head], x, theirs[head]);
    };
#pragma unroll
    for (int head = 0; head < 2; head++) {
        s.m[head] = kvg_merge_weights(m[head], s.m[head], &theirs[head], &ours[head]);
        s.l[head] = join(l[head], s.l[head], head);
    }
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
        const float4 v = kvg_load_shared_f32(at + i * 128 + lane * 16);
        s.o[i] = join(v.x, s.o[i], 0);
        s.o[i + 1] = join(v.y, s.o[i + 1], 1);
        s.o[i + 2] = join(v.z, s.o[i + 2], 0);
        s.o[i + 3] = join(v.w, s.o[i + 3], 1);
    }
}

#endif
