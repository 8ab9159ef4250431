/* Room runner: a transformer around its cache, bit for bit.
 *
 *   ref_model_math         Products, norms, activations, routing: f32, one rounding per operation.
 *   ref_model_sample       The next token from logits.
 *   ref_model_run, ref_model_run_*
 *                          The runner: weights, products, layers, experts, and the cache through ops append and decode.
 *
 * The public headers are model/model_math.h and model/model_run.h. docs/spec/generate.md sections 4 to 6
 * decide. */
/* Shared by the files of the reference's model runner (model/model_run.h). */
#ifndef KVG_MODEL_RUNNER_REF_MODEL_RUN_H
#define KVG_MODEL_RUNNER_REF_MODEL_RUN_H

#include "core/transformer.h"

/* --- weights and products (ref_model_run_weights.c, ref_model_run_product.c) --- */

enum { REF_LINEAR_LANES = 64 };

/* A linear layer y = Wx + b, widened to f32. Outputs lie in tiles: for each input, the outputs of a
 * tile are neighbours in memory. */
typedef struct ref_linear {
    uint32_t outputs, inputs;
    const float *tiles; /* [ceil(outputs / LANES)][inputs][LANES], the last tile filled with 0 */
    const float *bias;  /* NULL: none */
} ref_linear;

typedef struct ref_layer {
    const float *input_norm, *mlp_norm;
    const float *q_norm, *k_norm;      /* QK-norm; else NULL */
    const float *sinks;                /* NULL: none */
    ref_linear q, k, v;                /* their biases are not in here, but below */
    const float *q_bias, *k_bias;      /* rounded to T; NULL: none. k_bias: only under QK-norm, else append adds it */
    const void *append_bias[2];        /* biases of K and V for append, in T; NULL: none */
    ref_linear o;
    ref_linear gate, up, down;         /* a dense MLP; else the members below */
    ref_linear router;                 /* experts: their router */
    ref_linear *gate_up, *expert_down; /* [experts] each; gate and up of element i are outputs 2i and 2i + 1 */
} ref_layer;

typedef struct ref_weights {
    ref_layer *layers;
    const float *final_norm;
    ref_linear output;
    struct ref_memory *memory; /* owns all of the above */
} ref_weights;

/* Reads all weights. KVG_ERR_MEMORY. Call ref_weights_close at the end, also on failure. */
kvg_status ref_weights_open(const kvg_model_setup *setup, ref_weights *out) KVG_CHECKED;
void ref_weights_close(ref_weights *weights);

/* Rows of floats: all rows of an array, or the rows that an index names. */
typedef struct ref_rows {
    float *data;
    size_t stride;         /* floats from one row to the next */
    const uint32_t *index; /* row r is row index[r] of data; NULL: row r */
} ref_rows;

static inline float *ref_row_at(const ref_rows *rows, uint32_t r)
{
    return rows->data + (rows->index ? rows->index[r] : r) * rows->stride;
}

typedef struct ref_product {
    const ref_linear *linear;
    uint32_t rows;
    ref_rows x, y;
} ref_product;

/* Runs several products side by side. No y may be an x. */
void ref_products_run(const ref_product *products, size_t count);

/* --- the cache (ref_model_run_cache.c) --- */

typedef struct ref_cache {
    const kvg_model_setup *setup;
    uint8_t *pools[2][2]; /* for each side: data pool, scale pool; NULL: the layout has none */
    uint64_t bytes[2][2];
} ref_cache;

/* Makes the pools. KVG_ERR_INVALID: the setup gives no valid ops. KVG_ERR_MEMORY. Call
 * ref_cache_close at the end, also on failure. */
kvg_status ref_cache_open(const kvg_model_setup *setup, ref_cache *out) KVG_CHECKED;
void ref_cache_close(ref_cache *cache);

/* Copies block `from` over block `to`: all layers, data and scales. */
void ref_cache_copy(const ref_cache *cache, uint32_t from, uint32_t to);

/* Op append of a step's rows to a layer: k and v are [rows][kv_heads][head_dim] in T. */
kvg_status ref_cache_append(const ref_cache *cache, const ref_layer *layer, uint32_t index, const kvg_model_step *step,
                            const void *k, const void *v) KVG_CHECKED;

/* Op decode: q and out are [rows][query_heads][head_dim] in T, lse [rows][query_heads]. */
kvg_status ref_cache_decode(const ref_cache *cache, const ref_layer *layer, uint32_t index, const kvg_model_step *step,
                            const void *q, void *out, float *lse) KVG_CHECKED;

/* --- the runner --- */

enum { REF_ROWS_WORTH_THREADS = 16 };

/* The working memory of a step, [max_rows] rows of each array unless said otherwise. */
typedef struct ref_desk {
    float *x;                   /* [hidden]: the residual stream */
    float *normed;              /* [hidden] */
    float *q, *k, *v;           /* [heads x head_dim] */
    float *attended;            /* [query_heads x head_dim] */
    float *added;               /* [hidden]: the output of attention or MLP, to be added to x */
    float *gate, *up;           /* [intermediate]; of experts [top_k][intermediate] */
    float *gate_up, *answers;   /* experts: [top_k][2 x intermediate], [top_k][hidden] */
    float *routes, *shares;     /* experts: [experts] logits, [top_k] weights */
    float *lse;                 /* [query_heads] */
    uint8_t *t[3], *out;        /* q, k, v and attended in T */
    uint32_t *chosen;           /* experts: [top_k] of each row */
    uint32_t *members, *places; /* experts: [top_k] members: rows sorted by expert; places: where their answers lie, row
                                 * x top_k + j */
    uint32_t *first;            /* [experts + 1]: first index of each expert in both; not per row */
    ref_product *wide, *down;   /* [experts]; not per row */
} ref_desk;

typedef struct ref_model {
    kvg_model_setup setup;
    ref_weights weights;
    ref_cache cache;
    ref_desk desk;
} ref_model;

/* KVG_ERR_INVALID if the setup lacks sizes, tables or weights. */
kvg_status ref_setup_check(const kvg_model_setup *setup) KVG_CHECKED;

/* KVG_ERR_INVALID unless the step obeys core/transformer.h. */
kvg_status ref_step_check(const kvg_model_setup *setup, const kvg_model_step *step) KVG_CHECKED;

/* Runs the residual stream of all rows through one layer. */
kvg_status ref_layer_run(ref_model *model, uint32_t layer, const kvg_model_step *step) KVG_CHECKED;

/* Runs the MLP of a layer: reads `normed`, writes `added`. */
void ref_mlp_run(const ref_model *model, const ref_layer *layer, uint32_t rows);

/* RMSNorm of rows of the hidden size; y is [rows][hidden]. */
void ref_norm_rows(const kvg_model_config *config, const float *weights, uint32_t rows, ref_rows x, float *y);

#endif
