/* Functions that answer ops append and decode of a model's steps (`run` of kvg_model_setup):
 * wrappers that change a question and pass it on, and their data. The run_context of each function
 * is the address of its struct. */
#ifndef KVG_MODEL_GENERATE_QUALITY_HOOKS_H
#define KVG_MODEL_GENERATE_QUALITY_HOOKS_H

#include "core/transformer.h"

typedef kvg_status kvg_answer_fn(void *context, const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out);

typedef struct kvg_answerer {
    kvg_answer_fn *run;
    void *context;
} kvg_answerer;

/* The reference's own ops. The three wrappers at the end of this header pass their questions on to
 * their member `next`. */
kvg_answer_fn kvg_answer_reference; /* no context */

/* A candidate of harness/candidate/candidate.h. */
kvg_answer_fn kvg_answer_candidate;

/* Runs some layers as if nothing were quantised. Their rows go to pools of the model type beside
 * the runner's pools, which stay unchanged. For runs that copy no blocks. */
typedef struct kvg_shadow {
    kvg_answerer next, plain; /* next: of quantised layers; plain: of the others */
    const bool *quantised;    /* [layers] */
    kvg_dtype dtype;
    void *pools[2];           /* of K and V; allocated at the first append */
    size_t bytes[2];
} kvg_shadow;

kvg_answer_fn kvg_answer_shadow;
void kvg_shadow_close(kvg_shadow *shadow);

/* Quantises K before RoPE. Rows of K with bias added go through ops quantise and dequantise, then
 * to an append without bias for K. The setup must store K in the model type. */
typedef struct kvg_before_rope {
    kvg_answerer next;
    kvg_storage storage;
    const float (*tensor_scale)[2]; /* [layers]: [0] is K's */
} kvg_before_rope;

kvg_answer_fn kvg_answer_before_rope;

/* Records the largest magnitudes of stored values, by layer. */
typedef struct kvg_amax {
    kvg_answerer next;
    float (*stored)[2]; /* [layers]: of K after RoPE, of V */
    float *before_rope; /* [layers]: of K */
} kvg_amax;

kvg_answer_fn kvg_answer_amax;

#endif
