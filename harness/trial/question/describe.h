/* Where a byte of an output is, in words. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_DESCRIBE_H
#define KVG_HARNESS_TRIAL_QUESTION_DESCRIBE_H

#include "harness/trial/question/question.h"

/* What a byte of a pool is: byte `index` of a row. */
typedef struct kvg_pool_byte {
    uint32_t layer, block, head, offset, index;
} kvg_pool_byte;

/* The inverse of kvg_rows_place: searches all rows of a map for a byte of its pool. False: none of them has it. */
bool kvg_pool_byte_find(const kvg_problem *problem, const kvg_row_map *map, uint64_t byte, kvg_pool_byte *out);

/* Writes where a byte is and how it differs, for output tensor `index` of the case: "token 3, head
 * 1, dim 17: expected 0x3F80, got 0x3F81". For a pool: layer, block, offset and head of the row, or
 * that the byte belongs to no row. If a token of the case owns the slot, the text names the
 * token. Behind an encoder's byte stands what it was made of: "; x 0.5 of a block from -2 to 1.75, g 0.25". */
void kvg_describe_byte(const kvg_question *data, size_t index, const kvg_tensor *expected, const kvg_tensor *got,
                       size_t byte, char *out, size_t size);

/* Adds words behind those in `out`; what finds no room is cut off. */
void kvg_describe_add(char *out, size_t size, const char *format, ...) KVG_PRINTF(3, 4);

#endif
