/* Cells: what a run is about, by op, storage of K and of V, and layout. A run that judged some of them says how many of
 * all, so that a little is not taken for everything. */
#ifndef KVG_HARNESS_CASE_CELLS_H
#define KVG_HARNESS_CASE_CELLS_H

#include <stdbool.h>
#include <stddef.h>

#include "harness/case/result.h"

typedef struct kvg_cell {
    const kvg_result_asked *asked; /* by one of its cases, whose texts must stay */
    bool judged;                   /* an answer to one of its cases was */
    bool claimed;                  /* the implementation claims some of it */
} kvg_cell;

/* Cells of one case each, in any order: puts the different ones first, each with what holds of any of its cases, and
 * returns how many they are. */
size_t kvg_cells_merge(kvg_cell *cells, size_t count);

size_t kvg_cells_judged(const kvg_cell *cells, size_t count);

#endif
