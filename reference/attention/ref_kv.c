#include "reference/attention/ref_kv.h"

#include <limits.h>
#include <string.h>

static const kvg_tensor *input(const kvg_tensor *in, kvg_role role, kvg_side side)
{
    return &in[kvg_roles_index(kvg_op_get(KVG_OP_DECODE)->inputs, role, side)];
}

/* Whose rows hold a side. */
static kvg_side stored_side(const ref_kv *kv, kvg_side side)
{
    return kv->p->paging.shared_kv ? KVG_K : side;
}

kvg_status ref_kv_init(const kvg_problem *p, const kvg_tensor *in, const kvg_tensor *flat, ref_kv *out)
{
    *out = (ref_kv){.p = p, .flat = flat};
    kvg_rows_map(p, &out->map);
    kvg_status s = ref_table_init(p, input(in, KVG_ROLE_BLOCK_TABLE, KVG_K), input(in, KVG_ROLE_LENGTHS, KVG_K),
                                  &out->table);
    for (int side = KVG_K; side <= KVG_V && !s; side++) {
        const kvg_side from = stored_side(out, (kvg_side)side);
        out->pools[side][0] = input(in, KVG_ROLE_DATA_POOL, (kvg_side)side)->data;
        out->pools[side][1] = input(in, KVG_ROLE_SCALE_POOL, (kvg_side)side)->data;
        s = ref_side_init(p, from, input(in, KVG_ROLE_TENSOR_SCALE, from), &out->side[side]);
    }
    return s;
}

int64_t ref_kv_slot(const ref_kv *kv, uint32_t sequence, uint32_t position)
{
    return ref_table_slot(&kv->table, sequence, position);
}

static void read_bytes(const ref_kv *kv, const kvg_row_map *map, int64_t slot, uint32_t head, uint8_t *bytes)
{
    const kvg_paging *g = &kv->p->paging;
    const uint8_t *pool = kv->pools[map->side][map->pool == KVG_ROLE_SCALE_POOL];
    const uint32_t block = (uint32_t)(slot / g->block_tokens), offset = (uint32_t)(slot % g->block_tokens);
    kvg_rows_read(map, pool, g->layer, block, head, offset, bytes);
}

void ref_kv_codes(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position, uint16_t *codes,
                  uint8_t *scales)
{
    const kvg_side from = stored_side(kv, side);
    const int64_t slot = ref_kv_slot(kv, sequence, position);
    uint8_t bytes[2 * KVG_MAX_HEAD_DIM];
    read_bytes(kv, &kv->map.codes[from], slot, head, bytes);
    read_bytes(kv, &kv->map.scales[from], slot, head, scales);
    ref_unpack(kv->side[side].packing, bytes, kv->p->head_dim, codes);
}

/* A row of `flat` in f32, all of K's where V is a part of it. */
static void flat_row(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position, float *x)
{
    const kvg_problem *p = kv->p;
    const size_t row = ((size_t)sequence * p->kv_heads + head) * p->tokens + position;
    const uint8_t *rows = kv->flat[stored_side(kv, side)].data;
    kvg_reference_load(p->dtype, rows + row * p->head_dim * kvg_dtype_bytes(p->dtype), p->head_dim, x);
}

/* V's part of K's row. */
static void take_part(const ref_kv *kv, kvg_side side, double *row)
{
    const kvg_paging *g = &kv->p->paging;
    for (uint32_t i = 0; g->shared_kv && side == KVG_V && i < g->v_dim; i++) row[i] = row[g->v_first + i];
}

double ref_kv_row(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position, double *y)
{
    double factor = 1;
    if (kv->flat) {
        float x[KVG_MAX_HEAD_DIM];
        flat_row(kv, side, sequence, head, position, x);
        for (uint32_t i = 0; i < kv->p->head_dim; i++) y[i] = x[i];
    } else {
        const ref_side *stored = &kv->side[side];
        uint8_t scales[KVG_MAX_HEAD_DIM];
        uint16_t codes[KVG_MAX_HEAD_DIM];
        ref_kv_codes(kv, side, sequence, head, position, codes, scales);
        factor = stored->codec->exact(&stored->row, codes, scales, y);
    }
    take_part(kv, side, y);
    return factor;
}

int ref_kv_exponent(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position)
{
    const kvg_row_map *map = &kv->map.scales[stored_side(kv, side)];
    uint8_t scales[KVG_MAX_HEAD_DIM];
    int most = 0;
    if (kvg_format_get(kv->side[side].codec->format)->scales != KVG_SCALES_E8M0) return INT_MIN;
    read_bytes(kv, map, ref_kv_slot(kv, sequence, position), head, scales);
    for (uint32_t i = 0; i < map->bytes; i++) most = scales[i] > most ? scales[i] : most;
    return most - 127;
}

bool ref_kv_row_scaled(const ref_kv *kv, kvg_side side)
{
    return !kv->flat && !kvg_format_get(kv->side[side].codec->format)->tensor_scale;
}

bool ref_kv_scale_within(const ref_kv *kv, kvg_side side, double factor)
{
    return !kv->flat && kvg_format_get(kv->side[side].codec->format)->tensor_scale &&
           factor != kv->side[side].row.tensor_scale;
}

void ref_kv_codec_bound(const ref_kv *kv, kvg_side side, uint32_t sequence, uint32_t head, uint32_t position,
                        double *bound)
{
    float x[KVG_MAX_HEAD_DIM];
    flat_row(kv, side, sequence, head, position, x);
    kvg_reference_row_bound(kv->p, stored_side(kv, side), kv->side[side].row.tensor_scale, x, bound);
    take_part(kv, side, bound);
}

uint32_t ref_kv_dim(const ref_kv *kv, kvg_side side)
{
    return side == KVG_V && kv->p->paging.shared_kv ? kv->p->paging.v_dim : kv->p->head_dim;
}
