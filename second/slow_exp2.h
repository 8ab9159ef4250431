/* exp2 and log2 of docs/spec/decode-contract.md sections 6 and 9, and f32 operations: exact, rounded once. */
#ifndef KVG_SECOND_SLOW_EXP2_H
#define KVG_SECOND_SLOW_EXP2_H

#include "second/slow_convert.h"
#include "second/slow_fault.h"

slow_number slow_f32_add(slow_number a, slow_number b);
slow_number slow_f32_subtract(slow_number a, slow_number b);
slow_number slow_f32_multiply(slow_number a, slow_number b);
slow_number slow_f32_divide(slow_number a, slow_number b);
slow_number slow_f32_fma(slow_number a, slow_number b, slow_number c);

/* The f32 whose bits are given. */
slow_number slow_f32_of(uint32_t bits);

slow_number slow_exp2(slow_number x, slow_decode_fault fault);
slow_number slow_log2(slow_number l, slow_decode_fault fault); /* l normal and above 0 */

#endif
