#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/rng.h"
#include "paging/pool/pool_guest_library.h"
#include "paging/pool/pool_guest_play.h"
#include "support/child.h"
#include "support/clock.h"

enum { MOST_LIVE = 48, MOST_BLOCKS = 12, PREFIXES = 6, SALTS = 3, PREFIX_TOKENS = 50000 };

typedef pool_guest_play play;
typedef pool_guest_sequence sequence;

static uint64_t below(play *p, uint64_t n)
{
    return kvg_rng_below(p->run->seed, 0, p->drawn++, n);
}

/* --- what a manager is asked --- */

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
    kvg_status s = KVG_OK;
    while (pool_guest_asks(p, CALL_RELEASE, out->id)) s = pool_guest_answered(p, p->manager.release(p->self, out->id));
    if (s) return pool_guest_failed(p, s);
    for (p->log.group = 0; p->log.group < p->pool.group_count; p->log.group++) {
        const pool_guest_part *part = &out->parts[p->log.group];
        pool_guest_log_blocks(&p->log, GUEST_FREE, out, part->table, part->entries);
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

/* A manager says that there are too few blocks: some sequence is preempted. */
static kvg_status make_room(play *p, const sequence *q)
{
    uint32_t missing = 0;
    for (uint32_t g = 0; g < p->pool.group_count; g++) {
        const uint32_t entries = q->parts[g].entries; /* the last one may have to be copied */
        missing += kvg_guest_pool_blocks(&p->pool.groups[g], q->count) - entries + (entries > 0);
    }
    const uint32_t available = p->pool.blocks - p->log.held;
    if (p->live_count == 0 || missing <= available)
        return pool_guest_broke(p, "says that too few blocks are available: it needs %" PRIu32 " at most, and "
                                "%" PRIu32 " are", missing, available);
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
    kvg_manager_table *t = p->answer;
    if (p->live_count >= p->most_live) return release(p, (uint32_t)below(p, p->live_count));
    kvg_status s = draw(p, &q);
    kvg_status answer = s;
    while (!s && pool_guest_asks(p, CALL_ADMIT, q.id)) {
        t = pool_guest_empty_answer(p);
        answer = pool_guest_answered(p, p->manager.admit(p->self, q.id, q.salt, q.tokens, q.count, t));
    }
    q.written = 0;
    for (uint32_t g = 0; g < p->pool.group_count; g++) q.parts[g].entries = 0;
    if (!s && answer == KVG_ERR_EXHAUSTED) s = make_room(p, &q);
    else if (!s && answer) s = pool_guest_failed(p, answer);
    else if (!s) s = pool_guest_take_answer(p, NULL, &q);
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

static kvg_status grow(play *p, uint32_t which)
{
    sequence *q = &p->live[which];
    const uint32_t before = q->count, room = most_tokens(p) - before;
    kvg_status s = KVG_OK;
    if (room == 0) return release(p, which);
    q->count += 1 + (uint32_t)below(p, room < 3 ? room : 3);
    while (pool_guest_asks(p, CALL_GROW, q->id)) {
        kvg_manager_table *t = pool_guest_empty_answer(p);
        s = pool_guest_answered(p, p->manager.grow(p->self, q->id, q->tokens, q->count, t));
    }
    pool_guest_ignore_cached(p);
    if (!s) return pool_guest_take_answer(p, NULL, q);
    if (s != KVG_ERR_EXHAUSTED) return pool_guest_failed(p, s);
    const sequence refused = *q; /* `q` may be the one that is preempted */
    q->count = before;
    return make_room(p, &refused);
}

/* A copy of a sequence, which goes on with tokens of its own. */
static kvg_status fork_one(play *p, uint32_t which)
{
    const sequence *parent = &p->live[which];
    if (!p->manager.fork || p->live_count >= p->most_live || parent->written < parent->count) return KVG_OK;
    sequence q;
    kvg_status s = make_sequence(p, parent->salt, parent->count, &q);
    if (!s) memcpy(q.tokens, parent->tokens, parent->count * sizeof *q.tokens);
    q.written = q.count;
    kvg_status answer = s;
    while (!s && pool_guest_asks(p, CALL_FORK, parent->id)) {
        kvg_manager_table *t = pool_guest_empty_answer(p);
        answer = pool_guest_answered(p, p->manager.fork(p->self, parent->id, q.id, t));
    }
    pool_guest_ignore_cached(p);
    if (!s && answer == KVG_ERR_EXHAUSTED) s = make_room(p, &q);
    else if (!s && answer) s = pool_guest_failed(p, answer);
    else if (!s) s = pool_guest_take_answer(p, parent, &q);
    if (s || answer) {
        forget(&q);
        return s;
    }
    p->live[p->live_count++] = q;
    return KVG_OK;
}

/* The blocks of the host that a sequence needs, or holds while it is paused. */
static uint32_t count_host(const play *p, const sequence *q)
{
    uint32_t blocks = 0;
    for (uint32_t g = 0; g < p->pool.group_count; g++) {
        const kvg_manager_group *group = &p->pool.groups[g];
        blocks += kvg_guest_pool_blocks(group, q->written) - kvg_guest_pool_passed(group, q->written);
    }
    return blocks;
}

/* A manager says that the host has too few blocks for a sequence, which then stays. */
static kvg_status check_host_is_full(const play *p, const sequence *q)
{
    const uint32_t needed = count_host(p, q);
    uint32_t available = p->pool.host_blocks;
    for (uint32_t i = 0; i < p->paused_count; i++) available -= count_host(p, &p->paused[i]);
    if (needed > available) return KVG_OK;
    return pool_guest_broke(p, "says that too few blocks of the host are available: it needs %" PRIu32 ", and %" PRIu32
                            " are", needed, available);
}

static kvg_status swap_out(play *p, uint32_t which)
{
    sequence *q = &p->live[which];
    kvg_status s = KVG_OK;
    if (p->paused_count == p->most_live) return KVG_OK;
    while (pool_guest_asks(p, CALL_SWAP_OUT, q->id))
        s = pool_guest_answered(p, p->manager.swap_out(p->self, q->id, pool_guest_empty_answer(p)));
    if (s == KVG_ERR_EXHAUSTED) return check_host_is_full(p, q);
    s = s ? pool_guest_failed(p, s) : pool_guest_take_swap(p, q);
    if (s) return s;
    p->paused[p->paused_count++] = *q;
    p->live[which] = p->live[--p->live_count];
    return KVG_OK;
}

/* A paused sequence is a live one again, which may be released at once. */
static void go_on(play *p, uint32_t which)
{
    p->live[p->live_count++] = p->paused[which];
    p->paused[which] = p->paused[--p->paused_count];
}

static kvg_status swap_in(play *p)
{
    const uint32_t which = (uint32_t)below(p, p->paused_count);
    sequence *q = &p->paused[which];
    kvg_status s = KVG_OK;
    if (below(p, 8) == 0) {
        go_on(p, which);
        return release(p, p->live_count - 1);
    }
    while (pool_guest_asks(p, CALL_SWAP_IN, q->id))
        s = pool_guest_answered(p, p->manager.swap_in(p->self, q->id, pool_guest_empty_answer(p)));
    if (s == KVG_ERR_EXHAUSTED) {
        sequence refused = *q;
        for (uint32_t g = 0; g < p->pool.group_count; g++) refused.parts[g].entries = 0;
        return make_room(p, &refused);
    }
    s = s ? pool_guest_failed(p, s) : pool_guest_take_swap(p, q);
    if (!s) go_on(p, which);
    return s;
}

/* The bytes of a step in a group: what it reads, from block `first` on, and what it writes. */
static kvg_status step_bytes(play *p, sequence *q, uint32_t group, uint32_t first, uint32_t to)
{
    kvg_status s = KVG_OK;
    while (p->bytes && pool_guest_asks(p, CALL_BYTES, q->id)) {
        s = pool_guest_bytes_read(p->bytes, q, group, first, &p->result.read);
        if (!s) s = pool_guest_bytes_write(p->bytes, q, group, to, p->result.operations);
        s = pool_guest_answered(p, s);
    }
    return s;
}

/* A step reads what is there, and writes the tokens up to `to`. */
static kvg_status step(play *p, uint32_t which, uint32_t to)
{
    sequence *q = &p->live[which];
    kvg_status s = KVG_OK;
    for (uint32_t g = 0; g < p->pool.group_count && !s; g++) {
        const kvg_manager_group *group = &p->pool.groups[g];
        const uint32_t size = group->block_tokens, first = kvg_guest_pool_passed(group, q->written);
        p->log.group = g;
        pool_guest_log_blocks(&p->log, GUEST_READ, q, q->parts[g].table + first,
                              kvg_guest_pool_blocks(group, q->written) - first);
        pool_guest_log_write(&p->log, q, to);
        s = step_bytes(p, q, g, first, to);
        for (uint32_t i = q->written / size; i < to / size; i++) pool_guest_log_store(&p->log, q, i);
    }
    if (s) return s;
    q->written = to;
    while (pool_guest_asks(p, CALL_WRITTEN, q->id)) s = pool_guest_answered(p, p->manager.written(p->self, q->id, to));
    return s ? pool_guest_failed(p, s) : KVG_OK;
}

static kvg_status count(play *p)
{
    uint32_t blocks = 0;
    kvg_status s = KVG_OK;
    if (!p->manager.available) return KVG_OK;
    while (pool_guest_asks(p, CALL_AVAILABLE, 0)) s = pool_guest_answered(p, p->manager.available(p->self, &blocks));
    if (s) return pool_guest_failed(p, s);
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
    if (what == 7 && p->pool.host_blocks && p->manager.claims & KVG_MANAGER_SWAP) return swap_out(p, which);
    if (what == 8 && p->paused_count) return swap_in(p);
    const uint32_t left = p->live[which].count - p->live[which].written;
    return left ? step(p, which, p->live[which].written + 1 + (uint32_t)below(p, left)) : grow(p, which);
}

/* Sequences begin, and are written, until the pool has no room for another one. */
static kvg_status fill(play *p)
{
    const double start = kvg_clock_seconds();
    kvg_status s = KVG_OK;
    while (!s && p->live_count < p->most_live && kvg_clock_seconds() - start < p->run->filling) {
        const uint32_t before = p->live_count;
        s = admit(p);
        if (p->live_count <= before) break;
        if (!s) s = step(p, before, p->live[before].count);
    }
    return s;
}

static kvg_status play_all(play *p)
{
    kvg_status s = p->run->filling > 0 ? fill(p) : KVG_OK;
    const double start = kvg_clock_seconds();
    struct rusage used;
    p->inside = 0;
    while (!s && p->result.operations < p->run->operations) {
        s = play_one(p);
        p->result.seconds = kvg_clock_seconds() - start;
        if (p->run->seconds > 0 && p->result.seconds > p->run->seconds) break;
    }
    p->result.inside = p->inside; /* without those of the end */
    p->result.held = (double)p->log.held / p->pool.blocks;
    if (getrusage(RUSAGE_SELF, &used) == 0) p->result.bytes = 1024 * (uint64_t)used.ru_maxrss;
    forget(&p->preempted);
    while (p->paused_count) go_on(p, 0);
    while (!s && p->live_count) s = release(p, p->live_count - 1);
    if (!s) s = count(p);
    if (!s) pool_guest_log_end(&p->log);
    return s;
}

/* --- the library --- */

static bool make_answer(play *p)
{
    const kvg_manager_pool *pool = &p->pool;
    const size_t all = kvg_guest_pool_all(pool);
    bool got = true;
    for (uint32_t g = 0; g < pool->group_count; g++) {
        p->answer[g] = (kvg_manager_table){.blocks = malloc(all * sizeof *p->answer->blocks),
                                           .copies = malloc(all * sizeof *p->answer->copies),
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

static bool make_own(play *p)
{
    const size_t shared = (size_t)PREFIXES * most_tokens(p);
    p->tokens = malloc(shared * sizeof *p->tokens);
    p->log.holders = calloc(p->pool.blocks, sizeof *p->log.holders);
    p->changed = malloc(most_blocks(p) * sizeof *p->changed);
    p->most_live = p->run->live ? p->run->live : MOST_LIVE;
    p->live = malloc(2 * p->most_live * sizeof *p->live); /* at the end with those that are paused */
    p->paused = malloc(p->most_live * sizeof *p->paused);
    if (!make_answer(p) || !p->tokens || !p->log.holders || !p->changed || !p->live || !p->paused) return false;
    for (size_t i = 0; i < shared; i++) p->tokens[i] = (int32_t)kvg_rng_below(p->run->seed, 1, i, PREFIX_TOKENS);
    return true;
}

static kvg_status check_given_back(const play *p)
{
    if (p->memory.pieces == 0) return KVG_OK;
    return pool_guest_broke(p, "leaves %" PRId64 " pieces of memory: give back all that pool->memory gave, also if "
                            "`open` fails", p->memory.pieces);
}

static kvg_status open_manager(play *p)
{
    kvg_status s = KVG_OK;
    while (pool_guest_asks(p, CALL_OPEN, 0)) s = pool_guest_answered(p, p->manager.open(&p->pool, &p->self));
    if (s && p->memory.pieces) return check_given_back(p);
    p->result.is_skipped = s == KVG_ERR_UNIMPLEMENTED;
    return s ? pool_guest_failed(p, s) : KVG_OK;
}

static kvg_status close_manager(play *p)
{
    while (pool_guest_asks(p, CALL_CLOSE, 0)) {
        p->manager.close(p->self);
        pool_guest_answered(p, KVG_OK);
    }
    return check_given_back(p);
}

static kvg_status play_library(play *p)
{
    kvg_status s = KVG_OK;
    while (pool_guest_asks(p, CALL_LOAD, 0))
        s = pool_guest_answered(p, kvg_guest_library_open(p->run->library, &p->manager));
    if (!s && !make_own(p)) s = kvg_fail(KVG_ERR_MEMORY, "no memory for a run");
    p->result.is_skipped = !s && !kvg_guest_pool_is_claimed(&p->pool, p->manager.claims);
    if (s || p->result.is_skipped) return s;
    while (p->run->bytes && pool_guest_asks(p, CALL_BYTES, 0)) {
        s = pool_guest_bytes_open(p->run->bytes, &p->pool, most_tokens(p), p->run->seed, &p->bytes);
        s = pool_guest_answered(p, s);
    }
    if (s) return s == KVG_ERR_UNIMPLEMENTED ? skip(p) : s;
    pool_guest_log_head(&p->log, p->manager.claims);
    s = open_manager(p);
    if (p->result.is_skipped) return KVG_OK;
    if (!s) s = play_all(p);
    if (s == KVG_ERR_UNIMPLEMENTED && p->call == CALL_BYTES) return skip(p);
    return s ? s : close_manager(p);
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
    pool_guest_memory_make(p);
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
                 pool_guest_last_call(p, text));
    }
    munmap(p, sizeof *p);
    return s;
}
