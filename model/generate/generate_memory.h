/* The memory that one request holds of a model's cache, counted from its pools. */
#ifndef KVG_MODEL_GENERATE_GENERATE_MEMORY_H
#define KVG_MODEL_GENERATE_GENERATE_MEMORY_H

#include "core/transformer.h"
#include "model/generate/quality_result.h"

/* Bytes of all pools of a setup, for all layers. KVG_ERR_INVALID if the setup gives no cache. */
kvg_status kvg_generate_pool_bytes(const kvg_model_setup *setup, uint64_t *out) KVG_CHECKED;

/* Counts a request of `tokens` tokens under the setup's storage, layout and block size, with a
 * budget in bytes. KVG_ERR_INVALID if they give no cache. */
kvg_status kvg_generate_memory_of(const kvg_model_setup *setup, uint64_t tokens, uint64_t budget,
                                  kvg_generate_memory *out) KVG_CHECKED;

/* As kvg_generate_memory_of, for blocks of `block_bytes` bytes. */
kvg_status kvg_generate_memory_count(uint64_t block_bytes, uint32_t block_tokens, uint64_t tokens, uint64_t budget,
                                     kvg_generate_memory *out) KVG_CHECKED;

#endif
