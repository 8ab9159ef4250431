#include "paging/pool/pool_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* --- doing an operation --- */

static void set_requests(kvg_pool_runner *r, const kvg_pool_op *op)
{
    uint32_t room = r->grant_room;
    r->requests = kvg_model_room(r->requests, &room, op->item_count, sizeof *r->requests);
    r->grants = kvg_model_room(r->grants, &r->grant_room, op->item_count, sizeof *r->grants);
    for (uint32_t i = 0; i < op->item_count; i++) {
        const kvg_pool_item *item = &op->items[i];
        r->requests[i] = (kvg_sequence_request){item->id, item->priority, kvg_pool_model_context(&r->model, item),
                                                item->max_tokens};
    }
}

static kvg_status do_create(kvg_pool_runner *r, const kvg_pool_op *op)
{
    const kvg_sequence_pool *p = &r->stack.sequences;
    const kvg_prefix_key key = kvg_pool_domain_key(op->domain);
    const uint32_t count = op->shared + op->tail;
    int32_t *tokens = malloc((count + 1ull) * sizeof *tokens);
    if (!tokens) return kvg_fail(KVG_ERR_IO, "no memory for %u tokens", count);
    for (uint32_t i = 0; i < count; i++) tokens[i] = kvg_pool_create_token(&r->model.geometry, op, i);
    const kvg_status s = p->ops->create(p->self, op->sequence, &key, tokens, count);
    free(tokens);
    return s;
}

static kvg_status do_append(kvg_pool_runner *r, const kvg_pool_op *op)
{
    const kvg_sequence_pool *p = &r->stack.sequences;
    int32_t *tokens = malloc((op->count + 1ull) * sizeof *tokens);
    if (!tokens) return kvg_fail(KVG_ERR_IO, "no memory for %u tokens", op->count);
    for (uint32_t i = 0; i < op->count; i++) {
        tokens[i] = kvg_pool_own_token(op->seed, i, r->model.geometry.vocabulary);
    }
    const kvg_status s = p->ops->append_tokens(p->self, op->sequence, tokens, op->count);
    free(tokens);
    return s;
}

/* Eviction from outside: both pools, and the index is told. */
static kvg_status do_evict(kvg_pool_runner *r, uint32_t n)
{
    const kvg_block_pool *data = &r->stack.blocks[KVG_POOL_DATA], *scale = &r->stack.blocks[KVG_POOL_SCALE];
    kvg_status s = data->ops->evict(data->self, n, r->ids.ids);
    if (s) return s;
    r->ids.count = n;
    if (scale->ops) s = scale->ops->evict(scale->self, n, NULL);
    if (!s && r->stack.prefix.ops) {
        s = r->stack.prefix_gate.ops.verify(&r->stack.prefix_gate, r->ids.ids, n, NULL);
    }
    return s;
}

static kvg_status do_sequence_op(kvg_pool_runner *r, const kvg_pool_op *op)
{
    const kvg_sequence_pool *p = &r->stack.sequences;
    switch (op->verb) {
    case KVG_POOL_CREATE: return do_create(r, op);
    case KVG_POOL_APPEND: return do_append(r, op);
    case KVG_POOL_MATERIALISE: return p->ops->materialise(p->self, r->requests, op->item_count, r->grants);
    case KVG_POOL_WRITTEN: return p->ops->written(p->self, op->sequence, kvg_pool_model_reported(&r->model, op));
    case KVG_POOL_RELEASE: return p->ops->release(p->self, op->sequence);
    case KVG_POOL_PREEMPT: return p->ops->preempt(p->self, op->sequence);
    case KVG_POOL_FORK: return p->ops->fork(p->self, op->sequence, op->child);
    case KVG_POOL_ERASE: return p->ops->erase(p->self, op->sequence);
    case KVG_POOL_COMMIT: return p->ops->commit(p->self);
    case KVG_POOL_VERIFY: return p->ops->verify(p->self, op->sequence, &r->number);
    case KVG_POOL_EVICT: return do_evict(r, op->count);
    default: return KVG_OK;
    }
}

