/* One cell of the producer x consumer table: whether a reader makes of a writer's bytes the K and V that were written,
 * within the round-trip bound of the writer's dialect (docs/spec/numerics.md section 2). */
#ifndef KVG_HARNESS_PACK_MATRIX_CELL_H
#define KVG_HARNESS_PACK_MATRIX_CELL_H

#include "harness/candidate/candidate.h"
#include "harness/pack/matrix_world.h"

/* Who writes or reads as an engine does: the reference, or an implementation that claims to be that engine. */
typedef struct kvg_matrix_party {
    char name[96];
    const kvg_engine *engine;
    const char *backend; /* its name or path (kvg_check_backend): NULL: the reference */
    const char *answer;  /* a file with what it wrote and read (harness/pack/matrix_files.h); NULL: it runs here */
} kvg_matrix_party;

/* What a writer hands over: its pools (the outputs of op append) and the numbers that it calls tensor scales. */
typedef struct kvg_matrix_pages {
    kvg_tensor pools[KVG_MATRIX_POOLS];
    float g[2], number[2];
} kvg_matrix_pages;

/* What may be changed between a writer and a reader without decoding a single code. */
typedef enum kvg_conversion {
    KVG_CONVERT_BYTES = 1, /* rows of codes and scales moved to the reader's places */
    KVG_CONVERT_ORDER = 2, /* elements of K's rows put in the reader's order; not where blocks share scales */
    KVG_CONVERT_NUMBER = 4 /* the tensor scale told as the reader means it */
} kvg_conversion;

typedef enum kvg_matrix_verdict {
    KVG_MATRIX_ABSENT,   /* one of the two cannot do it: the note says why */
    KVG_MATRIX_READS,    /* as it is */
    KVG_MATRIX_CONVERTS, /* after the conversions */
    KVG_MATRIX_WRONG,    /* even after every conversion that there is: only decoding and quantising again helps */
    KVG_MATRIX_FAILED    /* an implementation crashed, hung or failed: the note says how */
} kvg_matrix_verdict;

/* How far K and V are off; infinite for NaN. */
typedef struct kvg_matrix_error {
    double ratio[2];       /* worst |y - x| / bound of a side; above 1 is wrong */
    double relative_l2[2]; /* |y - x| / |x| */
} kvg_matrix_error;

typedef struct kvg_matrix_cell {
    kvg_matrix_verdict verdict;
    bool same_sizes;        /* the pools have the reader's sizes: its bytes can be read as they are */
    kvg_matrix_error as_is; /* where they can */
    unsigned conversions;   /* the fewest that help; of WRONG: every one there is */
    kvg_matrix_error after; /* them */
    char defect[64];        /* row of wrong/defects.def that the reader is to this writer, read as it is; or "" */
    char note[200];
} kvg_matrix_cell;

/* Writes the world into pages->pools, whose data the caller gives, sized as kvg_matrix_problem (op append) says.
 * `candidate` is the party's backend, opened; NULL: the reference, or a file. */
kvg_status kvg_matrix_write(const kvg_matrix_world *world, const kvg_matrix_party *party, kvg_candidate *candidate,
                            kvg_matrix_pages *pages) KVG_CHECKED;

/* Allocates tensors of a problem of the engine's, and fills those that the world gives: values (K's elements in the
 * engine's order), slots, block table, lengths. On failure, and at the end, kvg_set_free. */
kvg_status kvg_matrix_inputs(const kvg_matrix_world *world, const kvg_engine *engine, const kvg_problem *problem,
                             const kvg_role *roles, kvg_tensor_set *out) KVG_CHECKED;

/* Fills the cell; never fails: what goes wrong is a verdict with a note. `candidate` is the reader's. */
void kvg_matrix_read(const kvg_matrix_world *world, const kvg_matrix_party *writer, const kvg_matrix_pages *pages,
                     const kvg_matrix_party *reader, kvg_candidate *candidate, kvg_matrix_cell *cell);

bool kvg_matrix_right(const kvg_matrix_error *error); /* both sides within their bounds */

/* "bytes", "order" or "number" for one of them. */
const char *kvg_conversion_name(kvg_conversion conversion);

#endif
