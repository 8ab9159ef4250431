#include "paging/pool/pool_audit.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "paging/pool/pool_audit_state.h"

const kvg_audit_rule_text kvg_audit_rules[KVG_AUDIT_RULES] = {
#define AUDIT_RULE(id, name, sentence) {#id, sentence},
#include "paging/pool/pool_audit_rules.def"
#undef AUDIT_RULE
};

const char *const kvg_audit_event_words[KVG_AUDIT_EVENTS] = {
#define AUDIT_EVENT(name, word, needed, others) #word,
#include "paging/pool/pool_audit_events.def"
#undef AUDIT_EVENT
};

/* --- what the event says --- */

static const kvg_audit_value *value_of(const kvg_audit *a, kvg_audit_field field)
{
    return &a->event->values[field];
}

/* A rule is broken at a block, or at KVG_AUDIT_NO_BLOCK; the text says what is so instead. */
static void KVG_PRINTF(4, 5) broke(kvg_audit *a, kvg_audit_rule rule, int64_t id, const char *format, ...)
{
    kvg_audit_violation v = {.rule = rule, .line = a->event->line, .event = kvg_audit_event_words[a->event->kind],
                             .sequence = value_of(a, KVG_AUDIT_FIELD_SEQUENCE)->text, .block = id};
    va_list args;
    va_start(args, format);
    vsnprintf(v.text, sizeof v.text, format, args);
    va_end(args);
    a->totals.violations++;
    a->totals.broken[rule]++;
    if (a->report.see) a->report.see(a->report.context, &v);
}

/* ... of a block, with what it is instead. */
static void broke_state(kvg_audit *a, kvg_audit_rule rule, uint32_t id)
{
    const pool_block *b = &a->blocks[id];
    const int state = pool_state(b);
    if (b->line == 0) broke(a, rule, id, "never used");
    else if (state == POOL_HELD) broke(a, rule, id, "held by %" PRIu32 " since line %" PRIu64, b->holders, b->line);
    else broke(a, rule, id, "%s since line %" PRIu64, pool_state_names[state], b->line);
}

static bool in_pool(kvg_audit *a, int64_t id)
{
    const uint32_t host = a->head.host_blocks;
    if (id >= 0 && id < pool_all_blocks(a)) return true;
    if (host) broke(a, KVG_AUDIT_POOL, id, "the pool has %" PRIu32 " blocks, the host %" PRIu32, a->head.blocks, host);
    else broke(a, KVG_AUDIT_POOL, id, "the pool has %" PRIu32 " blocks", a->head.blocks);
    return false;
}

/* The block at a place of the event's list; NULL if rule A1 or A2 leaves nothing to do with it. */
static pool_block *listed(kvg_audit *a, size_t i, uint32_t *id)
{
    const int64_t number = value_of(a, KVG_AUDIT_FIELD_BLOCKS)->numbers[i];
    if (!in_pool(a, number)) return NULL;
    *id = (uint32_t)number;
    pool_block *b = &a->blocks[*id];
    if (b->named == a->totals.events) {
        broke(a, KVG_AUDIT_ONCE, *id, "the list names it again");
        return NULL;
    }
    b->named = a->totals.events;
    return b;
}

/* The number of the event's sequence; 0 if it holds nothing. */
static uint32_t event_sequence(const kvg_audit *a)
{
    return pool_name_find(&a->sequences, value_of(a, KVG_AUDIT_FIELD_SEQUENCE)->text);
}

/* Rule B4 of a block that `allocate` or `evict` takes; it is still in its state. */
static void take(kvg_audit *a, uint32_t id, pool_taken *taken)
{
    int64_t tail;
    pool_order_take(a, id, taken, &tail);
    if (!a->head.tail_first || tail < 0) return;
    broke(a, KVG_AUDIT_TAIL_FIRST, id, "block %" PRId64 " stands behind it in the list, and stays cached", tail);
}

