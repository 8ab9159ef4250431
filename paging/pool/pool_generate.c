#include "paging/pool/pool_generate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"

static uint64_t below(kvg_pool_generator *g, uint64_t n)
{
    return kvg_rng_below(g->seed, g->stream, g->drawn++, n);
}

static uint32_t draw(kvg_pool_generator *g, kvg_pool_range range)
{
    return (uint32_t)(range.lo + (int64_t)below(g, (uint64_t)(range.hi - range.lo) + 1));
}

static bool chance(kvg_pool_generator *g, unsigned one_in)
{
    return below(g, one_in) == 0;
}

/* --- moods: for a while some operations come more often --- */

enum { MIXED, BURST, WORK, DRAIN, PRESSURE, MOODS };

static const unsigned char favours[MOODS][KVG_POOL_VERBS] = {
    [BURST] = {[KVG_POOL_CREATE] = 8, [KVG_POOL_FORK] = 4, [KVG_POOL_ALLOCATE] = 6},
    [WORK] = {[KVG_POOL_MATERIALISE] = 4, [KVG_POOL_WRITTEN] = 4, [KVG_POOL_APPEND] = 2, [KVG_POOL_LOCK] = 4},
    [DRAIN] = {[KVG_POOL_ERASE] = 6, [KVG_POOL_RELEASE] = 6, [KVG_POOL_UNLOCK] = 6, [KVG_POOL_FREE] = 3},
    [PRESSURE] = {[KVG_POOL_PREEMPT] = 6, [KVG_POOL_EVICT] = 6, [KVG_POOL_MATERIALISE] = 3, [KVG_POOL_TOUCH] = 3},
};

static kvg_pool_verb draw_verb(kvg_pool_generator *g)
{
    unsigned weights[KVG_POOL_VERBS], total = 0;
    if (g->mood_left-- == 0) {
        g->mood = (unsigned)below(g, MOODS);
        g->mood_left = draw(g, g->scenario->burst);
    }
    for (int i = 0; i < KVG_POOL_VERBS; i++) {
        weights[i] = g->scenario->weights[i] * (favours[g->mood][i] ? favours[g->mood][i] : 1);
        total += weights[i];
    }
    uint64_t at = below(g, total);
    int verb = 0;
    while (at >= weights[verb]) at -= weights[verb++];
    return (kvg_pool_verb)verb;
}

static void add_item(kvg_pool_generator *g, kvg_pool_op *op, kvg_pool_item item)
{
    g->items = kvg_model_room(g->items, &g->item_room, op->item_count + 1ull, sizeof *g->items);
    g->items[op->item_count++] = item;
    op->items = g->items;
}

/* --- operations on sequences --- */

typedef bool (*wanted)(const kvg_pool_model *m, const kvg_model_sequence *q);

static bool any(const kvg_pool_model *m, const kvg_model_sequence *q)
{
    (void)m, (void)q;
    return true;
}

static bool holds(const kvg_pool_model *m, const kvg_model_sequence *q)
{
    (void)m;
    return q->state != KVG_SEQUENCE_CACHED;
}

static bool runs(const kvg_pool_model *m, const kvg_model_sequence *q)
{
    (void)m;
    return q->granted > 0;
}

/* Holds a partial tail and has no step running: a fork of it shares the tail. */
static bool has_tail(const kvg_pool_model *m, const kvg_model_sequence *q)
{
    return holds(m, q) && q->granted == 0 && q->cache_len % m->span;
}

/* One of the sequences that `is` wants; NULL if there is none. */
static const kvg_model_sequence *pick(kvg_pool_generator *g, const kvg_pool_model *m, wanted is)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->sequence_count; i++) count += is(m, m->sequences[i]);
    if (count == 0) return NULL;
    uint64_t at = below(g, count);
    for (uint32_t i = 0;; i++) {
        if (is(m, m->sequences[i]) && at-- == 0) return m->sequences[i];
    }
}

