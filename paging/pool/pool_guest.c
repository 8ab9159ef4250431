#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "paging/pool/pool_guest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/rng.h"
#include "paging/pool/pool_guest_bytes.h"
#include "paging/pool/pool_guest_library.h"
#include "paging/pool/pool_guest_log.h"
#include "support/child.h"
#include "support/clock.h"

enum { MOST_LIVE = 48, MOST_BLOCKS = 12, PREFIXES = 6, SALTS = 3, PREFIX_TOKENS = 50000 };

/* What a manager is asked. */
typedef enum asked { LOAD, OPEN, ADMIT, GROW, FORK, WRITTEN, RELEASE, AVAILABLE, CLOSE, BYTES, CALLS } asked;
static const char *const call_names[CALLS] = {"dlopen", "open", "admit", "grow", "fork", "written", "release",
                                              "available", "close", "append or flatten"};

typedef pool_guest_sequence sequence;

/* One run: what the child does, in memory that it shares with its parent. */
typedef struct play {
    const kvg_guest_run *run;
    kvg_manager_pool pool;
    kvg_manager_group groups[KVG_GUEST_GROUPS]; /* its */
    pool_guest_log log;
    kvg_guest_result result;
    kvg_manager manager; /* what this kvgold knows of the library's, the rest 0 */
    void *self;
    asked call;      /* the last one, */
    uint64_t whose;  /* of this sequence; 0: of none */
    bool is_running; /* it has not answered yet */
    double armed;    /* when the limit of time was set */
    double entered, inside; /* when the call began; what all calls have taken */
    sequence *live;
    uint32_t live_count, most_live;
    sequence preempted; /* the last one that is to come again; without tokens: there is none */
    uint64_t begun, drawn;
    int32_t *tokens; /* that sequences share as prefixes, below PREFIX_TOKENS; most_tokens for each */
    kvg_manager_table answer[KVG_GUEST_GROUPS];
    bool *is_held; /* by block: some sequence holds it */
    pool_guest_bytes *bytes; /* NULL: ids alone are judged */
} play;

static uint64_t below(play *p, uint64_t n)
{
    return kvg_rng_below(p->run->seed, 0, p->drawn++, n);
}

/* --- calls --- */

/* A call begins. Its limit is set anew only each second, because that costs more than some calls. */
static void enter(play *p, asked call, uint64_t whose)
{
    const double now = p->entered = kvg_clock_seconds();
    p->call = call;
    p->whose = whose;
    p->is_running = true;
    if (p->armed && now - p->armed < 1) return;
    p->armed = now;
    kvg_child_limit(KVG_GUEST_CALL_SECONDS + 1);
}

static kvg_status leave(play *p, kvg_status answer)
{
    p->is_running = false;
    p->inside += kvg_clock_seconds() - p->entered;
    return answer;
}

/* The last call, such as "grow of sequence 7". A library can have written over what says so. */
static const char *last_call(const play *p, char text[static 64])
{
    const char *name = (unsigned)p->call < CALLS ? call_names[p->call] : "a call";
    if (p->whose) snprintf(text, 64, "%s of sequence %" PRIu64, name, p->whose);
    else snprintf(text, 64, "%s", name);
    return text;
}

/* The last call broke paging/paging_plugin.h: "CALL gives ...". */
static kvg_status KVG_PRINTF(2, 3) broke(const play *p, const char *format, ...)
{
    char call[64], text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return kvg_fail(KVG_ERR_INVALID, "%s %s", last_call(p, call), text);
}

static kvg_status failed(const play *p, kvg_status s)
{
    char call_text[64];
    const char *text = p->manager.error_text ? p->manager.error_text() : NULL;
    return kvg_fail(s, "%s fails: %s%s%.120s", last_call(p, call_text), kvg_status_name(s), text ? ": " : "",
                    text ? text : "");
}

/* --- what a manager is asked --- */

static bool is_copied(const kvg_manager_table *t, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < t->copy_count; i++) {
        if (t->copies[i].from == from && t->copies[i].to == to) return true;
    }
    return false;
}

/* An empty answer, of which a manager gets the first table. */
static kvg_manager_table *empty_answer(play *p)
{
    for (uint32_t g = 0; g < p->pool.group_count; g++)
        p->answer[g].count = p->answer[g].cached = p->answer[g].copy_count = 0;
    return p->answer;
}

