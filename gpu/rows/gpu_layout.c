#include "gpu/rows/gpu_layout.h"

static bool is_linear(const kvg_row_map *m)
{
    return m->token[0].size == 0 && kvg_rows_together(m);
}

/* docs/spec/layouts.md section 4. Where the rows of four tokens lie together, the quarters of a row need no digit. */
static bool is_grouped(const kvg_row_map *m)
{
    const uint64_t pitch = kvg_rows_pitch(m), quarter = kvg_rows_group(m);
    const kvg_digit *const token = m->token, *const byte = m->byte;
    const bool by_four = token[0].size == 4 && token[0].stride == 1 && token[1].size == 0 && m->bytes % 4 == 0;
    if (!by_four || byte[0].stride != 4) return false;
    if (byte[0].size == 0) return pitch == m->bytes;
    return byte[0].size == quarter && byte[1].size == 0 && byte[1].stride == pitch;
}

static kvg_status rows_of(const kvg_problem *p, const kvg_row_map *m, bool may_group, kvg_gpu_rows *out)
{
    *out = (kvg_gpu_rows){.base = m->base + p->paging.layer * m->layer,
                          .block = m->block,
                          .head = m->head,
                          .token = kvg_rows_pitch(m),
                          .bytes = m->bytes,
                          .group = kvg_rows_group(m),
                          .pool = m->pool,
                          .pool_side = m->side};
    if (m->bytes == 0 || is_linear(m) || (may_group && is_grouped(m))) return KVG_OK;
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "kernels read no layout %s, where the bytes of a row lie apart",
                    kvg_problem_layout_name(p));
}

kvg_status kvg_gpu_layout_of(const kvg_problem *p, kvg_gpu_layout *out)
{
    kvg_layout_map map;
    kvg_status s = KVG_OK;
    kvg_rows_map(p, &map);
    for (int side = KVG_K; side <= KVG_V && !s; side++) {
        s = rows_of(p, &map.codes[side], false, &out->codes[side]);
        if (!s) s = rows_of(p, &map.scales[side], side == KVG_V, &out->scales[side]);
    }
    return s;
}