static kvg_status do_block_op(kvg_pool_runner *r, const kvg_pool_op *op)
{
    const kvg_block_pool *p = &r->stack.blocks[KVG_POOL_DATA];
    uint32_t ids[KVG_POOL_MAX_ITEMS];
    uint64_t unique_ids[KVG_POOL_MAX_ITEMS];
    const uint32_t n = op->item_count;
    for (uint32_t i = 0; i < n; i++) {
        ids[i] = (uint32_t)op->items[i].id;
        unique_ids[i] = kvg_pool_model_life(&r->model, &op->items[i]);
    }
    switch (op->verb) {
    case KVG_POOL_ALLOCATE:
        r->ids.count = op->count < r->model.pool.capacity ? op->count : r->model.pool.capacity;
        return p->ops->allocate(p->self, op->count, r->ids.ids);
    case KVG_POOL_LOCK: return p->ops->lock(p->self, ids, n, &r->number);
    case KVG_POOL_UNLOCK: return p->ops->unlock(p->self, ids, n, &r->number);
    case KVG_POOL_FREE: return p->ops->free(p->self, ids, n);
    case KVG_POOL_EVICT:
        r->ids.count = op->count < r->model.pool.capacity ? op->count : r->model.pool.capacity;
        return p->ops->evict(p->self, op->count, r->ids.ids);
    case KVG_POOL_TOUCH: return p->ops->touch(p->self, ids, n);
    case KVG_POOL_ALIVE: return p->ops->verify(p->self, ids, unique_ids, n, &r->number);
    case KVG_POOL_BEGIN:
        if (!r->model.open) p->ops->begin(p->self);
        return KVG_OK;
    case KVG_POOL_END:
        if (r->model.open) p->ops->end(p->self);
        return KVG_OK;
    case KVG_POOL_UNDO:
        if (r->model.open) p->ops->undo(p->self);
        return KVG_OK;
    default: return KVG_OK;
    }
}

static kvg_status perform(kvg_pool_runner *r, const kvg_pool_op *op)
{
    r->number = 0;
    r->ids.count = 0;
    return r->blocks ? do_block_op(r, op) : do_sequence_op(r, op);
}

/* --- comparing what it gave --- */

static bool same_grant(const kvg_sequence_grant *a, const kvg_sequence_grant *b)
{
    return a->sequence == b->sequence && a->active == b->active && a->first == b->first && a->count == b->count &&
           a->read_only == b->read_only && a->matched == b->matched && a->copy_from == b->copy_from &&
           a->copy_to == b->copy_to && a->copy_tokens == b->copy_tokens;
}

static bool check_grant_predicted(kvg_pool_runner *r, const kvg_sequence_grant *is, const kvg_sequence_grant *must)
{
    return KVG_HOLDS(&r->checker, KVG_RULE_MODEL, same_grant(is, must),
                     "grant of sequence %" PRIu64 ": active %d, tokens %u + %u, %u read-only, %u matched, copy %u to "
                     "%u (%u tokens); expected %d, %u + %u, %u, %u, %u to %u (%u)", must->sequence, is->active,
                     is->first, is->count, is->read_only, is->matched, is->copy_from, is->copy_to, is->copy_tokens,
                     must->active, must->first, must->count, must->read_only, must->matched, must->copy_from,
                     must->copy_to, must->copy_tokens);
}

static bool check_result(kvg_pool_runner *r, const kvg_pool_op *op)
{
    kvg_pool_checker *c = &r->checker;
    const kvg_pool_expectation *e = &r->expect;
    if (!KVG_HOLDS(c, KVG_RULE_MODEL, r->number == e->number, "%s gives %u, expected %u", kvg_pool_verb_name(op->verb),
                   r->number, e->number)) return false;
    for (uint32_t i = 0; i < e->ids.count; i++) {
        if (!KVG_HOLDS(c, KVG_RULE_MODEL, r->ids.ids[i] == e->ids.ids[i],
                       "%s: block %u as number %u, expected %u", kvg_pool_verb_name(op->verb), r->ids.ids[i], i,
                       e->ids.ids[i])) return false;
    }
    for (uint32_t i = 0; op->verb == KVG_POOL_MATERIALISE && i < op->item_count; i++) {
        if (!check_grant_predicted(r, &r->grants[i], &e->grants[i])) return false;
    }
    return true;
}