/* Rules B1 to B3 of all blocks that an event has taken. */
static void check_order(kvg_audit *a, const pool_taken *taken)
{
    const kvg_audit_head *head = &a->head;
    const uint64_t free = a->counts[POOL_FREE];
    const int64_t lowest = head->lowest_first && taken->highest >= 0 ? pool_order_lowest(a) : -1;
    const int64_t oldest = head->oldest_first && taken->youngest >= 0 ? pool_order_oldest(a) : -1;
    if (lowest >= 0 && lowest < taken->highest)
        broke(a, KVG_AUDIT_LOWEST_FIRST, taken->highest, "block %" PRId64 " stays free", lowest);
    if (head->free_first && a->event->kind == KVG_AUDIT_EVENT_ALLOCATE && taken->youngest >= 0 && free)
        broke(a, KVG_AUDIT_FREE_FIRST, taken->youngest, "it was cached, and %" PRIu64 " blocks stay free", free);
    if (oldest >= 0 && a->places[oldest].event < a->places[taken->youngest].event)
        broke(a, KVG_AUDIT_OLDEST_FIRST, taken->youngest, "block %" PRId64 " was given up before it, at line %" PRIu64
              ", and stays cached", oldest, a->blocks[oldest].line);
}

/* --- events --- */

static kvg_status on_allocate(kvg_audit *a)
{
    uint32_t owner = event_sequence(a), id;
    pool_taken taken;
    pool_order_begin(a, &taken);
    for (size_t i = 0; i < value_of(a, KVG_AUDIT_FIELD_BLOCKS)->count; i++) {
        pool_block *b = listed(a, i, &id);
        if (!b) continue;
        if (pool_holding_find(a, owner, id)) {
            broke_state(a, KVG_AUDIT_ONCE, id);
            continue;
        }
        if (b->holders) {
            broke_state(a, KVG_AUDIT_ALLOCATE_HELD, id);
        } else if (b->stored && !a->head.evicts_on_allocate) {
            broke(a, KVG_AUDIT_ALLOCATE_CACHED, id, "cached under hash %.60s since line %" PRIu64,
                  pool_content_at(a, b->stored)->name, b->line);
        }
        take(a, id, &taken);
        pool_become(a, id, b->holders, 0);
        kvg_status s = pool_hold(a, &owner, id);
        if (s) return s;
        pool_written_fill(a, id, !a->head.writes);
        b->copied = 0;
    }
    check_order(a, &taken);
    return KVG_OK;
}

/* A digest of a salt; of null, too. 0: the event does not say. */
static uint64_t salt_of(const kvg_audit_value *salt)
{
    return salt->text ? pool_digest_text(salt->text) : salt->given ? POOL_ROOT : 0;
}

/* Rule A7 of the i-th block of a hit, and its hash, salt and tokens. */
static void check_content(kvg_audit *a, size_t i, uint32_t id)
{
    const kvg_audit_value *hashes = value_of(a, KVG_AUDIT_FIELD_HASHES), *salt = value_of(a, KVG_AUDIT_FIELD_SALT),
                          *tokens = value_of(a, KVG_AUDIT_FIELD_TOKENS);
    const size_t span = a->head.block_tokens;
    const pool_content *c = a->blocks[id].stored ? pool_content_at(a, a->blocks[id].stored) : NULL;
    if (!c) {
        if (hashes->given) broke(a, KVG_AUDIT_HIT_CONTENT, id, "it is not stored");
    } else if (hashes->given && strcmp(hashes->texts[i], c->name) != 0) {
        broke(a, KVG_AUDIT_HIT_CONTENT, id, "hash %.60s, stored under %.60s at line %" PRIu64, hashes->texts[i],
              c->name, c->line);
    } else if (salt->given && c->salt && salt_of(salt) != c->salt) {
        broke(a, KVG_AUDIT_HIT_CONTENT, id, "another salt than at line %" PRIu64, c->line);
    } else if (c->tokens && tokens->count >= (i + 1) * span &&
               pool_digest_tokens(tokens->numbers + i * span, span) != c->tokens) {
        broke(a, KVG_AUDIT_HIT_CONTENT, id, "other tokens than at line %" PRIu64, c->line);
    }
}

