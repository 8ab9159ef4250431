/* A node of the tree of docs/spec/decode-contract.md section 8, as far as one lane holds it, and how two become one. */
#ifndef KVG_GPU_ATTENTION_SHARED_NODE_CUH
#define KVG_GPU_ATTENTION_SHARED_NODE_CUH

#include "gpu/attention/shared/scalar.cuh"

/* A node of HEADS query heads: o[i] is of head i / RUN mod HEADS. */
template <int N, int HEADS = 2, int RUN = 1> struct kvg_node {
    float o[N], m[HEADS], l[HEADS];
};

/* a = merge(a, b) */
template <class EXP2 = kvg_chip_exp2, int N, int HEADS, int RUN>
static __device__ __forceinline__ void kvg_merge_nodes(kvg_node<N, HEADS, RUN> &a, const kvg_node<N, HEADS, RUN> &b)
{
    float wa[HEADS], wb[HEADS];
#pragma unroll
    for (int h = 0; h < HEADS; h++) {
        a.m[h] = kvg_merge_weights<EXP2>(a.m[h], b.m[h], &wa[h], &wb[h]);
        a.l[h] = kvg_merge(a.l[h], wa[h], b.l[h], wb[h]);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int h = i / RUN % HEADS;
        a.o[i] = kvg_merge(a.o[i], wa[h], b.o[i], wb[h]);
    }
}

/* One more logit. */
template <class EXP2 = kvg_chip_exp2, int N, int HEADS, int RUN>
static __device__ __forceinline__ void kvg_add_sink(kvg_node<N, HEADS, RUN> &x, int h, float sink)
{
    const float s = __fmul_rn(sink, 0x1.715476p+0f), m = fmaxf(x.m[h], s), w = EXP2::of(__fsub_rn(x.m[h], m));
    x.l[h] = __fadd_rn(__fmul_rn(x.l[h], w), EXP2::of(__fsub_rn(s, m)));
    x.m[h] = m;
#pragma unroll
    for (int i = 0; i < N; i++) {
        if (i / RUN % HEADS == h) x.o[i] = __fmul_rn(x.o[i], w);
    }
}

#endif
