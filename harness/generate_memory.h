/* What one request holds of a model's cache, counted from its pools. */
#ifndef KVG_HARNESS_GENERATE_MEMORY_H
#define KVG_HARNESS_GENERATE_MEMORY_H

#include "core/transformer.h"

typedef struct kvg_generate_memory {
    uint64_t block_bytes;   /* of a block of all layers: K and V, data and scales, padding */
    uint64_t blocks;        /* of the request: the last one may be partly empty */
    uint64_t request_bytes; /* of these */
    uint64_t requests;      /* as large, that a budget has room for; none of them shares anything */
    double token_bytes;     /* block_bytes / block_tokens */
} kvg_generate_memory;

/* The bytes of all pools of a setup, all layers. KVG_ERR_INVALID if they make no cache. */
kvg_status kvg_generate_pool_bytes(const kvg_model_setup *setup, uint64_t *out) KVG_CHECKED;

/* A request of `tokens` tokens under the setup's storage, layout and block size, and a budget in bytes. KVG_ERR_INVALID
 * if they make no cache. */
kvg_status kvg_generate_memory_of(const kvg_model_setup *setup, uint64_t tokens, uint64_t budget,
                                  kvg_generate_memory *out) KVG_CHECKED;

/* The same of blocks that weigh so much. */
kvg_status kvg_generate_memory_count(uint64_t block_bytes, uint32_t block_tokens, uint64_t tokens, uint64_t budget,
                                     kvg_generate_memory *out) KVG_CHECKED;

#endif