/* The three tables that may be read at any place: refused past the end, else what the model knows. */
static bool check_read(kvg_pool_runner *r, const kvg_pool_op *op)
{
    const kvg_sequence_pool *p = &r->stack.sequences;
    const kvg_model_sequence *q = kvg_pool_model_find(&r->model, op->sequence);
    const uint32_t n = op->count < KVG_POOL_MAX_TOKENS ? op->count : KVG_POOL_MAX_TOKENS;
    const uint64_t end = (uint64_t)op->first + n;
    uint64_t *room = malloc((n + 1ull) * sizeof *room);
    if (!room) return true;
    const struct {
        const char *name;
        uint64_t limit;
        kvg_status status;
    } reads[] = {
        {"table", q ? q->blocks : 0, p->ops->table(p->self, op->sequence, op->first, n, NULL, room)},
        {"slots", q ? (uint64_t)q->blocks * r->model.span : 0,
         p->ops->slots(p->self, op->sequence, op->rank, op->first, n, (int64_t *)room)},
        {"tokens", q ? q->count : 0, p->ops->tokens(p->self, op->sequence, op->first, n, (int32_t *)room)},
    };
    bool good = true;
    for (int i = 0; good && i < 3; i++) {
        const kvg_status must = !q ? KVG_ERR_NOT_FOUND : end <= reads[i].limit ? KVG_OK : KVG_ERR_INVALID;
        good = KVG_HOLDS(&r->checker, KVG_RULE_STATUS, reads[i].status == must,
                         "%s of sequence %" PRIu64 ", %u from %u on: %s, expected %s", reads[i].name, op->sequence, n,
                         op->first, kvg_status_name(reads[i].status), kvg_status_name(must));
    }
    for (uint32_t i = 0; good && q && end <= q->count && i < n; i++) {
        good = KVG_HOLDS(&r->checker, KVG_RULE_MODEL, ((int32_t *)room)[i] == q->tokens[op->first + i],
                         "sequence %" PRIu64 ": token %u is not the one given", op->sequence, op->first + i);
    }
    if (good && q && end <= reads[1].limit) good = kvg_pool_check_slots(&r->checker, q, op->first, n);
    free(room);
    return good;
}

/* --- one operation --- */

static bool check_all(kvg_pool_runner *r, const kvg_pool_op *op, bool full, bool calm)
{
    kvg_pool_checker *c = &r->checker;
    if (!kvg_pool_check_blocks(c, op, full, calm)) return false;
    return r->blocks || kvg_pool_check_sequences(c, op, full);
}

static bool wants_full(const kvg_pool_runner *r)
{
    return r->model.pool.total <= KVG_POOL_SMALL || r->done % KVG_POOL_FULL_EVERY == 0;
}

/* The operation with something made to fail: an error, and all as before. True if it failed as it should, or if there
 * was nothing to fail (*happened false): then it is done already. */
static bool step_fault(kvg_pool_runner *r, const kvg_pool_op *op, bool *happened, kvg_status *status)
{
    kvg_pool_checker *c = &r->checker;
    kvg_pool_stack_arm(&r->stack, op->fault);
    *status = perform(r, op);
    *happened = r->stack.fired;
    if (!*happened) return true;
    r->totals->faults++;
    const kvg_status must = op->fault.kind == KVG_POOL_FAULT_REFUSE ? KVG_ERR_EXHAUSTED : KVG_ERR_MEMORY;
    if (!KVG_HOLDS(c, KVG_RULE_FAILURE, *status == must, "%s: %s while a %s fault was injected, expected %s",
                   kvg_pool_verb_name(op->verb), kvg_status_name(*status), kvg_pool_fault_names[op->fault.kind],
                   kvg_status_name(must))) return false;
    r->model.changed.count = 0;
    c->failing = true;
    const bool good = check_all(r, op, true, false) && kvg_pool_settle(c);
    c->failing = false;
    return good;
}

