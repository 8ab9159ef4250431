/* What the kernels of plain.cu share. A warp has one leaf of a query and up to 8 query heads of a KV head: the
 * scores, a lane per position (plain_scores.cuh); the weights, four lanes per head, and the sums of V, four
 * elements of a row per lane (plain_sums.cuh). So each of the contract's chains is some lane's own. */
#ifndef KVG_GPU_ATTENTION_PLAIN_PLAIN_ARGS_CUH
#define KVG_GPU_ATTENTION_PLAIN_PLAIN_ARGS_CUH

#include "core/attention.h"
#include "gpu/attention/plain/plain_operand.cuh"
#include "gpu/attention/shared/scalar.cuh"

enum {
    KVG_SIMT_WARP = 32,
    KVG_SIMT_HEADS = 8,
    KVG_SIMT_LEAF = KVG_LEAF_OF_SIMT_FMA_V1,
    KVG_SIMT_TILE = KVG_ATTENTION_TILE,
    KVG_SIMT_TILES = KVG_SIMT_LEAF / KVG_SIMT_TILE,
    KVG_SIMT_TOGETHER = 2, /* tiles whose scores a lane makes at once */
    KVG_SIMT_AHEAD = 8,    /* rows of V that a lane loads at once */
};
static_assert((int)KVG_SIMT_TILE == (int)KVG_SIMT_WARP, "a lane per position");

struct kvg_simt_args {
    kvg_simt_rows codes[2], scales[2]; /* K, V; scales: of blocks, or the parameters of rows */
    const void *q;                     /* [queries, query_heads, dim] in T */
    const float *k_scale, *v_scale, *sinks; /* one each, [query_heads]; null: 1, 1, none */
    const int32_t *table;
    void *out; /* [queries, query_heads, v_dim] in T */
    float *lse;
    const int4 *rows; /* decode_rows.cuh */
    float *nodes;     /* [leaves, queries, query_heads] of 4 quads + 4: o, m, l, two of nothing */
    uint32_t queries, kv_heads, query_heads, group, quads; /* quads: of a row's elements, those with one of V's */
    uint32_t dim, v_first, v_dim, block_tokens, width, blocks;
    float score_scale, softcap; /* RN(scale * log2 e) */
    kvg_dtype dtype;
    kvg_simt_dialect dialect[2];
    bool one_block;
};

/* A warp's shared memory, with its queries behind it. */
struct kvg_simt_shared {
    float p[KVG_SIMT_LEAF][KVG_SIMT_HEADS];        /* scores, then weights */
    ulonglong2 v[KVG_SIMT_LEAF];                   /* V's codes; its scales, or the row's parameters */
    float rescale[KVG_SIMT_TILES][KVG_SIMT_HEADS]; /* of the state before the tile */
    uint32_t seen[KVG_SIMT_TILES];                 /* bit i: the row sees position i of the tile */

    __device__ float *q() { return (float *)(this + 1); } /* [heads][kvg_simt_stride(dim)] */
};

/* Elements of a query in shared memory: zeros up to a multiple of 4. */
static __host__ __device__ __forceinline__ uint32_t kvg_simt_stride(uint32_t dim)
{
    return (dim + 3) / 4 * 4;
}

/* The row of (block, head, offset). */
static __device__ const uint8_t *kvg_simt_row(const kvg_simt_rows &rows, uint32_t block, uint32_t head, uint32_t offset)
{
    return rows.start + block * rows.block + head * rows.head + offset * rows.token;
}

#endif
