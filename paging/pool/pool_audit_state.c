#define _POSIX_C_SOURCE 200809L
#include "paging/pool/pool_audit_state.h"

#include <stdlib.h>
#include <string.h>

const char *const pool_state_names[POOL_STATES] = {"free", "cached", "held"};

/* --- digests: FNV-1a, 1 in the place of 0 --- */

static const uint64_t fnv_start = 0xcbf29ce484222325, fnv_prime = 0x100000001b3;

static uint64_t digest_bytes(const void *bytes, size_t size)
{
    const unsigned char *b = bytes;
    uint64_t digest = fnv_start;
    for (size_t i = 0; i < size; i++) digest = (digest ^ b[i]) * fnv_prime;
    return digest ? digest : 1;
}

uint64_t pool_digest_text(const char *text)
{
    return text ? digest_bytes(text, strlen(text)) : 0;
}

uint64_t pool_digest_tokens(const int64_t *tokens, size_t count)
{
    return digest_bytes(tokens, count * sizeof tokens[0]);
}

/* --- names --- */

uint32_t pool_name_find(const pool_table *t, const char *name)
{
    uint32_t id = pool_table_first(t, pool_digest_text(name));
    while (id && strcmp(*(char *const *)pool_table_at(t, id), name) != 0) id = pool_table_next(t, id);
    return id;
}

kvg_status pool_name_add(pool_table *t, const char *name, uint32_t *id)
{
    char *copy = strdup(name);
    if (!copy) return kvg_fail(KVG_ERR_MEMORY, "no memory for a name");
    kvg_status s = pool_table_add(t, pool_digest_text(name), id);
    if (s) free(copy);
    else *(char **)pool_table_at(t, *id) = copy;
    return s;
}

void pool_name_drop(pool_table *t, uint32_t id)
{
    free(*(char **)pool_table_at(t, id));
    pool_table_drop(t, id);
}

pool_sequence *pool_sequence_at(const kvg_audit *a, uint32_t id)
{
    return pool_table_at(&a->sequences, id);
}

pool_content *pool_content_at(const kvg_audit *a, uint32_t id)
{
    return pool_table_at(&a->contents, id);
}

pool_holding *pool_holding_at(const kvg_audit *a, uint32_t id)
{
    return pool_table_at(&a->holdings, id);
}

/* --- blocks --- */

uint64_t *pool_written(const kvg_audit *a, uint32_t id)
{
    return a->written + id * a->words;
}

void pool_written_fill(kvg_audit *a, uint32_t id, bool all)
{
    memset(pool_written(a, id), all ? 0xff : 0, a->words * sizeof a->written[0]);
}

bool pool_is_empty(const kvg_audit *a, uint32_t id)
{
    for (size_t i = 0; i < a->words; i++) {
        if (pool_written(a, id)[i]) return false;
    }
    return true;
}

uint32_t pool_written_leading(const kvg_audit *a, uint32_t id)
{
    const uint64_t *words = pool_written(a, id);
    uint32_t n = 0;
    while (n < a->head.block_tokens && words[n / 64] >> n % 64 & 1) n++;
    return n;
}

bool pool_written_any(const kvg_audit *a, uint32_t id, int64_t first, int64_t count)
{
    const uint64_t *words = pool_written(a, id);
    for (int64_t i = first; i < first + count && i < a->head.block_tokens; i++) {
        if (words[i / 64] >> i % 64 & 1) return true;
    }
    return false;
}

uint32_t pool_all_blocks(const kvg_audit *a)
{
    return a->head.blocks + a->head.host_blocks;
}

void pool_content_release(kvg_audit *a, uint32_t id)
{
    if (--pool_content_at(a, id)->uses == 0) pool_name_drop(&a->contents, id);
}

void pool_become(kvg_audit *a, uint32_t id, uint32_t holders, uint32_t stored)
{
    pool_block *b = &a->blocks[id];
    const bool counts = id < a->head.blocks;
    const int before = pool_state(b);
    a->counts[before] -= counts;
    if (stored != b->stored) {
        if (stored) pool_content_at(a, stored)->uses++;
        if (b->stored) pool_content_release(a, b->stored);
    }
    b->holders = holders;
    b->stored = stored;
    b->line = a->event->line;
    a->counts[pool_state(b)] += counts;
    if (counts) pool_order_change(a, id, before);
    if (pool_state(b) != POOL_FREE) return;
    b->copied = 0;
    pool_written_fill(a, id, false);
}

static uint64_t digest_holding(uint32_t owner, uint32_t id)
{
    return ((uint64_t)owner << 32 | id) * fnv_prime;
}

uint32_t pool_holding_find(const kvg_audit *a, uint32_t owner, uint32_t id)
{
    uint32_t found = owner ? pool_table_first(&a->holdings, digest_holding(owner, id)) : 0;
    while (found) {
        const pool_holding *h = pool_holding_at(a, found);
        if (h->sequence == owner && h->block == id) break;
        found = pool_table_next(&a->holdings, found);
    }
    return found;
}

kvg_status pool_hold(kvg_audit *a, uint32_t *owner, uint32_t id)
{
    uint32_t made;
    if (!*owner) {
        kvg_status s = pool_name_add(&a->sequences, a->event->values[KVG_AUDIT_FIELD_SEQUENCE].text, owner);
        if (s) return s;
        a->totals.sequences++;
    }
    kvg_status s = pool_table_add(&a->holdings, digest_holding(*owner, id), &made);
    if (s) return s;
    pool_sequence *q = pool_sequence_at(a, *owner);
    *pool_holding_at(a, made) = (pool_holding){.sequence = *owner, .block = id, .after = q->first};
    if (q->first) pool_holding_at(a, q->first)->before = made;
    q->first = made;
    pool_become(a, id, a->blocks[id].holders + 1, a->blocks[id].stored);
    return KVG_OK;
}

void pool_let_go(kvg_audit *a, uint32_t which)
{
    const pool_holding h = *pool_holding_at(a, which);
    pool_sequence *q = pool_sequence_at(a, h.sequence);
    if (h.after) pool_holding_at(a, h.after)->before = h.before;
    if (h.before) pool_holding_at(a, h.before)->after = h.after;
    else q->first = h.after;
    if (!q->first) pool_name_drop(&a->sequences, h.sequence);
    pool_table_drop(&a->holdings, which);
    pool_become(a, h.block, a->blocks[h.block].holders - 1, a->blocks[h.block].stored);
}
