/* The ops append, flatten, expand and probe over paged layouts, for every format: docs/spec/layouts.md section 7. */
#include <stdlib.h>
#include <string.h>

#include "core/bits.h"
#include "reference/formats/ref_codec.h"
#include "reference/layout/ref_table.h"
#include "reference/numbers/ref_round.h"
#include "reference/ops/ref_ops.h"
#include "reference/rope_table.h"

/* A paged problem while it runs. Rows are reached through `map` alone. */
typedef struct paged_run {
    const kvg_problem *p;
    const kvg_layout_map *map;
    const kvg_tensor *in;
    kvg_tensor *out;
    ref_side side[2];
} paged_run;

/* The row of slot `slot`. */
typedef struct place {
    uint32_t block, offset, head;
} place;

static const kvg_tensor *input(const paged_run *run, kvg_role role, kvg_side side)
{
    return &run->in[kvg_roles_index(kvg_op_get(run->p->op)->inputs, role, side)];
}

static kvg_tensor *output(const paged_run *run, kvg_role role, kvg_side side)
{
    return &run->out[kvg_roles_index(kvg_op_get(run->p->op)->outputs, role, side)];
}

/* The pool that a map names, among the op's inputs or outputs. */
static uint8_t *pool_of(const paged_run *run, const kvg_row_map *map)
{
    const bool writes = run->p->op == KVG_OP_APPEND;
    return (writes ? output(run, map->pool, map->side) : input(run, map->pool, map->side))->data;
}

static place place_of(const kvg_problem *p, int64_t slot, uint32_t head)
{
    return (place){(uint32_t)(slot / p->paging.block_tokens), (uint32_t)(slot % p->paging.block_tokens), head};
}

static void write_row(const paged_run *run, const kvg_row_map *map, place at, const uint8_t *bytes)
{
    kvg_rows_write(map, pool_of(run, map), run->p->paging.layer, at.block, at.head, at.offset, bytes);
}

static void read_row(const paged_run *run, const kvg_row_map *map, place at, uint8_t *bytes)
{
    kvg_rows_read(map, pool_of(run, map), run->p->paging.layer, at.block, at.head, at.offset, bytes);
}

/* --- inputs that could lead outside --- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static kvg_status check_twice(const int64_t *slots, size_t count)
{
    int64_t *sorted = malloc(count * sizeof *sorted);
    if (!sorted) return kvg_fail(KVG_ERR_MEMORY, "cannot sort %zu slots", count);
    memcpy(sorted, slots, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_value);
    kvg_status s = KVG_OK;
    for (size_t i = 1; i < count && !s; i++) {
        if (sorted[i] >= 0 && sorted[i] == sorted[i - 1])
            s = kvg_fail(KVG_ERR_INVALID, "slot %lld comes twice", (long long)sorted[i]);
    }
    free(sorted);
    return s;
}

static kvg_status check_slots(const paged_run *run)
{
    const kvg_problem *p = run->p;
    const int64_t *slots = input(run, KVG_ROLE_SLOTS, KVG_K)->data;
    const int64_t end = (int64_t)p->paging.blocks * p->paging.block_tokens;
    for (uint32_t t = 0; t < p->tokens; t++) {
        if (slots[t] >= end) {
            return kvg_fail(KVG_ERR_INVALID, "slots[%u] is %lld; the pool has %lld", t, (long long)slots[t],
                            (long long)end);
        }
    }
    return p->op == KVG_OP_APPEND ? check_twice(slots, p->tokens) : KVG_OK;
}

static kvg_status check_positions(const paged_run *run)
{
    const int32_t *positions = input(run, KVG_ROLE_POSITIONS, KVG_K)->data;
    const kvg_rope *rope = &run->p->rope;
    for (uint32_t t = 0; rope->dims && t < run->p->tokens; t++) {
        if (positions[t] < 0 || (uint32_t)positions[t] >= rope->positions) {
            return kvg_fail(KVG_ERR_INVALID, "positions[%u] is %d; the cos/sin table has %u rows", t, positions[t],
                            rope->positions);
        }
    }
    kvg_rope_numbers numbers; /* that there are any: the table itself is an input */
    if (rope->dims == 0 || rope->scaling.kind == KVG_ROPE_TABLE) return KVG_OK;
    return kvg_reference_rope_numbers(rope, &numbers);
}

