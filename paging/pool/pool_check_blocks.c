#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paging/pool/pool_check.h"

const kvg_pool_rule_text kvg_pool_rules[KVG_RULE_COUNT] = {
    {"I1", "active + cached + free = total, each block in one of the three"},
    {"I2", "use count = locked or active sequences that list the block + deferred unlocks"},
    {"I3", "unique ids are new at every allocation; a free block has none"},
    {"I4", "timestamps differ; the oldest cached blocks are evicted, a sequence's tail first"},
    {"I5", "what a locked or active sequence lists is alive; dead references never verify"},
    {"I6", "allocation takes the lowest free ids, ascending"},
    {"I7", "a match is shorter than the prompt and alive"},
    {"I8", "what is read-only is not written; a partial tail has one holder"},
    {"I9", "data pool = scale pool, block by block"},
    {"I10", "tables are in range; a token has one rank, block and slot"},
    {"window", "what a window can see is held, what it has passed is not"},
    {"shared-write", "a write goes to a block that one sequence holds"},
    {"publish", "an indexed block holds, in every slot, the tokens it stands for"},
    {"tags", "a granted sequence reads back its own history"},
    {"status", "what is legal is done, what is not is refused"},
    {"model", "the state is what the model predicts"},
    {"failure", "a failed operation leaves everything as it was"},
    {"leak", "all host memory is given back"},
    {"crash", "the process lives and answers in time"},
};

enum { POISON = 0x5EED };

bool kvg_pool_broken(kvg_pool_checker *c, kvg_pool_rule rule, const char *format, ...)
{
    const bool doubt = rule == KVG_RULE_MODEL;
    if (doubt && c->blind) return true;
    if (c->broken || (doubt && c->doubted)) return doubt;
    va_list args;
    va_start(args, format);
    vsnprintf(doubt ? c->doubt : c->text, sizeof c->text, format, args);
    va_end(args);
    if (doubt) return c->doubted = true;
    c->rule = rule;
    c->broken = true;
    return false;
}

bool kvg_pool_settle(kvg_pool_checker *c)
{
    if (c->doubted && !c->broken) {
        c->broken = true;
        c->rule = c->failing || c->refused ? KVG_RULE_FAILURE : KVG_RULE_MODEL;
        memcpy(c->text, c->doubt, sizeof c->text);
    }
    return !c->broken;
}

kvg_status kvg_pool_checker_make(kvg_pool_checker *c, kvg_pool_stack *stack, const kvg_pool_model *model)
{
    const uint64_t capacity = model->pool.capacity, slots = capacity * model->span;
    *c = (kvg_pool_checker){.stack = stack, .model = model};
    c->set_room = 16;
    while (c->set_room < 2 * capacity) c->set_room *= 2;
    bool good = true;
    for (int side = 0; side < KVG_POOL_SIDES; side++) {
        good &= (c->before[side] = calloc(capacity, sizeof(kvg_block))) != NULL;
        good &= (c->now[side] = calloc(capacity, sizeof(kvg_block))) != NULL;
        good &= (c->tags[side] = calloc(slots, sizeof(uint64_t))) != NULL;
    }
    good &= (c->holders = calloc(capacity, sizeof *c->holders)) != NULL;
    good &= (c->node_tags = calloc(capacity, sizeof *c->node_tags)) != NULL;
    good &= (c->node_hashes = calloc(capacity, sizeof *c->node_hashes)) != NULL;
    good &= (c->node_seen = calloc(capacity, sizeof *c->node_seen)) != NULL;
    good &= (c->set = calloc(c->set_room, sizeof *c->set)) != NULL;
    if (good) return KVG_OK;
    kvg_pool_checker_destroy(c);
    return kvg_fail(KVG_ERR_MEMORY, "cannot hold the checker of %u blocks", model->pool.capacity);
}

void kvg_pool_checker_destroy(kvg_pool_checker *c)
{
    for (int side = 0; side < KVG_POOL_SIDES; side++) {
        free(c->before[side]);
        free(c->now[side]);
        free(c->tags[side]);
    }
    free(c->holders);
    free(c->scratch_ids);
    free(c->scratch_unique);
    free(c->node_tags);
    free(c->node_hashes);
    free(c->node_seen);
    free(c->set);
    free(c->slots);
    free(c->all.ids);
}

/* --- one pool --- */

static const char *side_name(int side)
{
    return side == KVG_POOL_DATA ? "data" : "scale";
}

/* Adds a number that is not 0 to the set; false if it is there. */
static bool insert(kvg_pool_checker *c, uint64_t x)
{
    const uint32_t mask = c->set_room - 1;
    uint32_t at = (uint32_t)((x * 0x9E3779B97F4A7C15ull) >> 32) & mask;
    while (c->set[at]) {
        if (c->set[at] == x) return false;
        at = (at + 1) & mask;
    }
    c->set[at] = x;
    return true;
}

