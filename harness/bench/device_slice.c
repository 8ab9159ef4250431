#include "harness/bench/device_slice.h"

#include <string.h>

#include "harness/trial/question/question.h"

/* Bytes [first, first + count) of what a recipe fills. */
static void write_recipe(kvg_recipe r, uint64_t first, size_t count, uint8_t *to)
{
    for (size_t i = 0; i < count;) {
        const uint64_t at = first + i, word = kvg_recipe_word(r, at / 8);
        size_t n = 8 - at % 8;
        if (n > count - i) n = count - i;
        for (size_t k = 0; k < n; k++) to[i + k] = (uint8_t)(word >> 8 * (at % 8 + k));
        i += n;
    }
}

/* --- rows of the cache --- */

/* Which tokens and heads of the case a slice has: position `origin` + i of the sequence is token i of the slice. */
typedef struct extent {
    uint32_t sequence, origin, first, end; /* positions first to end - 1 are wanted */
    uint32_t head, heads;
} extent;

static void copy_rows(const kvg_device_case *d, const extent *e, kvg_role role, kvg_side side,
                      const kvg_device_slice *slice)
{
    const bool codes = role == KVG_ROLE_CODES;
    const kvg_row_map *from = codes ? &d->map.codes[side] : &d->map.scales[side];
    const kvg_row_map *to = codes ? &slice->map.codes[side] : &slice->map.scales[side];
    const kvg_recipe recipe = kvg_device_case_recipe(d, role, side);
    const uint32_t B = slice->problem.paging.block_tokens;
    if (from->bytes == 0) return;
    uint8_t *pool = kvg_set_tensor(&slice->in, to->pool, to->side)->data;
#pragma omp parallel for schedule(static)
    for (uint32_t position = e->first; position < e->end; position++) {
        const kvg_device_place at = kvg_device_case_place(d, e->sequence, position);
        const uint32_t i = position - e->origin;
        for (uint32_t h = 0; h < e->heads; h++) {
            const uint32_t layer = d->problem.paging.layer;
            write_recipe(recipe, kvg_rows_place(from, layer, at.block, e->head + h, at.offset, 0), from->bytes,
                         pool + kvg_rows_place(to, 0, i / B, h, i % B, 0));
        }
    }
}

static void copy_cache(const kvg_device_case *d, const extent *e, const kvg_device_slice *slice)
{
    for (int side = KVG_K; side < kvg_problem_sides(&d->problem); side++) {
        copy_rows(d, e, KVG_ROLE_CODES, (kvg_side)side, slice);
        copy_rows(d, e, KVG_ROLE_SCALES, (kvg_side)side, slice);
    }
}

/* --- the other inputs --- */

static const kvg_tensor *of_case(const kvg_device_case *d, kvg_role role, kvg_side side)
{
    return &d->host[kvg_roles_index(d->op->inputs, role, side)];
}

/* Part of an input that the host has: `bytes` bytes from byte `first` on. */
static void copy_part(const kvg_device_case *d, kvg_role role, kvg_side side, size_t first,
                      const kvg_device_slice *slice)
{
    const kvg_tensor *to = kvg_set_tensor(&slice->in, role, side);
    if (to->bytes) memcpy(to->data, (const uint8_t *)of_case(d, role, side)->data + first, to->bytes);
}

static void copy_tensor_scales(const kvg_device_case *d, const kvg_device_slice *slice)
{
    for (int side = KVG_K; side < kvg_problem_sides(&d->problem); side++) {
        copy_part(d, KVG_ROLE_TENSOR_SCALE, (kvg_side)side, 0, slice);
    }
}

static int32_t *numbers(const kvg_device_slice *slice, kvg_role role)
{
    return kvg_set_tensor(&slice->in, role, KVG_K)->data;
}

static kvg_status open_slice(kvg_device_slice *slice)
{
    const kvg_op_info *op = kvg_op_get(slice->problem.op);
    kvg_status s = kvg_problem_check(&slice->problem);
    if (s) return s;
    kvg_rows_map(&slice->problem, &slice->map);
    s = kvg_set_alloc(&slice->problem, op->inputs, &slice->in);
    return s ? s : kvg_set_alloc(&slice->problem, op->outputs, &slice->out);
}

static kvg_status answer(kvg_device_slice *slice)
{
    return kvg_reference_run(&slice->problem, slice->in.tensors, slice->out.tensors);
}

void kvg_device_slice_free(kvg_device_slice *slice)
{
    kvg_set_free(&slice->in);
    kvg_set_free(&slice->out);
}

/* --- slices --- */

static void one_block(kvg_paging *g)
{
    g->layers = 1;
    g->layer = 0;
    g->blocks = 1;
    g->block_tokens = KVG_DEVICE_RUN;
    g->sequences = 1;
}

static uint32_t tokens_from(uint32_t position, uint32_t end)
{
    return end - position < KVG_DEVICE_RUN ? end - position : KVG_DEVICE_RUN;
}

