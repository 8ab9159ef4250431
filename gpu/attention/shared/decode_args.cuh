/* What the kernels of op decode on tensor cores share. */
#ifndef KVG_GPU_ATTENTION_SHARED_DECODE_ARGS_CUH
#define KVG_GPU_ATTENTION_SHARED_DECODE_ARGS_CUH

#include "gpu/attention/shared/node.cuh"
#include "gpu/attention/shared/range.cuh"
#include "gpu/attention/shared/unpack.cuh"

enum {
    KVG_WARP = 32,
    KVG_TILE = KVG_ATTENTION_TILE, /* tokens */
    KVG_GROUP = 16,                /* tokens that lie in one page where pages are multiples of it */
    KVG_LEAF_TILES = KVG_CONTRACT.leaf / KVG_TILE,
};

/* How rows lie: anywhere; in pages of a multiple of 16 tokens; 16 tokens' codes without gaps; their scales, too. */
enum kvg_decode_rows { KVG_ROWS_ANY, KVG_ROWS_PAGES, KVG_ROWS_TOGETHER, KVG_ROWS_DENSE };

/* Where the rows of one kind and side lie, strides in units of some power of two so that a row's index has 32 bits. */
struct kvg_decode_pool {
    const uint8_t *start; /* of head 0's rows, base included */
    uint64_t head;        /* bytes */
    uint32_t block, token, unit;
};

/* Division by a number that the host knows: n / divisor = n * multiply / 2^shift for n < 2^31, with shift = 31 + b for
 * divisor <= 2^b and multiply = ceil(2^shift / divisor), which is too large by less than 2^b / divisor in 2^shift. */
struct kvg_fast_divisor {
    uint32_t divisor, multiply, shift;

    __device__ __forceinline__ uint32_t into(uint32_t n) const { return (uint32_t)((uint64_t)n * multiply >> shift); }
    __device__ __forceinline__ uint32_t rest(uint32_t n) const { return n - into(n) * divisor; }
};

struct kvg_decode_args {
    kvg_decode_pool codes[2], scales[2];    /* by kvg_side */
    const uint16_t *q;                      /* [queries, query_heads, D] in T */
    const float *k_scale, *v_scale, *sinks; /* one each, null without; [query_heads], null without */
    const int32_t *table;
    uint16_t *out;
    float *lse;
    kvg_decode_ranges ranges;
    float4 *nodes; /* of each CTA of few_pieces.cuh, or few_leaf.cuh: one for each of its query tokens */
    uint32_t query_heads, width, run; /* run: 0 in few_leaf.cuh */
    uint32_t piece_log; /* log2 of a piece's tokens */
    uint32_t ctas[3];    /* of whole pieces, of halves of those after them, of quarters */
    uint32_t ahead; /* tokens from a piece to one of the same row that is taken a round later */
    uint32_t group;     /* query heads per KV head */
    kvg_fast_divisor teams, block_tokens; /* of query tokens that a CTA takes together */
    kvg_fast_divisor chunks, units; /* of 8 query heads of a KV head; kv_heads * chunks: what a warp works on */
    int32_t blocks;
    float score_scale, cap; /* RN(scale * log2 e); 0: none */
    bool bf16, ring, v_swizzle;
    kvg_decode_rows rows_lie;
    /* Dim of o[8i + 2j]: 32i + (g / 2) out_lane[0] + (g % 2) out_lane[1] + out_sum[j]. */
    uint8_t out_lane[2], out_sum[4];
    float k_base, v_base;            /* 2^base of section 3 */
    kvg_factors factors;
    uint32_t team; /* query tokens of one */
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
