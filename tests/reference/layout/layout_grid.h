/* The combinations that the proofs run over: layouts, format pairs, options and geometries, numbered. */
#ifndef KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_GRID_H
#define KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_GRID_H

#include "tests/reference/layout/layout_page.h"

/* The last four axes; layouts, format pairs and options are always all there. */
typedef struct layout_grid {
    const uint32_t *dims, *tokens, *heads;
    const uint32_t (*pools)[2]; /* L, N */
    uint32_t dim_count, token_count, head_count, pool_count;
} layout_grid;

extern const layout_grid layout_grid_full;  /* what the exhaustive sweep proves */
extern const layout_grid layout_grid_small; /* every kind of geometry once, in a few rows */

uint64_t layout_grid_size(const layout_grid *grid);

/* Combination `index` below the size, as op append of bf16 or f16 rows. False where a format cannot have the head dim:
 * there is no such problem. Options that the layout refuses are given all the same. */
bool layout_grid_at(const layout_grid *grid, uint64_t index, kvg_problem *out);

/* "hnd e4m3+nvfp4 L2 N3 B16 H8 D128 padding 0/7/0 swizzle" */
typedef struct layout_name {
    char text[128];
} layout_name;
layout_name layout_grid_name(const kvg_problem *problem);

#endif
