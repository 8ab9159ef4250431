/* Buffers that notice writes outside them: canary bytes on both sides, unmapped pages beyond those, and on request
 * no writing at all. */
#ifndef KVG_SUPPORT_GUARD_H
#define KVG_SUPPORT_GUARD_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum { KVG_GUARD_CANARY = 256 }; /* at least so many canary bytes on each side */

typedef struct kvg_guard {
    void *data;       /* `bytes` bytes, 64-byte aligned; NULL if bytes is 0 */
    size_t bytes;
    uint8_t *mapping; /* unmapped | canary .. data .. canary | unmapped */
    size_t mapped;
} kvg_guard;

/* Allocates; the data bytes hold the canary pattern too, so that unwritten output is not zero. */
kvg_status kvg_guard_alloc(size_t bytes, kvg_guard *out) KVG_CHECKED;
void kvg_guard_free(kvg_guard *guard);

/* KVG_ERR_INVALID says how many canary bytes changed and where: "3 bytes written past the end, first at +0". */
kvg_status kvg_guard_check(const kvg_guard *guard) KVG_CHECKED;

/* The same for any piece of memory: fills `piece[begin .. end - 1]` with the pattern; finds what changed of a piece of
 * `size` bytes outside of `piece[begin .. end - 1]`. */
void kvg_guard_fill(uint8_t *piece, size_t begin, size_t end);
kvg_status kvg_guard_find(const uint8_t *piece, size_t size, size_t begin, size_t end) KVG_CHECKED;

/* The pattern's byte at a place; it repeats after 256 places, and these 256 bytes are different. */
uint8_t kvg_guard_byte(size_t place);

/* Makes the buffer read-only (a write is a crash) or writable again. */
kvg_status kvg_guard_protect(kvg_guard *guard, int writable) KVG_CHECKED;

#endif