/* Rule A8 of two blocks that follow each other in a hit. */
static void check_chain(kvg_audit *a, uint32_t before, uint32_t id)
{
    const uint32_t first = a->blocks[before].stored, second = a->blocks[id].stored;
    if (a->head.window || !first || !second || !pool_content_at(a, second)->parent) return;
    if (pool_content_at(a, second)->parent == pool_digest_text(pool_content_at(a, first)->name)) return;
    broke(a, KVG_AUDIT_HIT_CHAIN, id, "hash %.60s of block %" PRIu32 " is not its parent",
          pool_content_at(a, first)->name, before);
}

/* The block is stored, and who stored it writes it later in this step. */
static bool is_promised(const kvg_audit *a, uint32_t id)
{
    return a->head.stores_before_write && a->blocks[id].stored && a->blocks[id].holders;
}

static kvg_status on_hit(kvg_audit *a)
{
    const kvg_audit_value *list = value_of(a, KVG_AUDIT_FIELD_BLOCKS);
    const kvg_audit_value *hashes = value_of(a, KVG_AUDIT_FIELD_HASHES);
    uint32_t owner = event_sequence(a), id, before = 0;
    bool follows = false;
    if (hashes->given && hashes->count != list->count) {
        return kvg_fail(KVG_ERR_INVALID, "%zu hashes for %zu blocks: give one for each", hashes->count, list->count);
    }
    for (size_t i = 0; i < list->count; i++) {
        pool_block *b = listed(a, i, &id);
        if (!b) continue;
        if (pool_holding_find(a, owner, id)) {
            broke_state(a, KVG_AUDIT_ONCE, id);
            continue;
        }
        if (pool_state(b) == POOL_FREE) broke_state(a, KVG_AUDIT_HIT_FREE, id);
        else if (pool_is_empty(a, id) && !is_promised(a, id)) broke(a, KVG_AUDIT_HIT_EMPTY, id, "nothing is written");
        else check_content(a, i, id);
        if (follows) check_chain(a, before, id);
        before = id;
        follows = true;
        kvg_status s = pool_hold(a, &owner, id);
        if (s) return s;
    }
    return KVG_OK;
}

/* ... and rule A22 of a block that was stored before it was written, and that nobody can write any more. */
static void let_go(kvg_audit *a, uint32_t which)
{
    const uint32_t id = pool_holding_at(a, which)->block;
    pool_let_go(a, which);
    if (!a->head.stores_before_write || pool_state(&a->blocks[id]) != POOL_CACHED) return;
    const pool_content *c = pool_content_at(a, a->blocks[id].stored);
    if (pool_written_leading(a, id) >= c->length) return;
    broke(a, KVG_AUDIT_STORE_WRITTEN, id, "nobody holds it, and %" PRIu32 " of %" PRIu32 " tokens are written; stored"
          " at line %" PRIu64, pool_written_leading(a, id), c->length, c->line);
}

static kvg_status on_free(kvg_audit *a)
{
    const kvg_audit_value *list = value_of(a, KVG_AUDIT_FIELD_BLOCKS);
    const uint32_t owner = event_sequence(a);
    uint32_t id, which = !list->given && owner ? pool_sequence_at(a, owner)->first : 0;
    while (which) {
        const uint32_t after = pool_holding_at(a, which)->after;
        let_go(a, which);
        which = after;
    }
    for (size_t i = 0; i < list->count; i++) {
        const pool_block *b = listed(a, i, &id);
        if (!b) continue;
        which = pool_holding_find(a, owner, id);
        if (which) let_go(a, which);
        else broke_state(a, KVG_AUDIT_FREE_HELD, id);
    }
    return KVG_OK;
}

