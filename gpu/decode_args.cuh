/* What the kernels of op decode share. */
#ifndef KVG_GPU_DECODE_ARGS_CUH
#define KVG_GPU_DECODE_ARGS_CUH

#include "gpu/decode_load.cuh"
#include "gpu/decode_plan.h"
#include "gpu/decode_state.cuh"

enum {
    KVG_WARP = 32,
    KVG_DECODE_DIM = 128,
    KVG_DECODE_HEADS = 8, /* query heads that a warp holds */
    KVG_DECODE_STAGES = 2,
};
static_assert((int)KVG_DECODE_NODE_BYTES == (int)KVG_NODE_BYTES, "decode_plan.h");

struct kvg_decode_args {
    kvg_decode_pools pools;
    const uint16_t *q;                    /* [queries, query_heads, 128] in T */
    const float *k_scale, *v_scale, *sinks; /* one each; [query_heads], null without */
    const int32_t *table, *lengths, *query_lengths;
    uint16_t *out;
    float *lse;
    int2 *rows;       /* [queries]: sequence, visible keys */
    float4 *nodes;    /* [pieces, queries, kv_heads] of KVG_NODE_BYTES */
    uint32_t sequences, queries, kv_heads, query_heads, group, width, tokens, run, pieces;
    int32_t blocks;
    float score_scale; /* RN(scale * log2 e) */
    bool bf16;
    kvg_factors factors;
};

/* In a chain of kernels each may begin before the one before has ended. */
static __device__ void kvg_wait_for_kernel_before()
{
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
static __device__ void kvg_start_kernel_after()
{
    asm volatile("griddepcontrol.launch_dependents;");
}

#endif
