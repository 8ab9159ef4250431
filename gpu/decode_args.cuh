/* What the kernels of op decode share. */
#ifndef KVG_GPU_DECODE_ARGS_CUH
#define KVG_GPU_DECODE_ARGS_CUH

#include "gpu/decode_plan.h"
#include "gpu/decode_state.cuh"
#include "gpu/decode_unpack.cuh"

enum {
    KVG_WARP = 32,
    KVG_TILE = KVG_ATTENTION_TILE, /* tokens */
    KVG_GROUP = 16,                /* tokens that lie in one page where pages are multiples of it */
};

/* How rows lie: anywhere; in pages of a multiple of 16 tokens; 16 tokens' codes without gaps; their scales, too. */
enum kvg_decode_rows { KVG_ROWS_ANY, KVG_ROWS_PAGES, KVG_ROWS_TOGETHER, KVG_ROWS_DENSE };

/* Where the rows of one kind and side lie, strides in units of some power of two so that a row's index has 32 bits. */
struct kvg_decode_pool {
    const uint8_t *start; /* of head 0's rows, base included */
    uint64_t head;        /* bytes */
    uint32_t block, token, unit;
};

struct kvg_decode_args {
    kvg_decode_pool codes[2], scales[2];    /* by kvg_side */
    const uint16_t *q;                      /* [queries, query_heads, D] in T */
    const float *k_scale, *v_scale, *sinks; /* one each, null without; [query_heads], null without */
    const int32_t *table;
    uint16_t *out;
    float *lse;
    int4 *rows;    /* [queries]: sequence, first key it sees, end of the keys it sees */
    float4 *nodes; /* [pieces, queries, units] */
    uint32_t queries, query_heads, width, block_tokens, run;
    uint32_t group, chunks, units; /* query heads per KV head; of 8 of them; kv_heads * chunks: what a warp works on */
    int32_t blocks;
    float score_scale, cap; /* RN(scale * log2 e); 0: none */
    bool bf16, ring, v_swizzle;
    kvg_decode_rows rows_lie;
    /* Dim of o[8i + 2j]: 32i + (g / 2) out_lane[0] + (g % 2) out_lane[1] + out_sum[j]. */
    uint8_t out_lane[2], out_sum[4];
    float k_base, v_base;            /* 2^base of section 3 */
    kvg_factors factors;
};

/* In a chain of kernels each may begin before the one before has ended, from sm_90 on. */
static __device__ void kvg_wait_for_kernel_before()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
static __device__ void kvg_start_kernel_after()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#endif
