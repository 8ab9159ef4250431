/* Stored rows as operands of the tensor core: docs/decode-contract.md sections 2 to 4. */
#ifndef KVG_TESTS_SLOWREF_SLOW_OPERAND_H
#define KVG_TESTS_SLOWREF_SLOW_OPERAND_H

#include "tests/slowref/slow_element.h"

/* X: the type of the operands of a format under a model type. */
kvg_dtype slow_operand_type(kvg_format format, kvg_dtype model);

/* Operands are the values times 2^-base. */
int slow_operand_base(kvg_format format, uint64_t faults);

/* Whether a scale per row (slow_row_scale) stays outside of the operands. */
bool slow_has_row_scale(kvg_format format);

/* The codes, in X, of a row's elements in the order of dims. */
void slow_operands(const slow_side *side, const slow_row_bytes *row, uint64_t faults, uint16_t *codes);
slow_number slow_row_scale(const slow_row_bytes *row);

/* Section 4: the dim at place k of sum s of a row of K. */
size_t slow_dim_of_sum(const slow_side *side, uint64_t faults, size_t s, size_t k);

#endif
