#include "harness/trial/judge/far_pools.h"

#include <stdlib.h>
#include <string.h>

typedef struct far_call {
    const kvg_question *d;
    kvg_problem p; /* the case's, with more blocks */
    kvg_layout_map near, far;
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    kvg_tensor shared[2 * KVG_MAX_TENSORS]; /* inputs, then outputs */
    size_t inputs;
} far_call;

/* Of 3 blocks in pools of 1,001: 0, 500 and 1,000. */
static uint64_t far_block(const far_call *f, uint64_t block)
{
    const uint64_t last = f->p.paging.blocks - 1u, near_last = f->d->c->problem.paging.blocks - 1u;
    return near_last ? block * last / near_last : last;
}

/* --- who is where --- */

static bool is_pool(kvg_role role)
{
    return role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL;
}

/* The slots or the block table of the case, with its blocks where they are now; NULL: no memory. */
static void *far_ids(const far_call *f, const kvg_tensor *slots, const kvg_tensor *table)
{
    const kvg_paging *g = &f->d->c->problem.paging;
    const kvg_tensor *from = slots ? slots : table;
    void *ids = malloc(from->bytes);
    if (!ids) return NULL;
    memcpy(ids, from->data, from->bytes);
    for (size_t i = 0; slots && i < from->bytes / sizeof(int64_t); i++) {
        int64_t *slot = (int64_t *)ids + i;
        const int64_t B = g->block_tokens;
        if (*slot >= 0) *slot = (int64_t)far_block(f, (uint64_t)(*slot / B)) * B + *slot % B;
    }
    for (size_t i = 0; !slots && i < from->bytes / sizeof(int32_t); i++) {
        int32_t *block = (int32_t *)ids + i;
        if (*block >= 0 && (uint32_t)*block < g->blocks) *block = (int32_t)far_block(f, (uint32_t)*block);
    }
    return ids;
}

/* --- rows --- */

typedef enum way { PUT, COMPARE, TAKE } way;

/* One kind of bytes of every live row between a pool of the case and its far pool. COMPARE and TAKE leave 0 in the far
 * one. Returns how many bytes differed. */
static size_t move_kind(const far_call *f, way how, const kvg_row_map *near, const kvg_row_map *far, uint8_t *here,
                        uint8_t *there)
{
    const kvg_problem *p = &f->p;
    const uint32_t B = p->paging.block_tokens, layer = p->paging.layer;
    size_t different = 0;
    for (size_t i = 0; i < (size_t)f->d->rows.tokens * p->kv_heads; i++) {
        const uint64_t slot = (uint64_t)f->d->slots[i / p->kv_heads];
        const uint32_t head = (uint32_t)(i % p->kv_heads), offset = (uint32_t)(slot % B);
        const uint32_t block = (uint32_t)(slot / B), away = (uint32_t)far_block(f, block);
        for (uint32_t byte = 0; byte < near->bytes; byte++) {
            uint8_t *a = &here[kvg_reference_place(near, layer, block, head, offset, byte)];
            uint8_t *b = &there[kvg_reference_place(far, layer, away, head, offset, byte)];
            different += *a != *b;
            if (how == PUT) *b = *a;
            if (how == TAKE) *a = *b;
            if (how != PUT) *b = 0;
        }
    }
    return different;
}

/* All rows of all pools: those of the case are tensors of `near`, the far ones are from `first` on in f->shared. */
static size_t move_rows(far_call *f, way how, const kvg_tensor_set *near, size_t first)
{
    size_t different = 0;
    for (int side = KVG_K; side < kvg_problem_sides(&f->p); side++) {
        const kvg_row_map *const maps[2][2] = {{&f->near.codes[side], &f->far.codes[side]},
                                               {&f->near.scales[side], &f->far.scales[side]}};
        for (int kind = 0; kind < 2; kind++) {
            const kvg_row_map *map = maps[kind][0];
            if (!map->bytes) continue;
            const int index = kvg_roles_index(near->roles, map->pool, map->side);
            different += move_kind(f, how, map, maps[kind][1], near->tensors[index].data,
                                   f->shared[first + (size_t)index].data);
        }
    }
    return different;
}

/* --- the call --- */

/* The tensors of a list of roles, and pools as holes. */
static void gather(const far_call *f, const kvg_role *roles, const kvg_source *from, size_t count, kvg_tensor *out)
{
    kvg_gather(&f->p, roles, from, count, out);
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        if (is_pool(role)) out[i].data = NULL;
    }
}

/* Bytes of far pools that no token of the case owns must still be 0, once the tokens' own are. */
static kvg_status find_strays(const far_call *f, const kvg_candidate *candidate)
{
    for (size_t i = 0; i < f->inputs + kvg_roles_tensors(f->d->op->outputs); i++) {
        const kvg_tensor *t = i < f->inputs ? &f->in[i] : &f->out[i - f->inputs];
        if (t->data || !t->bytes) continue;
        const uint64_t at = kvg_candidate_first_nonzero(candidate, i);
        if (at == t->bytes) continue;
        return kvg_fail(KVG_ERR_INVALID, "byte %llu of %llu of a pool was written, where no token of the case is",
                        (unsigned long long)at, (unsigned long long)t->bytes);
    }
    return KVG_OK;
}

static kvg_status call(far_call *f, kvg_candidate *candidate, kvg_tensor_set *answer)
{
    const bool writes = kvg_roles_index(f->d->op->outputs, KVG_ROLE_DATA_POOL, KVG_K) >= 0;
    kvg_outcome o;
    kvg_status s = kvg_candidate_put(candidate, &f->p, f->in, f->out, f->shared);
    if (s) return s;
    if (!writes) (void)move_rows(f, PUT, &f->d->in, 0);
    s = kvg_candidate_run_put(candidate, f->in, f->out, &o);
    if (!s) s = kvg_outcome_status(&o);
    if (s) return s;
    if (writes) (void)move_rows(f, TAKE, answer, f->inputs);
    else if (move_rows(f, COMPARE, &f->d->in, 0)) return kvg_fail(KVG_ERR_INVALID, "rows of a pool were written");
    return find_strays(f, candidate);
}

kvg_status kvg_far_answer(const kvg_question *d, kvg_candidate *candidate, kvg_tensor_set *answer)
{
    far_call f = {.d = d, .p = d->c->problem, .inputs = kvg_roles_tensors(d->op->inputs)};
    const kvg_tensor *slots = kvg_set_tensor(&d->in, KVG_ROLE_SLOTS, KVG_K);
    const kvg_tensor *table = kvg_set_tensor(&d->in, KVG_ROLE_BLOCK_TABLE, KVG_K);
    f.p.paging.blocks = d->c->far_blocks;
    kvg_reference_layout_map(&d->c->problem, &f.near);
    kvg_reference_layout_map(&f.p, &f.far);
    kvg_status s = kvg_set_alloc(&d->c->problem, d->op->outputs, answer);
    void *ids = s ? NULL : far_ids(&f, slots, table);
    if (!s && !ids) s = kvg_fail(KVG_ERR_MEMORY, "no memory for the blocks of a far pool");
    if (!s) {
        kvg_question_prefill(d, answer);
        const kvg_source from[] = {{.set = &d->in},
                                   {.role = slots ? KVG_ROLE_SLOTS : KVG_ROLE_BLOCK_TABLE, .data = {ids}}};
        gather(&f, d->op->inputs, from, 2, f.in);
        gather(&f, d->op->outputs, &(kvg_source){.set = answer}, 1, f.out);
        s = call(&f, candidate, answer);
    }
    free(ids);
    return s;
}
