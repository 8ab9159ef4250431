#include "harness/trial/wrong/defects_decode.h"

#include <stdlib.h>
#include <string.h>

/* --- problems --- */

bool kvg_decode_any(const kvg_problem *p, kvg_side side)
{
    return side == KVG_K && p->op == KVG_OP_DECODE;
}

bool kvg_decode_windowed(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->attention.window > 0;
}

bool kvg_decode_soft_capped(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->attention.softcap > 0;
}

bool kvg_decode_scaled(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->attention.scale > 0;
}

bool kvg_decode_with_sinks(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->attention.sinks;
}

bool kvg_decode_grouped(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->kv_heads > 1 && p->attention.query_heads > p->kv_heads;
}

bool kvg_decode_many_queries(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->attention.queries > 1;
}

bool kvg_decode_many_rows(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_many_queries(p, side) && p->attention.query_heads > 1;
}

bool kvg_decode_two_sequences(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->paging.sequences > 1;
}

bool kvg_decode_long_block(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->paging.block_tokens > 1;
}

static kvg_side stored_side(const kvg_problem *p, kvg_side side)
{
    return p->paging.shared_kv ? KVG_K : side;
}

bool kvg_decode_ring(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && kvg_problem_blocks(p) == KVG_BLOCKS_RING;
}

bool kvg_decode_nan_tail(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *v = kvg_format_get(p->storage[stored_side(p, KVG_V)].format);
    const bool finite = v->block_scale_bytes == 0 && v->element_bits == 4 && v->row_param_bytes == 0;
    return kvg_decode_long_block(p, side) && kvg_problem_blocks(p) != KVG_BLOCKS_RING && !finite;
}

bool kvg_decode_paged_table(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && kvg_problem_blocks(p) == KVG_BLOCKS_TABLE;
}

bool kvg_decode_latent(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && p->paging.shared_kv;
}

bool kvg_decode_latent_scale(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_latent(p, side) && !(p->attention.scale > 0);
}

static bool has_factor(const kvg_problem *p, kvg_side of)
{
    const kvg_format_info *f = kvg_format_get(p->storage[stored_side(p, of)].format);
    return f->tensor_scale || (f->row_param_bytes && f->scales != KVG_SCALES_AFFINE);
}

bool kvg_decode_k_factor(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && has_factor(p, KVG_K);
}

bool kvg_decode_v_factor(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_any(p, side) && has_factor(p, KVG_V);
}

bool kvg_decode_any_factor(const kvg_problem *p, kvg_side side)
{
    return kvg_decode_k_factor(p, side) || kvg_decode_v_factor(p, side);
}

bool kvg_decode_same_rows(const kvg_problem *p, kvg_side side)
{
    return side == KVG_K && kvg_op_reads_sequences(p->op) && !p->paging.shared_kv &&
           p->storage[KVG_K].format == p->storage[KVG_V].format;
}

/* --- changes and mutations --- */

void kvg_decode_drop_scale(kvg_problem *p, kvg_side side)
{
    (void)side;
    p->attention.scale = 0;
}

static bool is_block(const kvg_defect_site *s, int32_t entry)
{
    return entry >= 0 && (uint32_t)entry < s->problem->paging.blocks;
}

void kvg_decode_block_zero(const kvg_defect_site *s)
{
    int32_t *table = s->tensor->data;
    for (size_t i = 0; i < s->tensor->bytes / sizeof *table; i++) {
        if (!is_block(s, table[i])) table[i] = 0;
    }
}

/* No length may exceed what the problem allows. */
void kvg_decode_add_queries(const kvg_defect_site *s)
{
    const kvg_problem *p = s->problem;
    const int at = kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_QUERY_LENGTHS, KVG_K);
    const int32_t *queries = s->in[at].data;
    int32_t *lengths = s->tensor->data;
    const int64_t most = kvg_problem_longest(p);
    for (uint32_t i = 0; i < p->paging.sequences; i++) {
        const int64_t twice = (int64_t)lengths[i] + queries[i];
        lengths[i] = (int32_t)(twice < most ? twice : most);
    }
}

/* [rows, columns] written as if it were [columns, rows]. */
void kvg_decode_transpose(const kvg_defect_site *s)
{
    const size_t rows = (size_t)s->tensor->shape[0], columns = (size_t)s->tensor->shape[1];
    float *numbers = s->tensor->data, *copy = malloc(s->tensor->bytes);
    if (!copy) return; /* the caller then sees an unchanged answer and lists the defect as unreached */
    memcpy(copy, numbers, s->tensor->bytes);
    for (size_t i = 0; i < rows * columns; i++) numbers[i % columns * rows + i / columns] = copy[i];
    free(copy);
}