/* An entry of an answer is what the sequence had there, or what that was copied to. Of an entry that `passed` is behind
 * it may be no block from now on. `had`: NULL for a new entry. */
static kvg_status check_entry(const play *p, const kvg_manager_table *t, uint32_t i, uint32_t passed,
                              const uint32_t *had)
{
    const uint32_t is = t->blocks[i];
    if (is == KVG_MANAGER_NO_BLOCK && i < passed) return KVG_OK;
    if (is == KVG_MANAGER_NO_BLOCK)
        return broke(p, "gives no block as entry %" PRIu32 ": no window has passed its tokens", i);
    if (!had || is == *had) return KVG_OK;
    if (*had == KVG_MANAGER_NO_BLOCK)
        return broke(p, "gives block %" PRIu32 " as entry %" PRIu32 ", which it had given up", is, i);
    if (is_copied(t, *had, is)) return KVG_OK;
    return broke(p, "gives block %" PRIu32 " in place of %" PRIu32 ": keep the blocks that a table has, or copy them",
                 is, *had);
}

/* `q` has the blocks that it had before. */
static kvg_status check_table(const play *p, const sequence *q, uint32_t g)
{
    const kvg_manager_group *group = &p->pool.groups[g];
    const kvg_manager_table *t = &p->answer[g];
    const uint32_t wanted = kvg_guest_pool_blocks(group, q->count);
    const uint32_t passed = kvg_guest_pool_passed(group, q->written > t->cached ? q->written : t->cached);
    kvg_status s = KVG_OK;
    if (t->count != wanted)
        return broke(p, "gives %" PRIu32 " blocks for %" PRIu32 " tokens: give %" PRIu32, t->count, q->count, wanted);
    if (t->cached % group->block_tokens || (t->cached && t->cached >= q->count))
        return broke(p, "finds %" PRIu32 " of %" PRIu32 " tokens: give a multiple of %" PRIu32 " below them",
                     t->cached, q->count, group->block_tokens);
    if (t->cached != p->answer->cached)
        return broke(p, "finds %" PRIu32 " tokens in group %" PRIu32 " and %" PRIu32 " in group 0: give what all have",
                     t->cached, g, p->answer->cached);
    if (t->copy_count > p->pool.blocks)
        return broke(p, "gives %" PRIu32 " copies: set copy_count to those that it makes", t->copy_count);
    for (uint32_t i = 0; i < wanted && !s; i++)
        s = check_entry(p, t, i, passed, i < q->parts[g].entries ? &q->parts[g].table[i] : NULL);
    return s;
}

static bool is_given_up(const pool_guest_part *part, const kvg_manager_table *t, uint32_t i)
{
    return t->blocks[i] == KVG_MANAGER_NO_BLOCK && part->table[i] != KVG_MANAGER_NO_BLOCK;
}

static void copy_blocks(play *p, const sequence *q, const kvg_manager_table *t)
{
    pool_guest_log_copies(&p->log, q, t);
    if (p->bytes) pool_guest_bytes_copy(p->bytes, t);
}

/* Takes the answer for a sequence's table: the new blocks that hold cached tokens are others' blocks, too. What a
 * window has passed may be given out at once; a block that is replaced is given back when it was copied. */
static void take_table(play *p, sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    pool_guest_part *part = &q->parts[g];
    const uint32_t before = part->entries, found = t->cached / p->pool.groups[g].block_tokens;
    p->log.group = g;
    for (uint32_t i = 0; i < before; i++) {
        if (is_given_up(part, t, i)) pool_guest_log_blocks(&p->log, "free", q, &part->table[i], 1);
    }
    for (uint32_t i = 0; i < before; i++) {
        if (t->blocks[i] != part->table[i]) pool_guest_log_blocks(&p->log, "allocate", q, &t->blocks[i], 1);
    }
    copy_blocks(p, q, t);
    for (uint32_t i = 0; i < before; i++) {
        if (t->blocks[i] != part->table[i] && !is_given_up(part, t, i))
            pool_guest_log_blocks(&p->log, "free", q, &part->table[i], 1);
    }
    memcpy(part->table, t->blocks, t->count * sizeof *part->table);
    part->entries = t->count;
    pool_guest_log_hit(&p->log, q, found);
    pool_guest_log_blocks(&p->log, "allocate", q, part->table + before + found, part->entries - before - found);
}

