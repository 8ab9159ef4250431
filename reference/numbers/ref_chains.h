/* Chains of fused multiply-adds, many side by side: the one way in which sums of products are taken in f32. */
#ifndef KVG_REFERENCE_NUMBERS_REF_CHAINS_H
#define KVG_REFERENCE_NUMBERS_REF_CHAINS_H

#include <stddef.h>

/* acc[l] = fma(w[i * stride + l], x[i], acc[l]) for l < lanes, in the order i = 0 .. count - 1. acc overlaps neither w
 * nor x. */
void ref_chains(const float *w, size_t stride, const float *x, size_t count, size_t lanes, float *acc);

#endif