/* Ids come from a small range, so that they come again. */
static uint64_t unused_id(kvg_pool_generator *g, const kvg_pool_model *m)
{
    uint64_t id;
    do {
        id = 1 + below(g, 2 * (uint64_t)g->scenario->sequences.hi + 2);
    } while (kvg_pool_model_find(m, id));
    return id;
}

static void draw_create(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    const kvg_pool_scenario *s = g->scenario;
    const bool full = m->sequence_count >= (uint64_t)s->sequences.hi;
    op->verb = KVG_POOL_CREATE;
    op->sequence = full || (m->sequence_count && chance(g, 16)) ? pick(g, m, any)->id : unused_id(g, m);
    op->domain = (uint32_t)below(g, (uint64_t)s->domains.hi);
    op->prompt = (uint32_t)below(g, (uint64_t)s->prompts.hi);
    op->shared = draw(g, s->shared);
    op->tail = draw(g, s->tail);
    if (op->shared + op->tail == 0) op->tail = 1;
    op->seed = below(g, 1 << 16);
}

static void draw_append(kvg_pool_generator *g, const kvg_model_sequence *q, uint32_t count, kvg_pool_op *op)
{
    op->verb = KVG_POOL_APPEND;
    op->sequence = q->id;
    op->count = count;
    op->seed = below(g, 1 << 16);
}

/* Requests for sequences that have something to write; drafts where the scenario has them. */
static void draw_materialise(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    const kvg_pool_scenario *s = g->scenario;
    const uint32_t batch = draw(g, s->batch);
    const uint64_t start = below(g, m->sequence_count);
    op->verb = KVG_POOL_MATERIALISE;
    for (uint32_t i = 0; i < m->sequence_count && op->item_count < batch; i++) {
        const kvg_model_sequence *q = m->sequences[(start + i) % m->sequence_count];
        uint32_t extra = draw(g, s->drafts);
        if (q->granted && !chance(g, 16)) continue;
        if (q->count + extra <= q->cache_len) {
            if (s->drafts.hi == 0) continue;
            extra = 1;
        }
        add_item(g, op, (kvg_pool_item){.id = q->id, .priority = draw(g, s->priorities), .extra = (int32_t)extra,
                                        .max_tokens = draw(g, s->max_tokens)});
    }
    if (op->item_count == 0) draw_append(g, m->sequences[start], draw(g, s->append), op);
}

/* Reports a step; the drafts that were accepted are appended first. */
static void draw_written(kvg_pool_generator *g, const kvg_model_sequence *q, kvg_pool_op *op)
{
    const uint32_t end = q->cache_len + q->granted;
    const uint32_t missing = end > q->count ? end - q->count : 0;
    if (missing && chance(g, 2)) {
        draw_append(g, q, 1 + (uint32_t)below(g, missing), op);
        return;
    }
    op->verb = KVG_POOL_WRITTEN;
    op->sequence = q->id;
    op->over = -(int32_t)missing;
    if (chance(g, 12)) op->over -= (int32_t)below(g, q->granted - missing + 1);
}

static void draw_read(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    const kvg_model_sequence *q = pick(g, m, any);
    op->verb = KVG_POOL_READ;
    op->sequence = q->id;
    op->first = (uint32_t)below(g, q->count + 2ull);
    op->count = (uint32_t)below(g, q->count + 2ull);
    op->rank = (uint32_t)below(g, (uint64_t)m->geometry.cp_size);
}

static void draw_on_one(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_verb verb, kvg_pool_op *op)
{
    const bool ends = verb == KVG_POOL_RELEASE || verb == KVG_POOL_PREEMPT;
    const kvg_model_sequence *q = pick(g, m, ends ? holds : verb == KVG_POOL_FORK ? has_tail : any);
    if (!q) q = pick(g, m, any);
    op->verb = verb;
    op->sequence = q->id;
    if (verb == KVG_POOL_FORK) op->child = unused_id(g, m);
}

