#include "harness/trial/wrong/defect_maps.h"

#include <string.h>

#include "core/layout_text.h"

/* One past the last byte that a map reaches. */
static uint64_t end_of(const kvg_problem *p, const kvg_row_map *m)
{
    const kvg_paging *g = &p->paging;
    return kvg_rows_place(m, g->layers - 1, g->blocks - 1, p->kv_heads - 1, g->block_tokens - 1, m->bytes - 1) + 1;
}

static bool fits(const kvg_problem *p, const kvg_row_map *m)
{
    uint64_t bytes;
    return kvg_problem_pool_bytes(p, m->pool, m->side, &bytes) == KVG_OK && end_of(p, m) <= bytes;
}

static void replace(const kvg_problem *p, kvg_row_map *m, kvg_row_map by)
{
    if (m->bytes && fits(p, &by)) *m = by;
}

void kvg_map_lose_param_base(const kvg_problem *p, kvg_layout_map *map)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_map wrong = map->scales[side];
        if (wrong.pool != KVG_ROLE_DATA_POOL) continue;
        wrong.base -= p->kv_heads * map->codes[KVG_K].head; /* the data region of all heads */
        replace(p, &map->scales[side], wrong);
    }
}

void kvg_map_data_strides(const kvg_problem *p, kvg_layout_map *map)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_row_map *codes = &map->codes[side];
        kvg_row_map wrong = map->scales[side];
        if (wrong.bytes == 0 || codes->bytes < wrong.bytes) continue;
        const uint64_t ratio = codes->bytes / wrong.bytes;
        wrong.layer = codes->layer / ratio;
        wrong.block = codes->block / ratio;
        wrong.head = codes->head / ratio;
        kvg_rows_set_pitch(kvg_rows_pitch(codes) / ratio, &wrong);
        replace(p, &map->scales[side], wrong);
    }
}

void kvg_map_one_layer_stride(const kvg_problem *p, kvg_layout_map *map)
{
    kvg_row_map *all[] = {&map->codes[KVG_K], &map->codes[KVG_V], &map->scales[KVG_K], &map->scales[KVG_V]};
    for (int i = 0; i < 4; i++) {
        kvg_row_map wrong = *all[i];
        wrong.block = wrong.layer;
        replace(p, all[i], wrong);
    }
}

/* Of 3 layers and 5 blocks, a layer 5 blocks from the next one: then layers lie side by side, and blocks 3 layers
 * apart. */
void kvg_map_swap_layers(const kvg_problem *p, kvg_layout_map *map)
{
    kvg_row_map *all[] = {&map->codes[KVG_K], &map->codes[KVG_V], &map->scales[KVG_K], &map->scales[KVG_V]};
    for (int i = 0; i < 4; i++) {
        kvg_row_map wrong = *all[i];
        const bool layers_inside = wrong.layer < wrong.block;
        const uint64_t inner = layers_inside ? wrong.layer : wrong.block;
        wrong.layer = layers_inside ? inner * p->paging.blocks : inner;
        wrong.block = layers_inside ? inner : inner * p->paging.layers;
        replace(p, all[i], wrong);
    }
}

void kvg_map_interleave(const kvg_problem *p, kvg_layout_map *map)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_map codes = map->codes[side], scales = map->scales[side];
        const uint64_t record = codes.bytes + scales.bytes;
        codes.head = scales.head = record;
        kvg_rows_set_pitch(record * p->kv_heads, &codes);
        kvg_rows_set_pitch(record * p->kv_heads, &scales);
        scales.base = codes.base + codes.bytes;
        replace(p, &map->codes[side], codes);
        replace(p, &map->scales[side], scales);
    }
}

static void swap(kvg_row_map pair[2])
{
    const kvg_row_map k = pair[KVG_K];
    pair[KVG_K].base = pair[KVG_V].base;
    pair[KVG_V].base = k.base;
}

void kvg_map_swap_rows(const kvg_problem *p, kvg_layout_map *map)
{
    (void)p;
    kvg_row_map *parts[2] = {map->codes, map->scales};
    for (int i = 0; i < 2; i++) {
        const kvg_row_map k = parts[i][KVG_K];
        parts[i][KVG_K] = parts[i][KVG_V];
        parts[i][KVG_V] = k;
    }
}

void kvg_map_swap_planes(const kvg_problem *p, kvg_layout_map *map)
{
    (void)p;
    swap(map->codes);
}

void kvg_map_swap_scale_planes(const kvg_problem *p, kvg_layout_map *map)
{
    (void)p;
    swap(map->scales);
}

static bool map_of_name(const kvg_problem *p, kvg_layout layout, kvg_layout_map *map)
{
    kvg_problem other = *p;
    other.layout = layout;
    other.text = NULL;
    const bool tables = (kvg_problem_blocks(&other) == KVG_BLOCKS_TABLE) == (kvg_problem_blocks(p) == KVG_BLOCKS_TABLE);
    if (!tables || kvg_problem_check(&other)) return false;
    kvg_rows_map(&other, map);
    return true;
}

bool kvg_map_of_text(const kvg_problem *p, const char *text, kvg_layout_map *map)
{
    const kvg_layout_text own = {"near", text};
    kvg_problem other = *p;
    uint64_t pools[2][2];
    other.layout = KVG_LAYOUT_TEXT;
    other.text = &own;
    other.paging.v_scale_swizzle = false; /* the text says where scales lie */
    if (!strstr(text, "+row")) other.paging.row_padding = 0;
    if (!strstr(text, "+data")) other.paging.data_padding = 0;
    if (!strstr(text, "+scale")) other.paging.scale_padding = 0;
    return kvg_layout_text_read(&other, map, pools) == KVG_OK;
}

bool kvg_map_of_layout(const kvg_problem *p, kvg_layout layout, const char *text, kvg_layout_map *map)
{
    kvg_layout_map wrong;
    if (!kvg_op_get(p->op)->paged) return false;
    if (!(layout == KVG_LAYOUT_TEXT ? kvg_map_of_text(p, text, &wrong) : map_of_name(p, layout, &wrong))) return false;
    for (int side = KVG_K; side < KVG_K + kvg_problem_sides(p); side++) {
        if (!fits(p, &wrong.codes[side]) || (wrong.scales[side].bytes && !fits(p, &wrong.scales[side]))) return false;
    }
    *map = wrong;
    return true;
}
