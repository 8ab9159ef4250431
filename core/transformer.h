/* A transformer over a paged cache: its sizes, its weights, and one step of it. docs/spec/generate.md is the
 * contract. The reference and the GPU each give a kvg_model_runner, which computes; which rows a step has, and where
 * they lie in the cache, is the caller's (model/generate/generate.h). */
#ifndef KVG_CORE_TRANSFORMER_H
#define KVG_CORE_TRANSFORMER_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_model_family { KVG_MODEL_LLAMA, KVG_MODEL_QWEN3, KVG_MODEL_GPT_OSS } kvg_model_family;

enum { KVG_MODEL_MAX_LAYERS = 512 };

/* What config.json says (docs/spec/generate.md section 2). */
typedef struct kvg_model_config {
    kvg_model_family family;
    uint32_t vocab, hidden, intermediate, layers, query_heads, kv_heads, head_dim;
    uint32_t positions;    /* largest position + 1 */
    float rms_eps;
    bool tied;             /* the output embedding is the input's */
    bool attention_bias;   /* of q, k, v and o */
    bool mlp_bias;         /* of gate, up and down; experts have theirs always */
    bool qk_norm, sinks;
    kvg_rope rope;         /* all of head_dim, in halves */
    uint32_t window;       /* keys that a sliding layer sees; 0: there is none */
    bool sliding[KVG_MODEL_MAX_LAYERS];
    uint32_t experts, top_k; /* 0, 0: a dense MLP */
    float swiglu_limit;    /* GPT-OSS's clamp; 0: the plain SwiGLU */
    bool mxfp4;            /* the experts' weights are E2M1 in blocks of 32 */
} kvg_model_config;

/* --- weights (section 3) --- */

typedef enum kvg_weight {
#define WEIGHT(ENUM, LAYERED, CONDITION, name, ...) KVG_WEIGHT_##ENUM,
#include "core/model_weights.def"
#undef WEIGHT
    KVG_WEIGHT_COUNT
} kvg_weight;

/* A tensor as it lies in its file: not necessarily aligned. */
typedef struct kvg_weight_view {
    kvg_dtype dtype; /* f16, bf16, f32; u8: codes and scales of mxfp4 */
    uint32_t rank;
    uint64_t shape[4];
    const void *data; /* NULL: the model has none */
} kvg_weight_view;

/* Where a runner finds the weights: as bytes, or as numbers. Both may be called from several threads. `layer` is 0 for
 * tensors that come once. `row` is that of kvg_model_weights_row (model/checkpoint/model_weights.h). */
typedef struct kvg_model_source {
    const void *weights;
    kvg_weight_view (*view)(const void *weights, kvg_weight weight, uint32_t layer);
    size_t (*row)(const void *weights, kvg_weight weight, uint32_t layer, size_t row, float *out);
} kvg_model_source;

/* --- running (sections 4 and 5) --- */

/* How matrix products are taken. */
typedef enum kvg_products {
    KVG_PRODUCTS_FIXED,  /* section 4's order of fused multiply-adds: the same bits everywhere */
    KVG_PRODUCTS_LIBRARY /* cuBLAS, x rounded to the weights' type: within section 4's bound; of experts as FIXED */
} kvg_products;

const char *kvg_products_name(kvg_products products);                         /* "fixed", "library" */
kvg_status kvg_products_find(const char *name, kvg_products *out) KVG_CHECKED; /* KVG_ERR_INVALID: it is neither */

/* A model put to work: everything that all steps share. Config, weights and scales outlive the runner. */
typedef struct kvg_model_setup {
    const kvg_model_config *config;
    kvg_model_source source;
    kvg_dtype dtype;        /* T, of K, V and q: f16 or bf16 */
    kvg_layout layout;      /* one with a block table; the pools hold all layers */
    kvg_storage storage[2]; /* of K and of V */
    uint32_t blocks, block_tokens;
    const float (*tensor_scale)[2]; /* [layers]: g of K and of V, where the format has one; NULL: 1 */
    kvg_profile profile;    /* of op decode: simt.fma.v1, or a chip's */
    kvg_products products;
    uint32_t max_tokens;    /* of a sequence: no position and no length is beyond */
    const float *cos_sin;   /* [max_tokens][head_dim / 2][2]: config.rope's (docs/spec/numerics.md section 8) */
    uint32_t max_rows, max_sequences, max_wanted; /* of a step */
    /* Who answers ops append and decode; NULL: the runner itself. The GPU's runner takes no other. */
    kvg_status (*run)(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);
    void *run_context;
} kvg_model_setup;

/* One step: rows of several sequences at once, the rows of sequence 0 first. Each is written to the cache, in every
 * layer, and attends to what its sequence has there, itself included. */
typedef struct kvg_model_step {
    uint32_t copies;           /* blocks copied before anything is written: all layers, data and scales */
    const uint32_t (*copy)[2]; /* from, to */
    uint32_t rows;
    const int32_t *tokens, *positions; /* [rows]: ids below vocab, positions below max_tokens */
    const int64_t *slots;              /* [rows]: block * block_tokens + offset */
    uint32_t sequences;
    uint32_t longest;             /* no length is above; at most max_tokens */
    const int32_t *block_table;   /* [sequences][ceil(longest / block_tokens)]; -1: no block */
    const int32_t *lengths;       /* [sequences]: tokens in the cache, those of this step included */
    const int32_t *query_lengths; /* [sequences]: rows of this step; they add up to rows */
    uint32_t wanted;              /* rows whose logits are given */
    const uint32_t *wanted_rows;  /* [wanted], ascending */
    float *logits;                /* [wanted][vocab], host memory: written */
} kvg_model_step;

/* Implementations fail with KVG_ERR_UNIMPLEMENTED where they cannot do a setup, KVG_ERR_MEMORY, and what ops return.
 * What a step had written when it failed is undefined; the runner can be used on. Tokens, positions, slots and tables
 * are checked (KVG_ERR_INVALID). */
typedef struct kvg_model_runner {
    const char *name;
    kvg_status (*open)(const kvg_model_setup *setup, void **runner);
    void (*close)(void *runner); /* NULL is allowed */
    kvg_status (*step)(void *runner, const kvg_model_step *step);
    /* The bytes of a pool (role DATA_POOL or SCALE_POOL; kvg_problem_pool_bytes of them), to host memory. Fresh pools
     * are 0. */
    kvg_status (*read_pool)(void *runner, kvg_role role, kvg_side side, void *out);
} kvg_model_runner;

/* KVG_ERR_INVALID unless a model's cache can lie in the layout: K and V in blocks that a table names. */
kvg_status kvg_model_check_layout(kvg_layout layout) KVG_CHECKED;

/* The problems of one layer of a step: append of its rows, with a table of RoPE of max_tokens positions; decode. Under
 * QK-norm K's bias is added before the norm, and append's for K is -0: it changes nothing. */
kvg_problem kvg_model_append(const kvg_model_setup *setup, uint32_t layer, uint32_t rows);
kvg_problem kvg_model_decode(const kvg_model_setup *setup, uint32_t layer, const kvg_model_step *step);

#ifdef __cplusplus
}
#endif
#endif
