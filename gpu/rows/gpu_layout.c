#include "gpu/rows/gpu_layout.h"

static kvg_gpu_rows rows_of(const kvg_problem *p, const kvg_row_map *m)
{
    return (kvg_gpu_rows){.base = m->base + p->paging.layer * m->layer,
                          .block = m->block,
                          .head = m->head,
                          .token = kvg_rows_pitch(m),
                          .bytes = m->bytes,
                          .group = kvg_rows_group(m),
                          .pool = m->pool,
                          .pool_side = m->side};
}

void kvg_gpu_layout_of(const kvg_problem *p, kvg_gpu_layout *out)
{
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (int side = KVG_K; side <= KVG_V; side++) {
        out->codes[side] = rows_of(p, &map.codes[side]);
        out->scales[side] = rows_of(p, &map.scales[side]);
    }
}
