#include "core/rng.h"

void kvg_rng_block(uint64_t seed, uint64_t stream, uint64_t index, uint32_t out[4])
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t product0 = 0xD2511F53ull * c0, product1 = 0xCD9E8D57ull * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9u; /* the Weyl sequence of the golden ratio */
        key1 += 0xBB67AE85u; /* and of sqrt(3) - 1 */
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
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

double kvg_rng_normal(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint32_t words[4];
    kvg_rng_block(seed, stream, index, words);
    int32_t sum = 0;
    for (int i = 0; i < 4; i++) sum += (int32_t)(words[i] & 0xFFFF) + (int32_t)(words[i] >> 16);
    /* Eight uniforms on 0 .. 65535: mean 8 * 32767.5, variance 8 * (2^32 - 1) / 12, so sigma is 53509.6. */
    return (sum - 262140) / 53509.6;
}

uint64_t kvg_hash64(const void *bytes, uint64_t size)
{
    const uint8_t *p = bytes;
    uint64_t hash = 0xCBF29CE484222325ull;
    for (uint64_t i = 0; i < size; i++) hash = (hash ^ p[i]) * 0x100000001B3ull;
    return hash;
}
