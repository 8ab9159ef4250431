/* Inputs of the matrix instruction, in classes. Each class strains a rule of docs/spec/numerics.md
 * section 5. A tile depends only on class, dtype, seed and index. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_MMA_INPUTS_H
#define KVG_HARNESS_TRIAL_QUESTION_MMA_INPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/format.h"
#include "support/mma_tile.h"

typedef struct kvg_mma_class {
    const char *name;
    int low, high;     /* exponents of factors, limited to those of the type */
    int c_low, c_high; /* exponents of c */
    uint8_t extreme;   /* of 256 factors: fraction is all ones, all zeros or the last bit only */
    uint8_t zero;      /* of 256 factors: +-0 */
    uint8_t subnormal; /* of 256 factors: subnormal */
    uint8_t special;   /* of 256 factors: Inf or NaN */
    uint8_t c_zero, c_subnormal, c_special; /* of 256 values of c */
    uint8_t cancel;    /* of 256 factors: the product is the negative of a neighbour's, or one bit off */
    bool minus;        /* all products and c are negative */
    bool ends;         /* exponents are low or high and nothing between */
    bool bits;         /* factors and c are random bits */
    bool kinds;        /* two products and c of every kind (zeros, least, one, largest, Inf, NaN), the rest +-0 */
    bool edge;         /* a power of two near 4^low and one near 4^high, the rest +-0 */
} kvg_mma_class;

extern const kvg_mma_class kvg_mma_classes[];
extern const size_t kvg_mma_class_count;

/* Fills one tile: a[16][16], b[16][8], c[16][8], each row-major. */
void kvg_mma_tile_fill(const kvg_mma_class *class, kvg_dtype dtype, uint64_t seed, uint64_t index, uint16_t *a,
                       uint16_t *b, float *c);

#endif
