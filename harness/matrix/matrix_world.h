/* The K and V that every party of `kvgold matrix` writes and reads, and the pages that they lie in:
 * a few sequences of several lengths, in one of two layers, on blocks in random order. */
#ifndef KVG_HARNESS_MATRIX_MATRIX_WORLD_H
#define KVG_HARNESS_MATRIX_MATRIX_WORLD_H

#include "harness/matrix/matrix_engine.h"
#include "support/tensor_set.h"

enum { KVG_MATRIX_LAYERS = 2, KVG_MATRIX_LAYER = 1, KVG_MATRIX_SEQUENCES = 3, KVG_MATRIX_POOLS = 4 };

typedef struct kvg_matrix_shape {
    kvg_format format;
    kvg_dtype dtype;       /* model type of K and V */
    uint32_t kv_heads, head_dim, block_tokens;
    uint32_t tokens;       /* tokens of the longest sequence */
    uint64_t seed;
} kvg_matrix_shape;

typedef struct kvg_matrix_world {
    kvg_matrix_shape shape;
    uint32_t blocks, width;              /* blocks of a pool; columns of the block table */
    int32_t lengths[KVG_MATRIX_SEQUENCES];
    uint32_t live;                       /* tokens of all sequences */
    uint32_t *sequence, *position;       /* for each live token */
    int32_t *table;                      /* [sequences, width] */
    kvg_tensor_set values;               /* role VALUES: [live, heads, dim], elements as in checkpoints */
    float amax[2];
} kvg_matrix_world;

/* Makes the world. KVG_ERR_INVALID says what does not fit. Call kvg_matrix_world_free at the end,
 * also on failure. */
kvg_status kvg_matrix_world_make(const kvg_matrix_shape *shape, kvg_matrix_world *out) KVG_CHECKED;
void kvg_matrix_world_free(kvg_matrix_world *world);

/* The world as an engine keeps it: op append or probe of the live tokens, op flatten of the
 * sequences. A contiguous cache has one block per sequence. KVG_ERR_INVALID if the engine cannot
 * have this geometry. */
kvg_status kvg_matrix_problem(const kvg_matrix_world *world, const kvg_engine *engine, kvg_op op,
                              kvg_problem *out) KVG_CHECKED;

/* The slot of live token `i`; the block table [sequences, 1 or width]. */
int64_t kvg_matrix_slot(const kvg_matrix_world *world, const kvg_problem *problem, uint32_t i);
void kvg_matrix_table(const kvg_matrix_world *world, const kvg_problem *problem, int32_t *table);

/* Fills a tensor with bytes without a pattern. */
void kvg_matrix_noise(const kvg_matrix_world *world, uint64_t stream, kvg_tensor *tensor);

#endif
