/* Where a byte of an output is, in words. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_DESCRIBE_H
#define KVG_HARNESS_TRIAL_QUESTION_DESCRIBE_H

#include "harness/trial/question/question.h"

/* Writes where a byte is and how it differs, for output tensor `index` of the case: "token 3, head
 * 1, dim 17: expected 0x3F80, got 0x3F81". For a pool: layer, block, offset and head of the row, or
 * that the byte belongs to no row. If a token of the case owns the slot, the text names the
 * token. */
void kvg_describe_byte(const kvg_question *data, size_t index, const kvg_tensor *expected, const kvg_tensor *got,
                       size_t byte, char *out, size_t size);

#endif
