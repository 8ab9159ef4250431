/* One cell of the producer x consumer table: whether a reader gets from a writer's bytes the K and
 * V that were written, within the round-trip bound of the writer's dialect (docs/spec/numerics.md
 * section 2). */
#ifndef KVG_HARNESS_MATRIX_MATRIX_CELL_H
#define KVG_HARNESS_MATRIX_MATRIX_CELL_H

#include "harness/candidate/candidate.h"
#include "harness/matrix/matrix_world.h"

/* A party writes or reads as an engine does: the reference, or an implementation that claims to be
 * the engine. */
typedef struct kvg_matrix_party {
    char name[96];
    const kvg_engine *engine;
    const char *backend; /* name or path of the implementation (kvg_check_backend); NULL: the reference */
    const char *answer;  /* a file of the engine's writing and reading (harness/matrix/matrix_files.h); NULL: it runs
                          * here */
} kvg_matrix_party;

/* A writer's result: its pools (the outputs of op append), and the numbers that it calls tensor
 * scales. */
typedef struct kvg_matrix_pages {
    kvg_tensor pools[KVG_MATRIX_POOLS];
    float g[2], number[2];
} kvg_matrix_pages;

/* Changes that are possible between writer and reader without decoding a code. */
typedef enum kvg_conversion {
    KVG_CONVERT_BYTES = 1, /* rows of codes and scales moved to the reader's places */
    KVG_CONVERT_ORDER = 2, /* elements of K's rows put in the reader's order; not where blocks share scales */
    KVG_CONVERT_NUMBER = 4 /* the tensor scale given as the number that the reader expects */
} kvg_conversion;

typedef enum kvg_matrix_verdict {
    KVG_MATRIX_ABSENT,   /* writer or reader cannot do it: the note says why */
    KVG_MATRIX_READS,    /* the reader reads the bytes as they are */
    KVG_MATRIX_CONVERTS, /* the reader reads them after the conversions */
    KVG_MATRIX_WRONG,    /* wrong even after every possible conversion: only decoding and quantising again helps */
    KVG_MATRIX_FAILED    /* an implementation crashed, hung or failed: the note says how */
} kvg_matrix_verdict;

/* Error of K and V; infinite for NaN. */
typedef struct kvg_matrix_error {
    double ratio[2];       /* worst |y - x| / bound for each side; above 1 is wrong */
    double relative_l2[2]; /* |y - x| / |x| */
} kvg_matrix_error;

typedef struct kvg_matrix_cell {
    kvg_matrix_verdict verdict;
    bool same_sizes;        /* the pools have the reader's sizes, so the reader can read the bytes as they are */
    kvg_matrix_error as_is; /* if same_sizes */
    unsigned conversions;   /* the fewest conversions that help; WRONG: every possible conversion */
    kvg_matrix_error after; /* error after these conversions */
    char defect[64];        /* row of harness/trial/wrong/defects.def by which this reader differs from this
                             * writer, read as it is; or "" */
    char note[200];
} kvg_matrix_cell;

/* Writes the world into pages->pools. The caller gives their data, sized as kvg_matrix_problem (op
 * append) says. `candidate` is the party's opened backend; NULL for the reference or a file. */
kvg_status kvg_matrix_write(const kvg_matrix_world *world, const kvg_matrix_party *party, kvg_candidate *candidate,
                            kvg_matrix_pages *pages) KVG_CHECKED;

/* Allocates the tensors of a problem of the engine, and fills those that follow from the world:
 * values (K's elements in the engine's order), slots, block table, lengths. Call kvg_set_free at
 * the end, also on failure. */
kvg_status kvg_matrix_inputs(const kvg_matrix_world *world, const kvg_engine *engine, const kvg_problem *problem,
                             const kvg_role *roles, kvg_tensor_set *out) KVG_CHECKED;

/* Fills the cell. Never fails: every error becomes a verdict with a note. `candidate` is the
 * reader's. */
void kvg_matrix_read(const kvg_matrix_world *world, const kvg_matrix_party *writer, const kvg_matrix_pages *pages,
                     const kvg_matrix_party *reader, kvg_candidate *candidate, kvg_matrix_cell *cell);

bool kvg_matrix_right(const kvg_matrix_error *error); /* both sides are within their bounds */

/* Name of one conversion: "bytes", "order" or "number". */
const char *kvg_conversion_name(kvg_conversion conversion);

#endif
