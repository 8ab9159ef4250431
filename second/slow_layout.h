/* Where a byte of a row lies by the text of its layout (docs/spec/layouts.md section 8): a walk that counts bytes, nest
 * by nest, and reads each nest as often as it is asked for. */
#ifndef KVG_SECOND_SLOW_LAYOUT_H
#define KVG_SECOND_SLOW_LAYOUT_H

#include "core/problem.h"

/* A byte by its meaning: byte `index` of the codes, or of the scales, of one row of the problem's layer. */
typedef struct slow_byte {
    kvg_side side; /* not V where K and V share a row */
    uint64_t block, head, offset, index;
} slow_byte;

/* A byte by its address. */
typedef struct slow_place {
    kvg_role pool; /* KVG_ROLE_DATA_POOL or KVG_ROLE_SCALE_POOL */
    kvg_side side; /* whose pool */
    uint64_t at;
} slow_place;

/* The problem must be checked and its layout paged, the byte inside its geometry. */
slow_place slow_place_of_code(const kvg_problem *problem, slow_byte byte);
slow_place slow_place_of_scale(const kvg_problem *problem, slow_byte byte); /* also of a row's parameters */

/* Bytes of a pool tensor, padding included. */
uint64_t slow_pool_bytes(const kvg_problem *problem, kvg_role pool, kvg_side side);

#endif
