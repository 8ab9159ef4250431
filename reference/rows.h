/* Where the rows of paged layouts lie (docs/spec/layouts.md sections 2 to 5), inline: the reference
 * and plug-ins compute addresses with it, and it needs no library.
 *
 *     kvg_layout_map map;
 *     kvg_rows_map(problem, &map);
 *     const kvg_row_map *k = &map.codes[KVG_K];
 *     uint8_t *row = pool + kvg_rows_place(k, problem->paging.layer, block, head, offset, 0); // k->bytes bytes
 */
#ifndef KVG_REFERENCE_ROWS_H
#define KVG_REFERENCE_ROWS_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where one kind of bytes (codes or scales) of one side's rows lies. In the pool tensor (pool,
 * side) the row of (layer, block, head, offset) starts at base + layer * .layer + block * .block +
 * head * .head + offset * .token. */
typedef struct kvg_row_map {
    kvg_role pool; /* KVG_ROLE_DATA_POOL or KVG_ROLE_SCALE_POOL */
    kvg_side side; /* the side whose pool tensor is meant: K for both sides if the layout joins them */
    uint64_t base, layer, block, head, token;
    uint32_t bytes;   /* bytes of a row; 0: the side has no such bytes */
    uint32_t swizzle; /* scale bytes per row, if they lie in groups of 4 tokens (section 4); 0: linear */
} kvg_row_map;

typedef struct kvg_layout_map {
    kvg_row_map codes[2], scales[2]; /* by kvg_side */
} kvg_layout_map;

/* The byte of its pool that holds byte `index` of a row. */
static inline uint64_t kvg_rows_place(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head,
                                      uint32_t offset, uint32_t index)
{
    if (m->swizzle) {
        const uint32_t group = m->swizzle / 4, t = offset % 4;
        offset = offset - t + index / group;
        index = index % group * 4 + t;
    }
    return m->base + layer * m->layer + block * m->block + head * m->head + offset * m->token + index;
}

/* Bytes of a row's codes, block scales and row parameters, K and V. */
typedef struct kvg_row_sizes {
    uint64_t codes[2], scales[2], params[2];
} kvg_row_sizes;

static inline kvg_row_sizes kvg_rows_sizes(const kvg_problem *p)
{
    static const struct {
        uint32_t format, bits, block, block_bytes, params;
    } formats[] = {
#define FORMAT(ENUM, name, id, bits, codes, block, block_bytes, params, scales, tensor_scale, summary) \
    {id, bits, block, block_bytes, params},
#include "core/formats.def"
#undef FORMAT
    };
    kvg_row_sizes z = {{0, 0}, {0, 0}, {0, 0}};
    for (int side = KVG_K; side <= (p->paging.shared_kv ? KVG_K : KVG_V); side++) {
        for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
            if (formats[i].format != (uint32_t)p->storage[side].format) continue;
            z.codes[side] = (uint64_t)p->head_dim * formats[i].bits / 8;
            z.scales[side] = formats[i].block ? (uint64_t)p->head_dim / formats[i].block * formats[i].block_bytes : 0;
            z.params[side] = formats[i].params;
        }
    }
    return z;
}

/* Rows of a page ordered head, offset (then head_first) or offset, head. */
static inline void kvg_rows_set_page(const kvg_problem *p, bool head_first, uint64_t row, kvg_row_map *m)
{
    m->head = head_first ? row * p->paging.block_tokens : row;
    m->token = head_first ? row : row * p->kv_heads;
}

/* [layer][block] pages of `page` bytes. */
static inline void kvg_rows_set_pages(const kvg_problem *p, uint64_t page, kvg_row_map *m)
{
    m->block = page;
    m->layer = page * p->paging.blocks;
}

static inline void kvg_rows_put(kvg_role pool, uint64_t base, uint64_t block, uint64_t layer, uint64_t head,
                                uint64_t token, kvg_row_map *m)
{
    m->pool = pool;
    m->base = base;
    m->block = block;
    m->layer = layer;
    m->head = head;
    m->token = token;
}

/* [block][layer]{ [head][K rows, V rows] [head][K parameters, V parameters] } and [block][layer][head][offset][K, V] */
static inline void kvg_rows_turbomind(const kvg_problem *p, const kvg_row_sizes *z, kvg_layout_map *m)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, L = p->paging.layers;
    const uint64_t head_data = B * (z->codes[KVG_K] + z->codes[KVG_V]);
    const uint64_t head_param = B * (z->params[KVG_K] + z->params[KVG_V]);
    const uint64_t layer = H * (head_data + head_param), row = z->scales[KVG_K] + z->scales[KVG_V];
    for (int side = KVG_K; side <= KVG_V; side++) {
        const bool v = side == KVG_V;
        kvg_rows_put(KVG_ROLE_DATA_POOL, v ? B * z->codes[KVG_K] : 0, L * layer, layer, head_data, z->codes[side],
                     &m->codes[side]);
        if (z->params[side]) {
            kvg_rows_put(KVG_ROLE_DATA_POOL, H * head_data + (v ? B * z->params[KVG_K] : 0), L * layer, layer,
                         head_param, z->params[side], &m->scales[side]);
        } else {
            kvg_rows_put(KVG_ROLE_SCALE_POOL, v ? z->scales[KVG_K] : 0, L * H * B * row, H * B * row, B * row, row,
                         &m->scales[side]);
        }
    }
}