static kvg_status on_evict(kvg_audit *a)
{
    uint32_t id;
    pool_taken taken;
    pool_order_begin(a, &taken);
    for (size_t i = 0; i < value_of(a, KVG_AUDIT_FIELD_BLOCKS)->count; i++) {
        pool_block *b = listed(a, i, &id);
        if (!b) continue;
        if (pool_state(b) == POOL_HELD) broke_state(a, KVG_AUDIT_EVICT_HELD, id);
        if (pool_state(b) == POOL_FREE) broke_state(a, KVG_AUDIT_EVICT_FREE, id);
        take(a, id, &taken);
        pool_become(a, id, b->holders, 0);
    }
    taken.highest = -1; /* an eviction of a free block is no choice among these */
    check_order(a, &taken);
    return KVG_OK;
}

static kvg_status on_forget(kvg_audit *a)
{
    const kvg_audit_value *list = value_of(a, KVG_AUDIT_FIELD_BLOCKS);
    const kvg_audit_value *hashes = value_of(a, KVG_AUDIT_FIELD_HASHES);
    uint32_t id;
    if (list->given == hashes->given || hashes->given == (a->head.blocks > 0)) {
        return kvg_fail(KVG_ERR_INVALID, "give `%s`: the log is one of %s", a->head.blocks ? "blocks" : "hashes",
                        a->head.blocks ? "blocks" : "hashes, as `blocks` of its head is 0");
    }
    for (size_t i = 0; i < list->count; i++) {
        pool_block *b = listed(a, i, &id);
        if (!b) continue;
        if (!b->stored) broke_state(a, KVG_AUDIT_FORGET_STORED, id);
        pool_become(a, id, b->holders, 0);
    }
    for (size_t i = 0; i < hashes->count; i++) {
        id = pool_name_find(&a->contents, hashes->texts[i]);
        if (id) pool_content_release(a, id);
        else broke(a, KVG_AUDIT_FORGET_STORED, KVG_AUDIT_NO_BLOCK, "hash %.60s is not stored", hashes->texts[i]);
    }
    return KVG_OK;
}

static bool is_of_host(const kvg_audit *a, uint32_t id)
{
    return id >= a->head.blocks;
}

/* Rules A13 to A15 of a block that the event writes. `kept`: a promise to write is kept by it. */
static void check_write(kvg_audit *a, uint32_t id, bool kept)
{
    const pool_block *b = &a->blocks[id];
    if (!pool_holding_find(a, event_sequence(a), id)) {
        broke_state(a, KVG_AUDIT_WRITE_HELD, id);
    } else if (kept) {
        return;
    } else if (b->holders > 1) {
        broke_state(a, KVG_AUDIT_WRITE_SHARED, id);
    } else if (b->stored) {
        broke(a, KVG_AUDIT_WRITE_STORED, id, "stored under hash %.60s at line %" PRIu64,
              pool_content_at(a, b->stored)->name, pool_content_at(a, b->stored)->line);
    }
}

static kvg_status on_write(kvg_audit *a)
{
    const int64_t first = value_of(a, KVG_AUDIT_FIELD_FIRST)->number;
    const int64_t count = value_of(a, KVG_AUDIT_FIELD_COUNT)->number;
    const int64_t number = value_of(a, KVG_AUDIT_FIELD_BLOCK)->number, size = a->head.block_tokens;
    if (!in_pool(a, number)) return KVG_OK;
    const uint32_t id = (uint32_t)number;
    if (is_of_host(a, id)) broke_state(a, KVG_AUDIT_HOST, id);
    else check_write(a, id, is_promised(a, id) && !pool_written_any(a, id, first, count));
    a->blocks[id].copied = 0;
    if (first + count > size) {
        broke(a, KVG_AUDIT_WRITE_SLOTS, id, "%" PRId64 " + %" PRId64 " is above %" PRId64, first, count, size);
    }
    for (int64_t i = first; i < first + count && i < size; i++) {
        pool_written(a, id)[i / 64] |= UINT64_C(1) << i % 64;
    }
    return KVG_OK;
}

