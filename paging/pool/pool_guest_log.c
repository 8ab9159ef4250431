#include "paging/pool/pool_guest_log.h"

#include <string.h>
#include <unistd.h>

#include "core/rng.h"

/* --- bytes: numbers by hand, because printf would take longer than all else that kvgold does in a run --- */

void pool_guest_log_flush(pool_guest_log *log)
{
    if (log->used > sizeof log->bytes) log->used = sizeof log->bytes; /* a library has written over it */
    for (size_t done = 0; done < log->used && !log->failed;) {
        const ssize_t n = write(log->file, log->bytes + done, log->used - done);
        if (n > 0) done += (size_t)n;
        else log->failed = true;
    }
    log->used = 0;
}

static void put(pool_guest_log *log, const char *bytes, size_t count)
{
    if (log->used + count > sizeof log->bytes) pool_guest_log_flush(log);
    memcpy(log->bytes + log->used, bytes, count);
    log->used += count;
}

static void put_text(pool_guest_log *log, const char *text)
{
    put(log, text, strlen(text));
}

/* A number behind a text. */
static void put_number(pool_guest_log *log, const char *before, uint64_t number)
{
    char digits[20];
    size_t first = sizeof digits;
    put_text(log, before);
    do digits[--first] = (char)('0' + number % 10);
    while (number /= 10);
    put(log, digits + first, sizeof digits - first);
}

/* A name behind a text, as 16 hexadecimal digits. */
static void put_name(pool_guest_log *log, const char *before, uint64_t name)
{
    char text[18] = {'"'};
    for (int i = 0; i < 16; i++) text[1 + i] = "0123456789abcdef"[name >> (60 - 4 * i) & 15];
    text[17] = '"';
    put_text(log, before);
    put(log, text, sizeof text);
}

/* --- parts of events --- */

static uint32_t block_tokens(const pool_guest_log *log)
{
    return log->pool->groups[log->group].block_tokens;
}

/* Whose event it is: 7, or "7.1" in group 1 of several. */
static void put_sequence(pool_guest_log *log, const pool_guest_sequence *q)
{
    const bool several = log->pool->group_count > 1;
    put_number(log, several ? ", \"sequence\": \"" : ", \"sequence\": ", q->id);
    if (!several) return;
    put_number(log, ".", log->group);
    put_text(log, "\"");
}

static void count_holder(pool_guest_log *log, uint32_t block, pool_guest_event event)
{
    if (block >= log->pool->blocks || event == GUEST_READ) return;
    uint32_t *holders = &log->holders[block];
    if (event != GUEST_FREE) log->held += (*holders)++ == 0;
    else log->held -= --*holders == 0;
}

/* An event up to the end of its list of blocks. */
static void begin_event(pool_guest_log *log, pool_guest_event event, const pool_guest_sequence *q,
                        const uint32_t *blocks, uint32_t count)
{
    static const char *const words[] = {"allocate", "hit", "free", "read"};
    const char *before = "";
    put_text(log, "{\"event\": \"");
    put_text(log, words[event]);
    put_text(log, "\"");
    put_sequence(log, q);
    put_text(log, ", \"blocks\": [");
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i] == KVG_MANAGER_NO_BLOCK) continue;
        put_number(log, before, blocks[i]);
        before = ", ";
        count_holder(log, blocks[i], event);
    }
    put_text(log, "]");
}

static uint32_t count_held(const uint32_t *blocks, uint32_t count)
{
    uint32_t held = 0;
    for (uint32_t i = 0; i < count; i++) held += blocks[i] != KVG_MANAGER_NO_BLOCK;
    return held;
}

static void put_tokens(pool_guest_log *log, const pool_guest_sequence *q, uint32_t from, uint32_t to)
{
    put_text(log, ", \"tokens\": [");
    for (uint32_t i = from; i < to; i++) put_number(log, i > from ? ", " : "", (uint64_t)q->tokens[i]);
    put_text(log, "]");
}

/* The name of its i-th block. */
static uint64_t name_of(const pool_guest_log *log, pool_guest_sequence *q, uint32_t i)
{
    const size_t size = block_tokens(log);
    pool_guest_part *part = &q->parts[log->group];
    for (; part->named <= i; part->named++) {
        const uint64_t of[] = {part->named ? part->names[part->named - 1] : q->salt, log->group,
                               kvg_hash64(q->tokens + part->named * size, size * sizeof *q->tokens)};
        part->names[part->named] = kvg_hash64(of, sizeof of);
    }
    return part->names[i];
}

/* --- events --- */

