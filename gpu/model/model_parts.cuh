/* What the files gpu/model_*.cu share: a model on the device, and the kernels of docs/spec/generate.md section 4,
 * written from that page alone. Every launch queues on a stream and returns; rows of activations start at multiples
 * of 16 bytes. */
#ifndef KVG_GPU_MODEL_MODEL_PARTS_CUH
#define KVG_GPU_MODEL_MODEL_PARTS_CUH

#include <cuda_runtime.h>

#include "core/transformer.h"
#include "gpu/numbers/convert.cuh"

/* Numbers of a checkpoint as its file has them: f16, bf16 or f32. */
struct kvg_model_vector {
    const void *data; /* null: there are none */
    kvg_dtype dtype;

    __device__ __forceinline__ float at(size_t i) const
    {
        if (dtype == KVG_DTYPE_F32) return ((const float *)data)[i];
        const uint16_t code = ((const uint16_t *)data)[i];
        if (dtype == KVG_DTYPE_F16) return kvg_scalar<KVG_DTYPE_F16>::widen(code);
        return kvg_scalar<KVG_DTYPE_BF16>::widen(code);
    }
};

/* A linear layer, or one of each expert, one after the other. */
struct kvg_model_matrix {
    const uint8_t *rows;   /* the weights of each output, `pitch` bytes apart: a multiple of 16 */
    const uint8_t *scales; /* [outputs][inputs / 32] of mxfp4 */
    size_t pitch;
    kvg_dtype dtype;       /* u8: mxfp4 */
    uint32_t outputs, inputs;
    kvg_model_vector bias; /* [outputs] */
};

/* --- products --- */

/* A number as a kernel leaves it: in f32, or RN to f16 or bf16. */
__device__ __forceinline__ void kvg_model_put(void *to, size_t at, kvg_dtype dtype, float value)
{
    if (dtype == KVG_DTYPE_F32) ((float *)to)[at] = value;
    else if (dtype == KVG_DTYPE_F16) ((uint16_t *)to)[at] = kvg_scalar<KVG_DTYPE_F16>::round(value);
    else ((uint16_t *)to)[at] = kvg_scalar<KVG_DTYPE_BF16>::round(value);
}

/* What becomes of an output: stored in f32; RN_T; added to what lies there. */
enum kvg_model_end { KVG_MODEL_STORE, KVG_MODEL_ROUND, KVG_MODEL_ADD };

/* Which rows go to which expert: entry e is choice e mod `chosen` of row e / chosen. */
struct kvg_model_lists {
    const uint32_t *entries; /* [experts][rows]: ascending */
    const uint32_t *counts;  /* [experts] */
    uint32_t experts;        /* 0: no experts, and a row is an entry */
    uint32_t share;          /* entries that share a row of x: `chosen`, or 1 */
};

struct kvg_model_product {
    kvg_model_matrix matrix;
    const void *x; /* [rows] of x_pitch elements, a multiple of 8 */
    void *y;       /* [rows, or entries] of y_pitch elements */
    uint32_t x_pitch, y_pitch, rows;
    kvg_dtype x_dtype; /* f32, f16 or bf16 */
    kvg_dtype dtype;   /* T */
    kvg_model_end end;
    kvg_model_lists lists;
};

/* The fixed chain of fused multiply-adds. */
kvg_status kvg_model_product_run(const kvg_model_product &product, cudaStream_t stream) KVG_CHECKED;

/* --- the other steps: gpu/model/model_kernels.cu --- */

/* x[i] = row tokens[i] of the embedding, in f32. */
kvg_status kvg_model_embed(const kvg_model_matrix &embed, const int32_t *tokens, uint32_t rows, float *x,
                           uint32_t pitch, cudaStream_t stream) KVG_CHECKED;

/* y[i] = RMSNorm of x[chosen[i]], of x[i] without `chosen`; `count` numbers of each. */
struct kvg_model_norm {
    const float *x;
    void *y;
    kvg_dtype y_dtype;
    bool any_order; /* of the sum of squares; else it is the fixed chain */
    const uint32_t *chosen;
    kvg_model_vector weights;
    uint32_t count, pitch, rows;
    float eps;
};
kvg_status kvg_model_norm_run(const kvg_model_norm &norm, cudaStream_t stream) KVG_CHECKED;

