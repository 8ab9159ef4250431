/* Cells of a run: one for each combination of op, storage of K and of V, and layout that its cases
 * have. A report of a run tells how many of all cells were judged, so that nobody takes a small
 * part for the whole. */
#ifndef KVG_HARNESS_CASE_CELLS_H
#define KVG_HARNESS_CASE_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/case/result.h"

typedef struct kvg_cell {
    const kvg_result_asked *asked; /* asked of one of its cases, whose texts must stay valid */
    bool judged;                   /* an answer to one of its cases was judged */
} kvg_cell;

/* Merges equal cells. On input every cell stands for one case, in any order. Afterwards the
 * different cells come first, judged if any of their cases was.
 * Returns the number of different cells. */
size_t kvg_cells_merge(kvg_cell *cells, size_t count);

size_t kvg_cells_judged(const kvg_cell *cells, size_t count);

#endif
