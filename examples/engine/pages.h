/* Pages: where the bytes of a row lie in the tensors of an op (docs/spec/layouts.md). */
#ifndef KVG_EXAMPLES_ENGINE_PAGES_H
#define KVG_EXAMPLES_ENGINE_PAGES_H

#include "formats.h"

/* A row of the layer that a problem works on. */
typedef struct row_place {
    int side; /* a kvg_side */
    uint32_t head;
    int64_t slot; /* a token of layout rows */
} row_place;

bool layout_is_known(kvg_layout layout);

/* The slot of a position of a sequence of this length; negative where it has none. */
int64_t slot_of_position(const kvg_problem *p, const kvg_tensor *block_table, uint32_t sequence, int64_t position,
                         int64_t length);

/* Copies a row into its pools, or out of them. `pools` are the data pools of K and V, then their scale pools; of layout
 * rows they are codes and scales. */
void copy_row(const kvg_problem *p, const kvg_tensor *pools, row_place place, stored_row *row, bool store);

#endif