/* Rows of q and of k in T, in place: q with bias, norm and RoPE; k, where k is given, with bias and norm. */
struct kvg_model_heads {
    void *q, *k;                  /* [rows][query_heads][dim], [rows][kv_heads][dim] */
    const void *q_bias, *k_bias;  /* in T; null: none */
    kvg_model_vector q_norm, k_norm;
    const float *cos_sin;
    const int32_t *positions;
    uint32_t rows, query_heads, kv_heads, dim;
    float eps;
    kvg_dtype dtype;
};
kvg_status kvg_model_heads_run(const kvg_model_heads &heads, cudaStream_t stream) KVG_CHECKED;

/* y[row][i] from gate[row][i * step] and up[row][i * step]; limit 0: the plain SwiGLU. */
struct kvg_model_swiglu {
    const float *gate, *up;
    void *y;
    kvg_dtype y_dtype;
    uint32_t rows, count, step, pitch, y_pitch;
    float limit;
};
kvg_status kvg_model_swiglu_run(const kvg_model_swiglu &swiglu, cudaStream_t stream) KVG_CHECKED;

/* From logits to experts, weights and the experts' lists. */
struct kvg_model_route {
    const float *logits; /* [rows] of pitch */
    uint32_t rows, experts, chosen, pitch;
    uint32_t *expert;    /* [rows][chosen] */
    float *weight;       /* [rows][chosen] */
    uint32_t *entries, *counts;
};
kvg_status kvg_model_route_run(const kvg_model_route &route, cudaStream_t stream) KVG_CHECKED;

/* x = RN(x + y), y the fused sum of the experts' outputs in the order of the router. */
struct kvg_model_combine {
    const float *outputs; /* [rows * chosen] of pitch */
    const float *weight;
    float *x;             /* [rows] of pitch */
    uint32_t rows, chosen, count, pitch;
};
kvg_status kvg_model_combine_run(const kvg_model_combine &combine, cudaStream_t stream) KVG_CHECKED;

/* Copies a block in all layers. The rows of part k, of one side's codes or scales: `heads` times `tokens` of them. */
struct kvg_model_copy {
    struct part {
        uint8_t *start;
        uint64_t layer, block, head, token;
        uint32_t bytes; /* of a row; 0: there is no such part */
    } parts[4];
    uint32_t layers, heads, tokens, from, to;
};
kvg_status kvg_model_copy_run(const kvg_model_copy &copy, cudaStream_t stream) KVG_CHECKED;

/* --- a model on the device: gpu/model/model_tensors.cu --- */

struct kvg_model_layer {
    kvg_model_vector input_norm, mlp_norm, q_norm, k_norm;
    kvg_model_matrix q, k, v, o;
    kvg_model_matrix gate, up, down, router; /* of experts: gate holds both */
    const void *q_bias, *k_bias;             /* in T, added before QK-norm; k_bias: null without */
    const void *bias[2];                     /* append's, in T: -0 for K under QK-norm */
    const float *sinks;
    const float *tensor_scale[2];
};

struct kvg_model_tensors {
    kvg_model_layer *layers; /* host memory: of malloc */
    kvg_model_matrix embed, output;
    kvg_model_vector final_norm;
    const float *cos_sin;
};

/* Device memory in one piece: `base` null only adds up what is taken. */
struct kvg_model_arena {
    uint8_t *base;
    uint64_t used;

    void *take(uint64_t bytes)
    {
        void *at = base ? base + used : nullptr;
        used += (bytes + 255) / 256 * 256;
        return at;
    }
};

/* Takes room for what the model needs of its checkpoint and, where the arena has a base, uploads it; scratch: what
 * kvg_model_scratch_bytes says, of no use afterwards. KVG_ERR_INVALID names a tensor that is missing. */
kvg_status kvg_model_tensors_place(const kvg_model_setup *setup, kvg_model_arena *arena, void *scratch,
                                   kvg_model_tensors *out, cudaStream_t stream) KVG_CHECKED;
uint64_t kvg_model_scratch_bytes(const kvg_model_setup *setup);

#endif
