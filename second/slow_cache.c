#include "second/slow_cache.h"

#include <assert.h>
#include <inttypes.h>

#include "second/slow_side.h"

slow_cache slow_cache_of(const kvg_problem *problem, const kvg_tensor *tensors, const kvg_role *roles)
{
    slow_cache c = {.problem = problem, .tensors = tensors, .roles = roles};
    for (int side = 0; side < kvg_problem_sides(problem); side++) {
        c.code_bytes[side] = kvg_format_code_bytes(problem->storage[side].format, problem->head_dim);
        c.scale_bytes[side] = kvg_format_scale_bytes(problem->storage[side].format, problem->head_dim);
    }
    return c;
}

static uint8_t *byte_at(const slow_cache *c, slow_place place)
{
    const kvg_tensor *pool = slow_tensor(c->tensors, c->roles, place.pool, place.side);
    assert(place.at < pool->bytes);
    return (uint8_t *)pool->data + place.at;
}

static slow_byte first_byte(const slow_cache *c, kvg_side side, uint64_t slot, uint64_t head)
{
    uint64_t B = c->problem->paging.block_tokens;
    return (slow_byte){side, slot / B, head, slot % B, 0};
}

void slow_cache_write(const slow_cache *c, kvg_side side, uint64_t slot, uint64_t head, const slow_row_bytes *row)
{
    slow_byte b = first_byte(c, side, slot, head);
    for (b.index = 0; b.index < c->code_bytes[side]; b.index++) {
        *byte_at(c, slow_place_of_code(c->problem, b)) = row->codes[b.index];
    }
    for (b.index = 0; b.index < c->scale_bytes[side]; b.index++) {
        *byte_at(c, slow_place_of_scale(c->problem, b)) = row->scales[b.index];
    }
}

void slow_cache_read(const slow_cache *c, kvg_side side, uint64_t slot, uint64_t head, slow_row_bytes *row)
{
    slow_byte b = first_byte(c, side, slot, head);
    for (b.index = 0; b.index < c->code_bytes[side]; b.index++) {
        row->codes[b.index] = *byte_at(c, slow_place_of_code(c->problem, b));
    }
    for (b.index = 0; b.index < c->scale_bytes[side]; b.index++) {
        row->scales[b.index] = *byte_at(c, slow_place_of_scale(c->problem, b));
    }
}

size_t slow_cache_columns(const kvg_problem *problem)
{
    return kvg_layout_get(problem->layout)->whole ? 1 : (problem->tokens - 1) / problem->paging.block_tokens + 1;
}

/* A ring takes any length, a contiguous cache no more than its capacity. */
kvg_status slow_cache_check_lengths(const kvg_problem *problem, const int32_t *lengths)
{
    uint32_t most = problem->tokens, capacity = problem->paging.block_tokens;
    if (problem->layout == KVG_LAYOUT_RING) most = INT32_MAX;
    if (problem->layout == KVG_LAYOUT_CONTIGUOUS && most > capacity) most = capacity;
    for (uint32_t i = 0; i < problem->paging.sequences; i++) {
        if (lengths[i] >= 0 && (uint32_t)lengths[i] <= most) continue;
        return kvg_fail(KVG_ERR_INVALID, "length %" PRId32 " of sequence %u: use 0 to %u", lengths[i], i, most);
    }
    return KVG_OK;
}

int64_t slow_cache_slot(const kvg_problem *problem, const int32_t *table, int32_t length, uint32_t position)
{
    uint32_t B = problem->paging.block_tokens, column = position / B;
    if (problem->layout == KVG_LAYOUT_RING) {
        if ((uint64_t)position + B < (uint32_t)length) return -1; /* overwritten since */
        column = 0;
    }
    int32_t block = table[column];
    if (block < 0 || (uint32_t)block >= problem->paging.blocks) return -1;
    return (int64_t)block * B + position % B;
}
