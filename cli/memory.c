#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "cli/memory.h"

#include <sys/mman.h>

#include "policy/mode.h"
#include "paging/paging.h"

/* Tokens that a group keeps of a sequence. */
static uint64_t kept_tokens(const kvg_model_group *g, uint64_t tokens)
{
    return g->window && g->window < tokens ? g->window : tokens;
}

static uint64_t token_bytes(const kvg_model_group *g, kvg_format format)
{
    const uint64_t row = kvg_format_code_bytes(format, g->head_dim) + kvg_format_scale_bytes(format, g->head_dim);
    return row * g->layers * g->kv_heads * (g->shared_kv ? 1 : 2);
}

uint64_t kvg_memory_row_bytes(const kvg_model *m, kvg_format format, uint64_t tokens)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < m->group_count; i++) {
        bytes += token_bytes(&m->groups[i], format) * kept_tokens(&m->groups[i], tokens);
    }
    return bytes;
}

/* The most blocks that a group holds while a sequence grows to `tokens` tokens: docs/guide/config.md section 9. */
static uint64_t held_blocks(const kvg_model_group *g, uint64_t block_tokens, uint64_t tokens)
{
    const uint64_t all = (tokens + block_tokens - 1) / block_tokens;
    if (!g->window) return all;
    const uint64_t span = (g->window - 1 + block_tokens - 1) / block_tokens + 1;
    return span < all ? span : all;
}

static kvg_problem problem_of(const kvg_model_group *g, const kvg_memory_plan *plan, uint64_t blocks)
{
    kvg_problem p = {
        .op = KVG_OP_PROBE,
        .layout = plan->layout,
        .text = plan->layout == KVG_LAYOUT_TEXT ? &plan->text : NULL,
        .dtype = plan->dtype,
        .storage = {{plan->format, "canonical"}, {plan->format, "canonical"}},
        .tokens = 1,
        .kv_heads = g->kv_heads,
        .head_dim = g->head_dim,
        .paging = {.layers = g->layers, .blocks = (uint32_t)blocks, .block_tokens = plan->block_tokens,
                   .row_padding = plan->row_padding, .data_padding = plan->data_padding,
                   .scale_padding = plan->scale_padding, .shared_kv = g->shared_kv},
    };
    if (g->shared_kv) p.paging.v_dim = g->head_dim;
    return p;
}

/* Of K and V together. */
static kvg_status pool_bytes(const kvg_problem *p, kvg_role pool, uint64_t *out)
{
    uint64_t k = 0, v = 0;
    kvg_status s = kvg_problem_pool_bytes(p, pool, KVG_K, &k);
    if (!s) s = kvg_problem_pool_bytes(p, pool, KVG_V, &v);
    *out = k + v;
    return s;
}

/* What a pool really takes: the addresses that its block manager asked for while it grew. */
typedef struct pool_space {
    uint64_t block_bytes, reserved;
} pool_space;

static kvg_status reserve_blocks(void *context, uint32_t first, uint32_t count)
{
    pool_space *space = context;
    const size_t bytes = (size_t)(count * space->block_bytes);
    (void)first;
    if (bytes == 0) return KVG_OK;
    void *at = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return kvg_fail(KVG_ERR_MEMORY, "no address space for %zu bytes of pool", bytes);
    munmap(at, bytes);
    space->reserved += bytes;
    return KVG_OK;
}

static kvg_status reserve_pool(uint64_t blocks, uint64_t block_bytes, uint64_t *reserved)
{
    pool_space space = {block_bytes, 0};
    const kvg_block_config config = {.capacity = (uint32_t)blocks, .chunk = 0, .grow = reserve_blocks,
                                     .grow_context = &space};
    kvg_block_manager *manager;
    kvg_status s = kvg_block_manager_create(&config, &manager);
    if (s) return s;
    enum { BATCH = 1024 };
    kvg_block_pool pool = kvg_block_manager_pool(manager);
    uint32_t ids[BATCH];
    for (uint64_t i = 0; i < blocks && !s; i += BATCH) {
        s = pool.ops->allocate(pool.self, (uint32_t)(blocks - i < BATCH ? blocks - i : BATCH), ids);
    }
    kvg_block_manager_destroy(manager);
    *reserved = space.reserved;
    return s;
}