kvg_status kvg_device_slice_flat(const kvg_device_case *d, uint32_t sequence, uint32_t position, kvg_device_slice *out)
{
    const kvg_problem *p = &d->problem;
    const uint32_t tokens = tokens_from(position, p->tokens);
    *out = (kvg_device_slice){
        .problem = kvg_question_other_op(p, p->op == KVG_OP_EXPAND ? KVG_OP_EXPAND : KVG_OP_FLATTEN, tokens)};
    one_block(&out->problem.paging);
    kvg_status s = open_slice(out);
    if (s) return s;
    const extent e = {.sequence = sequence, .origin = position, .first = position, .end = position + tokens,
                      .heads = p->kv_heads};
    copy_cache(d, &e, out);
    copy_tensor_scales(d, out);
    numbers(out, KVG_ROLE_BLOCK_TABLE)[0] = 0;
    numbers(out, KVG_ROLE_LENGTHS)[0] = (int32_t)tokens;
    return answer(out);
}

kvg_status kvg_device_slice_append(const kvg_device_case *d, uint32_t sequence, uint32_t position,
                                   kvg_device_slice *out)
{
    const kvg_problem *p = &d->problem;
    const uint32_t of_sequence = p->tokens / p->paging.sequences, tokens = tokens_from(position, of_sequence);
    const size_t token = (size_t)sequence * of_sequence + position;
    *out = (kvg_device_slice){.problem = *p};
    out->problem.tokens = tokens;
    one_block(&out->problem.paging);
    kvg_status s = open_slice(out);
    if (s) return s;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        const kvg_tensor *values = kvg_set_tensor(&out->in, KVG_ROLE_VALUES, (kvg_side)side);
        write_recipe(kvg_device_case_recipe(d, KVG_ROLE_VALUES, (kvg_side)side), token * (values->bytes / tokens),
                     values->bytes, values->data);
        copy_part(d, KVG_ROLE_BIAS, (kvg_side)side, 0, out);
    }
    copy_tensor_scales(d, out);
    copy_part(d, KVG_ROLE_COS_SIN, KVG_K, 0, out);
    copy_part(d, KVG_ROLE_POSITIONS, KVG_K, token * sizeof(int32_t), out);
    int64_t *slots = kvg_set_tensor(&out->in, KVG_ROLE_SLOTS, KVG_K)->data;
    for (uint32_t i = 0; i < tokens; i++) slots[i] = i;
    return answer(out);
}

/* Tokens of the sequence up to the last of the query tokens, and the first position that one of them sees. */
static uint32_t length_of(const kvg_device_case *d, const kvg_device_rows *rows)
{
    return d->problem.tokens - kvg_case_queries(d->c, rows->sequence) + rows->query + rows->queries;
}
static uint32_t first_seen(const kvg_device_case *d, const kvg_device_rows *rows)
{
    const uint32_t window = d->problem.attention.window, length = length_of(d, rows);
    return window && length >= (uint64_t)rows->queries + window ? length - rows->queries - window + 1 : 0;
}

kvg_status kvg_device_slice_decode(const kvg_device_case *d, const kvg_device_rows *rows, kvg_device_slice *out)
{
    const kvg_problem *p = &d->problem;
    const uint32_t group = p->attention.query_heads / p->kv_heads, heads = rows->heads;
    *out = (kvg_device_slice){.problem = *p};
    out->problem.kv_heads = 1;
    out->problem.attention.query_heads = heads;
    out->problem.attention.queries = rows->queries;
    out->problem.paging.layers = 1;
    out->problem.paging.layer = 0;
    out->problem.paging.sequences = 1;
    out->problem.paging.blocks = d->width;
    kvg_status s = open_slice(out);
    if (s) return s;
    const extent e = {.sequence = rows->sequence, .first = first_seen(d, rows), .end = p->tokens, .head = rows->kv_head,
                      .heads = 1};
    copy_cache(d, &e, out);
    copy_tensor_scales(d, out);
    for (uint32_t w = 0; w < d->width; w++) {
        const bool seen = (uint64_t)(w + 1) * p->paging.block_tokens > e.first;
        numbers(out, KVG_ROLE_BLOCK_TABLE)[w] = seen ? (int32_t)w : -1;
    }
    numbers(out, KVG_ROLE_LENGTHS)[0] = (int32_t)length_of(d, rows);
    numbers(out, KVG_ROLE_QUERY_LENGTHS)[0] = (int32_t)rows->queries;
    const kvg_tensor *q = kvg_set_tensor(&out->in, KVG_ROLE_Q, KVG_K);
    const uint8_t *all = of_case(d, KVG_ROLE_Q, KVG_K)->data;
    const size_t head = rows->kv_head * group + rows->head, bytes = q->bytes / rows->queries;
    const size_t before = kvg_device_case_rows_before(d, rows->sequence) + rows->query;
    for (uint32_t i = 0; i < rows->queries; i++) {
        const size_t row = (before + i) * p->attention.query_heads + head;
        memcpy((uint8_t *)q->data + i * bytes, all + row * (bytes / heads), bytes);
    }
    copy_part(d, KVG_ROLE_SINKS, KVG_K, head * sizeof(float), out);
    return answer(out);
}