/* What ended a life empties the block's slots: nothing of them may be read any more. */
static void poison(kvg_pool_checker *c, int side, uint32_t id)
{
    const uint64_t tokens = (uint64_t)c->model->geometry.block_tokens, slots = tokens * c->model->pool.capacity;
    for (int64_t rank = 0; rank < c->model->geometry.cp_size; rank++) {
        for (uint64_t i = 0; i < tokens; i++) c->tags[side][(uint64_t)rank * slots + id * tokens + i] = POISON;
    }
}

static bool check_block(kvg_pool_checker *c, int side, uint32_t id, bool calm)
{
    const kvg_block_pool *view = &c->stack->view[side];
    const char *name = side_name(side);
    kvg_block *b = &c->now[side][id];
    const kvg_block *was = &c->before[side][id];
    const kvg_status s = view->ops->get(view->self, id, b);
    if (!KVG_HOLDS(c, KVG_RULE_COUNTS, s == KVG_OK && b->id == id, "%s block %u: get gives %s, id %u", name, id,
                   kvg_status_name(s), s ? 0 : b->id)) return false;
    const bool in_use = b->use_count > 0, stamped = b->timestamp > 0, has_id = b->unique_id > 0;
    if (!KVG_HOLDS(c, KVG_RULE_LIVES, stamped == has_id && (stamped || !in_use),
                   "%s block %u: use count %u, unique id %" PRIu64 ", timestamp %" PRIu64 " fit no state", name, id,
                   b->use_count, b->unique_id, b->timestamp)) return false;
    if (b->unique_id == was->unique_id) return true;
    poison(c, side, id);
    if (!has_id) return true;
    return KVG_HOLDS(c, KVG_RULE_LIVES, calm || b->unique_id > c->newest[side],
                     "%s block %u: a new life has unique id %" PRIu64 ", %" PRIu64 " was given before", name, id,
                     b->unique_id, c->newest[side]);
}

/* How many blocks exist is the pool's own to say. What the model expects is a doubt: a wrong match changes the number
 * too, and then the match is what is wrong in itself. */
static bool check_counts(kvg_pool_checker *c, int side, kvg_block_counts *n)
{
    const kvg_block_pool *view = &c->stack->view[side];
    const char *name = side_name(side);
    const uint32_t known = c->model->pool.total, capacity = c->model->pool.capacity;
    view->ops->counts(view->self, n);
    if (!KVG_HOLDS(c, KVG_RULE_COUNTS, (uint64_t)n->free + n->cached + n->active == n->total &&
                   n->total <= n->capacity && n->capacity == capacity,
                   "%s pool: %u free + %u cached + %u active, total %u of %u; made for %u", name, n->free, n->cached,
                   n->active, n->total, n->capacity, capacity)) return false;
    c->total[side] = n->total;
    return KVG_HOLDS(c, KVG_RULE_MODEL, n->total == known || (c->failing && n->total > known),
                     "%s pool has %u blocks of %u, expected %u", name, n->total, capacity, known);
}

static bool check_tally(kvg_pool_checker *c, int side, const kvg_block_counts *n)
{
    uint32_t tally[3] = {0};
    for (uint32_t id = 0; id < c->total[side]; id++) {
        const kvg_block *b = &c->now[side][id];
        tally[b->use_count ? 2 : b->timestamp ? 1 : 0]++;
    }
    return KVG_HOLDS(c, KVG_RULE_COUNTS, tally[0] == n->free && tally[1] == n->cached && tally[2] == n->active,
                     "%s pool counts %u free, %u cached, %u active; its blocks are %u, %u, %u", side_name(side),
                     n->free, n->cached, n->active, tally[0], tally[1], tally[2]);
}

/* No two of the blocks share what `of` gives, 0 left out. */
static bool check_distinct(kvg_pool_checker *c, int side, kvg_pool_rule rule, bool stamps)
{
    memset(c->set, 0, c->set_room * sizeof *c->set);
    for (uint32_t id = 0; id < c->total[side]; id++) {
        const kvg_block *b = &c->now[side][id];
        const uint64_t x = stamps ? b->timestamp : b->unique_id;
        if (!KVG_HOLDS(c, rule, x == 0 || insert(c, x), "%s block %u: another block has %s %" PRIu64 " too",
                       side_name(side), id, stamps ? "timestamp" : "unique id", x)) return false;
    }
    return true;
}

/* What was evicted was older than what stayed. */
static bool check_evicted(kvg_pool_checker *c, int side)
{
    uint64_t newest_gone = 0, oldest_kept = UINT64_MAX;
    uint32_t gone = 0, kept = 0;
    for (uint32_t id = 0; id < c->total[side]; id++) {
        const kvg_block *was = &c->before[side][id], *is = &c->now[side][id];
        if (was->timestamp && was->unique_id != is->unique_id && was->timestamp > newest_gone) {
            newest_gone = was->timestamp;
            gone = id;
        }
        if (was->unique_id == is->unique_id && is->timestamp && !is->use_count && is->timestamp < oldest_kept) {
            oldest_kept = is->timestamp;
            kept = id;
        }
    }
    return KVG_HOLDS(c, KVG_RULE_AGES, newest_gone < oldest_kept,
                     "%s block %u of timestamp %" PRIu64 " was evicted, block %u of %" PRIu64 " kept", side_name(side),
                     gone, newest_gone, kept, oldest_kept);
}

