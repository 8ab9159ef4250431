/* Inputs that are worth comparing: rows built around rounding boundaries, special values, seeded random bits. Double
 * arithmetic only chooses the inputs; it is no part of what is compared. */
#ifndef KVG_TESTS_SECOND_PROBES_H
#define KVG_TESTS_SECOND_PROBES_H

#include <stddef.h>
#include <stdint.h>

/* A growing list of f32. */
typedef struct probes {
    float *x;
    size_t count, capacity;
} probes;
void probes_add(probes *p, float x);
void probes_free(probes *p);

/* Adds x >= 0, rounded to f32, and its neighbours up to `ulps` away, as far as they are finite and not below 0. */
void probes_add_near(probes *p, double x, int ulps);

/* Adds every E2M1 value and midpoint times step, and the midpoints of the linear codes k/2 up to 4, with neighbours. */
void probes_add_e2m1(probes *p, double step, int ulps);

/* Adds blocks of which each begins with amax and goes on with candidates, cut to amax and of alternating sign, until
 * all have had their turn. */
void probes_add_blocks(probes *p, float amax, const probes *candidates, size_t block);

/* Fills up the last row with zeros; the number of rows. */
size_t probes_pad(probes *p, size_t dim);

/* Values at which formats and dialects behave specially, as f32 bits: NaNs of every kind, Inf, zeros, subnormals, the
 * ends of every type's range. */
extern const uint32_t special_values[];
extern const size_t special_count;

/* Tensor scales: ordinary ones, the engines' conventions, and the ends of the range. */
extern const uint32_t tensor_scales[];
extern const size_t tensor_scale_count, tensor_scale_extreme; /* from the second index on: near the ends */

/* The key of every random number here; tests use streams of their own. */
enum { SEED = 20261121 };

/* Rows of random values. Bits: any f32. Spread: per row a random power of two times values in (-8, 8). Grid: the same
 * on a grid of eighths, so that ties are common. */
typedef enum random_kind { RANDOM_BITS, RANDOM_SPREAD, RANDOM_GRID, RANDOM_KINDS } random_kind;
void probes_add_random(probes *p, random_kind kind, uint64_t stream, size_t rows, size_t dim);

#endif
