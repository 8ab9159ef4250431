/* The spec tier of paged attention (docs/spec/attention.md): the exact answer of every problem, and
 * for every element the largest error that a right implementation of one class of arithmetic may
 * make (docs/spec/numerics.md, attention.v1). */
#ifndef KVG_REFERENCE_ATTENTION_SPEC_H
#define KVG_REFERENCE_ATTENTION_SPEC_H

#include <stddef.h>

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The type that an operand of a dot product is rounded to. */
typedef enum kvg_operand {
    KVG_OPERAND_F16 = 1,
    KVG_OPERAND_BF16 = 2,
    KVG_OPERAND_E4M3 = 3,
    KVG_OPERAND_F32 = 4
} kvg_operand;

/* A class of arithmetic. Accumulators and exponentials are f32. */
typedef struct kvg_arithmetic {
    kvg_operand q, k, p, v;
    bool folded;            /* true: operands of K and V hold code x block scale, and the scales of rows and tensors
                             * multiply scores, P and outputs in f32; false: operands hold the decoded number */
    bool rows_inside;       /* with folded: operands hold the scales of rows, too */
    bool rounded_products;  /* each product of a score is rounded to T before they are added up */
    bool rounded_sum;       /* the sum of the weights adds P after P is rounded to its operand; if P carries V's row
                             * scale (folded), it adds P rounded without this scale */
    uint32_t fraction_bits; /* a term of a fused sum keeps so many bits below the sum's largest exponent, and at most 23
                             * of them survive in the sum: 25 Hopper, 24 Ampere and Ada; 0: f32 additions to nearest */
    uint32_t tile;          /* fewest keys between two updates of the running maximum, at least 1 */
    uint32_t span;          /* most keys of one accumulator; accumulators are merged as a binary tree. 0: no limit, any
                             * order */
    uint32_t parts;         /* accumulators of a row or of a span that are merged one after the other; 0: 1 */
    float q_unit, p_unit;   /* the operands hold q / q_unit and p / p_unit. 0 means 1, except for q in e4m3: there it
                             * means a row's amax / 448 */
    float k_unit, v_unit;   /* the operands of K and V, as said above, are divided by these; 0: 1 */
    float exp2_error;       /* relative error of 2^x; 0: 2^-22 */
    float tanh_error;       /* absolute error of the soft-cap's tanh; 0: 2^-21 */
    bool fused_exponent;    /* x = fma(S, c, -RN(m c)): rows whose largest score is beyond 2^23 have no bound */
    bool fused_rescales;    /* the factor by which sums follow m is 2^fma(m, c, -RN(new m c)), at every tile */
    bool rounded_twice;     /* outputs are rounded to T, multiplied by V's tensor scale, and rounded again */
    bool typed;             /* a tile's weights are rounded again as they follow the row's maximum, which the sum of
                             * weights does in f32; and the accumulators of a row are rounded to T and added in T */
    bool late_sink;         /* the sink joins l without raising the maximum: rows whose sink is above every score by 64
                             * have no bound */
    uint32_t most_exponent; /* rows with an E8M0 scale above 2^this have no bound; 0: every row has one */
} kvg_arithmetic;

/* The class of a plain kernel for the problem: operands of the storage format
 * (docs/spec/attention.md section 5), 24 bits, tiles of 16 keys, any order. */
void kvg_arithmetic_init(const kvg_problem *problem, kvg_arithmetic *out);

/* Answers and bounds, dense arrays of the caller: out and out_bound [queries, Hq, Dv], lse and
 * lse_bound [queries, Hq]. The two bounds may both be NULL. A bound is +Inf where nothing is
 * promised: an operand, a score or a result leaves its type's range, or a visible K or V is not
 * finite. wanted [queries, Hq]: which rows are computed, for which heads; the numbers of the others
 * stay as they are. NULL: all. */
typedef struct kvg_attention_answer {
    double *out, *lse;
    double *out_bound, *lse_bound;
    const bool *wanted;
} kvg_attention_answer;

/* The exact answer over the cache, and the bound of `arithmetic`. NULL: no bounds are written. `in`
 * holds the inputs of op decode; or those of op merge, for which `wanted` is not read and the bound
 * is that of f32 (section 6 there). KVG_ERR_INVALID names the tensor that contradicts
 * docs/spec/attention.md. KVG_ERR_UNIMPLEMENTED: an unknown dialect. KVG_ERR_MEMORY. */
kvg_status kvg_attention_spec(const kvg_problem *problem, const kvg_tensor *in, const kvg_arithmetic *arithmetic,
                              const kvg_attention_answer *answer) KVG_CHECKED;

/* The exact answer over K and V before they were quantised. flat[2] are tensors as op flatten
 * writes them, [sequences, Hkv, tokens, D] in T; with shared_kv flat[KVG_V] is not read. The cache
 * still says which positions have a place. The bounds are those of the codec: they follow from
 * round-trip.v1 and limit the distance between this answer and kvg_attention_spec's. */
kvg_status kvg_attention_unquantised(const kvg_problem *problem, const kvg_tensor *in, const kvg_tensor flat[2],
                                     const kvg_attention_answer *answer) KVG_CHECKED;

/* |got - exact| / bound. 0 if got and exact are equal, infinities included, and if nothing is
 * promised (bound +Inf). +Inf if one of them is NaN and the other a number, or if they differ and
 * the bound is 0. A right answer has at most 1. */
double kvg_attention_ratio(double got, double exact, double bound);

/* How far numbers are from the exact ones. */
typedef struct kvg_attention_error {
    double worst;       /* largest ratio, 0 to +Inf */
    size_t worst_at;    /* index of the worst element */
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
