#include "paging/pool/pool_guest_pool.h"

#include "core/status.h"

enum { MOST_BLOCKS = 1 << 24, MOST_TOKENS = 1 << 16 };

/* A number from 1 to `most` at *at, which comes to stand behind it. */
static bool read_number(const char **at, uint32_t most, uint32_t *out)
{
    *out = 0;
    for (; **at >= '0' && **at <= '9' && *out <= most; (*at)++) *out = *out * 10 + (uint32_t)(**at - '0');
    return *out >= 1 && *out <= most;
}

static bool read_group(const char **at, kvg_manager_group *out)
{
    *out = (kvg_manager_group){0};
    if (*(*at)++ != ':' || !read_number(at, MOST_TOKENS, &out->block_tokens)) return false;
    if (**at != 'w') return true;
    (*at)++;
    return read_number(at, INT32_MAX / 16, &out->window);
}

kvg_status kvg_guest_pool_read(const char *text, kvg_manager_pool *pool, kvg_manager_group groups[KVG_GUEST_GROUPS])
{
    const char *at = text;
    *pool = (kvg_manager_pool){.struct_size = sizeof *pool, .groups = groups};
    bool reads = read_number(&at, MOST_BLOCKS, &pool->blocks);
    if (reads && *at == '+') {
        at++;
        reads = read_number(&at, MOST_BLOCKS - pool->blocks, &pool->host_blocks);
    }
    do reads = reads && pool->group_count < KVG_GUEST_GROUPS && read_group(&at, &groups[pool->group_count++]);
    while (reads && *at);
    if (!reads || pool->blocks < pool->group_count)
        return kvg_fail(KVG_ERR_INVALID, "%s is no pool: give BLOCKS[+HOST]:TOKENS[wWINDOW], with :TOKENS[wWINDOW] for "
                        "each other of up to %d groups, such as 1024:16 or 1024+64:16:32w128", text, KVG_GUEST_GROUPS);
    pool->block_tokens = groups->block_tokens;
    pool->window = groups->window;
    return KVG_OK;
}

bool kvg_guest_pool_is_claimed(const kvg_manager_pool *pool, uint32_t claims)
{
    const bool takes_host = claims & (KVG_MANAGER_SWAP | KVG_MANAGER_HOST_CACHE);
    if (pool->host_blocks && !takes_host) return false;
    if (pool->group_count > 1 && !(claims & KVG_MANAGER_GROUPS)) return false;
    for (uint32_t g = 0; g < pool->group_count; g++) {
        if (pool->groups[g].window && !(claims & KVG_MANAGER_WINDOWS)) return false;
    }
    return true;
}

uint32_t kvg_guest_pool_all(const kvg_manager_pool *pool)
{
    return pool->blocks + pool->host_blocks;
}

uint32_t kvg_guest_pool_smallest(const kvg_manager_pool *pool)
{
    uint32_t fewest = pool->block_tokens;
    for (uint32_t g = 1; g < pool->group_count; g++) {
        if (pool->groups[g].block_tokens < fewest) fewest = pool->groups[g].block_tokens;
    }
    return fewest;
}

uint32_t kvg_guest_pool_blocks(const kvg_manager_group *group, uint32_t tokens)
{
    return (tokens + group->block_tokens - 1) / group->block_tokens;
}

uint32_t kvg_guest_pool_passed(const kvg_manager_group *group, uint32_t written)
{
    return group->window && written >= group->window ? (written + 1 - group->window) / group->block_tokens : 0;
}
