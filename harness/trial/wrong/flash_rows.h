/* K and V of one sequence and KV head, as the plain kernel loads them: through the public maps and op dequantise. */
#ifndef KVG_HARNESS_TRIAL_WRONG_FLASH_ROWS_H
#define KVG_HARNESS_TRIAL_WRONG_FLASH_ROWS_H

#include "harness/trial/wrong/flash.h"
#include "reference/reference.h"

typedef struct kvg_flash_rows {
    int64_t length, count;     /* tokens; positions that have a row below: as many, or whole blocks */
    uint32_t dim[2];
    float *operands[2];        /* [count][dim], rounded to their type */
    float *factors[2];         /* [count], what a score (K) or P (V, rows with a scale of their own) is multiplied by */
    float outside;             /* what the output is multiplied by */
    bool *present;             /* the position has a place in the cache */
    kvg_flash_set met;         /* while they were loaded */
} kvg_flash_rows;

/* Rounds to a model type. */
float kvg_flash_through(kvg_dtype dtype, float x);

/* Rounds to an operand's type. */
float kvg_flash_operand(kvg_operand type, float x);

/* `count` rows of a side to f32: affine ones through the model type, whose numbers their parameters are. */
kvg_status kvg_flash_dequantise(const kvg_problem *problem, kvg_side side, float tensor_scale, uint32_t count,
                                const uint8_t *codes, const uint8_t *scales, float *to) KVG_CHECKED;

/* `earlier`: tokens before those of this call. On failure, and at the end, kvg_flash_rows_free. */
kvg_status kvg_flash_rows_load(const kvg_problem *problem, const kvg_tensor *in, const kvg_flash *how,
                               uint32_t sequence, uint32_t kv_head, int64_t earlier, kvg_flash_rows *out) KVG_CHECKED;
void kvg_flash_rows_free(kvg_flash_rows *rows);

/* Of each sequence and KV head, [sequences][Hkv]: the rows that were loaded without a defect, with a length of -1 as
 * long as they were not; and what runs without a defect met. */
typedef struct kvg_flash_kept {
    kvg_flash_rows *rows;
    kvg_flash_set *met;
    size_t count;
    int64_t room; /* numbers that may still be kept */
} kvg_flash_kept;

kvg_status kvg_flash_kept_open(const kvg_problem *problem, kvg_flash_kept *out) KVG_CHECKED;
void kvg_flash_kept_close(kvg_flash_kept *kept);

/* No defect of the kernel is one of loading. */
bool kvg_flash_rows_are_right(const kvg_flash *how);

#endif
