/* A generator of bytes without a pattern. Byte i of a buffer depends only on the recipe and on i,
 * so any machine can make any part of a buffer again. `kvgold bench` fills caches with it that are
 * too large for the host. */
#ifndef KVG_CORE_BENCH_RECIPE_H
#define KVG_CORE_BENCH_RECIPE_H

#include <stdint.h>

/* The same function on the host and in kernels. */
#ifdef __CUDACC__
#define KVG_RECIPE_FUNCTION static __host__ __device__ inline
#else
#define KVG_RECIPE_FUNCTION static inline
#endif

/* Word w (bytes 8w to 8w + 7, little-endian) is (noise & keep) | set. The masks force bits, so that
 * the bytes are numbers of the wanted size. */
typedef struct kvg_recipe {
    uint64_t seed, keep, set;
} kvg_recipe;

/* The noise is SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014) with a counter as its state. */
KVG_RECIPE_FUNCTION uint64_t kvg_recipe_word(kvg_recipe r, uint64_t w)
{
    uint64_t z = r.seed + (w + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return ((z ^ (z >> 31)) & r.keep) | r.set;
}

KVG_RECIPE_FUNCTION uint8_t kvg_recipe_byte(kvg_recipe r, uint64_t i)
{
    return (uint8_t)(kvg_recipe_word(r, i / 8) >> 8 * (i % 8));
}

#endif