static kvg_status init_sides(paged_run *run)
{
    kvg_status s = KVG_OK;
    for (int side = KVG_K; !s && side < kvg_problem_sides(run->p); side++) {
        s = ref_side_init(run->p, (kvg_side)side, input(run, KVG_ROLE_TENSOR_SCALE, (kvg_side)side), &run->side[side]);
    }
    return s;
}

/* --- append --- */

/* What a step of the model type makes of NaN: the one of docs/spec/formats.md section 2.5. */
static float round_step(kvg_dtype dtype, double x)
{
    float y = x == x ? ref_round_to(dtype, x) : kvg_f32_of_bits(0x7FFFFFFFu), stored = 0;
    kvg_reference_store(dtype, &y, 1, &stored);
    kvg_reference_load(dtype, &stored, 1, &y);
    return y;
}

void kvg_reference_prepare(const kvg_problem *p, kvg_side side, const float *bias, const float *cos_sin, float *x)
{
    for (uint32_t i = 0; bias && i < p->head_dim; i++) x[i] = round_step(p->dtype, (double)x[i] + bias[i]);
    const uint32_t half = p->rope.dims / 2;
    const bool adjacent = p->rope.pairing == KVG_PAIRING_ADJACENT;
    for (uint32_t i = 0; side == KVG_K && cos_sin && i < half; i++) {
        float *a = &x[adjacent ? 2 * i : i], *b = &x[adjacent ? 2 * i + 1 : i + half];
        const float c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        const float ac = *a * c, bs = *b * s, bc = *b * c, as = *a * s; /* each product is rounded to f32 */
        const float first = ac - bs, second = bc + as;
        *a = round_step(p->dtype, first);
        *b = round_step(p->dtype, second);
    }
}

static void append_row(const paged_run *run, kvg_side side, uint32_t token, uint32_t head, int64_t slot)
{
    const kvg_problem *p = run->p;
    const ref_side *rows = &run->side[side];
    const uint8_t *values = input(run, KVG_ROLE_VALUES, side)->data, *biases = input(run, KVG_ROLE_BIAS, side)->data;
    const float *table = input(run, KVG_ROLE_COS_SIN, side)->data;
    const int32_t *positions = input(run, KVG_ROLE_POSITIONS, side)->data;
    float x[KVG_MAX_HEAD_DIM], bias[KVG_MAX_HEAD_DIM];
    uint8_t codes[2 * KVG_MAX_HEAD_DIM], scales[KVG_MAX_HEAD_DIM];
    kvg_reference_load(p->dtype, values + ((size_t)token * p->kv_heads + head) * rows->value_bytes, p->head_dim, x);
    if (p->bias) kvg_reference_load(p->dtype, biases + head * rows->value_bytes, p->head_dim, bias);
    kvg_reference_prepare(p, side, p->bias ? bias : NULL,
                          p->rope.dims ? table + (size_t)positions[token] * p->rope.dims : NULL, x);
    ref_side_quantise(rows, x, codes, scales);
    write_row(run, &run->map->codes[side], place_of(p, slot, head), codes);
    write_row(run, &run->map->scales[side], place_of(p, slot, head), scales);
}

static kvg_status append(paged_run *run)
{
    const kvg_problem *p = run->p;
    kvg_status s = init_sides(run);
    if (!s) s = check_slots(run);
    if (!s) s = check_positions(run);
    if (s) return s;
    const int64_t *slots = input(run, KVG_ROLE_SLOTS, KVG_K)->data;
    const uint32_t sides = (uint32_t)kvg_problem_sides(p);
    const size_t rows = (size_t)p->tokens * p->kv_heads * sides;
#pragma omp parallel for schedule(static) if (rows > REF_FEW_ROWS)
    for (size_t i = 0; i < rows; i++) {
        const size_t row = i / sides;
        const uint32_t token = (uint32_t)(row / p->kv_heads), head = (uint32_t)(row % p->kv_heads);
        if (slots[token] >= 0) append_row(run, (kvg_side)(i % sides), token, head, slots[token]);
    }
    return KVG_OK;
}

/* --- flatten and expand --- */

/* Row `row` of an output: y rounded to the model type and, by op expand, from there to E4M3. */
static void store_flat(const kvg_problem *p, const float *y, kvg_tensor *flat, size_t row)
{
    const size_t count = (size_t)flat->shape[3];
    uint8_t *to = (uint8_t *)flat->data + row * count * kvg_dtype_bytes(flat->dtype);
    if (p->op == KVG_OP_FLATTEN) {
        kvg_reference_store(p->dtype, y, count, to);
        return;
    }
    for (size_t i = 0; i < count; i++) to[i] = kvg_ref_e4m3_of_f32(ref_round_to(p->dtype, y[i]));
}

