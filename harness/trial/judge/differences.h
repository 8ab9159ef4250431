/* How an answer differs from what is right, by each measure: bytes, bits of numbers, the value rule of a dialect, the
 * bound of a round trip. Whoever judges an answer asks here: the check loop, `kvgold compare`, the matrix, the bench.
 * The measure of numbers against exact ones is kvg_attention_measure (reference/attention_spec.h). */
#ifndef KVG_HARNESS_TRIAL_JUDGE_DIFFERENCES_H
#define KVG_HARNESS_TRIAL_JUDGE_DIFFERENCES_H

#include "reference/reference.h"

typedef struct kvg_difference {
    size_t wrong, first; /* how many units differ, and the first that does */
    size_t bytes;        /* that differ in them */
} kvg_difference;

/* Every tensor that has bytes has an answer. */
bool kvg_differ_answered(const kvg_tensor *want, const kvg_tensor *got, size_t count);

/* Units are bytes. */
kvg_difference kvg_differ_bytes(const void *want, const void *got, size_t bytes);

/* Units are numbers, compared as bits; two NaNs are the same. */
kvg_difference kvg_differ_numbers(kvg_dtype dtype, const void *want, const void *got, size_t count);

/* Whether what is wrong holds what it held before the call: `before`, or where that is NULL a piece of the guard's
 * pattern. wrong: marks of units of `width` bytes; NULL: bytes that differ. Fewer than 4 different values may do so by
 * chance: one byte in each row of 256 bytes meets the same value of the pattern. */
bool kvg_differ_untouched(const void *want, const void *got, size_t bytes, const uint8_t *wrong, size_t width,
                          const void *before);

/* Rows outside the value rule of the dialect that `rows`, a problem of plain rows, stores a side in. */
typedef struct kvg_rule_difference {
    size_t wrong, first;
    uint32_t dim;   /* of the first, the element outside */
    float value;    /* that should be stored there */
    uint64_t steps; /* bytes that differ within the rule, of all rows */
} kvg_rule_difference;

/* `scales` may be NULL where the format has none. */
kvg_rule_difference kvg_differ_by_rule(const kvg_problem *rows, kvg_side side, float tensor_scale, const void *values,
                                       const void *codes, const void *scales);

/* What a round trip lost, over the elements for which the bound promises something. */
typedef struct kvg_loss {
    uint64_t elements;
    uint64_t outside;   /* elements outside their bound; a NaN is outside */
    uint64_t inexact;   /* of these, elements that had to be exact */
    double worst_ratio; /* the largest |y - x| / bound where the bound is above 0; NaN if one of them is */
    double xx, xy, ee;  /* sums of x * x, x * y and |y - x| ^ 2 */
} kvg_loss;

/* Adds a row: x, what came back as y, and the bound (+Inf: nothing is promised, 0: y is x). The first element outside,
 * or `count`. */
uint32_t kvg_loss_add(kvg_loss *loss, const float *x, const float *y, const double *bound, uint32_t count);

/* |y - x| / |x|, both Euclidean; 0 without a sum. */
double kvg_loss_relative_l2(const kvg_loss *loss);

/* The number at that index of an array of a type; the first `count` numbers of a tensor. */
float kvg_number_at(kvg_dtype dtype, const void *data, size_t index);
void kvg_load_numbers(const kvg_tensor *tensor, size_t count, double *to);

#endif
