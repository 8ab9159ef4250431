/* append, flatten, expand and probe, byte by byte: every byte of a row is looked up by itself. */
#include "second/slow_paged.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "second/slow_cache.h"
#include "second/slow_rope.h"
#include "second/slow_rope_table.h"
#include "second/slow_side.h"

static uint64_t slot_count(const kvg_problem *problem)
{
    return (uint64_t)problem->paging.blocks * problem->paging.block_tokens;
}

static kvg_status check_slots(const kvg_problem *problem, const int64_t *slots)
{
    for (uint32_t t = 0; t < problem->tokens; t++) {
        if (slots[t] >= 0 && (uint64_t)slots[t] >= slot_count(problem)) {
            return kvg_fail(KVG_ERR_INVALID, "slot %" PRId64 " of token %u: the cache has slots 0 to %" PRIu64,
                            slots[t], t, slot_count(problem) - 1);
        }
    }
    return KVG_OK;
}

/* The sides that have rows of their own. */
static kvg_status open_sides(const kvg_problem *problem, const kvg_tensor *in, slow_side sides[2])
{
    kvg_status status = KVG_OK;
    for (int side = 0; side < kvg_problem_sides(problem) && !status; side++) {
        status = slow_side_open(problem, side, in, &sides[side]);
    }
    return status;
}

/* --- append --- */