/* V of a shared row is a part of the decoded K row. */
static void flatten_row(const paged_run *run, const ref_table *table, kvg_side side, uint32_t sequence, uint32_t head,
                        uint32_t position)
{
    const kvg_problem *p = run->p;
    const int64_t slot = ref_table_slot(table, sequence, position);
    if (slot < 0) return;
    const bool shared = side == KVG_V && p->paging.shared_kv;
    const kvg_side stored = shared ? KVG_K : side;
    const place at = place_of(p, slot, head);
    uint8_t codes[2 * KVG_MAX_HEAD_DIM], scales[KVG_MAX_HEAD_DIM];
    float y[KVG_MAX_HEAD_DIM];
    read_row(run, &run->map->codes[stored], at, codes);
    read_row(run, &run->map->scales[stored], at, scales);
    ref_side_dequantise(&run->side[stored], codes, scales, y);
    const kvg_role role = p->op == KVG_OP_FLATTEN ? KVG_ROLE_FLAT : KVG_ROLE_FLAT_E4M3;
    store_flat(p, shared ? y + p->paging.v_first : y, output(run, role, side),
               ((size_t)sequence * p->kv_heads + head) * p->tokens + position);
}

static kvg_status flatten(paged_run *run)
{
    const kvg_problem *p = run->p;
    kvg_status s = init_sides(run);
    ref_table table;
    if (!s) {
        s = ref_table_init(p, input(run, KVG_ROLE_BLOCK_TABLE, KVG_K), input(run, KVG_ROLE_LENGTHS, KVG_K), &table);
    }
    if (s) return s;
    const size_t rows = (size_t)p->paging.sequences * p->kv_heads * p->tokens * 2;
#pragma omp parallel for schedule(static) if (rows > REF_FEW_ROWS)
    for (size_t i = 0; i < rows; i++) {
        const size_t row = i / 2;
        flatten_row(run, &table, (kvg_side)(i % 2), (uint32_t)(row / p->tokens / p->kv_heads),
                    (uint32_t)(row / p->tokens % p->kv_heads), (uint32_t)(row % p->tokens));
    }
    return KVG_OK;
}

/* --- probe --- */

static kvg_status probe(paged_run *run)
{
    const kvg_problem *p = run->p;
    kvg_status s = check_slots(run);
    if (s) return s;
    const int64_t *slots = input(run, KVG_ROLE_SLOTS, KVG_K)->data;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        const kvg_row_map *maps[2] = {&run->map->codes[side], &run->map->scales[side]};
        const kvg_role roles[2] = {KVG_ROLE_CODES, KVG_ROLE_SCALES};
        for (int part = 0; part < 2; part++) {
            uint8_t *bytes = output(run, roles[part], (kvg_side)side)->data;
            for (size_t row = 0; row < (size_t)p->tokens * p->kv_heads; row++) {
                const int64_t slot = slots[row / p->kv_heads];
                if (slot < 0 || maps[part]->bytes == 0) continue;
                read_row(run, maps[part], place_of(p, slot, (uint32_t)(row % p->kv_heads)),
                         bytes + row * maps[part]->bytes);
            }
        }
    }
    return KVG_OK;
}

/* --- as ops --- */

kvg_status kvg_reference_run_mapped(const kvg_problem *problem, const kvg_layout_map *map, const kvg_tensor *in,
                                    kvg_tensor *out)
{
    paged_run run = {.p = problem, .map = map, .in = in, .out = out};
    if (problem->op == KVG_OP_APPEND) return append(&run);
    if (problem->op == KVG_OP_FLATTEN || problem->op == KVG_OP_EXPAND) return flatten(&run);
    if (problem->op == KVG_OP_PROBE) return probe(&run);
    return kvg_fail(KVG_ERR_INVALID, "op %s has no layout map", kvg_op_get(problem->op)->name);
}

kvg_status ref_paged(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out, kvg_stream *stream)
{
    (void)stream;
    kvg_layout_map map;
    kvg_rows_map(problem, &map);
    return kvg_reference_run_mapped(problem, &map, in, out);
}
