#include "harness/matrix/matrix_world.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "harness/trial/question/fill.h"

static const kvg_role values_only[KVG_MAX_ROLES] = {KVG_ROLE_VALUES};

/* The blocks of the pool in random order, the first ones for the sequences; one more than they need. */
static kvg_status place_blocks(kvg_matrix_world *w)
{
    int32_t *order = malloc(w->blocks * sizeof *order);
    if (!order) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u block ids", w->blocks);
    for (uint32_t i = 0; i < w->blocks; i++) {
        const uint32_t k = (uint32_t)kvg_rng_below(w->shape.seed, ~0ull, i, i + 1);
        order[i] = order[k];
        order[k] = (int32_t)i;
    }
    for (uint32_t s = 0, next = 0; s < KVG_MATRIX_SEQUENCES; s++) {
        for (uint32_t i = 0; i < w->width; i++) {
            const bool used = i * w->shape.block_tokens < (uint32_t)w->lengths[s];
            w->table[s * w->width + i] = used ? order[next++] : -1;
        }
    }
    free(order);
    return KVG_OK;
}

static kvg_status fill_values(kvg_matrix_world *w)
{
    kvg_problem rows = {.op = KVG_OP_QUANTISE, .layout = KVG_LAYOUT_ROWS, .dtype = w->shape.dtype, .tokens = w->live,
                        .kv_heads = w->shape.kv_heads, .head_dim = w->shape.head_dim};
    rows.storage[KVG_K] = rows.storage[KVG_V] = (kvg_storage){w->shape.format, "canonical"};
    kvg_case c = {.problem = rows, .fill = KVG_FILL_RANDOM, .backend = "", .seed = w->shape.seed};
    snprintf(c.id, sizeof c.id, "matrix/%s", kvg_dtype_name(w->shape.dtype)); /* the same K and V for every format */
    kvg_status s = kvg_problem_check(&rows);
    if (!s) s = kvg_set_alloc(&rows, values_only, &w->values);
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        kvg_tensor *values = kvg_set_tensor(&w->values, KVG_ROLE_VALUES, (kvg_side)side);
        s = kvg_fill_values(&c, &rows, (kvg_side)side, values);
        const size_t bytes = kvg_dtype_bytes(values->dtype);
        for (size_t i = 0; !s && i < values->bytes / bytes; i++) {
            float x;
            kvg_reference_load(values->dtype, (const uint8_t *)values->data + i * bytes, 1, &x);
            if (fabsf(x) > w->amax[side]) w->amax[side] = fabsf(x);
        }
    }
    return s;
}

kvg_status kvg_matrix_world_make(const kvg_matrix_shape *shape, kvg_matrix_world *w)
{
    *w = (kvg_matrix_world){.shape = *shape};
    if (shape->head_dim % 2) return kvg_fail(KVG_ERR_INVALID, "head_dim %u is odd: RoPE has pairs", shape->head_dim);
    w->width = (shape->tokens + shape->block_tokens - 1) / shape->block_tokens;
    w->blocks = 1;
    for (uint32_t s = 0; s < KVG_MATRIX_SEQUENCES; s++) { /* all, half, and one token */
        w->lengths[s] = (int32_t)(s == 0 ? shape->tokens : s == 1 ? (shape->tokens + 1) / 2 : 1);
        w->blocks += ((uint32_t)w->lengths[s] + shape->block_tokens - 1) / shape->block_tokens;
        w->live += (uint32_t)w->lengths[s];
    }
    w->sequence = malloc(w->live * sizeof *w->sequence);
    w->position = malloc(w->live * sizeof *w->position);
    w->table = malloc(KVG_MATRIX_SEQUENCES * w->width * sizeof *w->table);
    if (!w->sequence || !w->position || !w->table) return kvg_fail(KVG_ERR_MEMORY, "cannot hold %u tokens", w->live);
    for (uint32_t s = 0, i = 0; s < KVG_MATRIX_SEQUENCES; s++) {
        for (uint32_t p = 0; p < (uint32_t)w->lengths[s]; p++, i++) {
            w->sequence[i] = s;
            w->position[i] = p;
        }
    }
    kvg_status s = place_blocks(w);
    return s ? s : fill_values(w);
}

void kvg_matrix_world_free(kvg_matrix_world *w)
{
    kvg_set_free(&w->values);
    free(w->sequence);
    free(w->position);
    free(w->table);
    *w = (kvg_matrix_world){0};
}

kvg_status kvg_matrix_problem(const kvg_matrix_world *w, const kvg_engine *e, kvg_op op, kvg_problem *out)
{
    const bool rows = kvg_layout_get(e->layout)->blocks == KVG_BLOCKS_ONE;
    *out = (kvg_problem){
        .op = op, .layout = e->layout, .text = e->text, .dtype = w->shape.dtype, .kv_heads = w->shape.kv_heads,
        .head_dim = w->shape.head_dim, .tokens = kvg_op_reads_sequences(op) ? w->shape.tokens : w->live,
        .paging = {.layers = KVG_MATRIX_LAYERS, .layer = KVG_MATRIX_LAYER,
                   .blocks = rows ? KVG_MATRIX_SEQUENCES : w->blocks,
                   .block_tokens = rows ? w->shape.tokens : w->shape.block_tokens,
                   .sequences = kvg_op_reads_sequences(op) ? KVG_MATRIX_SEQUENCES : 0,
                   .v_scale_swizzle = e->swizzle}};
    out->storage[KVG_K] = out->storage[KVG_V] = (kvg_storage){e->format, e->dialect};
    return kvg_problem_check(out);
}

/* The block that holds a position; a contiguous cache has the sequences in opposite order. */
static int32_t block_of(const kvg_matrix_world *w, const kvg_problem *p, uint32_t sequence, uint32_t column)
{
    if (kvg_problem_blocks(p) == KVG_BLOCKS_ONE) return (int32_t)(KVG_MATRIX_SEQUENCES - 1 - sequence);
    return w->table[sequence * w->width + column];
}

int64_t kvg_matrix_slot(const kvg_matrix_world *w, const kvg_problem *p, uint32_t i)
{
    const uint32_t B = p->paging.block_tokens, position = w->position[i];
    return (int64_t)block_of(w, p, w->sequence[i], position / B) * B + position % B;
}

void kvg_matrix_table(const kvg_matrix_world *w, const kvg_problem *p, int32_t *table)
{
    const uint32_t width = kvg_layout_table_width(p->layout, &p->paging, p->tokens);
    for (uint32_t s = 0; s < KVG_MATRIX_SEQUENCES; s++) {
        for (uint32_t i = 0; i < width; i++) table[s * width + i] = block_of(w, p, s, i);
    }
}

void kvg_matrix_noise(const kvg_matrix_world *w, uint64_t stream, kvg_tensor *tensor)
{
    uint8_t *bytes = tensor->data;
    for (size_t i = 0; i < tensor->bytes; i += 8) {
        const uint64_t word = kvg_rng_u64(~w->shape.seed, stream, i / 8);
        memcpy(bytes + i, &word, tensor->bytes - i < 8 ? tensor->bytes - i : 8);
    }
}
