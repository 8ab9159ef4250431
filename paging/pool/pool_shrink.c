/* Delta debugging: leave out, halve, simplify, as long as the same rule breaks. */
#include "paging/pool/pool_shrink.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ATTEMPTS = 20000 };

typedef struct search {
    kvg_pool_trial *trial;
    kvg_pool_trace *best;      /* breaks the rule */
    kvg_pool_rule rule;
    kvg_pool_verdict *verdict; /* of `best` */
    kvg_status status;
    uint64_t last;             /* attempt number at which the search ends */
} search;

/* Takes `candidate` over if it breaks the same rule; frees what is not kept. */
static bool accept(search *x, kvg_pool_trace *candidate)
{
    kvg_pool_verdict verdict = {0};
    if (!x->status && x->trial->attempts < x->last && candidate->op_count > 0) {
        x->status = kvg_pool_try(x->trial, candidate, NULL, &verdict);
    }
    if (x->status || !verdict.failed || verdict.rule != x->rule) {
        kvg_pool_trace_free(candidate);
        return false;
    }
    if (verdict.op + 1 < candidate->op_count) { /* what comes after the failure says nothing */
        kvg_pool_trace_remove(candidate, verdict.op + 1, candidate->op_count - verdict.op - 1);
    }
    kvg_pool_trace_free(x->best);
    *x->best = *candidate;
    *x->verdict = verdict;
    return true;
}

static bool copy(search *x, kvg_pool_trace *candidate)
{
    if (!x->status) x->status = kvg_pool_trace_copy(x->best, candidate);
    return !x->status;
}

static bool without_ops(search *x, size_t first, size_t count)
{
    kvg_pool_trace candidate;
    if (!copy(x, &candidate)) return false;
    kvg_pool_trace_remove(&candidate, first, count);
    return accept(x, &candidate);
}

/* Runs of operations, the long ones first, from the end: later ones depend on earlier ones. */
static bool shrink_ops(search *x)
{
    bool changed = false;
    for (size_t run = (x->best->op_count + 1) / 2; run > 0; run /= 2) {
        for (size_t end = x->best->op_count; end >= run && !x->status;) {
            if (end > x->best->op_count) end = x->best->op_count;
            if (end < run) break;
            if (without_ops(x, end - run, run)) changed = true;
            end = end > run ? end - run : 0;
        }
    }
    return changed;
}

static bool without_item(search *x, size_t op, uint32_t item)
{
    kvg_pool_trace candidate;
    if (!copy(x, &candidate)) return false;
    kvg_pool_op *o = &candidate.ops[op];
    memmove(o->items + item, o->items + item + 1, (o->item_count - item - 1) * sizeof *o->items);
    o->item_count--;
    return accept(x, &candidate);
}

static bool shrink_items(search *x)
{
    bool changed = false;
    for (size_t i = x->best->op_count; i-- > 0;) {
        for (uint32_t j = i < x->best->op_count ? x->best->ops[i].item_count : 0; j-- > 0;) {
            if (i < x->best->op_count && j < x->best->ops[i].item_count) changed |= without_item(x, i, j);
        }
    }
    return changed;
}

/* --- numbers --- */

enum { OP_NUMBERS = 9, ITEM_NUMBERS = 4 };

/* Number `which` of an operation: its own, then those of its items; false if there is none. */
static bool get_number(kvg_pool_op *op, uint32_t which, int64_t *value)
{
    if (which < OP_NUMBERS) {
        const int64_t own[OP_NUMBERS] = {op->shared, op->tail,  op->count,  op->over,          op->first,
                                         op->domain, op->prompt, op->rank, (int64_t)op->seed};
        *value = own[which];
        return true;
    }
    const uint32_t item = (which - OP_NUMBERS) / ITEM_NUMBERS;
    if (item >= op->item_count) return false;
    const kvg_pool_item *it = &op->items[item];
    const int64_t numbers[ITEM_NUMBERS] = {it->extra, (int64_t)it->max_tokens - 1, it->priority, it->life};
    *value = numbers[(which - OP_NUMBERS) % ITEM_NUMBERS];
    return true;
}

