#include "core/rng.h"

#include <stddef.h>

enum { LANES = 4 }; /* blocks side by side, for vectors of 4 words */

typedef struct key {
    uint32_t of[2];
} key;

static inline key first_key(uint64_t seed)
{
    return (key){{(uint32_t)seed, (uint32_t)(seed >> 32)}};
}

static inline key next_key(key k)
{
    return (key){{k.of[0] + 0x9E3779B9u, /* the Weyl sequence of the golden ratio */
                  k.of[1] + 0xBB67AE85u}}; /* and of sqrt(3) - 1 */
}

enum { ROUNDS = 10 };

/* One round of a block whose words are c[0], c[LANES], c[2 * LANES] and c[3 * LANES]. */
static inline void mix(uint32_t *c, key k)
{
    const uint64_t product0 = 0xD2511F53ull * c[0], product1 = 0xCD9E8D57ull * c[2 * LANES];
    c[0] = (uint32_t)(product1 >> 32) ^ c[LANES] ^ k.of[0];
    c[LANES] = (uint32_t)product1;
    c[2 * LANES] = (uint32_t)(product0 >> 32) ^ c[3 * LANES] ^ k.of[1];
    c[3 * LANES] = (uint32_t)product0;
}

static inline void start(uint64_t stream, uint64_t index, uint32_t *c)
{
    c[0] = (uint32_t)index;
    c[LANES] = (uint32_t)(index >> 32);
    c[2 * LANES] = (uint32_t)stream;
    c[3 * LANES] = (uint32_t)(stream >> 32);
}

void kvg_rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint32_t c[4 * LANES];
    key k = first_key(seed);
    start(stream, index, c);
    for (int round = 0; round < ROUNDS; round++, k = next_key(k)) mix(c, k);
    for (int i = 0; i < 4; i++) out[i] = c[i * LANES];
}

uint64_t kvg_rng_u64(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    kvg_rng_block(seed, stream, index, words);
    return (uint64_t)words[1] << 32 | words[0];
}

uint64_t kvg_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t n)
{
    return kvg_rng_u64(seed, stream, index) % n;
}

/* Eight uniforms on 0 .. 65535: mean 8 * 32767.5, variance 8 * (2^32 - 1) / 12, so sigma is 53509.6. */
static inline double normal_of(const uint32_t *c, size_t step)
{
    int32_t sum = 0;
    for (size_t i = 0; i < 4 * step; i += step) sum += (int32_t)(c[i] & 0xFFFF) + (int32_t)(c[i] >> 16);
    return (sum - 262140) / 53509.6;
}

double kvg_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    kvg_rng_block(seed, stream, index, words);
    return normal_of(words, 1);
}

void kvg_rng_normals(uint64_t seed, uint64_t stream, uint64_t first, uint32_t count, double *out)
{
    for (uint32_t at = 0; at < count; at += LANES) {
        uint32_t c[4 * LANES];
        key k = first_key(seed);
        for (uint32_t i = 0; i < LANES; i++) start(stream, first + at + i, c + i);
        for (int round = 0; round < ROUNDS; round++, k = next_key(k)) {
#pragma omp simd
            for (uint32_t i = 0; i < LANES; i++) mix(c + i, k);
        }
        for (uint32_t i = 0; i < LANES && at + i < count; i++) out[at + i] = normal_of(c + i, LANES);
    }
}

uint64_t kvg_hash64(const void *bytes, uint64_t size)
{
    const uint8_t *p = bytes;
    uint64_t hash = 0xCBF29CE484222325ull;
    for (uint64_t i = 0; i < size; i++) hash = (hash ^ p[i]) * 0x100000001B3ull;
    return hash;
}
