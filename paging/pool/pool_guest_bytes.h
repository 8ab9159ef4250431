/* The bytes of a run of pool_guest.c: the blocks lie in pools, an implementation's append writes the tokens of a
 * sequence into its blocks, and its flatten reads them. What a sequence reads must be what each of its tokens
 * reads by itself, in a block of its own: docs/spec/paging.md section 8. */
#ifndef KVG_PAGING_POOL_POOL_GUEST_BYTES_H
#define KVG_PAGING_POOL_POOL_GUEST_BYTES_H

#include "paging/pool/pool_guest.h"
#include "paging/pool/pool_guest_log.h"

typedef struct pool_guest_bytes pool_guest_bytes;

/* Of sequences of up to `most` tokens; opens the backend. The pools hold random bytes. The process's end frees them.
 * KVG_ERR_UNIMPLEMENTED: the backend does not have the ops in this format, layout and block size, or the layout cannot
 * hold groups whose blocks have other sizes. Other errors: it cannot be asked at all. */
kvg_status pool_guest_bytes_open(const kvg_guest_bytes *of, const kvg_manager_pool *pool, uint32_t most, uint64_t seed,
                                 pool_guest_bytes **out) KVG_CHECKED;

/* Writes the sequence's tokens from q->written to `to` into its blocks of the group, as operation `operation`. */
kvg_status pool_guest_bytes_write(pool_guest_bytes *b, pool_guest_sequence *q, uint32_t group, uint32_t to,
                                  uint64_t operation) KVG_CHECKED;

/* Copies all bytes of a block. */
void pool_guest_bytes_copy(pool_guest_bytes *b, kvg_manager_copy c);

/* Reads the sequence's written tokens from block `first` of the group on, and adds to *read how many were compared.
 * KVG_ERR_INVALID says which token reads otherwise than by itself, and which operation wrote last where it lies. */
kvg_status pool_guest_bytes_read(pool_guest_bytes *b, pool_guest_sequence *q, uint32_t group, uint32_t first,
                                 uint64_t *read) KVG_CHECKED;

#endif