/* Blocks of the head are those of the group with the most tokens in one. */
static uint32_t most_block_tokens(const pool_guest_log *log)
{
    uint32_t most = 0;
    for (uint32_t g = 0; g < log->pool->group_count; g++) {
        if (log->pool->groups[g].block_tokens > most) most = log->pool->groups[g].block_tokens;
    }
    return most;
}

void pool_guest_log_head(pool_guest_log *log, uint32_t claims)
{
    static const struct {
        uint32_t claim;
        const char *flag;
    } promises[] = {
        {KVG_MANAGER_LOWEST_FIRST, ", \"lowest_first\": true"}, {KVG_MANAGER_FREE_FIRST, ", \"free_first\": true"},
        {KVG_MANAGER_OLDEST_FIRST, ", \"oldest_first\": true"}, {KVG_MANAGER_TAIL_FIRST, ", \"tail_first\": true"},
    };
    bool window = false;
    for (uint32_t g = 0; g < log->pool->group_count; g++) window = window || log->pool->groups[g].window;
    put_number(log, "{\"kvgold_pool_log\": 1, \"blocks\": ", log->pool->blocks);
    put_number(log, ", \"block_tokens\": ", most_block_tokens(log));
    if (log->pool->host_blocks) put_number(log, ", \"host_blocks\": ", log->pool->host_blocks);
    if (window) put_text(log, ", \"window\": true");
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) {
        if (claims & promises[i].claim) put_text(log, promises[i].flag);
    }
    put_text(log, ", \"evicts_on_allocate\": true}\n");
}

void pool_guest_log_blocks(pool_guest_log *log, pool_guest_event event, const pool_guest_sequence *q,
                           const uint32_t *blocks, uint32_t count)
{
    if (count_held(blocks, count) == 0) return;
    begin_event(log, event, q, blocks, count);
    put_text(log, "}\n");
}

/* The tokens of an event are those of its blocks from the first one on, which hold as many as the head says. So a hit
 * without the first, or in blocks of fewer tokens, has none: there the names tell. */
void pool_guest_log_hit(pool_guest_log *log, pool_guest_sequence *q, uint32_t count)
{
    const char *before = "";
    const uint32_t *table = q->parts[log->group].table, held = count_held(table, count), size = block_tokens(log);
    if (held == 0) return;
    begin_event(log, GUEST_HIT, q, table, count);
    put_text(log, ", \"hashes\": [");
    for (uint32_t i = 0; i < count; i++) {
        if (table[i] == KVG_MANAGER_NO_BLOCK) continue;
        put_name(log, before, name_of(log, q, i));
        before = ", ";
    }
    put_number(log, "], \"salt\": ", q->salt);
    if (held == count && size == most_block_tokens(log)) put_tokens(log, q, 0, count * size);
    put_text(log, "}\n");
}

void pool_guest_log_copy(pool_guest_log *log, const pool_guest_sequence *q, kvg_manager_copy c)
{
    put_text(log, q ? "{\"event\": \"copy\"" : "{\"event\": \"offload\"");
    if (q) put_sequence(log, q);
    put_number(log, ", \"from\": ", c.from);
    put_number(log, ", \"to\": ", c.to);
    put_text(log, "}\n");
}

void pool_guest_log_store(pool_guest_log *log, pool_guest_sequence *q, uint32_t i)
{
    const uint32_t size = block_tokens(log);
    put_number(log, "{\"event\": \"store\", \"block\": ", q->parts[log->group].table[i]);
    put_name(log, ", \"hash\": ", name_of(log, q, i));
    if (i > 0) put_name(log, ", \"parent\": ", name_of(log, q, i - 1));
    else put_text(log, ", \"parent\": null");
    put_number(log, ", \"salt\": ", q->salt);
    put_tokens(log, q, i * size, (i + 1) * size);
    put_text(log, "}\n");
}

void pool_guest_log_write(pool_guest_log *log, const pool_guest_sequence *q, uint32_t to)
{
    const uint32_t size = block_tokens(log);
    for (uint32_t i = q->written / size; i * size < to; i++) {
        const uint32_t from = i * size > q->written ? i * size : q->written;
        const uint32_t end = (i + 1) * size < to ? (i + 1) * size : to;
        put_text(log, "{\"event\": \"write\"");
        put_sequence(log, q);
        put_number(log, ", \"block\": ", q->parts[log->group].table[i]);
        put_number(log, ", \"first\": ", from - i * size);
        put_number(log, ", \"count\": ", end - from);
        put_text(log, "}\n");
    }
}

void pool_guest_log_available(pool_guest_log *log, uint32_t blocks)
{
    put_number(log, "{\"event\": \"counts\", \"available\": ", blocks);
    put_text(log, "}\n");
}

void pool_guest_log_end(pool_guest_log *log)
{
    put_text(log, "{\"event\": \"end\"}\n");
}
