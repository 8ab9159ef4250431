#include "harness/defect_cache.h"

#include <stdlib.h>

const kvg_role kvg_cache_row_roles[KVG_MAX_ROLES] = {KVG_ROLE_CODES, KVG_ROLE_SCALES};

static const kvg_tensor *pool_of(const kvg_problem *p, const kvg_row_map *map, const kvg_tensor *tensors)
{
    return &tensors[kvg_roles_index(kvg_op_get(p->op)->inputs, map->pool, map->side)];
}

/* Codes of K and V, then their scales. */
static const kvg_row_map *part_of(const kvg_layout_map *map, int part)
{
    return part < 2 ? &map->codes[part] : &map->scales[part - 2];
}

static uint64_t place(const kvg_problem *p, const kvg_row_map *map, uint64_t slot, uint32_t head, uint32_t index)
{
    const uint32_t B = p->paging.block_tokens;
    return kvg_reference_place(map, p->paging.layer, (uint32_t)(slot / B), head, (uint32_t)(slot % B), index);
}

static uint64_t slots_of(const kvg_problem *p)
{
    return (uint64_t)p->paging.blocks * p->paging.block_tokens;
}

void kvg_cache_remap(const kvg_problem *p, const kvg_layout_map *wrong, const kvg_tensor *from, kvg_tensor *to)
{
    kvg_layout_map right;
    kvg_reference_layout_map(p, &right);
    for (int part = 0; part < 4; part++) {
        const kvg_row_map *source = part_of(wrong, part), *target = part_of(&right, part);
        const uint8_t *read = pool_of(p, source, from)->data;
        uint8_t *write = pool_of(p, target, to)->data;
        for (uint64_t row = 0; row < slots_of(p) * p->kv_heads; row++) {
            const uint32_t head = (uint32_t)(row % p->kv_heads);
            const uint64_t slot = row / p->kv_heads;
            for (uint32_t i = 0; i < target->bytes; i++)
                write[place(p, target, slot, head, i)] = read[place(p, source, slot, head, i)];
        }
    }
}

/* Copies all rows of the pools to `rows`, or back. */
static void copy_rows(const kvg_problem *p, const kvg_tensor *tensors, const kvg_tensor rows[4], bool back)
{
    kvg_layout_map map;
    kvg_reference_layout_map(p, &map);
    for (int part = 0; part < 4; part++) {
        const kvg_row_map *m = part_of(&map, part);
        uint8_t *pool = pool_of(p, m, tensors)->data, *bytes = rows[part].data;
        if (rows[part].bytes == 0) continue;
        for (uint64_t row = 0; row < slots_of(p) * p->kv_heads; row++) {
            for (uint32_t i = 0; i < m->bytes; i++) {
                uint8_t *in_pool = pool + place(p, m, row / p->kv_heads, (uint32_t)(row % p->kv_heads), i);
                uint8_t *in_rows = bytes + row * m->bytes + i;
                if (back) *in_pool = *in_rows;
                else *in_rows = *in_pool;
            }
        }
    }
}

kvg_status kvg_cache_rows(const kvg_problem *p, const kvg_tensor *in, kvg_tensor rows[4])
{
    kvg_problem slots = *p;
    slots.op = KVG_OP_PROBE;
    slots.tokens = (uint32_t)slots_of(p);
    bool got = true;
    for (int part = 0; part < 4; part++) {
        rows[part] = kvg_problem_tensor(&slots, kvg_cache_row_roles[part / 2], (kvg_side)(part % 2));
        rows[part].data = calloc(rows[part].bytes ? rows[part].bytes : 1, 1);
        got = got && rows[part].data;
    }
    if (got) {
        copy_rows(p, in, rows, false);
        return KVG_OK;
    }
    for (int part = 0; part < 4; part++) free(rows[part].data);
    return kvg_fail(KVG_ERR_MEMORY, "no memory for the rows of %u slots", slots.tokens);
}

void kvg_cache_store(const kvg_problem *p, const kvg_tensor rows[4], kvg_tensor *to)
{
    copy_rows(p, to, rows, true);
}
