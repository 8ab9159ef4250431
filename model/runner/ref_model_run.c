/* The reference's model runner: opening, one step, reading the pools. */
#include "model/model_run.h"

#include <stdlib.h>
#include <string.h>

#include "model/runner/ref_model_run.h"

/* --- memory of a step --- */

/* `count` elements for each of the rows, and one more: none at all might be NULL. */
static void *array(size_t rows, size_t count, size_t bytes, bool *failed)
{
    void *at = calloc(rows * count + 1, bytes);
    *failed |= !at;
    return at;
}

static kvg_status open_desk(const kvg_model_setup *setup, ref_desk *d)
{
    const kvg_model_config *c = setup->config;
    const size_t rows = setup->max_rows, picks = rows * (c->experts ? c->top_k : 1), routed = c->experts ? picks : 0;
    const size_t queries = (size_t)c->query_heads * c->head_dim, keys = (size_t)c->kv_heads * c->head_dim;
    const size_t width = kvg_dtype_bytes(setup->dtype), number = sizeof(float), index = sizeof(uint32_t);
    bool failed = false;
    *d = (ref_desk){
        .x = array(rows, c->hidden, number, &failed),
        .normed = array(rows, c->hidden, number, &failed),
        .q = array(rows, queries, number, &failed),
        .k = array(rows, keys, number, &failed),
        .v = array(rows, keys, number, &failed),
        .attended = array(rows, queries, number, &failed),
        .added = array(rows, c->hidden, number, &failed),
        .gate = array(picks, c->intermediate, number, &failed),
        .up = array(picks, c->intermediate, number, &failed),
        .gate_up = array(routed, 2 * (size_t)c->intermediate, number, &failed),
        .answers = array(routed, c->hidden, number, &failed),
        .routes = array(rows, c->experts, number, &failed),
        .shares = array(routed, 1, number, &failed),
        .lse = array(rows, c->query_heads, number, &failed),
        .t = {array(rows, queries, width, &failed), array(rows, keys, width, &failed),
              array(rows, keys, width, &failed)},
        .out = array(rows, queries, width, &failed),
        .chosen = array(routed, 1, index, &failed),
        .members = array(routed, 1, index, &failed),
        .places = array(routed, 1, index, &failed),
        .first = array(1, (size_t)c->experts + 1, index, &failed),
        .wide = array(1, c->experts, sizeof *d->wide, &failed),
        .down = array(1, c->experts, sizeof *d->down, &failed),
    };
    return failed ? kvg_fail(KVG_ERR_MEMORY, "no memory for steps of %u rows", setup->max_rows) : KVG_OK;
}

static void close_desk(ref_desk *d)
{
    void *all[] = {d->x, d->normed, d->q, d->k, d->v, d->attended, d->added, d->gate, d->up, d->gate_up, d->answers,
                   d->routes, d->shares, d->lse, d->t[0], d->t[1], d->t[2], d->out, d->chosen, d->members, d->places,
                   d->first, d->wide, d->down};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) free(all[i]);
}

/* --- opening --- */

static void close_model(void *runner)
{
    ref_model *m = runner;
    if (!m) return;
    close_desk(&m->desk);
    ref_cache_close(&m->cache);
    ref_weights_close(&m->weights);
    free(m);
}

static kvg_status open_model(const kvg_model_setup *setup, void **runner)
{
    *runner = NULL;
    kvg_status s = ref_setup_check(setup);
    if (s) return s;
    ref_model *m = calloc(1, sizeof *m);
    if (!m) return kvg_fail(KVG_ERR_MEMORY, "no memory for a runner");
    m->setup = *setup;
    s = ref_cache_open(&m->setup, &m->cache);
    if (!s) s = ref_weights_open(&m->setup, &m->weights);
    if (!s) s = open_desk(&m->setup, &m->desk);
    if (s) close_model(m);
    else *runner = m;
    return s;
}

/* --- a step --- */

static void embed(const ref_model *m, const kvg_model_step *step)
{
    const kvg_model_source *source = &m->setup.source;
    for (uint32_t r = 0; r < step->rows; r++) {
        source->row(source->weights, KVG_WEIGHT_EMBED, 0, (size_t)step->tokens[r],
                    m->desk.x + (size_t)r * m->setup.config->hidden);
    }
}

static void give_logits(const ref_model *m, const kvg_model_step *step)
{
    const kvg_model_config *c = m->setup.config;
    const ref_rows x = {m->desk.x, c->hidden, step->wanted_rows}, normed = {m->desk.normed, c->hidden, NULL};
    const ref_product output = {&m->weights.output, step->wanted, normed, {step->logits, c->vocab, NULL}};
    if (step->wanted == 0) return;
    ref_norm_rows(c, m->weights.final_norm, step->wanted, x, m->desk.normed);
    ref_products_run(&output, 1);
}

static kvg_status run_step(void *runner, const kvg_model_step *step)
{
    ref_model *m = runner;
    kvg_status s = ref_step_check(&m->setup, step);
    if (s) return s;
    for (uint32_t i = 0; i < step->copies; i++) ref_cache_copy(&m->cache, step->copy[i][0], step->copy[i][1]);
    embed(m, step);
    for (uint32_t i = 0; !s && i < m->setup.config->layers; i++) s = ref_layer_run(m, i, step);
    if (!s) give_logits(m, step);
    return s;
}

static kvg_status read_pool(void *runner, kvg_role role, kvg_side side, void *out)
{
    const ref_model *m = runner;
    const int part = role == KVG_ROLE_SCALE_POOL;
    if (role != KVG_ROLE_DATA_POOL && role != KVG_ROLE_SCALE_POOL)
        return kvg_fail(KVG_ERR_INVALID, "%s is no pool", kvg_tensor_name(role, side));
    if (m->cache.bytes[side][part]) memcpy(out, m->cache.pools[side][part], m->cache.bytes[side][part]);
    return KVG_OK;
}

const kvg_model_runner *kvg_reference_model_runner(void)
{
    static const kvg_model_runner runner = {"reference", open_model, close_model, run_step, read_pool};
    return &runner;
}
