/* A transformer over a paged cache: its sizes, its weights, and one step. The contract is
 * docs/spec/generate.md. A kvg_model_runner computes: the reference and the GPU have one each. The
 * caller decides which rows a step has and where they lie in the cache
 * (model/generate/generate.h). */
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
    bool tied;             /* the output embedding is the input embedding */
    bool attention_bias;   /* q, k, v and o have biases */
    bool mlp_bias;         /* gate, up and down have biases; experts always have them */
    bool qk_norm, sinks;
    kvg_rope rope;         /* all of head_dim, pairing halves */
    uint32_t window;       /* keys that a query of a sliding layer sees; 0: no such layers */
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

/* A tensor as it lies in its file. It need not be aligned. */
typedef struct kvg_weight_view {
    kvg_dtype dtype; /* f16, bf16, f32; u8: codes and scales of mxfp4 */
    uint32_t rank;
    uint64_t shape[4];
    const void *data; /* NULL: the model lacks this tensor */
} kvg_weight_view;

/* How a runner gets the weights: `view` as bytes, `row` as numbers. Both may be called from several
 * threads at once. `layer` is 0 for tensors that exist once. kvg_model_weights_row
 * (model/checkpoint/model_weights.h) has the contract of `row`. */
typedef struct kvg_model_source {
    const void *weights;
    kvg_weight_view (*view)(const void *weights, kvg_weight weight, uint32_t layer);
    size_t (*row)(const void *weights, kvg_weight weight, uint32_t layer, size_t row, float *out);
} kvg_model_source;

/* --- running (sections 4 and 5) --- */

/* How matrix products are computed. */
typedef enum kvg_products {
    KVG_PRODUCTS_FIXED,  /* section 4's order of fused multiply-adds: the same bits everywhere */
    KVG_PRODUCTS_LIBRARY /* cuBLAS, x rounded to the weights' type: within section 4's bound; experts as FIXED */
} kvg_products;

const char *kvg_products_name(kvg_products products);                         /* "fixed", "library" */
kvg_status kvg_products_find(const char *name, kvg_products *out) KVG_CHECKED; /* KVG_ERR_INVALID: it is neither */

/* Everything that all steps of a runner share. Config, weights and scales must outlive the
 * runner. */
typedef struct kvg_model_setup {
    const kvg_model_config *config;
    kvg_model_source source;
    kvg_dtype dtype;        /* T, the type of K, V and q: f16 or bf16 */
    kvg_layout layout;      /* has a block table; the pools hold all layers */
    kvg_storage storage[2]; /* of K and of V */
    uint32_t blocks, block_tokens;
    const float (*tensor_scale)[2]; /* [layers]: tensor scales g of K and of V, where the format has one; NULL: 1 */
    kvg_profile profile;    /* profile of op decode: simt.fma.v1 or a chip's */
    kvg_products products;
    uint32_t max_tokens;    /* tokens of the longest sequence: positions are below, lengths at most this */
    const float *cos_sin;   /* [max_tokens][head_dim / 2][2]: config.rope's table (docs/spec/numerics.md section 8) */
    uint32_t max_rows, max_sequences, max_wanted; /* of a step */
    /* Runs ops append and decode in the runner's place; NULL: the runner runs them. The GPU's
     * runner accepts only NULL. */
    kvg_status (*run)(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);
    void *run_context;
} kvg_model_setup;

/* One step: rows of several sequences at once, the rows of sequence 0 first. In every layer each
 * row is written to the cache. It then attends to the tokens that its sequence has there, up to its
 * own. */
typedef struct kvg_model_step {
    uint32_t copies;           /* blocks to copy before anything is written: all layers, data and scales */
    const uint32_t (*copy)[2]; /* from, to */
    uint32_t rows;
    const int32_t *tokens, *positions; /* [rows]: ids below vocab, positions below max_tokens */
    const int64_t *slots;              /* [rows]: block * block_tokens + offset */
    uint32_t sequences;
    uint32_t longest;             /* an upper bound of `lengths`; at most max_tokens */
    const int32_t *block_table;   /* [sequences][ceil(longest / block_tokens)]; -1: no block */
    const int32_t *lengths;       /* [sequences]: tokens in the cache, the tokens of this step included */
    const int32_t *query_lengths; /* [sequences]: rows of this step; their sum is `rows` */
    uint32_t wanted;              /* number of rows whose logits are wanted */
    const uint32_t *wanted_rows;  /* [wanted], ascending */
    float *logits;                /* [wanted][vocab], in host memory: the step writes them */
} kvg_model_step;

/* A runner returns KVG_ERR_UNIMPLEMENTED for a setup that it cannot do, KVG_ERR_MEMORY,
 * KVG_ERR_INVALID for wrong tokens, positions, slots or tables, and any status of the ops. After a
 * failed step the bytes that it wrote are undefined, and the runner can still be used. */
typedef struct kvg_model_runner {
    const char *name;
    kvg_status (*open)(const kvg_model_setup *setup, void **runner);
    void (*close)(void *runner); /* NULL is allowed */
    kvg_status (*step)(void *runner, const kvg_model_step *step);
    /* Copies the kvg_problem_pool_bytes bytes of a pool (role DATA_POOL or SCALE_POOL) to host
     * memory. The bytes of a new pool are 0. */
    kvg_status (*read_pool)(void *runner, kvg_role role, kvg_side side, void *out);
} kvg_model_runner;

/* KVG_ERR_INVALID unless the layout can hold a model's cache: K and V in blocks that a table
 * names. */
kvg_status kvg_model_check_layout(kvg_layout layout) KVG_CHECKED;

/* The problems of one layer of a step: append of its rows, with a RoPE table of max_tokens
 * positions, and decode. Under QK-norm the runner adds K's bias before the norm, so append gets a
 * bias of -0 for K, which changes nothing. */
kvg_problem kvg_model_append(const kvg_model_setup *setup, uint32_t layer, uint32_t rows);
kvg_problem kvg_model_decode(const kvg_model_setup *setup, uint32_t layer, const kvg_model_step *step);

#ifdef __cplusplus
}
#endif
#endif
