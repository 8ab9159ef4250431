/* Writing safetensors files as golden packs have them (docs/spec/golden-pack.md section 2): every tensor at a
 * multiple of 256 bytes, `_pad.N` tensors in the gaps, no byte that belongs to nobody, the same bytes every time.
 * First everything is declared, then the bytes are streamed in the same order: nothing is held but the header. */
#ifndef KVG_GOLDEN_SAFETENSORS_WRITE_H
#define KVG_GOLDEN_SAFETENSORS_WRITE_H

#include <stdio.h>

#include "golden/safetensors.h"
#include "golden/sha256.h"

typedef struct kvg_safetensors_writer kvg_safetensors_writer;

enum { KVG_SAFETENSORS_ALIGNMENT = 256 };

kvg_status kvg_safetensors_writer_make(kvg_safetensors_writer **out) KVG_CHECKED;
void kvg_safetensors_writer_free(kvg_safetensors_writer *w); /* NULL is allowed */

/* One more member of "__metadata__". */
kvg_status kvg_safetensors_writer_note(kvg_safetensors_writer *w, const char *key, const char *value) KVG_CHECKED;

/* One more tensor, of at least one byte. The name is copied; it must be new, and not start with '_'. */
kvg_status kvg_safetensors_writer_declare(kvg_safetensors_writer *w, const char *name, const char *dtype, uint32_t rank,
                                          const uint64_t *shape) KVG_CHECKED;

/* Ends the declarations and writes the header. `file` NULL: bytes are counted and hashed, and written nowhere. */
kvg_status kvg_safetensors_writer_begin(kvg_safetensors_writer *w, FILE *file) KVG_CHECKED;

/* The bytes of the next tensor, all of them. KVG_ERR_IO if the file does not take them. */
kvg_status kvg_safetensors_writer_put(kvg_safetensors_writer *w, const void *data, size_t bytes) KVG_CHECKED;

/* After the last tensor: size and hash of the file. Flushing, syncing and closing it are the caller's. */
void kvg_safetensors_writer_end(kvg_safetensors_writer *w, uint64_t *bytes, kvg_sha256_digest *digest);

#endif
