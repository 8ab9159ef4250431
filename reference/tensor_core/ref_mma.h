/* The fused sums of a tensor core (docs/spec/numerics.md section 5) over operands that are decoded once. */
#ifndef KVG_REFERENCE_TENSOR_CORE_REF_MMA_H
#define KVG_REFERENCE_TENSOR_CORE_REF_MMA_H

#include "core/format.h"
#include "core/profile.h"

/* A decoded element of f16, bf16 or e4m3: significand / 2^10 * 2^exponent. Zeros and specials have exponents that no
 * sum of two finite ones reaches, so the largest exponent of a sum tells whether anything in it is special. */
typedef struct ref_operand {
    int16_t significand; /* signed; subnormals are not normalised; NaN: 0 */
    int16_t exponent;    /* of the place before the point, or one of the two below */
} ref_operand;

enum {
    REF_OPERAND_ZERO = -4096,   /* below every sum of finite exponents, also when added to one */
    REF_OPERAND_SPECIAL = 8192, /* Inf, NaN */
};

/* How a chip adds products. */
typedef struct ref_sum {
    uint32_t terms;
    int fraction_bits, least_exponent;
    uint32_t cut; /* bits of the result that are 0 */
} ref_sum;

ref_sum ref_sum_of(const kvg_chip_info *chip);      /* f16 and bf16: docs/spec/numerics.md section 5.1 */
ref_sum ref_sum_of_e4m3(const kvg_chip_info *chip); /* section 5.4 */

ref_operand ref_operand_of_e4m3(uint8_t code);

/* Decodes n codes of `dtype`, f16 or bf16. */
void ref_operand_decode(kvg_dtype dtype, const uint16_t *codes, size_t n, ref_operand *out);

/* c + a[0] b[0] + ... + a[n - 1] b[n - 1] as a chain of fused sums in this order, n a multiple of their terms: what
 * instructions give that pass their result on as the next one's c. */
float ref_mma_dot(const ref_sum *sum, const ref_operand *a, const ref_operand *b, size_t n, float c);

#endif