static bool check_granted(kvg_pool_runner *r, const kvg_pool_op *op)
{
    if (op->verb != KVG_POOL_MATERIALISE) return true;
    for (uint32_t i = 0; i < op->item_count; i++) {
        if (r->grants[i].active && r->grants[i].copy_tokens) kvg_pool_copy(&r->checker, &r->grants[i]);
    }
    return kvg_pool_check_grants(&r->checker, r->grants, op->item_count);
}

static void count(kvg_pool_runner *r, const kvg_pool_op *op)
{
    kvg_pool_totals *t = r->totals;
    const kvg_pool_expectation *e = &r->expect;
    t->operations++;
    t->refused += e->refusals != 0;
    if (e->refusals) return;
    t->evictions += e->evicted.count + (op->verb == KVG_POOL_EVICT ? op->count : 0);
    t->preemptions += e->preempted + (op->verb == KVG_POOL_PREEMPT);
    t->published += e->published;
    t->forks += op->verb == KVG_POOL_FORK;
    t->windowed += e->windowed;
    for (uint32_t i = 0; op->verb == KVG_POOL_MATERIALISE && i < op->item_count; i++) {
        t->matches += e->grants[i].matched > 0;
        t->matched_blocks += e->grants[i].matched;
        t->copies += e->grants[i].copy_tokens > 0;
    }
}

static const char *first_status(unsigned statuses)
{
    int s = 0;
    while (!(statuses >> s & 1)) s++;
    return kvg_status_name((kvg_status)s);
}

static bool step(kvg_pool_runner *r, const kvg_pool_op *op)
{
    kvg_pool_checker *c = &r->checker;
    kvg_sequence_counts waiting = {0};
    if (!r->blocks) r->stack.sequences.ops->counts(r->stack.sequences.self, &waiting);
    bool done = false, happened = false;
    kvg_status status = KVG_OK;
    c->let_go = NULL;
    if (op->verb == KVG_POOL_MATERIALISE) set_requests(r, op);
    if (op->verb == KVG_POOL_RELEASE || op->verb == KVG_POOL_PREEMPT) {
        kvg_sequence_info info;
        const kvg_sequence_pool *p = &r->stack.sequences;
        const bool held = !p->ops->get(p->self, op->sequence, &info) && info.state != KVG_SEQUENCE_CACHED;
        if (held) c->let_go = kvg_pool_model_find(&r->model, op->sequence);
    }
    if (op->verb == KVG_POOL_WRITTEN) {
        const kvg_model_sequence *q = kvg_pool_model_find(&r->model, op->sequence);
        if (q && !kvg_pool_write(c, q, kvg_pool_model_reported(&r->model, op))) return false;
    }
    if (op->fault.kind && (r->blocks || op->verb != KVG_POOL_EVICT)) {
        if (!step_fault(r, op, &happened, &status)) return false;
        done = !happened;
    }
    if (!done) {
        kvg_pool_stack_arm(&r->stack, (kvg_pool_fault){0});
        status = perform(r, op);
    }
    kvg_pool_model_apply(&r->model, op, &r->expect);
    const unsigned must = r->expect.refusals ? r->expect.refusals : 1u << KVG_OK;
    if (!KVG_HOLDS(c, KVG_RULE_STATUS, must >> status & 1, "%s: %s%s%s; expected %s", kvg_pool_verb_name(op->verb),
                   kvg_status_name(status), status ? ": " : "", status ? kvg_error_text() : "",
                   first_status(must))) return false;
    c->refused = status != KVG_OK;
    const bool full = wants_full(r), calm = op->verb == KVG_POOL_UNDO || waiting.pending_frees > 0;
    if (!check_all(r, op, full, calm)) return false;
    if (op->verb == KVG_POOL_READ && !check_read(r, op)) return false;
    if (status == KVG_OK && (!check_granted(r, op) || !check_result(r, op))) return false;
    if (!kvg_pool_settle(c)) return false;
    kvg_pool_check_next(c, full);
    count(r, op);
    return true;
}

