/* append, flatten and probe, byte by byte: every byte of a row is looked up by itself. */
#include "tests/slowref/slow_paged.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tests/slowref/slow_layout.h"
#include "tests/slowref/slow_rope.h"
#include "tests/slowref/slow_side.h"

/* A row in transit: both buffers hold the longest row of any format. */
typedef struct row_bytes {
    uint8_t codes[2 * KVG_MAX_HEAD_DIM], scales[KVG_MAX_HEAD_DIM];
} row_bytes;

/* What every paged op has: the problem, its pools, and each side's row sizes. */
typedef struct job {
    const kvg_problem *problem;
    const kvg_tensor *tensors; /* those with the pools: append's outputs, the others' inputs */
    const kvg_role *roles;
    size_t code_bytes[2], scale_bytes[2]; /* of a row; 0 for V in K's row */
} job;

static job job_of(const kvg_problem *problem, const kvg_tensor *tensors, const kvg_role *roles)
{
    job j = {.problem = problem, .tensors = tensors, .roles = roles};
    for (int side = 0; side < kvg_problem_sides(problem); side++) {
        j.code_bytes[side] = kvg_format_code_bytes(problem->storage[side].format, problem->head_dim);
        j.scale_bytes[side] = kvg_format_scale_bytes(problem->storage[side].format, problem->head_dim);
    }
    return j;
}

static uint8_t *byte_at(const job *j, slow_place place)
{
    const kvg_tensor *pool = slow_tensor(j->tensors, j->roles, place.pool, place.side);
    assert(place.at < pool->bytes);
    return (uint8_t *)pool->data + place.at;
}

static slow_byte first_byte(const job *j, kvg_side side, uint64_t slot, uint64_t head)
{
    uint64_t B = j->problem->paging.block_tokens;
    return (slow_byte){side, slot / B, head, slot % B, 0};
}

static void write_row(const job *j, kvg_side side, uint64_t slot, uint64_t head, const row_bytes *row)
{
    slow_byte b = first_byte(j, side, slot, head);
    for (b.index = 0; b.index < j->code_bytes[side]; b.index++) {
        *byte_at(j, slow_place_of_code(j->problem, b)) = row->codes[b.index];
    }
    for (b.index = 0; b.index < j->scale_bytes[side]; b.index++) {
        *byte_at(j, slow_place_of_scale(j->problem, b)) = row->scales[b.index];
    }
}

static void read_row(const job *j, kvg_side side, uint64_t slot, uint64_t head, row_bytes *row)
{
    slow_byte b = first_byte(j, side, slot, head);
    for (b.index = 0; b.index < j->code_bytes[side]; b.index++) {
        row->codes[b.index] = *byte_at(j, slow_place_of_code(j->problem, b));
    }
    for (b.index = 0; b.index < j->scale_bytes[side]; b.index++) {
        row->scales[b.index] = *byte_at(j, slow_place_of_scale(j->problem, b));
    }
}

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
    const int64_t *slots;
} new_rows;

static void append_row(const job *j, const slow_side *s, const new_rows *in, kvg_side side, size_t token, size_t head)
{
    const kvg_problem *p = j->problem;
    size_t width = kvg_dtype_bytes(p->dtype);
    slow_number x[KVG_MAX_HEAD_DIM], other[KVG_MAX_HEAD_DIM];
    slow_load(p->dtype, in->values[side] + (token * p->kv_heads + head) * p->head_dim * width, p->head_dim, x);
    if (p->bias) {
        slow_load(p->dtype, in->bias[side] + head * p->head_dim * width, p->head_dim, other);
        slow_add_bias(s->row.type, other, p->head_dim, x);
    }
    if (side == KVG_K && p->rope.dims > 0) {
        size_t position = (size_t)in->positions[token];
        slow_load(KVG_DTYPE_F32, in->cos_sin + position * p->rope.dims * sizeof(float), p->rope.dims, other);
        slow_turn(s->row.type, &p->rope, other, x);
    }
    row_bytes row = {0};
    s->codec->quantise(s->codec, &s->row, x, row.codes, row.scales);
    write_row(j, side, (uint64_t)in->slots[token], head, &row);
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
    slow_side sides[2];
    status = open_sides(problem, in, sides);
    if (!status) status = check_slots(problem, rows.slots);
    if (!status) status = check_no_slot_twice(problem, rows.slots);
    if (!status) status = check_positions(problem, rows.positions);
    if (status) return status;

    job j = job_of(problem, out, op->outputs);
    for (size_t token = 0; token < problem->tokens; token++) {
        if (rows.slots[token] < 0) continue;
        for (size_t head = 0; head < problem->kv_heads; head++) {
            for (int side = 0; side < kvg_problem_sides(problem); side++) {
                append_row(&j, &sides[side], &rows, side, token, head);
            }
        }
    }
    return KVG_OK;
}

