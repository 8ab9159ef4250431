/* The spec tier of paged attention (docs/spec/attention.md): the exact answer of every problem, and for every element
 * of it the largest error that a right implementation of one class of arithmetic may make (docs/spec/numerics.md,
 * attention.v1).
 * */
#ifndef KVG_REFERENCE_ATTENTION_SPEC_H
#define KVG_REFERENCE_ATTENTION_SPEC_H

#include <stddef.h>

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What an operand of a dot product is rounded to. */
typedef enum kvg_operand {
    KVG_OPERAND_F16 = 1,
    KVG_OPERAND_BF16 = 2,
    KVG_OPERAND_E4M3 = 3,
    KVG_OPERAND_F32 = 4
} kvg_operand;

/* A class of arithmetic: f32 accumulators and exponentials. */
typedef struct kvg_arithmetic {
    kvg_operand q, k, p, v;
    bool folded;            /* K and V operands hold code x block scale; scales of rows and tensors multiply scores, P
                             * and outputs in f32. Else they hold the decoded number */
    bool rows_inside;       /* folded, but operands hold the scales of rows, too */
    bool rounded_sum;       /* the sum of the weights adds P as rounded to its operand; where P carries V's row scale
                             * (folded), as rounded without it */
    uint32_t fraction_bits; /* a term of a fused sum keeps these bits below the largest exponent, and no more than 23 of
                             * them survive in the sum: 25 Hopper, 24 Ampere and Ada; 0: f32 additions to nearest */
    uint32_t tile;          /* fewest keys between two updates of the running maximum, at least 1 */
    uint32_t span;          /* most keys of one accumulator, merged as a binary tree; 0: no limit, any order */
    float q_unit, p_unit;   /* the operand holds q / q_unit, p / p_unit. 0: 1 for p, and for q f16, bf16, f32; a row's
                             * amax / 448 for q in e4m3 */
    float k_unit, v_unit;   /* the operand holds what is said above of K, V by this; 0: 1 */
    float exp2_error;       /* of 2^x, relative; 0: 2^-22 */
    float tanh_error;       /* of the cap's tanh, absolute; 0: 2^-21 */
    uint32_t most_exponent; /* a row with an E8M0 scale above 2^this promises nothing; 0: every scale is taken */
} kvg_arithmetic;

/* The class of a plain kernel for the problem: operands of the storage format (docs/spec/attention.md section 5), 24
 * bits, tiles of 16 keys, any order. */
void kvg_arithmetic_init(const kvg_problem *problem, kvg_arithmetic *out);

/* Answers and bounds, dense: out and out_bound [queries, Hq, Dv], lse and lse_bound [queries, Hq]. The caller owns
 * them; the bounds may be NULL together. A bound is +Inf where nothing is promised: an operand, a score or a result
 * leaves its type's range, or a visible K or V is not finite. */
typedef struct kvg_attention_answer {
    double *out, *lse;
    double *out_bound, *lse_bound;
} kvg_attention_answer;

/* The exact answer over the cache, and the bound of `arithmetic` (NULL: no bounds are written). `in`: the inputs of
 * op decode. KVG_ERR_INVALID names the tensor that contradicts docs/spec/attention.md, KVG_ERR_UNIMPLEMENTED an
 * unknown dialect, KVG_ERR_MEMORY. */
kvg_status kvg_attention_spec(const kvg_problem *problem, const kvg_tensor *in, const kvg_arithmetic *arithmetic,
                              const kvg_attention_answer *answer) KVG_CHECKED;

/* The exact answer over K and V before they were quantised: flat[2] as op flatten gives them, [sequences, Hkv, tokens,
 * D] in T (shared_kv: flat[KVG_V] is not read). The cache still says which positions have a place. Its bounds are those
 * of the codec: of the distance between this answer and kvg_attention_spec's, from round-trip.v1. */
kvg_status kvg_attention_unquantised(const kvg_problem *problem, const kvg_tensor *in, const kvg_tensor flat[2],
                                     const kvg_attention_answer *answer) KVG_CHECKED;

/* |got - exact| / bound; 0 where they are equal, infinities too, and where nothing is promised (bound +Inf). NaN
 * against a number, or any difference where the bound is 0, gives +Inf. Right answers have at most 1. */
double kvg_attention_ratio(double got, double exact, double bound);

/* How far `count` numbers are from the exact ones. */
typedef struct kvg_attention_error {
    double worst;       /* largest ratio, 0 to +Inf */
    size_t worst_at;    /* its index */
    size_t outside;     /* elements with a ratio above 1 */
    size_t unpromised;  /* elements without a bound */
    double relative_l2; /* |got - exact|_2 / |exact|_2 over finite pairs; 0 if exact is zero */
} kvg_attention_error;

void kvg_attention_measure(const double *got, const double *exact, const double *bound, size_t count,
                           kvg_attention_error *out);

#ifdef __cplusplus
}
#endif
#endif
