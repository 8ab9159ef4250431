/* A materialise of the model, by docs/spec/paging.md section 4, and the one way to do any operation. */
#include <stdlib.h>
#include <string.h>

#include "paging/pool/pool_model.h"

typedef struct step_part {
    kvg_model_sequence *q;
    uint32_t priority, place, context, max_tokens;
    uint32_t need; /* blocks, a copy included */
    bool copies, victim;
} step_part;

typedef struct step {
    kvg_pool_model *m;
    step_part *part; /* in order of priority */
    uint32_t count, room;
    uint32_t *given_up, *copied; /* of each block: holders that are victims, that get a copy instead */
} step;

static uint32_t blocks_for(const kvg_pool_model *m, uint32_t context)
{
    const uint64_t ranks = (uint64_t)m->geometry.cp_size, size = (uint64_t)m->geometry.block_tokens;
    const uint64_t per_rank = (context + ranks - 1) / ranks;
    return (uint32_t)((per_rank + size - 1) / size);
}

static int by_priority(const void *a, const void *b)
{
    const step_part *x = a, *y = b;
    if (x->priority != y->priority) return x->priority < y->priority ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Steps 3 and 4 for one sequence; step 5 is a question that may be asked on a copy. */
static uint32_t resume(kvg_pool_model *m, kvg_model_sequence *q, uint32_t context)
{
    if (kvg_model_holds(q)) return 0;
    kvg_model_cut_dead(m, q);
    return m->geometry.prefix ? kvg_model_take_match(m, q, context) : 0;
}

/* Why a request is refused, as far as its context says: known only after its resume, which is done on a copy. */
static kvg_status foresee(kvg_pool_model *m, const kvg_model_sequence *q, uint32_t context)
{
    kvg_model_sequence copy = *q;
    uint32_t room = 0, room_too = 0;
    copy.ids = kvg_model_room(NULL, &room, q->blocks + 1ull, sizeof *q->ids);
    copy.unique_ids = kvg_model_room(NULL, &room_too, q->blocks + 1ull, sizeof *q->unique_ids);
    copy.block_room = room;
    for (uint32_t i = 0; i < q->blocks; i++) {
        copy.ids[i] = q->ids[i];
        copy.unique_ids[i] = q->unique_ids[i];
    }
    resume(m, &copy, context);
    free(copy.ids);
    free(copy.unique_ids);
    if (context <= copy.cache_len) return KVG_ERR_INVALID;
    return blocks_for(m, context) - copy.holes > m->pool.capacity ? KVG_ERR_EXHAUSTED : KVG_OK;
}

/* Every reason to refuse the batch, as bits: with several, any of them may be given. 0: it is done. */
static unsigned refusals(kvg_pool_model *m, const kvg_pool_op *op)
{
    unsigned reasons = 0;
    for (uint32_t i = 0; i < op->item_count; i++) {
        const kvg_pool_item *item = &op->items[i];
        const kvg_model_sequence *q = kvg_pool_model_find(m, item->id);
        if (!q) {
            reasons |= 1u << KVG_ERR_NOT_FOUND;
            continue;
        }
        if (item->max_tokens == 0) reasons |= 1u << KVG_ERR_INVALID;
        for (uint32_t j = 0; j < i; j++) {
            if (op->items[j].id == item->id) reasons |= 1u << KVG_ERR_INVALID;
        }
        reasons |= 1u << foresee(m, q, kvg_pool_model_context(m, item));
    }
    return reasons & ~1u;
}

/* What a victim gives up; back with `sign` -1. Returns the blocks that nobody else holds: one that is copied in this
 * step is held by its reader until then. */
static uint32_t give_up(step *x, const kvg_model_sequence *q, int sign)
{
    uint32_t room = 0;
    for (uint32_t j = q->holes; kvg_model_holds(q) && j < q->blocks; j++) {
        const uint32_t id = q->ids[j];
        if (sign > 0) x->given_up[id]++;
        room += x->given_up[id] == x->m->pool.block[id].use_count;
        if (sign < 0) x->given_up[id]--;
    }
    return room;
}

/* Another holder that will be left has the block that is to be written. */
static bool must_copy(const step *x, const kvg_model_sequence *q)
{
    const uint32_t entry = q->cache_len / x->m->span;
    if (entry >= q->blocks) return false;
    const uint32_t id = q->ids[entry];
    return x->m->pool.block[id].use_count - x->given_up[id] - x->copied[id] > 1;
}

/* Step 6. Returns how many are served; `victim` is set for those that make room. A sequence that cannot be served makes
 * no victims. */
static uint32_t plan(step *x)
{
    kvg_model_pool *pool = &x->m->pool;
    uint32_t room = pool->free + (pool->capacity - pool->total) + pool->cached, last = x->count, i = 0;
    for (; i < last; i++) {
        step_part *p = &x->part[i];
        const uint32_t want = blocks_for(x->m, p->context), tried = last;
        p->need = want > p->q->blocks ? want - p->q->blocks : 0;
        p->copies = must_copy(x, p->q);
        p->need += p->copies;
        while (p->need > room && last > i + 1) room += give_up(x, x->part[--last].q, 1);
        if (p->need > room) {
            while (last < tried) give_up(x, x->part[last++].q, -1);
            break;
        }
        for (uint32_t v = last; v < tried; v++) x->part[v].victim = kvg_model_holds(x->part[v].q);
        room -= p->need;
        if (p->copies) x->copied[p->q->ids[p->q->cache_len / x->m->span]]++;
    }
    return i;
}

/* Steps 7 and 8. */
static void exchange(step *x, uint32_t served, kvg_id_list *fresh, kvg_pool_expectation *expect)
{
    kvg_model_pool *pool = &x->m->pool;
    uint32_t need = 0;
    for (uint32_t i = x->count; i-- > 0;) {
        if (!x->part[i].victim) continue;
        kvg_model_let_go(x->m, x->part[i].q, true);
        expect->preempted++;
    }
    for (uint32_t i = 0; i < served; i++) need += x->part[i].need;
    const uint32_t room = pool->free + (pool->capacity - pool->total);
    if (need > room) kvg_model_evict(x->m, need - room, &expect->evicted);
    kvg_model_allocate(x->m, need, fresh);
}

/* Step 9 for one that is served. */
static void grant(step *x, step_part *p, const uint32_t *fresh, kvg_sequence_grant *g)
{
    kvg_model_sequence *q = p->q;
    const kvg_model_block *block = x->m->pool.block;
    uint32_t used = 0;
    if (p->copies) {
        const uint32_t entry = q->cache_len / x->m->span;
        g->copy_from = q->ids[entry];
        g->copy_to = fresh[used++];
        g->copy_tokens = q->cache_len % x->m->span;
        kvg_model_unlock(x->m, &g->copy_from, 1, NULL);
        q->ids[entry] = g->copy_to;
        q->unique_ids[entry] = block[g->copy_to].unique_id;
    }
    for (; used < p->need; used++) kvg_model_add_block(q, fresh[used], block[fresh[used]].unique_id);
    q->state = KVG_SEQUENCE_ACTIVE;
    q->granted = p->context - q->cache_len < p->max_tokens ? p->context - q->cache_len : p->max_tokens;
    g->active = true;
    g->first = q->cache_len;
    g->count = q->granted;
    g->read_only = q->cache_len / x->m->span;
}

/* Step 1 and the refusals: a refused batch takes the commit back. */
static unsigned begin_step(kvg_pool_model *m, const kvg_pool_op *op)
{
    const uint32_t unlocks = m->unlocks.count, frees = m->frees.count, count = unlocks + frees;
    kvg_model_block *before = NULL;
    uint32_t room = 0;
    before = kvg_model_room(before, &room, count, sizeof *before);
    for (uint32_t i = 0; i < count; i++) {
        before[i] = m->pool.block[i < unlocks ? m->unlocks.ids[i] : m->frees.ids[i - unlocks]];
    }
    kvg_model_commit(m);
    const unsigned reasons = refusals(m, op);
    if (reasons) {
        m->unlocks.count = unlocks;
        m->frees.count = frees;
        for (uint32_t i = 0; i < count; i++) {
            kvg_model_set(m, i < unlocks ? m->unlocks.ids[i] : m->frees.ids[i - unlocks], before[i]);
        }
    }
    free(before);
    return reasons;
}

static uint32_t *zeros(uint32_t count)
{
    uint32_t room = 0;
    uint32_t *array = kvg_model_room(NULL, &room, count, sizeof *array);
    memset(array, 0, count * sizeof *array);
    return array;
}

static void materialise(kvg_pool_model *m, const kvg_pool_op *op, kvg_pool_expectation *expect)
{
    step x = {.m = m, .count = op->item_count};
    expect->refusals = begin_step(m, op);
    if (expect->refusals) return;
    x.part = kvg_model_room(NULL, &x.room, x.count + 1ull, sizeof *x.part);
    x.given_up = zeros(m->pool.capacity);
    x.copied = zeros(m->pool.capacity);
    expect->grants = kvg_model_room(expect->grants, &expect->grant_room, x.count, sizeof *expect->grants);
    for (uint32_t i = 0; i < x.count; i++) {
        const kvg_pool_item *item = &op->items[i];
        kvg_model_sequence *q = kvg_pool_model_find(m, item->id);
        x.part[i] = (step_part){.q = q, .priority = item->priority, .place = i, .max_tokens = item->max_tokens,
                                .context = kvg_pool_model_context(m, item)};
        const bool rests = !kvg_model_holds(q);
        expect->grants[i] = (kvg_sequence_grant){.sequence = item->id, .copy_from = KVG_BLOCK_NONE,
                                                 .copy_to = KVG_BLOCK_NONE,
                                                 .matched = resume(m, q, x.part[i].context)};
        if (!rests) continue;
        kvg_model_lock(m, q->ids + q->holes, q->blocks - q->holes, NULL);
        q->state = KVG_SEQUENCE_LOCKED;
    }
    qsort(x.part, x.count, sizeof *x.part, by_priority);
    kvg_id_list fresh = {0};
    const uint32_t served = plan(&x);
    exchange(&x, served, &fresh, expect);
    uint32_t *next = fresh.ids;
    for (uint32_t i = 0; i < x.count; i++) {
        step_part *p = &x.part[i];
        if (i < served) {
            grant(&x, p, next, &expect->grants[p->place]);
            next += p->need;
        } else {
            p->q->granted = 0;
            if (kvg_model_holds(p->q)) p->q->state = KVG_SEQUENCE_LOCKED;
        }
    }
    kvg_model_prune(m);
    free(fresh.ids);
    free(x.part);
    free(x.given_up);
    free(x.copied);
}

/* --- any operation --- */

void kvg_pool_model_apply(kvg_pool_model *model, const kvg_pool_op *op, kvg_pool_expectation *expect)
{
    expect->refusals = 0;
    expect->number = expect->published = expect->preempted = expect->windowed = 0;
    expect->ids.count = expect->evicted.count = 0;
    model->changed.count = 0;
    if (model->blocks_alone) kvg_model_apply_blocks(model, op, expect);
    else if (op->verb == KVG_POOL_MATERIALISE) materialise(model, op, expect);
    else kvg_model_apply_sequences(model, op, expect);
}