static bool conclude(kvg_pool_runner *r)
{
    const kvg_pool_checker *c = &r->checker;
    if (!c->broken) return true;
    if (c->blind && c->rule == KVG_RULE_STATUS) return false;
    *r->verdict = (kvg_pool_verdict){.failed = true, .rule = c->rule, .op = r->done};
    memcpy(r->verdict->text, c->text, sizeof r->verdict->text);
    return false;
}

bool kvg_pool_runner_step(kvg_pool_runner *r, const kvg_pool_op *op)
{
    step(r, op);
    kvg_pool_settle(&r->checker);
    if (!conclude(r)) return false;
    r->done++;
    return true;
}

/* --- a trace --- */

kvg_status kvg_pool_runner_start(kvg_pool_runner *r, const kvg_pool_backend *backend,
                                 const kvg_pool_geometry *geometry, bool blocks, const kvg_pool_defect *defect,
                                 bool blind, kvg_pool_totals *totals, kvg_pool_verdict *verdict)
{
    memset(r, 0, sizeof *r);
    r->blocks = blocks;
    r->totals = totals;
    r->verdict = verdict;
    *verdict = (kvg_pool_verdict){0};
    kvg_status s = kvg_pool_model_make(&r->model, geometry, blocks);
    if (s) return s;
    s = kvg_pool_checker_make(&r->checker, &r->stack, &r->model);
    if (!s) {
        s = kvg_pool_stack_make(&r->stack, backend, geometry, blocks, defect ? defect->install : NULL);
        if (s) kvg_pool_checker_destroy(&r->checker);
    }
    if (s) {
        kvg_pool_model_destroy(&r->model);
        return s;
    }
    r->checker.blind = blind;
    r->ids.ids = kvg_model_room(NULL, &r->ids.room, r->model.pool.capacity, sizeof *r->ids.ids);
    totals->traces++;
    return KVG_OK;
}

void kvg_pool_runner_stop(kvg_pool_runner *r)
{
    kvg_pool_stack_destroy(&r->stack);
    if (!r->checker.broken) {
        (void)KVG_HOLDS(&r->checker, KVG_RULE_LEAK, r->stack.live == 0, "%zu allocations are not given back",
                        r->stack.live);
        conclude(r);
    }
    for (int i = 0; i < KVG_RULE_COUNT; i++) r->totals->evaluated[i] += r->checker.evaluated[i];
    kvg_pool_checker_destroy(&r->checker);
    kvg_pool_model_destroy(&r->model);
    kvg_pool_expectation_free(&r->expect);
    free(r->requests);
    free(r->grants);
    free(r->ids.ids);
}

kvg_status kvg_pool_run_trace(const kvg_pool_trace *trace, const kvg_pool_backend *backend,
                              const kvg_pool_defect *defect, bool blind, kvg_pool_totals *totals,
                              kvg_pool_verdict *verdict)
{
    kvg_pool_runner r;
    kvg_status s = kvg_pool_runner_start(&r, backend, &trace->geometry, trace->blocks, defect, blind, totals, verdict);
    if (s) return s;
    for (size_t i = 0; i < trace->op_count && kvg_pool_runner_step(&r, &trace->ops[i]);) i++;
    kvg_pool_runner_stop(&r);
    return KVG_OK;
}

void kvg_pool_totals_add(kvg_pool_totals *sum, const kvg_pool_totals *part)
{
    uint64_t *to = (uint64_t *)sum;
    const uint64_t *from = (const uint64_t *)part;
    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++) to[i] += from[i];
}