/* Behind an allocation no lower id is free. */
static bool check_lowest(kvg_pool_checker *c, int side)
{
    uint32_t lowest_free = KVG_BLOCK_NONE, highest_new = 0;
    for (uint32_t id = c->total[side]; id-- > 0;) {
        const kvg_block *was = &c->before[side][id], *is = &c->now[side][id];
        if (!is->timestamp) lowest_free = id;
        else if (was->unique_id != is->unique_id && id > highest_new) highest_new = id;
    }
    return KVG_HOLDS(c, KVG_RULE_LOWEST, highest_new == 0 || highest_new < lowest_free,
                     "%s block %u was allocated while the lower block %u is free", side_name(side), highest_new,
                     lowest_free);
}

/* The blocks of a pool that are checked: all, or those that the model changed. */
static kvg_id_list scope_of(kvg_pool_checker *c, int side, bool full)
{
    if (!full) return c->model->changed;
    while (c->all.count < c->total[side]) kvg_id_list_add(&c->all, c->all.count);
    return (kvg_id_list){c->all.ids, c->total[side], 0};
}

static bool check_side(kvg_pool_checker *c, int side, const kvg_pool_op *op, bool full, bool calm)
{
    uint64_t newest = c->newest[side];
    kvg_block_counts counts;
    if (!check_counts(c, side, &counts)) return false;
    const kvg_id_list scope = scope_of(c, side, full);
    for (uint32_t i = 0; i < scope.count; i++) {
        if (scope.ids[i] >= c->total[side]) continue;
        if (!check_block(c, side, scope.ids[i], calm)) return false;
        const uint64_t unique_id = c->now[side][scope.ids[i]].unique_id;
        if (unique_id > newest) newest = unique_id;
    }
    c->newest[side] = calm ? 0 : newest;
    if (!full) return true;
    if (!check_tally(c, side, &counts)) return false;
    if (!check_distinct(c, side, KVG_RULE_LIVES, false) || !check_distinct(c, side, KVG_RULE_AGES, true)) return false;
    if (c->total[side] > KVG_POOL_SMALL || c->failing) return true; /* `before` may be older than the operation */
    const bool takes = op->verb == KVG_POOL_MATERIALISE || op->verb == KVG_POOL_ALLOCATE;
    if (takes && !check_lowest(c, side)) return false;
    return !(takes || op->verb == KVG_POOL_EVICT) || calm || check_evicted(c, side);
}

/* --- both pools --- */

static bool check_lockstep(kvg_pool_checker *c, uint32_t id)
{
    const kvg_block *d = &c->now[KVG_POOL_DATA][id], *s = &c->now[KVG_POOL_SCALE][id];
    return KVG_HOLDS(c, KVG_RULE_LOCKSTEP, d->use_count == s->use_count && d->unique_id == s->unique_id &&
                     d->timestamp == s->timestamp,
                     "block %u: data has use count %u, unique id %" PRIu64 ", timestamp %" PRIu64 "; scale %u, %" PRIu64
                     ", %" PRIu64, id, d->use_count, d->unique_id, d->timestamp, s->use_count, s->unique_id,
                     s->timestamp);
}

static bool check_predicted(kvg_pool_checker *c, uint32_t id)
{
    const kvg_block *is = &c->now[KVG_POOL_DATA][id];
    const kvg_model_block *must = &c->model->pool.block[id];
    return KVG_HOLDS(c, KVG_RULE_MODEL, is->use_count == must->use_count && is->unique_id == must->unique_id &&
                     is->timestamp == must->timestamp,
                     "block %u: use count %u, unique id %" PRIu64 ", timestamp %" PRIu64 "; expected %u, %" PRIu64
                     ", %" PRIu64, id, is->use_count, is->unique_id, is->timestamp, must->use_count, must->unique_id,
                     must->timestamp);
}

bool kvg_pool_check_blocks(kvg_pool_checker *c, const kvg_pool_op *op, bool full, bool calm)
{
    const bool both = c->stack->view[KVG_POOL_SCALE].ops != NULL;
    for (int side = 0; side <= (both ? KVG_POOL_SCALE : KVG_POOL_DATA); side++) {
        if (!check_side(c, side, op, full, calm)) return false;
    }
    const kvg_id_list scope = scope_of(c, KVG_POOL_DATA, full);
    for (uint32_t i = 0; i < scope.count; i++) {
        if (both && !check_lockstep(c, scope.ids[i])) return false;
        if (!check_predicted(c, scope.ids[i])) return false;
    }
    return true;
}

void kvg_pool_check_next(kvg_pool_checker *c, bool full)
{
    for (int side = 0; side < KVG_POOL_SIDES; side++) {
        const kvg_id_list scope = scope_of(c, side, full);
        for (uint32_t i = 0; i < scope.count; i++) c->before[side][scope.ids[i]] = c->now[side][scope.ids[i]];
    }
}
