/* The prover over a grid, on all cores. */
#ifndef KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_SWEEP_H
#define KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_SWEEP_H

#include "tests/reference/layout/layout_grid.h"
#include "tests/reference/layout/layout_prover.h"

typedef struct layout_sweep {
    uint64_t combinations; /* proven: layout x format pair x options x geometry */
    uint64_t refused;      /* those that the page refuses, and kvg_problem_check too */
    uint64_t left;         /* legal ones with more rows than the limit: not proven here */
    uint64_t rows, bytes, padding, single;
    uint64_t failures;
    uint64_t first_failure; /* index of the first in the grid */
} layout_sweep;

/* Combinations start, start + stride, ... of the grid with at most max_rows rows. A failure is a broken property, or a
 * kvg_problem_check that does not agree with page_legal. */
layout_sweep layout_sweep_run(const layout_grid *grid, uint64_t start, uint64_t stride, uint64_t max_rows);

/* What went wrong with combination `index` on stderr; the figures in one line on stdout. */
void layout_sweep_explain(const layout_grid *grid, uint64_t index);
void layout_sweep_print(const layout_sweep *sweep);

#endif
