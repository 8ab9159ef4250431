/* Stored rows as operands: docs/spec/decode-contract.md sections 2 to 4, docs/spec/simt-contract.md sections 1 and
 * 2, docs/spec/other-kernels.md section 4. */
#ifndef KVG_SECOND_SLOW_OPERAND_H
#define KVG_SECOND_SLOW_OPERAND_H

#include "core/profile.h"
#include "second/slow_fault.h"
#include "second/slow_element.h"

/* How a contract has the operands of one side. */
typedef struct slow_operands {
    const slow_side *side;
    slow_decode_fault fault;
    const slow_layout *type; /* X */
    bool stored;        /* the codes of the cache, in order: docs/spec/other-kernels.md */
    int base;           /* operands are the values times 2^-base */
    int most_scale;     /* larger exponents of a block's scale are read as this one */
    bool has_row_scale; /* a scale per row (slow_row_scale) stays outside */
    slow_number g;      /* the tensor scale outside; 1 where it is inside */
    bool has_g;         /* it is inside, which is wrong */
    size_t widest_16;   /* segment of a row of 16-bit codes */
} slow_operands;

bool slow_has_operands(kvg_format format); /* of a tensor core */
bool slow_one_by_one(const kvg_contract_info *contract); /* products are added one by one: operands are in f32 */
bool slow_has_row_scale(kvg_format format);
slow_operands slow_operands_of(const slow_side *side, const kvg_profile_info *profile, slow_decode_fault fault);

/* The codes, in X, of a row's elements in the order of dims. */
void slow_operands_load(const slow_operands *o, const slow_row_bytes *row, uint32_t *codes);
slow_number slow_row_scale(const slow_operands *o, const slow_row_bytes *row);

/* The code in X of the nearest number; of e4m3 it saturates. */
uint32_t slow_operand_code(const slow_layout *type, slow_number x);

/* The dim of product i of a score, i = 0 ... D - 1: sum after sum and place after place, or one after another. */
size_t slow_dim_of_product(const slow_operands *o, bool one_by_one, size_t i);

#endif
