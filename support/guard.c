#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/guard.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    FENCE = 1 << 20, /* unmapped bytes on each side: a multiple of every page size in use */
    PERIOD = 256,    /* of the pattern, kvg_guard_byte */
};

/* A canary byte depends on its place, so that a shifted copy of canaries is seen too. */
uint8_t kvg_guard_byte(size_t place)
{
    return (uint8_t)(0xA5u ^ (place * 0x9Du));
}

void kvg_guard_fill(uint8_t *piece, size_t begin, size_t end)
{
    size_t i = begin;
    for (; i < end && i - begin < PERIOD; i++) piece[i] = kvg_guard_byte(i);
    for (; i < end; i += PERIOD) memcpy(piece + i, piece + i - PERIOD, end - i < PERIOD ? end - i : PERIOD);
}

/* What changed of the pattern: how many bytes, and the places of two of them. */
typedef struct damage {
    size_t count, first, last;
} damage;

static damage find_damage(const uint8_t *piece, size_t begin, size_t end)
{
    uint8_t pattern[PERIOD];
    damage d = {0};
    kvg_guard_fill(pattern, 0, PERIOD);
    for (size_t block = begin, next; block < end; block = next) {
        next = end - block < PERIOD - block % PERIOD ? end : block + PERIOD - block % PERIOD;
        if (memcmp(piece + block, pattern + block % PERIOD, next - block) == 0) continue;
        for (size_t i = block; i < next; i++) {
            if (piece[i] == pattern[i % PERIOD]) continue;
            if (d.count++ == 0) d.first = i;
            d.last = i;
        }
    }
    return d;
}

kvg_status kvg_guard_find(const uint8_t *piece, size_t size, size_t begin, size_t end)
{
    const damage before = find_damage(piece, 0, begin), after = find_damage(piece, end, size);
    if (after.count) {
        return kvg_fail(KVG_ERR_INVALID, "%zu bytes written past the end, first at +%zu", after.count,
                        after.first - end);
    }
    if (before.count) {
        return kvg_fail(KVG_ERR_INVALID, "%zu bytes written before the start, first at -%zu", before.count,
                        begin - before.last);
    }
    return KVG_OK;
}

kvg_status kvg_guard_alloc(size_t bytes, kvg_guard *out)
{
    *out = (kvg_guard){.bytes = bytes};
    if (bytes == 0) return KVG_OK;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t inner = (bytes + 2 * KVG_GUARD_CANARY + 63 + page - 1) / page * page;
    out->mapped = inner + 2 * FENCE;
    void *mapping = mmap(NULL, out->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED || mprotect((uint8_t *)mapping + FENCE, inner, PROT_READ | PROT_WRITE) != 0) {
        return kvg_fail(KVG_ERR_MEMORY, "cannot map a buffer of %zu bytes", bytes);
    }
    out->mapping = mapping;
    /* The end of the data is as near to the unmapped page as alignment and the canary allow. */
    size_t offset = (FENCE + inner - KVG_GUARD_CANARY - bytes) / 64 * 64;
    out->data = out->mapping + offset;
    kvg_guard_fill(out->mapping + FENCE, 0, inner);
    return KVG_OK;
}

void kvg_guard_free(kvg_guard *guard)
{
    if (guard->mapping) munmap(guard->mapping, guard->mapped);
    *guard = (kvg_guard){0};
}

kvg_status kvg_guard_check(const kvg_guard *guard)
{
    if (!guard->mapping) return KVG_OK;
    const size_t begin = (size_t)((uint8_t *)guard->data - guard->mapping) - FENCE;
    return kvg_guard_find(guard->mapping + FENCE, guard->mapped - 2 * FENCE, begin, begin + guard->bytes);
}

kvg_status kvg_guard_protect(kvg_guard *guard, int writable)
{
    if (!guard->mapping) return KVG_OK;
    if (mprotect(guard->mapping + FENCE, guard->mapped - 2 * FENCE, writable ? PROT_READ | PROT_WRITE : PROT_READ) !=
        0) {
        return kvg_fail(KVG_ERR_MEMORY, "cannot change the protection of a buffer of %zu bytes", guard->bytes);
    }
    return KVG_OK;
}