/* A mode's own block formula, where one has this storage in this layout. */
static kvg_status check_modes(const kvg_model_group *g, const kvg_memory_plan *plan, const kvg_memory_use *use)
{
    size_t count;
    const kvg_mode_info *modes = kvg_mode_table(&count);
    const kvg_block_geometry geometry = {g->layers, g->kv_heads, g->head_dim, plan->block_tokens, g->shared_kv};
    for (size_t i = 0; i < count && plan->layout == KVG_LAYOUT_TURBOMIND; i++) {
        uint64_t data, scale;
        if (kvg_mode_format(modes[i].mode, plan->dtype) != plan->format) continue;
        kvg_status s = kvg_mode_block_bytes(modes[i].mode, plan->dtype, &geometry, &data, &scale);
        if (s) return s;
        if (data * use->blocks != use->data || scale * use->blocks != use->scales) {
            return kvg_fail(KVG_ERR_INVALID, "mode %s: blocks of %llu + %llu bytes, but the pools have %llu + %llu",
                            modes[i].name, (unsigned long long)data, (unsigned long long)scale,
                            (unsigned long long)(use->data / use->blocks),
                            (unsigned long long)(use->scales / use->blocks));
        }
    }
    return KVG_OK;
}

static kvg_status measure_group(const kvg_model_group *g, const kvg_memory_plan *plan, uint64_t tokens,
                                kvg_memory_use *out)
{
    const uint64_t B = plan->block_tokens, blocks = held_blocks(g, B, tokens);
    enum { MOST = 1 << 24 };
    if (blocks < 1 || blocks > MOST) {
        return kvg_fail(KVG_ERR_INVALID, "%llu tokens are not 1 to %d blocks of %u: use longer blocks",
                        (unsigned long long)tokens, MOST, plan->block_tokens);
    }
    if (!kvg_layout_get(plan->layout)->paged) {
        return kvg_fail(KVG_ERR_INVALID, "layout %s has no pools: choose a paged one of `kvgold list layouts`",
                        kvg_layout_get(plan->layout)->name);
    }
    const kvg_problem one = problem_of(g, plan, 1), all = problem_of(g, plan, blocks);
    uint64_t data_block = 0, scale_block = 0;
    *out = (kvg_memory_use){.blocks = blocks};
    kvg_status s = kvg_problem_check(&all);
    if (!s) s = pool_bytes(&one, KVG_ROLE_DATA_POOL, &data_block);
    if (!s) s = pool_bytes(&one, KVG_ROLE_SCALE_POOL, &scale_block);
    if (!s) s = pool_bytes(&all, KVG_ROLE_DATA_POOL, &out->data);
    if (!s) s = pool_bytes(&all, KVG_ROLE_SCALE_POOL, &out->scales);
    uint64_t data_reserved = 0, scale_reserved = 0;
    if (!s) s = reserve_pool(blocks, data_block, &data_reserved);
    if (!s) s = reserve_pool(blocks, scale_block, &scale_reserved);
    if (s) return s;
    const uint64_t token = token_bytes(g, plan->format);
    out->padding = out->data + out->scales - token * blocks * B;
    out->tail = (blocks * B - kept_tokens(g, tokens)) * token;
    if (data_reserved != out->data || scale_reserved != out->scales) {
        return kvg_fail(KVG_ERR_INVALID, "layout %s, format %s: %llu + %llu bytes allocated, the pools have %llu + "
                        "%llu", kvg_layout_get(plan->layout)->name, kvg_format_get(plan->format)->name,
                        (unsigned long long)data_reserved, (unsigned long long)scale_reserved,
                        (unsigned long long)out->data, (unsigned long long)out->scales);
    }
    return check_modes(g, plan, out);
}

kvg_status kvg_memory_measure(const kvg_model *m, const kvg_memory_plan *plan, uint64_t tokens, kvg_memory_use *out)
{
    kvg_status s = KVG_OK;
    *out = (kvg_memory_use){0};
    for (size_t i = 0; i < m->group_count && !s; i++) {
        kvg_memory_use use;
        s = measure_group(&m->groups[i], plan, tokens, &use);
        if (s) break;
        out->blocks += use.blocks;
        out->data += use.data;
        out->scales += use.scales;
        out->padding += use.padding;
        out->tail += use.tail;
    }
    return s;
}