static kvg_status on_copy(kvg_audit *a)
{
    const int64_t from = value_of(a, KVG_AUDIT_FIELD_FROM)->number, to = value_of(a, KVG_AUDIT_FIELD_TO)->number;
    if (!in_pool(a, from) || !in_pool(a, to)) return KVG_OK;
    const uint32_t source = (uint32_t)from, target = (uint32_t)to;
    if (from == to) broke(a, KVG_AUDIT_COPY_SOURCE, from, "it is the target");
    else if (pool_is_empty(a, source)) broke(a, KVG_AUDIT_COPY_SOURCE, from, "nothing is written there");
    check_write(a, target, is_promised(a, target) && pool_is_empty(a, target));
    memmove(pool_written(a, target), pool_written(a, source), a->words * sizeof a->written[0]);
    const uint32_t stored = a->blocks[source].stored;
    a->blocks[target].copied = stored ? pool_digest_text(pool_content_at(a, stored)->name) : a->blocks[source].copied;
    return KVG_OK;
}

static kvg_status on_offload(kvg_audit *a)
{
    const int64_t from = value_of(a, KVG_AUDIT_FIELD_FROM)->number, to = value_of(a, KVG_AUDIT_FIELD_TO)->number;
    if (!in_pool(a, from) || !in_pool(a, to)) return KVG_OK;
    const uint32_t source = (uint32_t)from, target = (uint32_t)to;
    if (!is_of_host(a, target)) {
        broke(a, KVG_AUDIT_OFFLOAD, to, "it is not of the host");
    } else if (a->blocks[target].holders) {
        broke_state(a, KVG_AUDIT_OFFLOAD, target);
    } else if (!a->blocks[source].stored) {
        broke_state(a, KVG_AUDIT_OFFLOAD, source);
    } else {
        pool_become(a, target, 0, a->blocks[source].stored);
        memmove(pool_written(a, target), pool_written(a, source), a->words * sizeof a->written[0]);
    }
    return KVG_OK;
}

static kvg_status on_read(kvg_audit *a)
{
    const uint32_t owner = event_sequence(a);
    uint32_t id;
    for (size_t i = 0; i < value_of(a, KVG_AUDIT_FIELD_BLOCKS)->count; i++) {
        const pool_block *b = listed(a, i, &id);
        if (!b) continue;
        if (is_of_host(a, id)) {
            broke_state(a, KVG_AUDIT_HOST, id);
        } else if (!pool_holding_find(a, owner, id)) {
            broke_state(a, KVG_AUDIT_READ_HELD, id);
        } else if (pool_is_empty(a, id)) {
            broke(a, KVG_AUDIT_READ_EMPTY, id, "nothing is written");
        }
    }
    return KVG_OK;
}

/* What a stored hash and the event `store` do not agree about; NULL: nothing. */
static const char *difference(const pool_content *old, const pool_content *new)
{
    if (old->parent && new->parent && old->parent != new->parent) return "parent";
    if (old->salt && new->salt && old->salt != new->salt) return "salt";
    return old->tokens && new->tokens && old->tokens != new->tokens ? "tokens" : NULL;
}

