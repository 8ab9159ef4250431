/* Where the rows of a paged cache lie, as every kernel addresses them: the map of the problem, of one layer. */
#ifndef KVG_GPU_ROWS_GPU_LAYOUT_H
#define KVG_GPU_ROWS_GPU_LAYOUT_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One kind of bytes of one side: the row of (block, head, offset) starts `base + block * .block + head * .head +
 * offset * .token` bytes into its pool; layer and side are in the base. */
typedef struct kvg_gpu_rows {
    uint64_t base, block, head, token;
    uint32_t bytes;      /* of a row; 0: the side has none */
    uint32_t group;      /* V scales in 4-token groups: a quarter of the scales of a row; 0: one after the other */
    kvg_role pool;       /* the tensor that holds them: role and side */
    kvg_side pool_side;
} kvg_gpu_rows;

typedef struct kvg_gpu_layout {
    kvg_gpu_rows codes[2], scales[2]; /* by kvg_side; V in K's row has none */
} kvg_gpu_layout;

/* Whose rows hold a side: V's elements may be in K's. */
static inline kvg_side kvg_gpu_own_side(const kvg_problem *problem, int side)
{
    return problem->paging.shared_kv ? KVG_K : (kvg_side)side;
}

/* Of a checked problem on a paged layout. KVG_ERR_UNIMPLEMENTED names a layout whose rows are not of this form. */
kvg_status kvg_gpu_layout_of(const kvg_problem *problem, kvg_gpu_layout *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