static int compare_slots(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static kvg_status check_no_slot_twice(const kvg_problem *problem, const int64_t *slots)
{
    int64_t *sorted = malloc(problem->tokens * sizeof *sorted);
    if (!sorted) return kvg_fail(KVG_ERR_MEMORY, "no memory for a copy of %u slots", problem->tokens);
    memcpy(sorted, slots, problem->tokens * sizeof *sorted);
    qsort(sorted, problem->tokens, sizeof *sorted, compare_slots);
    kvg_status status = KVG_OK;
    for (uint32_t t = 1; t < problem->tokens && !status; t++) {
        if (sorted[t] < 0 || sorted[t] != sorted[t - 1]) continue;
        status = kvg_fail(KVG_ERR_INVALID, "slot %" PRId64 " comes twice: give every token its own", sorted[t]);
    }
    free(sorted);
    return status;
}

static kvg_status check_positions(const kvg_problem *problem, const int32_t *positions)
{
    if (problem->rope.dims == 0) return KVG_OK;
    for (uint32_t t = 0; t < problem->tokens; t++) {
        if (positions[t] >= 0 && (uint32_t)positions[t] < problem->rope.positions) continue;
        return kvg_fail(KVG_ERR_INVALID, "position %" PRId32 " of token %u: the table has rows 0 to %u", positions[t],
                        t, problem->rope.positions - 1);
    }
    return KVG_OK;
}

/* The inputs of append beside those of the codecs. */
typedef struct new_rows {
    const uint8_t *values[2], *bias[2];
    const int32_t *positions;
    const uint8_t *cos_sin;
    const slow_rope_plan *plan; /* where the table follows from parameters: then cos_sin is not read */
    const int64_t *slots;
} new_rows;

static void append_row(const slow_cache *cache, const slow_side *s, const new_rows *in, kvg_side side, size_t token,
                       size_t head)
{
    const kvg_problem *p = cache->problem;
    size_t width = kvg_dtype_bytes(p->dtype);
    slow_number x[KVG_MAX_HEAD_DIM], other[KVG_MAX_HEAD_DIM];
    slow_load(p->dtype, in->values[side] + (token * p->kv_heads + head) * p->head_dim * width, p->head_dim, x);
    if (p->bias) {
        slow_load(p->dtype, in->bias[side] + head * p->head_dim * width, p->head_dim, other);
        slow_add_bias(s->row.type, other, p->head_dim, x);
    }
    if (side == KVG_K && p->rope.dims > 0) {
        size_t position = (size_t)in->positions[token];
        if (in->plan) slow_rope_row(in->plan, (uint32_t)position, other);
        else slow_load(KVG_DTYPE_F32, in->cos_sin + position * p->rope.dims * sizeof(float), p->rope.dims, other);
        slow_turn(s->row.type, &p->rope, other, x);
    }
    slow_row_bytes row = {0};
    s->codec->quantise(s->codec, &s->row, x, row.codes, row.scales);
    slow_cache_write(cache, side, (uint64_t)in->slots[token], head, &row);
}

kvg_status slow_append(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status status = kvg_problem_check(problem);
    if (status) return status;
    const kvg_op_info *op = kvg_op_get(problem->op);
    new_rows rows = {
        .positions = slow_tensor(in, op->inputs, KVG_ROLE_POSITIONS, KVG_K)->data,
        .cos_sin = slow_tensor(in, op->inputs, KVG_ROLE_COS_SIN, KVG_K)->data,
        .slots = slow_tensor(in, op->inputs, KVG_ROLE_SLOTS, KVG_K)->data,
    };
    for (int side = KVG_K; side <= KVG_V; side++) {
        rows.values[side] = slow_tensor(in, op->inputs, KVG_ROLE_VALUES, side)->data;
        rows.bias[side] = slow_tensor(in, op->inputs, KVG_ROLE_BIAS, side)->data;
    }
    slow_rope_plan plan;
    if (problem->rope.dims > 0 && problem->rope.scaling.kind != KVG_ROPE_TABLE) {
        slow_rope_prepare(&problem->rope, &plan);
        if (plan.broken) return kvg_fail(KVG_ERR_INVALID, "the rope's parameters give no table");
        rows.plan = &plan;
    }
    slow_side sides[2];
    status = open_sides(problem, in, sides);
    if (!status) status = check_slots(problem, rows.slots);
    if (!status) status = check_no_slot_twice(problem, rows.slots);
    if (!status) status = check_positions(problem, rows.positions);
    if (status) return status;

    slow_cache cache = slow_cache_of(problem, out, op->outputs);
    for (size_t token = 0; token < problem->tokens; token++) {
        if (rows.slots[token] < 0) continue;
        for (size_t head = 0; head < problem->kv_heads; head++) {
            for (int side = 0; side < kvg_problem_sides(problem); side++) {
                append_row(&cache, &sides[side], &rows, side, token, head);
            }
        }
    }
    return KVG_OK;
}

/* --- flatten and expand --- */

/* Row `row` of an output. Expand rounds to the model type as flatten does, then to E4M3. */
static void store_flat(const kvg_problem *p, const slow_number *x, const kvg_tensor *flat, size_t row)
{
    size_t count = (size_t)flat->shape[3];
    uint8_t *to = (uint8_t *)flat->data + row * count * kvg_dtype_bytes(flat->dtype);
    if (p->op == KVG_OP_FLATTEN) {
        slow_store(p->dtype, x, count, to);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        to[i] = slow_fp8_encode(&slow_e4m3, slow_round(slow_layout_of(p->dtype), x[i]));
    }
}

static void flatten_row(const slow_cache *cache, const slow_side *sides, const kvg_tensor *const flat[2], uint64_t slot,
                        size_t head, size_t row_of_out)
{
    const kvg_problem *p = cache->problem;
    slow_number x[KVG_MAX_HEAD_DIM];
    slow_row_bytes row;
    for (int side = 0; side < kvg_problem_sides(p); side++) {
        slow_cache_read(cache, side, slot, head, &row);
        sides[side].codec->dequantise(sides[side].codec, &sides[side].row, row.codes, row.scales, x);
        store_flat(p, x, flat[side], row_of_out);
    }
    if (p->paging.shared_kv) store_flat(p, x + p->paging.v_first, flat[KVG_V], row_of_out);
}

kvg_status slow_flatten(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status status = kvg_problem_check(problem);
    if (status) return status;
    const kvg_op_info *op = kvg_op_get(problem->op);
    const int32_t *table = slow_tensor(in, op->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    const kvg_role role = problem->op == KVG_OP_FLATTEN ? KVG_ROLE_FLAT : KVG_ROLE_FLAT_E4M3;
    const kvg_tensor *const flat[2] = {slow_tensor(out, op->outputs, role, KVG_K),
                                       slow_tensor(out, op->outputs, role, KVG_V)};
    const int32_t *lengths = slow_tensor(in, op->inputs, KVG_ROLE_LENGTHS, KVG_K)->data;
    slow_side sides[2];
    status = open_sides(problem, in, sides);
    if (!status) status = slow_cache_check_lengths(problem, lengths);
    if (status) return status;

    slow_cache cache = slow_cache_of(problem, in, op->inputs);
    size_t columns = slow_cache_columns(problem);
    for (size_t sequence = 0; sequence < problem->paging.sequences; sequence++) {
        for (uint32_t p = 0; p < problem->tokens && p < (uint32_t)lengths[sequence]; p++) {
            int64_t slot = slow_cache_slot(problem, table + sequence * columns, lengths[sequence], p);
            for (size_t head = 0; slot >= 0 && head < problem->kv_heads; head++) {
                size_t row_of_out = (sequence * problem->kv_heads + head) * problem->tokens + p;
                flatten_row(&cache, sides, flat, (uint64_t)slot, head, row_of_out);
            }
        }
    }
    return KVG_OK;
}

/* --- probe --- */

static void copy_out(const kvg_tensor *to, size_t row, size_t bytes, const uint8_t *from)
{
    if (bytes > 0) memcpy((uint8_t *)to->data + row * bytes, from, bytes);
}

kvg_status slow_probe(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status status = kvg_problem_check(problem);
    if (status) return status;
    const kvg_op_info *op = kvg_op_get(problem->op);
    const int64_t *slots = slow_tensor(in, op->inputs, KVG_ROLE_SLOTS, KVG_K)->data;
    status = check_slots(problem, slots);
    if (status) return status;

    slow_cache cache = slow_cache_of(problem, in, op->inputs);
    for (size_t token = 0; token < problem->tokens; token++) {
        if (slots[token] < 0) continue;
        for (size_t i = 0; i < (size_t)problem->kv_heads * 2; i++) {
            kvg_side side = i % 2;
            size_t head = i / 2, row_of_out = token * problem->kv_heads + head;
            slow_row_bytes row;
            slow_cache_read(&cache, side, (uint64_t)slots[token], head, &row);
            copy_out(slow_tensor(out, op->outputs, KVG_ROLE_CODES, side), row_of_out, cache.code_bytes[side],
                     row.codes);
            copy_out(slow_tensor(out, op->outputs, KVG_ROLE_SCALES, side), row_of_out, cache.scale_bytes[side],
                     row.scales);
        }
    }
    return KVG_OK;
}
