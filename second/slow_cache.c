#include "second/slow_cache.h"

#include <assert.h>
#include <inttypes.h>

#include "second/slow_side.h"

typedef slow_place place_fn(const kvg_problem *problem, slow_byte byte);

static void find_steps(const kvg_problem *problem, int side, place_fn *place, size_t count, uint64_t *steps)
{
    for (size_t i = 0; i < count; i++) steps[i] = place(problem, (slow_byte){(kvg_side)side, 0, 0, 0, i}).at;
    for (size_t i = count; i-- > 0;) steps[i] -= steps[0];
}

slow_cache slow_cache_of(const kvg_problem *problem, const kvg_tensor *tensors, const kvg_role *roles)
{
    slow_cache c = {.problem = problem, .tensors = tensors, .roles = roles};
    for (int side = 0; side < kvg_problem_sides(problem); side++) {
        c.code_bytes[side] = kvg_format_code_bytes(problem->storage[side].format, problem->head_dim);
        c.scale_bytes[side] = kvg_format_scale_bytes(problem->storage[side].format, problem->head_dim);
        find_steps(problem, side, slow_place_of_code, c.code_bytes[side], c.code_steps[side]);
        find_steps(problem, side, slow_place_of_scale, c.scale_bytes[side], c.scale_steps[side]);
    }
    return c;
}

/* The bytes of a row, to or from the pool that holds it. */
static void copy_row(const slow_cache *c, place_fn *place, slow_byte first, const uint64_t *steps, size_t count,
                     uint8_t *row, bool write)
{
    if (count == 0) return;
    const slow_place start = place(c->problem, first);
    const kvg_tensor *pool = slow_tensor(c->tensors, c->roles, start.pool, start.side);
    for (size_t i = 0; i < count; i++) {
        assert(start.at + steps[i] < pool->bytes);
        uint8_t *at = (uint8_t *)pool->data + start.at + steps[i];
        if (write) *at = row[i];
        else row[i] = *at;
    }
}

static void copy(const slow_cache *c, kvg_side side, uint64_t slot, uint64_t head, slow_row_bytes *row, bool write)
{
    const uint64_t B = c->problem->paging.block_tokens;
    const slow_byte first = {side, slot / B, head, slot % B, 0};
    copy_row(c, slow_place_of_code, first, c->code_steps[side], c->code_bytes[side], row->codes, write);
    copy_row(c, slow_place_of_scale, first, c->scale_steps[side], c->scale_bytes[side], row->scales, write);
}

void slow_cache_write(const slow_cache *c, kvg_side side, uint64_t slot, uint64_t head, const slow_row_bytes *row)
{
    slow_row_bytes bytes = *row;
    copy(c, side, slot, head, &bytes, true);
}

void slow_cache_read(const slow_cache *c, kvg_side side, uint64_t slot, uint64_t head, slow_row_bytes *row)
{
    copy(c, side, slot, head, row, false);
}

size_t slow_cache_columns(const kvg_problem *problem)
{
    if (kvg_problem_blocks(problem) != KVG_BLOCKS_TABLE) return 1;
    return (problem->tokens - 1) / problem->paging.block_tokens + 1;
}

/* A ring takes any length, a contiguous cache no more than its capacity. */
kvg_status slow_cache_check_lengths(const kvg_problem *problem, const int32_t *lengths)
{
    uint32_t most = problem->tokens, capacity = problem->paging.block_tokens;
    if (kvg_problem_blocks(problem) == KVG_BLOCKS_RING) most = INT32_MAX;
    if (kvg_problem_blocks(problem) == KVG_BLOCKS_ONE && most > capacity) most = capacity;
    for (uint32_t i = 0; i < problem->paging.sequences; i++) {
        if (lengths[i] >= 0 && (uint32_t)lengths[i] <= most) continue;
        return kvg_fail(KVG_ERR_INVALID, "length %" PRId32 " of sequence %u: use 0 to %u", lengths[i], i, most);
    }
    return KVG_OK;
}

int64_t slow_cache_slot(const kvg_problem *problem, const int32_t *table, int32_t length, uint32_t position)
{
    uint32_t B = problem->paging.block_tokens, column = position / B;
    if (kvg_problem_blocks(problem) == KVG_BLOCKS_RING) {
        if ((uint64_t)position + B < (uint32_t)length) return -1; /* overwritten since */
        column = 0;
    }
    int32_t block = table[column];
    if (block < 0 || (uint32_t)block >= problem->paging.blocks) return -1;
    return (int64_t)block * B + position % B;
}
