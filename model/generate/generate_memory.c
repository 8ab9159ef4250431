#include "model/generate/generate_memory.h"

kvg_status kvg_generate_pool_bytes(const kvg_model_setup *setup, uint64_t *out)
{
    const kvg_problem p = kvg_model_append(setup, 0, 1);
    const kvg_role pools[] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};
    kvg_status s = kvg_problem_check(&p);
    *out = 0;
    for (int i = 0; i < 4 && !s; i++) {
        uint64_t bytes = 0;
        s = kvg_problem_pool_bytes(&p, pools[i / 2], (kvg_side)(i % 2), &bytes);
        *out += bytes;
    }
    return s;
}

kvg_status kvg_generate_memory_count(uint64_t block_bytes, uint32_t block_tokens, uint64_t tokens, uint64_t budget,
                                     kvg_generate_memory *out)
{
    *out = (kvg_generate_memory){.block_bytes = block_bytes};
    if (tokens == 0 || tokens > UINT64_MAX / 2 || block_bytes == 0) {
        return kvg_fail(KVG_ERR_INVALID, "memory: a request has 1 to 2^63 tokens, and a block at least a byte");
    }
    out->blocks = (tokens + block_tokens - 1) / block_tokens;
    if (out->blocks > UINT64_MAX / block_bytes) {
        return kvg_fail(KVG_ERR_INVALID, "memory: a request of %llu tokens has more than 2^64 bytes",
                        (unsigned long long)tokens);
    }
    out->request_bytes = out->blocks * block_bytes;
    out->requests = budget / out->request_bytes;
    out->token_bytes = (double)block_bytes / block_tokens;
    return KVG_OK;
}

kvg_status kvg_generate_memory_of(const kvg_model_setup *setup, uint64_t tokens, uint64_t budget,
                                  kvg_generate_memory *out)
{
    kvg_model_setup one = *setup;
    uint64_t block_bytes;
    one.blocks = 1;
    if (!one.max_tokens) one.max_tokens = 1;
    *out = (kvg_generate_memory){0};
    kvg_status s = kvg_generate_pool_bytes(&one, &block_bytes);
    return s ? s : kvg_generate_memory_count(block_bytes, setup->block_tokens, tokens, budget, out);
}
