#include "harness/trial/judge/far_pools.h"

#include <stdlib.h>
#include <string.h>

#include "harness/trial/judge/elsewhere.h"

typedef struct far_call {
    const kvg_question *d;
    kvg_elsewhere where;
    kvg_problem p; /* the case's, with more blocks */
    kvg_layout_map near, far;
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
    kvg_tensor shared[2 * KVG_MAX_TENSORS]; /* inputs, then outputs */
    size_t inputs;
} far_call;

/* --- who is where --- */

static bool is_pool(kvg_role role)
{
    return role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL;
}

/* The slots or the block table of the case, with its blocks where they are now; NULL: no memory. */
static void *far_ids(const far_call *f, const kvg_tensor *slots, const kvg_tensor *table)
{
    const kvg_tensor *from = slots ? slots : table;
    void *ids = malloc(from->bytes);
    if (!ids) return NULL;
    memcpy(ids, from->data, from->bytes);
    for (size_t i = 0; slots && i < from->bytes / sizeof(int64_t); i++) {
        ((int64_t *)ids)[i] = kvg_elsewhere_slot(&f->where, ((int64_t *)ids)[i]);
    }
    for (size_t i = 0; !slots && i < from->bytes / sizeof(int32_t); i++) {
        ((int32_t *)ids)[i] = kvg_elsewhere_entry(&f->where, ((int32_t *)ids)[i]);
    }
    return ids;
}

/* All rows of all pools: those of the case are tensors of `near`, the far ones are from `first` on in f->shared. */
static size_t move_rows(far_call *f, kvg_way how, const kvg_tensor_set *near, size_t first)
{
    size_t different = 0;
    for (int side = KVG_K; side < kvg_problem_sides(&f->p); side++) {
        const kvg_row_map *const maps[2][2] = {{&f->near.codes[side], &f->far.codes[side]},
                                               {&f->near.scales[side], &f->far.scales[side]}};
        for (int kind = 0; kind < 2; kind++) {
            const kvg_row_map *map = maps[kind][0];
            if (!map->bytes) continue;
            const int index = kvg_roles_index(near->roles, map->pool, map->side);
            different += kvg_elsewhere_rows(&f->where, how, map, maps[kind][1], near->tensors[index].data,
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
    if (!writes) (void)move_rows(f, KVG_PUT, &f->d->in, 0);
    s = kvg_candidate_run_put(candidate, f->in, f->out, &o);
    if (!s) s = kvg_outcome_status(&o);
    if (s) return s;
    if (writes) {
        (void)move_rows(f, KVG_TAKE_AND_CLEAR, answer, f->inputs);
    } else if (move_rows(f, KVG_COMPARE_AND_CLEAR, &f->d->in, 0)) {
        return kvg_fail(KVG_ERR_INVALID, "rows of a pool were written");
    }
    return find_strays(f, candidate);
}

kvg_status kvg_far_answer(const kvg_question *d, kvg_candidate *candidate, kvg_tensor_set *answer)
{
    far_call f = {.d = d,
                  .where = {.question = d, .blocks = d->c->far_blocks},
                  .p = d->c->problem,
                  .inputs = kvg_roles_tensors(d->op->inputs)};
    const kvg_tensor *slots = kvg_set_tensor(&d->in, KVG_ROLE_SLOTS, KVG_K);
    const kvg_tensor *table = kvg_set_tensor(&d->in, KVG_ROLE_BLOCK_TABLE, KVG_K);
    f.p.paging.blocks = d->c->far_blocks;
    kvg_rows_map(&d->c->problem, &f.near);
    kvg_rows_map(&f.p, &f.far);
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
