/* What the pools of a paged cache weigh: allocated block by block, and by formula. */
#ifndef KVG_CLI_MEMORY_H
#define KVG_CLI_MEMORY_H

#include "core/problem.h"
#include "harness/config/model.h"

/* How a model's cache is kept. */
typedef struct kvg_memory_plan {
    kvg_layout layout;
    kvg_layout_text text; /* of layout TEXT */
    kvg_format format; /* of K and of V */
    kvg_dtype dtype;   /* model type */
    uint32_t block_tokens;
    uint32_t row_padding, data_padding, scale_padding; /* as in kvg_paging */
} kvg_memory_plan;

typedef struct kvg_memory_use {
    uint64_t blocks;       /* of all groups of layers */
    uint64_t data, scales; /* bytes of the pools of K and V, padding included */
    uint64_t padding;      /* bytes of these that hold nothing */
    uint64_t tail;         /* bytes of these for tokens that no layer keeps: behind the last one, before a window */
} kvg_memory_use;

/* The most that the pools of one sequence take while it grows to `tokens` tokens, one by one. It is counted as a block
 * manager allocates it: address space is reserved for every block, data and scales apart. KVG_ERR_INVALID if these
 * bytes are not what kvg_problem_pool_bytes, the format table's bytes per token and (where a mode has this storage)
 * kvg_mode_block_bytes say, or if the layout cannot hold the model. */
kvg_status kvg_memory_measure(const kvg_model *model, const kvg_memory_plan *plan, uint64_t tokens,
                              kvg_memory_use *out) KVG_CHECKED;

/* Bytes of the rows that all layers keep of a sequence of `tokens` tokens, K and V, without padding. */
uint64_t kvg_memory_row_bytes(const kvg_model *model, kvg_format format, uint64_t tokens);

#endif