static void draw_sequence_op(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    const kvg_pool_verb verb = draw_verb(g);
    const bool full = m->sequence_count >= (uint64_t)g->scenario->sequences.hi;
    const kvg_model_sequence *q;
    if (m->sequence_count == 0 || verb == KVG_POOL_CREATE) {
        draw_create(g, m, op);
        return;
    }
    switch (verb) {
    case KVG_POOL_APPEND:
        q = pick(g, m, any);
        draw_append(g, q, draw(g, g->scenario->append), op);
        break;
    case KVG_POOL_WRITTEN:
        q = pick(g, m, runs);
        if (q) draw_written(g, q, op);
        else draw_materialise(g, m, op);
        break;
    case KVG_POOL_MATERIALISE: draw_materialise(g, m, op); break;
    case KVG_POOL_READ: draw_read(g, m, op); break;
    case KVG_POOL_COMMIT: op->verb = verb; break;
    case KVG_POOL_EVICT:
        op->verb = verb;
        op->count = (uint32_t)below(g, m->pool.cached / 2 + 1ull);
        break;
    default: draw_on_one(g, m, verb == KVG_POOL_FORK && full ? KVG_POOL_ERASE : verb, op); break;
    }
}

/* Spoils an operation on sequences so that, mostly, it must be refused. */
static void spoil(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    switch (op->verb) {
    case KVG_POOL_MATERIALISE: {
        kvg_pool_item *item = &op->items[below(g, op->item_count)];
        switch (below(g, 5)) {
        case 0: item->max_tokens = 0; break;
        case 1: item->extra = -(int32_t)below(g, 64); break;
        case 2: item->extra = (int32_t)(m->geometry.capacity * m->span + (int64_t)below(g, 64)); break;
        case 3: item->id += 1000; break;
        default: add_item(g, op, *item); break;
        }
        break;
    }
    case KVG_POOL_WRITTEN: op->over = chance(g, 2) ? 1 : -(int32_t)below(g, 64); break;
    case KVG_POOL_FORK:
        if (chance(g, 2)) op->child = op->sequence;
        else op->sequence += 1000;
        break;
    case KVG_POOL_READ: op->first += (uint32_t)below(g, 1000); break;
    case KVG_POOL_EVICT: op->count += m->pool.cached; break;
    case KVG_POOL_CREATE: break;
    default: op->sequence += 1000; break;
    }
}

/* --- operations on blocks alone --- */

enum { ANY_BLOCK, FREE_BLOCK, CACHED_BLOCK, ACTIVE_BLOCK, USED_BLOCK };

static bool block_is(const kvg_model_block *b, int state)
{
    switch (state) {
    case FREE_BLOCK: return b->timestamp == 0;
    case CACHED_BLOCK: return b->timestamp && !b->use_count;
    case ACTIVE_BLOCK: return b->use_count > 0;
    case USED_BLOCK: return b->timestamp > 0;
    default: return true;
    }
}

/* Up to `n` different blocks in a state, from a random one on. */
static void add_blocks(kvg_pool_generator *g, const kvg_pool_model *m, int state, uint32_t n, kvg_pool_op *op)
{
    const uint64_t start = below(g, m->pool.total);
    for (uint32_t i = 0; i < m->pool.total && op->item_count < n; i++) {
        const uint32_t id = (uint32_t)((start + i) % m->pool.total);
        if (block_is(&m->pool.block[id], state) && !chance(g, 4)) add_item(g, op, (kvg_pool_item){.id = id});
    }
}

/* References: a run of present lives, then one of earlier ones. */
static void draw_alive(kvg_pool_generator *g, const kvg_pool_model *m, uint32_t n, kvg_pool_op *op)
{
    add_blocks(g, m, USED_BLOCK, (uint32_t)below(g, n + 1ull), op);
    const uint32_t present = op->item_count;
    add_blocks(g, m, ANY_BLOCK, n, op);
    for (uint32_t i = present; i < op->item_count; i++) op->items[i].life = 1 + (uint32_t)below(g, 2);
}

