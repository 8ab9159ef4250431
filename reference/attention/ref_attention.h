/* Room attention: op decode, paged attention over a quantised cache.
 *
 *   ref_attention          The spec tier: the exact answer.
 *   ref_merge              Two partial answers made one.
 *   ref_attention_bound    How far a right implementation of a class of arithmetic may be from it.
 *   ref_profile            The profile tier: what the decode contracts share.
 *   ref_profile_mma, _operand
 *                          The contract of tensor cores, and what it feeds to them.
 *   ref_profile_simt       The contracts of plain f32.
 *   ref_profile_tiles      Which tiles the rows of a batch walk.
 *   ref_profile_end        From sums to outputs and LSE.
 *   ref_kv, ref_query      Rows of K and V as exact numbers; rows of q and what they see.
 *
 * The public headers are reference/attention_spec.h and reference/attention_profile.h. */
/* The error model of attention.v1 (docs/spec/numerics.md section 6): what a class of arithmetic, or the codec, may
 * do to each number on its way from q, K and V to the output. ref_attention.c walks the keys and asks it. */
#ifndef KVG_REFERENCE_ATTENTION_REF_ATTENTION_H
#define KVG_REFERENCE_ATTENTION_REF_ATTENTION_H

#include "reference/attention/ref_kv.h"
#include "reference/attention_spec.h"

/* What an operand type does to a number. */
typedef struct ref_operand {
    double relative, step; /* half the spacing: relative to a normal number, absolute among subnormals */
    double normal;         /* the smallest normal number */
    double largest;
} ref_operand;

/* A row of operands. */
typedef struct ref_sizes {
    double size[KVG_MAX_HEAD_DIM];  /* |x| */
    double error[KVG_MAX_HEAD_DIM]; /* |operand - x| is at most this */
    double reach[KVG_MAX_HEAD_DIM]; /* the tensor core aligns the operand as if it were at most this */
    bool promised;                  /* all are finite and in range */
} ref_sizes;

/* The keys that a query sees. */
typedef struct ref_extent {
    uint32_t keys, runs; /* how many, in how many runs of consecutive positions */
} ref_extent;

typedef struct ref_model {
    const kvg_problem *p;
    kvg_arithmetic class;
    bool codec;                 /* the codec's error instead of arithmetic's: the numbers below are 0 */
    ref_operand q, k, prob, v;
    double decoding;            /* f32 roundings before an operand, relative */
    double scaling;             /* of a score: roundings of scales and of its factors, relative */
    double exponent;            /* of an exponent: roundings, relative to the largest quantity that it is made of */
    double exponential, tanh;   /* relative error of exp2, absolute one of tanh */
    double logarithm;           /* of a logarithm, relative to max(1, its size) */
    double k_unit, v_unit;      /* operands of K and V hold what the class says of them by this */
    bool outside[2];            /* by side: a factor of its rows is applied in f32, not held by the operands */
    double lazy;                /* the running maximum may lag behind by this much */
    double division;            /* of the output: reciprocals, normalisations, scales */
    double half_ulp, half_step; /* of the output in T */
} ref_model;

void ref_model_init(const kvg_problem *p, const kvg_arithmetic *arithmetic, ref_model *out); /* NULL: the codec's */
void ref_model_round_twice(ref_model *m, double v_scale); /* of a class with rounded_twice */

/* A row of q; a row of K or V whose numbers are y * factor. `apart`: relative, how far an operand may be from the
 * number even where its type holds it. Codec: errors are given, for rows only. */
void ref_model_query(const ref_model *m, const double *q, uint32_t n, ref_sizes *out);
void ref_model_row(const ref_model *m, kvg_side side, const double *y, double factor, double apart, const double *codec,
                   uint32_t n, ref_sizes *out);

/* Error of the scaled and capped score whose exact value before the cap is `score`; +Inf: nothing is promised. */
double ref_model_score(const ref_model *m, const ref_sizes *q, const ref_sizes *k, double scale, double factor,
                       double score);

/* Error of the exponent of a key whose capped score is t, error included; M is the largest of the row, sink included.
 * */
double ref_model_exponent(const ref_model *m, ref_extent keys, double M, double t, double error);

/* Relative error of a sum over the keys, its rescaling and merging included. */
double ref_model_sum(const ref_model *m, ref_extent keys);

/* What the exponents of one head add up to, in units of e^M; with the sink. */
typedef struct ref_tally {
    double weights;     /* exact */
    double least, most; /* what errors of the exponents may make of it */
    double top;         /* e^(largest possible exponent - M) */
    double heaviest;    /* least that the weights add up to in units of the largest weight: max(1, least / top) */
    double lost;        /* what the floor of P may take from the sum, relative */
} ref_tally;

/* Adds a weight e^x whose exponent lies in x - error .. x + error. */
void ref_tally_add(ref_tally *t, double x, double error);

/* One key of one head: its exponent lies in x - A .. x + A, x <= 0. The rest is relative to the sum of weights. */
typedef struct ref_key {
    double most, error; /* e^(x + A), A */
    double floor;       /* of P: what its operand may lose below the normal range */
    double normal;      /* P is aligned as if it were at least this */
    double underflow;   /* of the product with V */
    bool apart;         /* the sum of weights rounds it for itself */
    double spread;      /* how much larger than the number the operand of V may be, at least 1 */
} ref_key;

/* The elements of an output while keys join them. v is V's element, o the exact output. */
typedef struct ref_elements {
    double moved[KVG_MAX_HEAD_DIM];   /* sum over keys of |v - o| times the most that its weight changes */
    double far[KVG_MAX_HEAD_DIM];     /* largest |v - o| */
    double rounded[KVG_MAX_HEAD_DIM]; /* sum of weight times b, b what the product P V may be off, relative to the
                                       * weight */
    double worst[KVG_MAX_HEAD_DIM];   /* largest b */
    double mass[KVG_MAX_HEAD_DIM];    /* sum over keys of the size of V's operand: weights of 2^lazy must not carry it
                                       * beyond f32 */
    double floored[KVG_MAX_HEAD_DIM]; /* what floors of P and alignment to them may change, relative to the sum of
                                       * weights */
} ref_elements;

/* The first n of them, before any key joins. */
void ref_elements_begin(uint32_t n, ref_elements *e);

/* row_scaled: `factor` is that of V's row, not of its tensor. */
void ref_model_key(const ref_model *m, const ref_tally *tally, double x, double error, bool row_scaled, double factor,
                   ref_key *out);
void ref_model_add(const ref_model *m, double sum_error, const ref_key *key, uint32_t n, const double *o,
                   const double *v, const double *v_error, const double *v_reach, ref_elements *e);

/* The bound of output element i, and of a row's LSE. */
double ref_model_output(const ref_model *m, double sum_error, const ref_tally *tally, const ref_elements *e, uint32_t i,
                        double o);
double ref_model_lse(const ref_model *m, ref_extent keys, const ref_tally *tally, double M, double lse);

/* kvg_attention_spec of op merge; the problem has been checked. */
void ref_merge(const kvg_problem *p, const kvg_tensor *in, bool bounds, const kvg_attention_answer *answer);

#endif