static void set_number(kvg_pool_op *op, uint32_t which, int64_t value)
{
    if (which < OP_NUMBERS) {
        switch (which) {
        case 0: op->shared = (uint32_t)value; break;
        case 1: op->tail = (uint32_t)value; break;
        case 2: op->count = (uint32_t)value; break;
        case 3: op->over = (int32_t)value; break;
        case 4: op->first = (uint32_t)value; break;
        case 5: op->domain = (uint32_t)value; break;
        case 6: op->prompt = (uint32_t)value; break;
        case 7: op->rank = (uint32_t)value; break;
        default: op->seed = (uint64_t)value; break;
        }
        return;
    }
    kvg_pool_item *it = &op->items[(which - OP_NUMBERS) / ITEM_NUMBERS];
    switch ((which - OP_NUMBERS) % ITEM_NUMBERS) {
    case 0: it->extra = (int32_t)value; break;
    case 1: it->max_tokens = (uint32_t)(value + 1); break;
    case 2: it->priority = (uint32_t)value; break;
    default: it->life = (uint32_t)value; break;
    }
}

static bool with_number(search *x, size_t op, uint32_t which, int64_t value)
{
    kvg_pool_trace candidate;
    if (!copy(x, &candidate)) return false;
    set_number(&candidate.ops[op], which, value);
    return accept(x, &candidate);
}

/* Each number nearer to 0: at once, by half, by one. */
static bool shrink_numbers(search *x)
{
    bool changed = false;
    for (size_t i = 0; i < x->best->op_count && !x->status; i++) {
        int64_t value;
        for (uint32_t n = 0; i < x->best->op_count && get_number(&x->best->ops[i], n, &value); n++) {
            while (value != 0 && !x->status) {
                const int64_t nearer[] = {0, value / 2, value > 0 ? value - 1 : value + 1};
                int k = 0;
                while (k < 3 && !with_number(x, i, n, nearer[k])) k++;
                if (k == 3 || i >= x->best->op_count) break;
                changed = true;
                value = nearer[k];
            }
        }
    }
    return changed;
}

/* --- geometry --- */

static bool with_key(search *x, int key, int64_t value)
{
    kvg_pool_trace candidate;
    if (!copy(x, &candidate)) return false;
    kvg_pool_geometry_set(&candidate.geometry, key, value);
    if (kvg_pool_geometry_check(&candidate.geometry)) {
        kvg_pool_trace_free(&candidate);
        return false;
    }
    return accept(x, &candidate);
}

static bool shrink_geometry(search *x)
{
    bool changed = false;
    for (int i = 0; i < KVG_POOL_GEOMETRY_KEYS; i++) {
        const int64_t simplest = kvg_pool_geometry_keys[i].simplest;
        for (int64_t value = kvg_pool_geometry_get(&x->best->geometry, i); value != simplest && !x->status;) {
            const int64_t nearer[] = {simplest, value + (simplest - value) / 2, value + (simplest > value ? 1 : -1)};
            int k = 0;
            while (k < 3 && (nearer[k] == value || !with_key(x, i, nearer[k]))) k++;
            if (k == 3) break;
            changed = true;
            value = nearer[k];
        }
    }
    return changed;
}

kvg_status kvg_pool_shrink(kvg_pool_trial *trial, kvg_pool_trace *trace, kvg_pool_verdict *verdict)
{
    search x = {.trial = trial, .best = trace, .verdict = verdict, .last = trial->attempts + MAX_ATTEMPTS};
    x.status = kvg_pool_try(trial, trace, NULL, verdict);
    if (x.status) return x.status;
    if (!verdict->failed) return kvg_fail(KVG_ERR_INVALID, "the trace breaks no rule when it is run again");
    x.rule = verdict->rule;
    if (verdict->op + 1 < trace->op_count) {
        kvg_pool_trace_remove(trace, verdict->op + 1, trace->op_count - verdict->op - 1);
    }
    bool changed = true;
    while (changed && !x.status) {
        changed = shrink_ops(&x);
        changed |= shrink_items(&x);
        changed |= shrink_geometry(&x);
        changed |= shrink_numbers(&x);
    }
    snprintf(trace->violation, sizeof trace->violation, "%s", kvg_pool_rules[x.rule].name);
    return x.status;
}