/* The number of the event's hash, with what the event says of it. */
static kvg_status store_content(kvg_audit *a, int64_t number, uint32_t *id)
{
    const char *hash = value_of(a, KVG_AUDIT_FIELD_HASH)->text;
    const kvg_audit_value *before = value_of(a, KVG_AUDIT_FIELD_PARENT);
    const kvg_audit_value *tokens = value_of(a, KVG_AUDIT_FIELD_TOKENS);
    const char *parent = before->text;
    pool_content new = {.parent = parent ? pool_digest_text(parent) : before->given ? POOL_ROOT : 0,
                        .salt = salt_of(value_of(a, KVG_AUDIT_FIELD_SALT)),
                        .tokens = tokens->given ? pool_digest_tokens(tokens->numbers, tokens->count) : 0,
                        .line = a->event->line};
    if (parent && !a->head.window && !pool_name_find(&a->contents, parent)) {
        broke(a, KVG_AUDIT_STORE_PARENT, number, "hash %.60s is not stored", parent);
    }
    *id = pool_name_find(&a->contents, hash);
    if (*id) {
        const pool_content *old = pool_content_at(a, *id);
        const char *what = difference(old, &new);
        if (what) {
            broke(a, KVG_AUDIT_STORE_HASH, number, "hash %.60s has other %s at line %" PRIu64, hash, what, old->line);
        }
        if (!what) new.line = old->line;
        if (!what && !new.tokens) new.tokens = old->tokens;
        if (!what && !new.parent) new.parent = old->parent;
        if (!what && !new.salt) new.salt = old->salt;
        new.uses = old->uses;
    } else {
        kvg_status s = pool_name_add(&a->contents, hash, id);
        if (s) return s;
    }
    new.name = pool_content_at(a, *id)->name;
    *pool_content_at(a, *id) = new;
    return KVG_OK;
}

static kvg_status on_store(kvg_audit *a)
{
    const kvg_audit_value *tokens = value_of(a, KVG_AUDIT_FIELD_TOKENS), *place = value_of(a, KVG_AUDIT_FIELD_BLOCK);
    const int64_t number = place->given ? place->number : KVG_AUDIT_NO_BLOCK;
    uint32_t hash;
    if (place->given != (a->head.blocks > 0)) {
        return kvg_fail(KVG_ERR_INVALID, "%s", place->given ? "leave `block` out: `blocks` of the head is 0"
                                                            : "missing key 'block'");
    }
    if (tokens->given && (tokens->count < 1 || tokens->count > a->head.block_tokens)) {
        return kvg_fail(KVG_ERR_INVALID, "%zu tokens: a block has 1 to %" PRIu32, tokens->count, a->head.block_tokens);
    }
    if (place->given && !in_pool(a, number)) return KVG_OK;
    const uint32_t needed = tokens->given ? (uint32_t)tokens->count : a->head.block_tokens;
    kvg_status s = store_content(a, number, &hash);
    if (s) return s;
    pool_content_at(a, hash)->length = needed;
    if (!place->given) {
        pool_content_at(a, hash)->uses++;
        return KVG_OK;
    }
    const uint32_t id = (uint32_t)number;
    const pool_block *b = &a->blocks[id];
    if (!b->holders) broke_state(a, KVG_AUDIT_STORE_HELD, id);
    else if (!a->head.stores_before_write && pool_written_leading(a, id) < needed) {
        broke(a, KVG_AUDIT_STORE_WRITTEN, id, "%" PRIu32 " of %" PRIu32 " tokens are written",
              pool_written_leading(a, id), needed);
    }
    if (b->stored && b->stored != hash) {
        const pool_content *old = pool_content_at(a, b->stored);
        broke(a, KVG_AUDIT_STORE_ONCE, id, "stored under hash %.60s at line %" PRIu64, old->name, old->line);
    }
    if (b->copied && b->copied != pool_digest_text(pool_content_at(a, hash)->name))
        broke(a, KVG_AUDIT_COPY_CONTENT, id, "the block that it is a copy of had another hash");
    pool_become(a, id, b->holders, hash);
    return KVG_OK;
}

static kvg_status on_clear(kvg_audit *a)
{
    for (uint32_t id = 0; id < pool_all_blocks(a); id++) {
        if (a->blocks[id].stored) pool_become(a, id, a->blocks[id].holders, 0);
    }
    for (uint32_t id = 1; id <= a->contents.used; id++) { /* of a log without blocks */
        if (pool_content_at(a, id)->name) pool_name_drop(&a->contents, id);
    }
    return KVG_OK;
}

