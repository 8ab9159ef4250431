/* Weights without a checkpoint: a dense model's, in bf16, by recipes (core/bench_recipe.h), made where a device has
 * them. Linear layers, embeddings and biases are of either sign, from 2^-7 on and below 2^-5; norms from 1 on and below
 * 1.125. So activations stay about 1, and logits are finite. */
#ifndef KVG_MODEL_CHECKPOINT_RANDOM_WEIGHTS_H
#define KVG_MODEL_CHECKPOINT_RANDOM_WEIGHTS_H

#include "core/bench_device.h"
#include "core/transformer.h"

typedef struct kvg_random_weights kvg_random_weights;

/* KVG_ERR_MEMORY if the device has not so much; KVG_ERR_UNIMPLEMENTED for a mixture of experts. */
kvg_status kvg_random_weights_make(const kvg_bench_device *device, const kvg_model_config *config, uint64_t seed,
                                   kvg_random_weights **out) KVG_CHECKED;
void kvg_random_weights_free(kvg_random_weights *weights); /* NULL is allowed */

/* Views on the device, and no rows. */
kvg_model_source kvg_random_weights_source(const kvg_random_weights *weights);

#endif