/* Takes an answer to `fork`: a block of the child is the parent's, or a new one. */
static void take_fork(play *p, const pool_guest_part *parent, sequence *q, uint32_t g)
{
    const kvg_manager_table *t = &p->answer[g];
    pool_guest_part *part = &q->parts[g];
    p->log.group = g;
    memcpy(part->table, t->blocks, t->count * sizeof *part->table);
    for (uint32_t i = 0; i < part->entries; i++) {
        const char *event = part->table[i] == parent->table[i] ? "hit" : "allocate";
        pool_guest_log_blocks(&p->log, event, q, &part->table[i], 1);
    }
    copy_blocks(p, q, t);
    for (uint32_t i = 0; i < q->count / p->pool.groups[g].block_tokens; i++) {
        const bool is_new = part->table[i] != parent->table[i] && part->table[i] != KVG_MANAGER_NO_BLOCK;
        if (is_new) pool_guest_log_store(&p->log, q, i);
    }
}

/* An answer for all groups. `parent`: of a fork; else NULL. */
static kvg_status take_answer(play *p, const sequence *parent, sequence *q)
{
    const uint32_t groups = p->pool.group_count;
    kvg_status s = KVG_OK;
    for (uint32_t g = 0; g < groups && parent; g++) {
        const pool_guest_part *from = &parent->parts[g];
        memcpy(q->parts[g].table, from->table, from->entries * sizeof *from->table);
        q->parts[g].entries = from->entries;
    }
    for (uint32_t g = 0; g < groups && !s; g++) s = check_table(p, q, g);
    for (uint32_t g = 0; g < groups && !s; g++) {
        if (parent) take_fork(p, &parent->parts[g], q, g);
        else take_table(p, q, g);
    }
    return s;
}

static void forget(sequence *q)
{
    free(q->tokens);
    for (uint32_t g = 0; g < KVG_GUEST_GROUPS; g++) {
        free(q->parts[g].table);
        free(q->parts[g].names);
        free(q->parts[g].contents);
        free(q->parts[g].alone);
    }
    *q = (sequence){0};
}

static kvg_status let_go(play *p, uint32_t which, sequence *out)
{
    *out = p->live[which];
    p->live[which] = p->live[--p->live_count];
    enter(p, RELEASE, out->id);
    const kvg_status s = leave(p, p->manager.release(p->self, out->id));
    if (s) return failed(p, s);
    for (p->log.group = 0; p->log.group < p->pool.group_count; p->log.group++) {
        const pool_guest_part *part = &out->parts[p->log.group];
        pool_guest_log_blocks(&p->log, "free", out, part->table, part->entries);
    }
    return KVG_OK;
}

static kvg_status release(play *p, uint32_t which)
{
    sequence q;
    const kvg_status s = let_go(p, which, &q);
    forget(&q);
    return s;
}

/* Marks the blocks of a table as held; how many were not. */
static uint32_t mark_held(play *p, const pool_guest_part *part)
{
    uint32_t marked = 0;
    for (uint32_t k = 0; k < part->entries; k++) {
        const uint32_t block = part->table[k];
        if (block >= p->pool.blocks || p->is_held[block]) continue;
        p->is_held[block] = true;
        marked++;
    }
    return marked;
}

/* How many blocks no sequence holds, by their tables. */
static uint32_t count_available(play *p)
{
    uint32_t held = 0;
    memset(p->is_held, 0, p->pool.blocks * sizeof *p->is_held);
    for (uint32_t i = 0; i < p->live_count; i++) {
        for (uint32_t g = 0; g < p->pool.group_count; g++) held += mark_held(p, &p->live[i].parts[g]);
    }
    return p->pool.blocks - held;
}

/* A manager says that there are too few blocks: some sequence is preempted. */
static kvg_status make_room(play *p, const sequence *q)
{
    uint32_t missing = 0;
    for (uint32_t g = 0; g < p->pool.group_count; g++) {
        const uint32_t entries = q->parts[g].entries; /* the last one may have to be copied */
        missing += kvg_guest_pool_blocks(&p->pool.groups[g], q->count) - entries + (entries > 0);
    }
    const uint32_t available = count_available(p);
    if (p->live_count == 0 || missing <= available)
        return broke(p, "says that too few blocks are available: it needs %" PRIu32 " at most, and %" PRIu32 " are",
                     missing, available);
    forget(&p->preempted);
    return let_go(p, (uint32_t)below(p, p->live_count), &p->preempted);
}

