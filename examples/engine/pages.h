/* Pages: where the bytes of a row lie in the pools of a paged cache (docs/spec/layouts.md). */
#ifndef ENGINE_PAGES_H
#define ENGINE_PAGES_H

#include "core/problem.h"
#include "formats.h"

/* A row of the layer that a problem works on. */
typedef struct row_place {
    int side; /* a kvg_side */
    uint32_t head;
    int64_t slot; /* block * block_tokens + offset */
} row_place;

bool layout_is_known(kvg_layout layout);

/* The slot of a position of a sequence; -1 where it has none. */
int64_t slot_of_position(const kvg_problem *p, const kvg_tensor *block_table, uint32_t sequence, int64_t position,
                         int64_t length);

/* `pools` are the data pools of K and V, then their scale pools. */
void store_row(const kvg_problem *p, kvg_tensor *pools, row_place place, const stored_row *row);
void load_row(const kvg_problem *p, const kvg_tensor *pools, row_place place, stored_row *row);

#endif
