/* Sequences of a paged cache by block table and lengths: where a position lies (docs/spec/layouts.md section 7,
 * flatten). */
#ifndef KVG_REFERENCE_LAYOUT_REF_TABLE_H
#define KVG_REFERENCE_LAYOUT_REF_TABLE_H

#include "core/problem.h"

typedef struct ref_table {
    const kvg_problem *p;
    const int32_t *blocks, *lengths; /* [sequences, width], [sequences] */
    uint32_t width;
    kvg_blocks rule;
} ref_table;

/* KVG_ERR_INVALID for a length that the layout cannot hold. The tensors stay the caller's. */
kvg_status ref_table_init(const kvg_problem *p, const kvg_tensor *block_table, const kvg_tensor *lengths,
                          ref_table *out) KVG_CHECKED;

/* The slot of a sequence's position; -1 where it has none: beyond the length, overwritten in a ring, no block. */
int64_t ref_table_slot(const ref_table *table, uint32_t sequence, uint32_t position);

#endif
