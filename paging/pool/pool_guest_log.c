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

/* An event up to the end of its list of blocks. */
static void begin_event(pool_guest_log *log, const char *event, const pool_guest_sequence *q, const uint32_t *blocks,
                        uint32_t count)
{
    const char *before = "";
    put_text(log, "{\"event\": \"");
    put_text(log, event);
    put_number(log, "\", \"sequence\": ", q->id);
    put_text(log, ", \"blocks\": [");
    for (uint32_t i = 0; i < count; i++) {
        if (blocks[i] == KVG_MANAGER_NO_BLOCK) continue;
        put_number(log, before, blocks[i]);
        before = ", ";
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
    const size_t size = log->block_tokens;
    for (; q->named <= i; q->named++) {
        const uint64_t parts[] = {q->named ? q->names[q->named - 1] : q->salt,
                                  kvg_hash64(q->tokens + q->named * size, size * sizeof *q->tokens)};
        q->names[q->named] = kvg_hash64(parts, sizeof parts);
    }
    return q->names[i];
}

/* --- events --- */

void pool_guest_log_head(pool_guest_log *log, const kvg_manager_pool *pool)
{
    put_number(log, "{\"kvgold_pool_log\": 1, \"blocks\": ", pool->blocks);
    put_number(log, ", \"block_tokens\": ", pool->block_tokens);
    put_text(log, pool->window ? ", \"evicts_on_allocate\": true, \"window\": true}\n"
                               : ", \"evicts_on_allocate\": true}\n");
}

void pool_guest_log_blocks(pool_guest_log *log, const char *event, const pool_guest_sequence *q, const uint32_t *blocks,
                           uint32_t count)
{
    if (count_held(blocks, count) == 0) return;
    begin_event(log, event, q, blocks, count);
    put_text(log, "}\n");
}

/* The tokens of an event are those of its blocks from the first one on, so that a hit without the first has none: there
 * the names tell. */
void pool_guest_log_hit(pool_guest_log *log, pool_guest_sequence *q, uint32_t count)
{
    const char *before = "";
    const uint32_t held = count_held(q->table, count);
    if (held == 0) return;
    begin_event(log, "hit", q, q->table, count);
    put_text(log, ", \"hashes\": [");
    for (uint32_t i = 0; i < count; i++) {
        if (q->table[i] == KVG_MANAGER_NO_BLOCK) continue;
        put_name(log, before, name_of(log, q, i));
        before = ", ";
    }
    put_number(log, "], \"salt\": ", q->salt);
    if (held == count) put_tokens(log, q, 0, count * log->block_tokens);
    put_text(log, "}\n");
}

void pool_guest_log_copies(pool_guest_log *log, const pool_guest_sequence *q, const kvg_manager_table *t)
{
    for (uint32_t i = 0; i < t->copy_count; i++) {
        put_number(log, "{\"event\": \"copy\", \"sequence\": ", q->id);
        put_number(log, ", \"from\": ", t->copies[i].from);
        put_number(log, ", \"to\": ", t->copies[i].to);
        put_text(log, "}\n");
    }
}

void pool_guest_log_store(pool_guest_log *log, pool_guest_sequence *q, uint32_t i)
{
    const uint32_t size = log->block_tokens;
    put_number(log, "{\"event\": \"store\", \"block\": ", q->table[i]);
    put_name(log, ", \"hash\": ", name_of(log, q, i));
    if (i > 0) put_name(log, ", \"parent\": ", name_of(log, q, i - 1));
    else put_text(log, ", \"parent\": null");
    put_number(log, ", \"salt\": ", q->salt);
    put_tokens(log, q, i * size, (i + 1) * size);
    put_text(log, "}\n");
}

void pool_guest_log_write(pool_guest_log *log, const pool_guest_sequence *q, uint32_t to)
{
    const uint32_t size = log->block_tokens;
    for (uint32_t i = q->written / size; i * size < to; i++) {
        const uint32_t from = i * size > q->written ? i * size : q->written;
        const uint32_t end = (i + 1) * size < to ? (i + 1) * size : to;
        put_number(log, "{\"event\": \"write\", \"sequence\": ", q->id);
        put_number(log, ", \"block\": ", q->table[i]);
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