/* [block][layer][K page, V page], pages [head][offset], for data and for scales */
static inline void kvg_rows_trtllm(const kvg_problem *p, kvg_role pool, const uint64_t row[2], kvg_row_map m[2])
{
    const uint64_t page = (uint64_t)p->paging.block_tokens * p->kv_heads, layer = page * (row[KVG_K] + row[KVG_V]);
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_rows_put(pool, side == KVG_V ? page * row[KVG_K] : 0, layer * p->paging.layers, layer, 0, 0, &m[side]);
        kvg_rows_set_page(p, true, row[side], &m[side]);
    }
}

/* K and V apart: [layer][block] pages, padded; pages [head][offset] or [offset][head] */
static inline void kvg_rows_apart(const kvg_problem *p, bool head_first, const uint64_t codes[2],
                                  const uint64_t scales[2], kvg_layout_map *m)
{
    const uint64_t rows = (uint64_t)p->paging.block_tokens * p->kv_heads;
    for (int side = KVG_K; side <= KVG_V; side++) {
        m->codes[side].pool = KVG_ROLE_DATA_POOL;
        m->scales[side].pool = KVG_ROLE_SCALE_POOL;
        m->codes[side].side = m->scales[side].side = (kvg_side)side;
        kvg_rows_set_page(p, head_first, codes[side], &m->codes[side]);
        kvg_rows_set_page(p, head_first, scales[side], &m->scales[side]);
        kvg_rows_set_pages(p, rows * codes[side] + p->paging.data_padding, &m->codes[side]);
        kvg_rows_set_pages(p, rows * scales[side] + p->paging.scale_padding, &m->scales[side]);
    }
}

/* [layer][block]{ K codes, K scales, V codes, V scales }, padded */
static inline void kvg_rows_one_page(const kvg_problem *p, bool head_first, const uint64_t codes[2],
                                     const uint64_t scales[2], kvg_layout_map *m)
{
    const uint64_t rows = (uint64_t)p->paging.block_tokens * p->kv_heads;
    const uint64_t page = rows * (codes[KVG_K] + scales[KVG_K] + codes[KVG_V] + scales[KVG_V]) + p->paging.data_padding;
    uint64_t base = 0;
    for (int part = 0; part < 4; part++) {
        const uint64_t row = part % 2 ? scales[part / 2] : codes[part / 2];
        kvg_row_map *to = part % 2 ? &m->scales[part / 2] : &m->codes[part / 2];
        kvg_rows_put(KVG_ROLE_DATA_POOL, base, 0, 0, 0, 0, to);
        kvg_rows_set_page(p, head_first, row, to);
        kvg_rows_set_pages(p, page, to);
        base += rows * row;
    }
}

/* The map of a checked problem on a paged layout; of layout rows all strides are 0. */
static inline void kvg_rows_map(const kvg_problem *p, kvg_layout_map *out)
{
    static const kvg_row_map no_rows = {(kvg_role)0, KVG_K, 0, 0, 0, 0, 0, 0, 0};
    const kvg_row_sizes z = kvg_rows_sizes(p);
    const uint64_t scales[2] = {z.scales[KVG_K] + z.params[KVG_K], z.scales[KVG_V] + z.params[KVG_V]};
    const uint64_t codes[2] = {z.codes[KVG_K] + p->paging.row_padding, z.codes[KVG_V] + p->paging.row_padding};
    for (int side = KVG_K; side <= KVG_V; side++) out->codes[side] = out->scales[side] = no_rows;
    switch (p->layout) {
    case KVG_LAYOUT_TURBOMIND: kvg_rows_turbomind(p, &z, out); break;
    case KVG_LAYOUT_TRTLLM:
        kvg_rows_trtllm(p, KVG_ROLE_DATA_POOL, z.codes, out->codes);
        kvg_rows_trtllm(p, KVG_ROLE_SCALE_POOL, scales, out->scales);
        break;
    case KVG_LAYOUT_VLLM:
    case KVG_LAYOUT_VLLM_HND: kvg_rows_one_page(p, p->layout == KVG_LAYOUT_VLLM_HND, z.codes, scales, out); break;
    case KVG_LAYOUT_HND:
    case KVG_LAYOUT_CONTIGUOUS:
    case KVG_LAYOUT_RING: kvg_rows_apart(p, true, codes, scales, out); break;
    case KVG_LAYOUT_NHD:
    case KVG_LAYOUT_SLOT:
    case KVG_LAYOUT_MLA: kvg_rows_apart(p, false, codes, scales, out); break;
    case KVG_LAYOUT_ROWS:
    case KVG_LAYOUT_END: break;
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        out->codes[side].bytes = (uint32_t)z.codes[side];
        out->scales[side].bytes = (uint32_t)scales[side];
    }
    if (p->paging.v_scale_swizzle) out->scales[KVG_V].swizzle = out->scales[KVG_V].bytes;
}

#ifdef __cplusplus
}
#endif
#endif