/* That a sequence has in a group whose blocks hold the fewest tokens. */
static uint32_t most_blocks(const play *p)
{
    const uint32_t blocks = p->pool.blocks / p->pool.group_count, part = blocks / 128;
    if (p->run->blocks) return p->run->blocks < blocks ? p->run->blocks : blocks;
    return blocks < MOST_BLOCKS ? blocks : part < MOST_BLOCKS ? MOST_BLOCKS : part;
}

static uint32_t most_tokens(const play *p)
{
    return kvg_guest_pool_smallest(&p->pool) * most_blocks(p);
}

static int32_t *prefix(const play *p, uint64_t which)
{
    return p->tokens + which * most_tokens(p);
}

/* With tokens of its own, which no other sequence has. */
static kvg_status make_sequence(play *p, uint64_t salt, uint32_t count, sequence *out)
{
    const uint32_t most = most_tokens(p);
    *out = (sequence){.id = ++p->begun, .salt = salt, .count = count, .tokens = malloc(most * sizeof *out->tokens)};
    bool got = out->tokens;
    for (uint32_t g = 0; g < p->pool.group_count; g++) {
        pool_guest_part *part = &out->parts[g];
        part->table = malloc(most_blocks(p) * sizeof *part->table);
        part->names = malloc(most_blocks(p) * sizeof *part->names);
        got = got && part->table && part->names;
    }
    if (!got) return kvg_fail(KVG_ERR_MEMORY, "no memory for a sequence");
    for (uint32_t i = 0; i < most; i++) out->tokens[i] = (int32_t)((PREFIX_TOKENS + out->id * most + i) % INT32_MAX);
    return KVG_OK;
}

/* A new sequence, or one that was preempted. A sequence has the tokens of a prefix up to some length, then perhaps
 * those of another, which stand behind other tokens there; then its own. */
static kvg_status draw(play *p, sequence *q)
{
    const uint64_t first = below(p, PREFIXES), second = below(p, PREFIXES);
    const uint32_t shared = (uint32_t)below(p, most_tokens(p) + 1), cut = (uint32_t)below(p, 2 * shared + 1);
    if (p->preempted.tokens && below(p, 2)) {
        *q = p->preempted;
        p->preempted = (sequence){0};
        return KVG_OK;
    }
    const uint64_t salt = below(p, SALTS);
    const kvg_status s = make_sequence(p, salt, 1 + (uint32_t)below(p, most_tokens(p)), q);
    for (uint32_t i = 0; i < shared && !s; i++) q->tokens[i] = prefix(p, i < cut ? first : second)[i];
    return s;
}

static kvg_status admit(play *p)
{
    sequence q;
    kvg_manager_table *t = empty_answer(p);
    if (p->live_count == p->most_live) return release(p, (uint32_t)below(p, p->live_count));
    kvg_status s = draw(p, &q);
    enter(p, ADMIT, q.id);
    const kvg_status answer = leave(p, s ? s : p->manager.admit(p->self, q.id, q.salt, q.tokens, q.count, t));
    q.written = 0;
    for (uint32_t g = 0; g < p->pool.group_count; g++) q.parts[g].entries = 0;
    if (!s && answer == KVG_ERR_EXHAUSTED) s = make_room(p, &q);
    else if (!s && answer) s = failed(p, answer);
    else if (!s) s = take_answer(p, NULL, &q);
    if (s || answer) {
        forget(&q);
        return s;
    }
    q.written = t->cached;
    p->result.tokens += q.count;
    p->result.found += t->cached;
    p->live[p->live_count++] = q;
    return KVG_OK;
}

/* What a manager says of it in `grow` and `fork`, which do not ask. */
static void ignore_cached(play *p)
{
    for (uint32_t g = 0; g < p->pool.group_count; g++) p->answer[g].cached = 0;
}

static kvg_status grow(play *p, uint32_t which)
{
    sequence *q = &p->live[which];
    const uint32_t before = q->count, room = most_tokens(p) - before;
    kvg_manager_table *t = empty_answer(p);
    if (room == 0) return release(p, which);
    q->count += 1 + (uint32_t)below(p, room < 3 ? room : 3);
    enter(p, GROW, q->id);
    const kvg_status s = leave(p, p->manager.grow(p->self, q->id, q->tokens, q->count, t));
    ignore_cached(p);
    if (!s) return take_answer(p, NULL, q);
    if (s != KVG_ERR_EXHAUSTED) return failed(p, s);
    const sequence refused = *q; /* `q` may be the one that is preempted */
    q->count = before;
    return make_room(p, &refused);
}

