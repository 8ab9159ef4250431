/* Where the rows of paged layouts lie (docs/spec/layouts.md sections 2 to 5), inline: the reference
 * and plug-ins compute addresses with it, and it needs no library.
 *
 *     kvg_layout_map map;
 *     kvg_rows_map(problem, &map);
 *     const kvg_row_map *k = &map.codes[KVG_K];
 *     uint8_t *row = pool + kvg_rows_place(k, problem->paging.layer, block, head, offset, 0); // k->bytes bytes */
#ifndef KVG_REFERENCE_ROWS_H
#define KVG_REFERENCE_ROWS_H

#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows `pitch` bytes from one another. With `group` above 0 four neighbours lie in groups (section 4), `group` bytes of
 * each in what would be a row. */
static inline void kvg_rows_set_tokens(uint64_t pitch, uint32_t group, kvg_row_map *m)
{
    m->token[0].size = group ? 4 : 0;
    m->token[0].stride = group ? 1 : pitch;
    m->token[1].stride = group ? 4 * pitch : 0;
    m->byte[0].size = group;
    m->byte[0].stride = group ? 4 : 1;
    m->byte[1].stride = group ? pitch : 0;
}

/* The inverse, of a map of a named layout. */
static inline uint64_t kvg_rows_pitch(const kvg_row_map *m)
{
    return m->token[0].size ? m->byte[1].stride : m->token[0].stride;
}

static inline uint32_t kvg_rows_group(const kvg_row_map *m)
{
    return (uint32_t)m->byte[0].size;
}

static inline void kvg_rows_set_pitch(uint64_t pitch, kvg_row_map *m)
{
    kvg_rows_set_tokens(pitch, kvg_rows_group(m), m);
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
    kvg_rows_set_tokens(head_first ? row : row * p->kv_heads, 0, m);
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
    kvg_rows_set_tokens(token, 0, m);
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
    static const kvg_row_map no_rows = {(kvg_role)0, KVG_K, 0, 0, 0, 0, {{0, 0}}, {{0, 0}}, 0, 0};
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
    case KVG_LAYOUT_TEXT: *out = p->map; return;
    case KVG_LAYOUT_ROWS:
    case KVG_LAYOUT_END: break;
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        out->codes[side].bytes = (uint32_t)z.codes[side];
        out->scales[side].bytes = (uint32_t)scales[side];
    }
    if (p->paging.v_scale_swizzle) {
        kvg_row_map *v = &out->scales[KVG_V];
        kvg_rows_set_tokens(kvg_rows_pitch(v), v->bytes / 4, v);
    }
}

#ifdef __cplusplus
}
#endif
#endif
