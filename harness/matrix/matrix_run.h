/* The whole producer x consumer table. Every party writes in a process of its own, and reads in a
 * process of its own. A party that crashes or hangs loses only its own row, or the rest of its own
 * column. */
#ifndef KVG_HARNESS_MATRIX_MATRIX_RUN_H
#define KVG_HARNESS_MATRIX_MATRIX_RUN_H

#include "harness/matrix/matrix_cell.h"

enum { KVG_MATRIX_PARTIES = 64 };

typedef struct kvg_matrix {
    kvg_matrix_shape shape;
    const kvg_matrix_party *parties; /* owned by the caller */
    size_t count;
    kvg_matrix_cell *cells;          /* [writer * count + reader] */
    void *shared;                    /* the mapping that holds the cells and the pages */
    size_t shared_bytes;
} kvg_matrix;

/* Appends to the *count parties (room for KVG_MATRIX_PARTIES) every engine of the format and `own`,
 * an engine of the caller's, or only the engine `only`. `own` may be NULL. `backend` writes and reads
 * for them; NULL: the reference. Nothing is opened yet. All that is given must outlive the parties. */
kvg_status kvg_matrix_add(kvg_format format, const kvg_engine *own, const char *backend, const char *only,
                          kvg_matrix_party *parties, size_t *count) KVG_CHECKED;

/* Appends a party whose pages and readings are in a file. The path must outlive the parties. */
kvg_status kvg_matrix_add_answer(const kvg_engine *engine, const char *path, kvg_matrix_party *parties,
                                 size_t *count) KVG_CHECKED;

/* Fills the table. A backend has `seconds` to write, and again to read all pages. Call it in a
 * process that has run no parallel region, because its children run some. Call kvg_matrix_free at
 * the end, also on failure. */
kvg_status kvg_matrix_make(const kvg_matrix_shape *shape, const kvg_matrix_party *parties, size_t count,
                           unsigned seconds, kvg_matrix *out) KVG_CHECKED;
void kvg_matrix_free(kvg_matrix *matrix);

/* Writes two files (harness/matrix/matrix_files.h) to a folder: what an engine is to write, with the
 * bytes that the pools hold before, and the reference's pages of that engine for it to read. */
kvg_status kvg_matrix_prompt(const kvg_matrix_world *world, const kvg_engine *engine, const char *folder) KVG_CHECKED;

const kvg_matrix_cell *kvg_matrix_at(const kvg_matrix *matrix, size_t writer, size_t reader);

/* Number of cells of two parties of one engine that do not read as they are: one of the two is not
 * the engine that it claims to be. Cells that a backend does not implement are not counted. */
size_t kvg_matrix_broken(const kvg_matrix *matrix);

#endif