/* A copy of a sequence, which goes on with tokens of its own. */
static kvg_status fork_one(play *p, uint32_t which)
{
    const sequence *parent = &p->live[which];
    kvg_manager_table *t = empty_answer(p);
    if (!p->manager.fork || p->live_count == p->most_live || parent->written < parent->count) return KVG_OK;
    sequence q;
    kvg_status s = make_sequence(p, parent->salt, parent->count, &q);
    if (!s) memcpy(q.tokens, parent->tokens, parent->count * sizeof *q.tokens);
    q.written = q.count;
    enter(p, FORK, parent->id);
    const kvg_status answer = leave(p, s ? s : p->manager.fork(p->self, parent->id, q.id, t));
    ignore_cached(p);
    if (!s && answer == KVG_ERR_EXHAUSTED) s = make_room(p, &q);
    else if (!s && answer) s = failed(p, answer);
    else if (!s) s = take_answer(p, parent, &q);
    if (s || answer) {
        forget(&q);
        return s;
    }
    p->live[p->live_count++] = q;
    return KVG_OK;
}

/* The bytes of a step in a group: what it reads, from block `first` on, and what it writes. */
static kvg_status step_bytes(play *p, sequence *q, uint32_t group, uint32_t first, uint32_t to)
{
    if (!p->bytes) return KVG_OK;
    enter(p, BYTES, q->id);
    kvg_status s = pool_guest_bytes_read(p->bytes, q, group, first, &p->result.read);
    if (!s) s = pool_guest_bytes_write(p->bytes, q, group, to, p->result.operations);
    return leave(p, s);
}

/* A step reads what is there, and writes a chunk of what is not. */
static kvg_status step(play *p, uint32_t which)
{
    sequence *q = &p->live[which];
    const uint32_t to = q->written + 1 + (uint32_t)below(p, q->count - q->written);
    kvg_status s = KVG_OK;
    for (uint32_t g = 0; g < p->pool.group_count && !s; g++) {
        const kvg_manager_group *group = &p->pool.groups[g];
        const uint32_t size = group->block_tokens, first = kvg_guest_pool_passed(group, q->written);
        p->log.group = g;
        pool_guest_log_blocks(&p->log, "read", q, q->parts[g].table + first,
                              kvg_guest_pool_blocks(group, q->written) - first);
        pool_guest_log_write(&p->log, q, to);
        s = step_bytes(p, q, g, first, to);
        for (uint32_t i = q->written / size; i < to / size; i++) pool_guest_log_store(&p->log, q, i);
    }
    if (s) return s;
    q->written = to;
    enter(p, WRITTEN, q->id);
    s = leave(p, p->manager.written(p->self, q->id, to));
    return s ? failed(p, s) : KVG_OK;
}

static kvg_status count(play *p)
{
    uint32_t blocks;
    if (!p->manager.available) return KVG_OK;
    enter(p, AVAILABLE, 0);
    const kvg_status s = leave(p, p->manager.available(p->self, &blocks));
    if (s) return failed(p, s);
    pool_guest_log_available(&p->log, blocks);
    return KVG_OK;
}

/* One operation: sequences begin half as often as others go on. */
static kvg_status play_one(play *p)
{
    const uint32_t which = p->live_count ? (uint32_t)below(p, p->live_count) : 0;
    const uint64_t what = below(p, 16);
    p->result.operations++;
    if (p->live_count == 0 || what < 4) return admit(p);
    if (what == 4) return release(p, which);
    if (what == 5) return count(p);
    if (what == 6) return fork_one(p, which);
    return p->live[which].written < p->live[which].count ? step(p, which) : grow(p, which);
}

static kvg_status play_all(play *p)
{
    kvg_status s = KVG_OK;
    const double start = kvg_clock_seconds();
    struct rusage used;
    p->inside = 0;
    while (!s && p->result.operations < p->run->operations) {
        s = play_one(p);
        p->result.seconds = kvg_clock_seconds() - start;
        if (p->run->seconds > 0 && p->result.seconds > p->run->seconds) break;
    }
    p->result.inside = p->inside; /* without those of the end */
    if (getrusage(RUSAGE_SELF, &used) == 0) p->result.bytes = 1024 * (uint64_t)used.ru_maxrss;
    forget(&p->preempted);
    while (!s && p->live_count) s = release(p, p->live_count - 1);
    if (!s) s = count(p);
    if (!s) pool_guest_log_end(&p->log);
    return s;
}