static kvg_status on_counts(kvg_audit *a)
{
    const struct {
        kvg_audit_field field;
        const char *name;
        uint64_t right;
    } rows[] = {
        {KVG_AUDIT_FIELD_FREE, "free", a->counts[POOL_FREE]},
        {KVG_AUDIT_FIELD_CACHED, "cached", a->counts[POOL_CACHED]},
        {KVG_AUDIT_FIELD_HELD, "held", a->counts[POOL_HELD]},
        {KVG_AUDIT_FIELD_AVAILABLE, "available", a->counts[POOL_FREE] + a->counts[POOL_CACHED]},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const kvg_audit_value *said = value_of(a, rows[i].field);
        if (!said->given || (uint64_t)said->number == rows[i].right) continue;
        broke(a, KVG_AUDIT_COUNTS, KVG_AUDIT_NO_BLOCK, "%s is %" PRId64 ", but the events leave %" PRIu64,
              rows[i].name, said->number, rows[i].right);
    }
    return KVG_OK;
}

static kvg_status on_end(kvg_audit *a)
{
    a->totals.ended = true;
    for (uint32_t id = 1; id <= a->sequences.used; id++) {
        const pool_sequence *q = pool_sequence_at(a, id);
        if (!q->name) continue;
        const pool_holding *h = pool_holding_at(a, q->first);
        broke(a, KVG_AUDIT_LEAK, h->block, "sequence %.60s holds it%s since line %" PRIu64, q->name,
              h->after ? " and others" : "", a->blocks[h->block].line);
    }
    return KVG_OK;
}

/* --- the model --- */

kvg_status kvg_audit_step(kvg_audit *a, const kvg_audit_event *event)
{
    static kvg_status (*const handlers[KVG_AUDIT_EVENTS])(kvg_audit *) = {
#define AUDIT_EVENT(name, word, needed, others) on_##word,
#include "paging/pool/pool_audit_events.def"
#undef AUDIT_EVENT
    };
    if (a->totals.ended) return kvg_fail(KVG_ERR_INVALID, "an event behind `end`: begin a new log");
    a->event = event;
    a->totals.events++;
    return handlers[event->kind](a);
}

const kvg_audit_totals *kvg_audit_sum(const kvg_audit *a)
{
    return &a->totals;
}

kvg_status kvg_audit_make(const kvg_audit_head *head, kvg_audit_report report, kvg_audit **out)
{
    kvg_audit *a = *out = calloc(1, sizeof *a);
    if (!a) return kvg_fail(KVG_ERR_MEMORY, "no memory for the model");
    a->head = *head;
    a->report = report;
    a->words = (head->block_tokens + 63) / 64;
    a->blocks = calloc((size_t)pool_all_blocks(a) + 1, sizeof a->blocks[0]);
    a->written = calloc((size_t)pool_all_blocks(a) + 1, a->words * sizeof a->written[0]);
    a->counts[POOL_FREE] = a->totals.blocks = head->blocks;
    a->sequences.size = sizeof(pool_sequence);
    a->contents.size = sizeof(pool_content);
    a->holdings.size = sizeof(pool_holding);
    const bool ordered = pool_order_make(a);
    if (a->blocks && a->written && ordered) return KVG_OK;
    kvg_audit_free(a);
    *out = NULL;
    return kvg_fail(KVG_ERR_MEMORY, "no memory for %" PRIu32 " blocks of %" PRIu32 " tokens", head->blocks,
                    head->block_tokens);
}

void kvg_audit_free(kvg_audit *a)
{
    if (!a) return;
    for (uint32_t id = 1; id <= a->sequences.used; id++) free(pool_sequence_at(a, id)->name);
    for (uint32_t id = 1; id <= a->contents.used; id++) free(pool_content_at(a, id)->name);
    pool_table_free(&a->sequences);
    pool_table_free(&a->contents);
    pool_table_free(&a->holdings);
    pool_order_free(a);
    free(a->blocks);
    free(a->written);
    free(a);
}
