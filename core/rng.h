/* Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC11).
 * Element i depends on (seed, stream, i) alone, never on thread count or order. Integers only. */
#ifndef KVG_CORE_RNG_H
#define KVG_CORE_RNG_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Four independent 32-bit words for counter (stream, index) under key seed. */
void kvg_rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4]);

/* One 64-bit word of the same block (words 0 and 1). */
uint64_t kvg_rng_u64(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, n), n > 0; the bias is below n / 2^64. */
uint64_t kvg_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n);

/* A nearly normal number of mean 0 and variance 1, |x| < 4.9: the sum of the block's eight 16-bit
 * halves, centred and scaled. No logarithm or cosine is used, so the bits are the same on every
 * machine. */
double kvg_rng_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* Those of `count` indices from `first` on. */
void kvg_rng_normals(uint64_t seed, uint64_t stream, uint64_t first, uint32_t count, double *out);

/* FNV-1a, 64 bits: stable ids of cases. Not for untrusted data. */
uint64_t kvg_hash64(const void *bytes, uint64_t size);

#ifdef __cplusplus
}
#endif
#endif
