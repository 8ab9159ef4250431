/* The pools of a model, and the ops that work on them. */
#include <stdlib.h>
#include <string.h>

#include "model/runner/ref_model_run.h"
#include "reference/reference.h"

static const kvg_role pool_roles[2] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};

/* --- pools --- */

/* Both ops at their largest. */
static kvg_status check_ops(const kvg_model_setup *setup)
{
    const kvg_model_step most = {.rows = setup->max_rows, .sequences = setup->max_sequences,
                                 .longest = setup->max_tokens};
    const kvg_problem append = kvg_model_append(setup, 0, setup->max_rows), decode = kvg_model_decode(setup, 0, &most);
    kvg_status s = kvg_model_check_layout(setup->layout);
    if (!s) s = kvg_problem_check(&append);
    if (!s) s = kvg_problem_check(&decode);
    for (int side = KVG_K; !s && side <= KVG_V; side++) {
        size_t index;
        s = kvg_reference_dialect_find(setup->storage[side].format, setup->storage[side].dialect, &index);
    }
    return s;
}

kvg_status ref_cache_open(const kvg_model_setup *setup, ref_cache *out)
{
    *out = (ref_cache){.setup = setup};
    kvg_status s = check_ops(setup);
    const kvg_problem p = kvg_model_append(setup, 0, setup->max_rows);
    for (int i = 0; !s && i < 4; i++) {
        uint64_t *bytes = &out->bytes[i / 2][i % 2];
        s = kvg_problem_pool_bytes(&p, pool_roles[i % 2], (kvg_side)(i / 2), bytes);
        if (s || *bytes == 0) continue;
        out->pools[i / 2][i % 2] = *bytes <= SIZE_MAX ? calloc(1, *bytes) : NULL;
        if (!out->pools[i / 2][i % 2]) {
            s = kvg_fail(KVG_ERR_MEMORY, "no memory for a pool of %llu bytes: %u blocks, %u layers",
                         (unsigned long long)*bytes, setup->blocks, setup->config->layers);
        }
    }
    return s;
}

void ref_cache_close(ref_cache *cache)
{
    for (int i = 0; i < 4; i++) free(cache->pools[i / 2][i % 2]);
}

/* A row map in the pool: its strides of blocks and layers are the pool's. */
static const kvg_row_map *map_in(const kvg_layout_map *m, kvg_role pool, kvg_side side)
{
    const kvg_row_map *maps[] = {&m->codes[KVG_K], &m->codes[KVG_V], &m->scales[KVG_K], &m->scales[KVG_V]};
    int i = 0;
    while (maps[i]->pool != pool || maps[i]->side != side || maps[i]->bytes == 0) i++;
    return maps[i];
}

void ref_cache_copy(const ref_cache *cache, uint32_t from, uint32_t to)
{
    const kvg_problem p = kvg_model_append(cache->setup, 0, 1);
    kvg_layout_map map;
    kvg_rows_map(&p, &map);
    for (int i = 0; i < 4; i++) {
        uint8_t *pool = cache->pools[i / 2][i % 2];
        if (!pool) continue;
        /* The bytes of a block of one layer lie together, in every layout. */
        const uint64_t page = cache->bytes[i / 2][i % 2] / p.paging.layers / p.paging.blocks;
        const kvg_row_map *m = map_in(&map, pool_roles[i % 2], (kvg_side)(i / 2));
        for (uint32_t layer = 0; layer < p.paging.layers; layer++) {
            memcpy(pool + layer * m->layer + to * m->block, pool + layer * m->layer + from * m->block, page);
        }
    }
}

/* --- ops --- */

/* A problem on its way: its tensors, those that nobody sets without data. */
typedef struct call {
    kvg_problem problem;
    const kvg_op_info *op;
    kvg_tensor in[KVG_MAX_TENSORS], out[KVG_MAX_TENSORS];
} call;

static void shape_all(const kvg_problem *p, const kvg_role *roles, kvg_tensor *tensors)
{
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        tensors[i] = kvg_problem_tensor(p, role, side);
    }
}

static void open_call(const kvg_problem *problem, call *c)
{
    *c = (call){.problem = *problem, .op = kvg_op_get(problem->op)};
    shape_all(problem, c->op->inputs, c->in);
    shape_all(problem, c->op->outputs, c->out);
}

/* An op writes to its outputs only. */
static void set(call *c, kvg_role role, kvg_side side, const void *data)
{
    const int in = kvg_roles_index(c->op->inputs, role, side), out = kvg_roles_index(c->op->outputs, role, side);
    if (in >= 0) c->in[in].data = (void *)data;
    if (out >= 0) c->out[out].data = (void *)data;
}

/* What both ops have. */
static void set_cache(const ref_cache *cache, uint32_t layer, call *c)
{
    static const float one = 1;
    const kvg_model_setup *setup = cache->setup;
    for (int side = KVG_K; side <= KVG_V; side++) {
        set(c, KVG_ROLE_TENSOR_SCALE, (kvg_side)side, setup->tensor_scale ? &setup->tensor_scale[layer][side] : &one);
        for (int i = 0; i < 2; i++) set(c, pool_roles[i], (kvg_side)side, cache->pools[side][i]);
    }
}

static kvg_status run(const ref_cache *cache, call *c)
{
    const kvg_model_setup *setup = cache->setup;
    if (setup->run) return setup->run(setup->run_context, &c->problem, c->in, c->out);
    return kvg_reference_run(&c->problem, c->in, c->out);
}

kvg_status ref_cache_append(const ref_cache *cache, const ref_layer *layer, uint32_t index, const kvg_model_step *step,
                            const void *k, const void *v)
{
    const void *rows[2] = {k, v};
    const kvg_problem p = kvg_model_append(cache->setup, index, step->rows);
    call c;
    open_call(&p, &c);
    set_cache(cache, index, &c);
    for (int side = KVG_K; side <= KVG_V; side++) {
        set(&c, KVG_ROLE_VALUES, (kvg_side)side, rows[side]);
        set(&c, KVG_ROLE_BIAS, (kvg_side)side, layer->append_bias[side]);
    }
    set(&c, KVG_ROLE_POSITIONS, KVG_K, step->positions);
    set(&c, KVG_ROLE_COS_SIN, KVG_K, cache->setup->cos_sin);
    set(&c, KVG_ROLE_SLOTS, KVG_K, step->slots);
    kvg_status s = run(cache, &c);
    return s ? kvg_fail_in(s, "layer %u, append", index) : s;
}

kvg_status ref_cache_decode(const ref_cache *cache, const ref_layer *layer, uint32_t index, const kvg_model_step *step,
                            const void *q, void *out, float *lse)
{
    const kvg_problem p = kvg_model_decode(cache->setup, index, step);
    call c;
    open_call(&p, &c);
    set_cache(cache, index, &c);
    set(&c, KVG_ROLE_Q, KVG_K, q);
    set(&c, KVG_ROLE_BLOCK_TABLE, KVG_K, step->block_table);
    set(&c, KVG_ROLE_LENGTHS, KVG_K, step->lengths);
    set(&c, KVG_ROLE_QUERY_LENGTHS, KVG_K, step->query_lengths);
    set(&c, KVG_ROLE_SINKS, KVG_K, layer->sinks);
    set(&c, KVG_ROLE_OUT, KVG_K, out);
    set(&c, KVG_ROLE_LSE, KVG_K, lse);
    kvg_status s = run(cache, &c);
    return s ? kvg_fail_in(s, "layer %u, decode", index) : s;
}
