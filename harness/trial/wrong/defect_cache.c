#include "harness/trial/wrong/defect_cache.h"

#include <stdlib.h>

const kvg_role kvg_cache_row_roles[KVG_MAX_ROLES] = {KVG_ROLE_CODES, KVG_ROLE_SCALES};

bool kvg_cache_has_rows(kvg_op op)
{
    return op == KVG_OP_APPEND || kvg_op_reads_sequences(op);
}

static const kvg_tensor *pool_of(const kvg_problem *p, const kvg_row_map *map, const kvg_tensor *tensors)
{
    const kvg_op_info *op = kvg_op_get(p->op);
    return &tensors[kvg_roles_index(p->op == KVG_OP_APPEND ? op->outputs : op->inputs, map->pool, map->side)];
}

/* Codes of K and V, then their scales. */
static const kvg_row_map *part_of(const kvg_layout_map *map, int part)
{
    return part < 2 ? &map->codes[part] : &map->scales[part - 2];
}

static uint64_t slots_of(const kvg_problem *p)
{
    return (uint64_t)p->paging.blocks * p->paging.block_tokens;
}

void kvg_cache_remap(const kvg_problem *p, const kvg_layout_map *wrong, const kvg_tensor *from, kvg_tensor *to)
{
    kvg_layout_map right;
    kvg_rows_map(p, &right);
    for (int part = 0; part < 4; part++) {
        const kvg_row_map *source = part_of(wrong, part), *target = part_of(&right, part);
        const uint8_t *read = pool_of(p, source, from)->data;
        uint8_t *write = pool_of(p, target, to)->data;
        for (uint64_t row = 0; row < slots_of(p) * p->kv_heads; row++) {
            uint8_t bytes[2 * KVG_MAX_HEAD_DIM];
            const uint32_t head = (uint32_t)(row % p->kv_heads), B = p->paging.block_tokens;
            const uint32_t block = (uint32_t)(row / p->kv_heads / B), offset = (uint32_t)(row / p->kv_heads % B);
            kvg_rows_read(source, read, p->paging.layer, block, head, offset, bytes);
            kvg_rows_write(target, write, p->paging.layer, block, head, offset, bytes);
        }
    }
}

/* Where the rows of copy_rows come from: the slots of append's tokens, or every slot. */
static const int64_t *given_slots(const kvg_problem *p, const kvg_tensor *in)
{
    const int at = kvg_roles_index(kvg_op_get(p->op)->inputs, KVG_ROLE_SLOTS, KVG_K);
    return at < 0 ? NULL : in[at].data;
}

/* Copies rows of the pools to `rows`, or back. */
static void copy_rows(const kvg_problem *p, const int64_t *slots, const kvg_tensor *tensors, const kvg_tensor rows[4],
                      bool back)
{
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (int part = 0; part < 4; part++) {
        const kvg_row_map *m = part_of(&map, part);
        if (rows[part].bytes == 0) continue;
        uint8_t *pool = pool_of(p, m, tensors)->data, *bytes = rows[part].data;
        for (uint64_t row = 0; row < rows[part].shape[0] * p->kv_heads; row++) {
            const uint64_t token = row / p->kv_heads, slot = slots ? (uint64_t)slots[token] : token;
            if (slot >= slots_of(p)) continue; /* negative: none */
            const uint32_t head = (uint32_t)(row % p->kv_heads), B = p->paging.block_tokens;
            const uint32_t block = (uint32_t)(slot / B), offset = (uint32_t)(slot % B);
            if (back) kvg_rows_write(m, pool, p->paging.layer, block, head, offset, bytes + row * m->bytes);
            else kvg_rows_read(m, pool, p->paging.layer, block, head, offset, bytes + row * m->bytes);
        }
    }
}

kvg_status kvg_cache_rows(const kvg_problem *p, const kvg_tensor *in, const kvg_tensor *tensors, kvg_tensor rows[4])
{
    const int64_t *slots = given_slots(p, in);
    kvg_problem all = *p;
    all.op = KVG_OP_PROBE;
    if (!slots) all.tokens = (uint32_t)slots_of(p);
    bool got = true;
    for (int part = 0; part < 4; part++) {
        rows[part] = kvg_problem_tensor(&all, kvg_cache_row_roles[part / 2], (kvg_side)(part % 2));
        rows[part].data = calloc(rows[part].bytes ? rows[part].bytes : 1, 1);
        got = got && rows[part].data;
    }
    if (got) {
        copy_rows(p, slots, tensors, rows, false);
        return KVG_OK;
    }
    for (int part = 0; part < 4; part++) free(rows[part].data);
    return kvg_fail(KVG_ERR_MEMORY, "no memory for the rows of %u slots", all.tokens);
}

void kvg_cache_store(const kvg_problem *p, const kvg_tensor *in, const kvg_tensor rows[4], kvg_tensor *tensors)
{
    copy_rows(p, given_slots(p, in), tensors, rows, true);
}
