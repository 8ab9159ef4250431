/* The whole producer x consumer table. Every party writes, and every party reads, in a process of its own: one that
 * crashes or hangs costs its own row or the rest of its own column. */
#ifndef KVG_HARNESS_PACK_MATRIX_RUN_H
#define KVG_HARNESS_PACK_MATRIX_RUN_H

#include "harness/pack/matrix_cell.h"

enum { KVG_MATRIX_PARTIES = 64 };

typedef struct kvg_matrix {
    kvg_matrix_shape shape;
    const kvg_matrix_party *parties; /* the caller's */
    size_t count;
    kvg_matrix_cell *cells;          /* [writer * count + reader] */
    void *shared;                    /* mapping that holds the cells and the pages */
    size_t shared_bytes;
} kvg_matrix;

/* Appends to *count parties (room for KVG_MATRIX_PARTIES) every engine of the format, or the one that `only` names, as
 * `backend` writes and reads it: NULL is the reference. Nothing is opened. Both strings must live on. */
kvg_status kvg_matrix_add(kvg_format format, const char *backend, const char *only, kvg_matrix_party *parties,
                          size_t *count) KVG_CHECKED;

/* Appends what a file says that an engine wrote and read. The path must live on. */
kvg_status kvg_matrix_add_answer(const kvg_engine *engine, const char *path, kvg_matrix_party *parties,
                                 size_t *count) KVG_CHECKED;

/* A backend has `seconds` to write, and to read all pages. Must be called by a process that has run no parallel region:
 * its children run some. Free with kvg_matrix_free, also on failure. */
kvg_status kvg_matrix_make(const kvg_matrix_shape *shape, const kvg_matrix_party *parties, size_t count,
                           unsigned seconds, kvg_matrix *out) KVG_CHECKED;
void kvg_matrix_free(kvg_matrix *matrix);

/* What an engine is to write (the bytes that the pools hold before included), and the reference's pages of that engine
 * for it to read: files in a folder (harness/pack/matrix_files.h). */
kvg_status kvg_matrix_prompt(const kvg_matrix_world *world, const kvg_engine *engine, const char *folder) KVG_CHECKED;

const kvg_matrix_cell *kvg_matrix_at(const kvg_matrix *matrix, size_t writer, size_t reader);

/* Cells of two parties of one engine that do not read as they are: somebody is not the engine that it claims to be.
 * What a backend does not implement is not counted. */
size_t kvg_matrix_broken(const kvg_matrix *matrix);

#endif