static void draw_block_op(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    const uint32_t n = draw(g, g->scenario->batch);
    const uint32_t room = m->pool.free + m->pool.capacity - m->pool.total;
    op->verb = draw_verb(g);
    switch (op->verb) {
    case KVG_POOL_ALLOCATE: op->count = n < room ? n : room; break;
    case KVG_POOL_EVICT: op->count = n < m->pool.cached ? n : m->pool.cached; break;
    case KVG_POOL_LOCK: add_blocks(g, m, USED_BLOCK, n, op); break;
    case KVG_POOL_UNLOCK:
    case KVG_POOL_TOUCH: add_blocks(g, m, ACTIVE_BLOCK, n, op); break;
    case KVG_POOL_FREE: add_blocks(g, m, CACHED_BLOCK, n, op); break;
    case KVG_POOL_ALIVE: draw_alive(g, m, n, op); break;
    default: break;
    }
}

static void spoil_block_op(kvg_pool_generator *g, const kvg_pool_model *m, kvg_pool_op *op)
{
    if (op->verb == KVG_POOL_ALLOCATE || op->verb == KVG_POOL_EVICT) {
        op->count += m->pool.capacity;
        return;
    }
    if (op->verb == KVG_POOL_BEGIN || op->verb == KVG_POOL_END || op->verb == KVG_POOL_UNDO) return;
    kvg_pool_item item = {.id = below(g, m->pool.total + 2ull), .life = (uint32_t)below(g, KVG_MODEL_LIVES)};
    if (op->item_count && chance(g, 2)) item.id = op->items[below(g, op->item_count)].id;
    add_item(g, op, item);
    const uint64_t at = below(g, op->item_count); /* not always the last */
    const kvg_pool_item last = op->items[op->item_count - 1];
    op->items[op->item_count - 1] = op->items[at];
    op->items[at] = last;
}

/* --- traces --- */

void kvg_pool_generator_next(kvg_pool_generator *g, const kvg_pool_model *model, kvg_pool_op *op)
{
    *op = (kvg_pool_op){0};
    const bool bad = below(g, 1000) < (uint64_t)g->scenario->illegal.hi;
    if (model->blocks_alone) {
        draw_block_op(g, model, op);
        if (bad) spoil_block_op(g, model, op);
    } else {
        draw_sequence_op(g, model, op);
        if (bad) spoil(g, model, op);
    }
}

void kvg_pool_generator_start(kvg_pool_generator *g, const kvg_pool_scenario *scenario, uint64_t seed, uint64_t number,
                              kvg_pool_geometry *geometry)
{
    const uint64_t stream = kvg_hash64(scenario->name, strlen(scenario->name)) + number;
    *g = (kvg_pool_generator){.scenario = scenario, .seed = seed, .stream = stream};
    for (int i = 0; i < KVG_POOL_GEOMETRY_KEYS; i++) {
        kvg_pool_geometry_set(geometry, i, scenario->geometry[i][below(g, scenario->choices[i])]);
    }
}

void kvg_pool_generator_stop(kvg_pool_generator *g)
{
    free(g->items);
    g->items = NULL;
    g->item_room = 0;
}

kvg_status kvg_pool_generate(const kvg_pool_scenario *scenario, uint64_t seed, uint64_t number, kvg_pool_trace *trace)
{
    kvg_pool_generator g;
    kvg_pool_model model;
    kvg_pool_expectation expect = {0};
    *trace = (kvg_pool_trace){.blocks = scenario->blocks};
    kvg_pool_generator_start(&g, scenario, seed, number, &trace->geometry);
    snprintf(trace->name, sizeof trace->name, "%s-%" PRIu64, scenario->name, number);
    kvg_status s = kvg_pool_model_make(&model, &trace->geometry, scenario->blocks);
    if (s) return s;
    for (int64_t i = 0; !s && i < scenario->trace.hi; i++) {
        kvg_pool_op op;
        kvg_pool_generator_next(&g, &model, &op);
        s = kvg_pool_trace_add(trace, &op);
        kvg_pool_model_apply(&model, &op, &expect);
    }
    kvg_pool_model_destroy(&model);
    kvg_pool_expectation_free(&expect);
    kvg_pool_generator_stop(&g);
    if (s) kvg_pool_trace_free(trace);
    return s;
}
