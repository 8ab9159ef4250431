/* The weights of a checkpoint folder, memory-mapped: docs/spec/generate.md section 3. */
#ifndef KVG_MODEL_CHECKPOINT_MODEL_WEIGHTS_H
#define KVG_MODEL_CHECKPOINT_MODEL_WEIGHTS_H

#include <stddef.h>

#include "model/checkpoint/model_config.h"

typedef struct kvg_model_weights kvg_model_weights;

/* The shape of a tensor of a model. Returns how many layers have it: 0, 1 if it comes once, or all. */
uint32_t kvg_model_weight_shape(const kvg_model_config *config, kvg_weight weight, uint32_t *rank, uint64_t shape[4]);

/* Opens model.safetensors, or the shards of model.safetensors.index.json, and checks that every tensor of the config is
 * there, in its shape, and none besides. The numbers are not read. KVG_ERR_IO, KVG_ERR_NOT_FOUND without such files,
 * KVG_ERR_INVALID naming file and tensor. The config is copied. */
kvg_status kvg_model_weights_open(const char *folder, const kvg_model_config *config,
                                  kvg_model_weights **out) KVG_CHECKED;
void kvg_model_weights_close(kvg_model_weights *weights); /* NULL is allowed */

/* Reads every number. KVG_ERR_INVALID names the first NaN or Inf, and an lm_head.weight beside tied embeddings that is
 * not theirs. */
kvg_status kvg_model_weights_check(const kvg_model_weights *weights) KVG_CHECKED;

/* `layer` 0 for tensors that come once. */
kvg_weight_view kvg_model_weights_view(const kvg_model_weights *weights, kvg_weight weight, uint32_t layer);

/* Row `row` of the tensor's last dimension, counted over all others, as f32: the row of an output of a linear layer, a
 * bias, a norm. Returns its length. Of experts (EXPERT_GATE_UP, EXPERT_DOWN, whatever the file holds) row is
 * expert * outputs + output, and the numbers are the output's weights of the inputs. */
size_t kvg_model_weights_row(const kvg_model_weights *weights, kvg_weight weight, uint32_t layer, size_t row,
                             float *out);

/* The weights as a runner takes them; they outlive it. */
kvg_model_source kvg_model_weights_source(const kvg_model_weights *weights);

#endif
