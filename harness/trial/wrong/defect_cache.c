#include "harness/trial/wrong/defect_cache.h"

#include <stdlib.h>
#include <string.h>

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

/* Rows of a sequence and head at the positions that it has, in two pools. */
static bool same_rows(const kvg_problem *p, const kvg_row_map *m, const uint8_t *a, const uint8_t *b,
                      const int32_t *table, uint32_t length, uint32_t head)
{
    const uint32_t B = p->paging.block_tokens;
    const bool by_table = kvg_problem_blocks(p) == KVG_BLOCKS_TABLE;
    const uint32_t positions = by_table ? length : B;
    for (uint32_t k = 0; k < positions; k++) {
        uint8_t x[2 * KVG_MAX_HEAD_DIM], y[2 * KVG_MAX_HEAD_DIM];
        const int32_t block = table[by_table ? k / B : 0];
        if (block < 0 || (uint32_t)block >= p->paging.blocks) continue;
        kvg_rows_read(m, a, p->paging.layer, (uint32_t)block, head, k % B, x);
        kvg_rows_read(m, b, p->paging.layer, (uint32_t)block, head, k % B, y);
        if (memcmp(x, y, m->bytes) != 0) return false;
    }
    return true;
}

bool kvg_cache_reads_alike(const kvg_problem *p, const kvg_tensor *a, const kvg_tensor *b, uint32_t sequence,
                           uint32_t head)
{
    const kvg_role *roles = kvg_op_get(p->op)->inputs;
    const int table = kvg_roles_index(roles, KVG_ROLE_BLOCK_TABLE, KVG_K);
    const int lengths = kvg_roles_index(roles, KVG_ROLE_LENGTHS, KVG_K);
    const size_t width = (size_t)a[table].shape[1];
    kvg_layout_map map;
    kvg_rows_map(p, &map);
    for (size_t i = 0; i < kvg_roles_tensors(roles); i++) {
        kvg_role role;
        kvg_side side;
        kvg_roles_at(roles, i, &role, &side);
        const bool own = (int)i == table || (int)i == lengths; /* a row of it is the sequence's */
        const size_t bytes = own ? a[i].bytes / p->paging.sequences : a[i].bytes, from = own ? sequence * bytes : 0;
        if (role == KVG_ROLE_DATA_POOL || role == KVG_ROLE_SCALE_POOL || a[i].data == b[i].data || !bytes) continue;
        if (memcmp((const uint8_t *)a[i].data + from, (const uint8_t *)b[i].data + from, bytes) != 0) return false;
    }
    for (int part = 0; part < 4; part++) {
        const kvg_row_map *m = part_of(&map, part);
        const kvg_tensor *x = pool_of(p, m, a), *y = pool_of(p, m, b);
        if (m->bytes == 0 || x->data == y->data) continue;
        const uint32_t length = (uint32_t)((const int32_t *)a[lengths].data)[sequence];
        if (!same_rows(p, m, x->data, y->data, (const int32_t *)a[table].data + sequence * width, length, head))
            return false;
    }
    return true;
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