/* --- flatten --- */

/* One block per sequence, so one column of the block table. */
static bool has_one_column(const kvg_problem *problem)
{
    return problem->layout == KVG_LAYOUT_CONTIGUOUS || problem->layout == KVG_LAYOUT_RING;
}

/* A ring takes any length, a contiguous cache no more than its capacity. */
static kvg_status check_lengths(const kvg_problem *problem, const int32_t *lengths)
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

/* The slot of a position below the sequence's length; -1 if the cache does not have it. */
static int64_t slot_of(const kvg_problem *problem, const int32_t *table, int32_t length, uint32_t position)
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

static void flatten_row(const job *j, const slow_side *sides, const kvg_tensor *const flat[2], uint64_t slot,
                        size_t head, size_t row_of_out)
{
    const kvg_problem *p = j->problem;
    size_t width = kvg_dtype_bytes(p->dtype);
    slow_number x[KVG_MAX_HEAD_DIM];
    row_bytes row;
    for (int side = 0; side < kvg_problem_sides(p); side++) {
        read_row(j, side, slot, head, &row);
        sides[side].codec->dequantise(sides[side].codec, &sides[side].row, row.codes, row.scales, x);
        slow_store(p->dtype, x, p->head_dim, (uint8_t *)flat[side]->data + row_of_out * p->head_dim * width);
    }
    if (p->paging.shared_kv) {
        slow_store(p->dtype, x + p->paging.v_first, p->paging.v_dim,
                   (uint8_t *)flat[KVG_V]->data + row_of_out * p->paging.v_dim * width);
    }
}

kvg_status slow_flatten(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_status status = kvg_problem_check(problem);
    if (status) return status;
    const kvg_op_info *op = kvg_op_get(problem->op);
    const int32_t *table = slow_tensor(in, op->inputs, KVG_ROLE_BLOCK_TABLE, KVG_K)->data;
    const kvg_tensor *const flat[2] = {slow_tensor(out, op->outputs, KVG_ROLE_FLAT, KVG_K),
                                       slow_tensor(out, op->outputs, KVG_ROLE_FLAT, KVG_V)};
    const int32_t *lengths = slow_tensor(in, op->inputs, KVG_ROLE_LENGTHS, KVG_K)->data;
    slow_side sides[2];
    status = open_sides(problem, in, sides);
    if (!status) status = check_lengths(problem, lengths);
    if (status) return status;

    job j = job_of(problem, in, op->inputs);
    size_t columns = has_one_column(problem) ? 1 : (problem->tokens - 1) / problem->paging.block_tokens + 1;
    for (size_t sequence = 0; sequence < problem->paging.sequences; sequence++) {
        for (uint32_t p = 0; p < problem->tokens && p < (uint32_t)lengths[sequence]; p++) {
            int64_t slot = slot_of(problem, table + sequence * columns, lengths[sequence], p);
            for (size_t head = 0; slot >= 0 && head < problem->kv_heads; head++) {
                size_t row_of_out = (sequence * problem->kv_heads + head) * problem->tokens + p;
                flatten_row(&j, sides, flat, (uint64_t)slot, head, row_of_out);
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

    job j = job_of(problem, in, op->inputs);
    for (size_t token = 0; token < problem->tokens; token++) {
        if (slots[token] < 0) continue;
        for (size_t i = 0; i < (size_t)problem->kv_heads * 2; i++) {
            kvg_side side = i % 2;
            size_t head = i / 2, row_of_out = token * problem->kv_heads + head;
            row_bytes row;
            read_row(&j, side, (uint64_t)slots[token], head, &row);
            copy_out(slow_tensor(out, op->outputs, KVG_ROLE_CODES, side), row_of_out, j.code_bytes[side], row.codes);
            copy_out(slow_tensor(out, op->outputs, KVG_ROLE_SCALES, side), row_of_out, j.scale_bytes[side], row.scales);
        }
    }
    return KVG_OK;
}