/* --- the library --- */

static bool make_answer(play *p)
{
    const kvg_manager_pool *pool = &p->pool;
    bool got = true;
    for (uint32_t g = 0; g < pool->group_count; g++) {
        p->answer[g] = (kvg_manager_table){.blocks = malloc(pool->blocks * sizeof *p->answer->blocks),
                                           .copies = malloc(pool->blocks * sizeof *p->answer->copies),
                                           .next = g + 1 < pool->group_count ? &p->answer[g + 1] : NULL};
        got = got && p->answer[g].blocks && p->answer[g].copies;
    }
    return got;
}

/* The pool is not one for the backend, as the error's text says. */
static kvg_status skip(play *p)
{
    p->result.is_skipped = true;
    snprintf(p->result.text, sizeof p->result.text, "%s", kvg_error_text());
    return KVG_OK;
}

static kvg_status play_library(play *p)
{
    const kvg_manager_pool *pool = &p->pool;
    enter(p, LOAD, 0);
    kvg_status s = leave(p, kvg_guest_library_open(p->run->library, &p->manager));
    const size_t shared = (size_t)PREFIXES * most_tokens(p);
    p->tokens = malloc(shared * sizeof *p->tokens);
    p->is_held = malloc(pool->blocks * sizeof *p->is_held);
    p->most_live = p->run->live ? p->run->live : MOST_LIVE;
    p->live = malloc(p->most_live * sizeof *p->live);
    const bool got = make_answer(p) && p->tokens && p->is_held && p->live;
    if (!s && !got) s = kvg_fail(KVG_ERR_MEMORY, "no memory for a table");
    p->result.is_skipped = !s && (kvg_guest_pool_claims(pool) & ~p->manager.claims);
    if (s || p->result.is_skipped) return s;
    if (p->run->bytes) {
        enter(p, BYTES, 0);
        s = leave(p, pool_guest_bytes_open(p->run->bytes, pool, most_tokens(p), p->run->seed, &p->bytes));
        if (s) return s == KVG_ERR_UNIMPLEMENTED ? skip(p) : s;
    }
    for (size_t i = 0; i < shared; i++) p->tokens[i] = (int32_t)kvg_rng_below(p->run->seed, 1, i, PREFIX_TOKENS);
    pool_guest_log_head(&p->log);
    enter(p, OPEN, 0);
    s = leave(p, p->manager.open(pool, &p->self));
    p->result.is_skipped = s == KVG_ERR_UNIMPLEMENTED;
    if (p->result.is_skipped) return KVG_OK;
    s = s ? failed(p, s) : play_all(p);
    if (s == KVG_ERR_UNIMPLEMENTED && p->call == BYTES) return skip(p);
    if (!s) {
        enter(p, CLOSE, 0);
        p->manager.close(p->self);
        s = leave(p, KVG_OK);
    }
    return s;
}

static void play_in_child(void *context)
{
    play *p = context;
    const kvg_status s = play_library(p);
    p->result.status = s;
    if (s) snprintf(p->result.text, sizeof p->result.text, "%s", kvg_error_text());
}

kvg_status kvg_guest_play(const kvg_guest_run *run, FILE *log, kvg_guest_result *out)
{
    char text[64];
    play *p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return kvg_fail(KVG_ERR_MEMORY, "no memory for a run");
    p->run = run;
    p->log.file = fileno(log);
    p->log.pool = &p->pool;
    int death = 0;
    kvg_status s = kvg_guest_pool_read(run->pool, &p->pool, p->groups);
    if (!s) s = kvg_child_answer(play_in_child, p, &p->result, sizeof p->result, 0, &death);
    p->log.file = fileno(log); /* a library can have written over it */
    pool_guest_log_flush(&p->log);
    if (!s && p->log.failed) s = kvg_fail(KVG_ERR_IO, "cannot write the log: the disk may be full");
    *out = p->result;
    out->death = s ? 0 : death;
    out->text[sizeof out->text - 1] = '\0';
    if (out->death) {
        out->status = KVG_ERR_INVALID;
        snprintf(out->text, sizeof out->text, "its process died %s %s", p->is_running ? "in" : "behind",
                 last_call(p, text));
    }
    munmap(p, sizeof *p);
    return s;
}
