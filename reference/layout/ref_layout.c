/* docs/spec/layouts.md sections 2 to 5: one function per layout gives the places of its rows. */
#include "reference/reference.h"

/* Bytes of a row's codes, block scales and row parameters, K and V. */
typedef struct row_sizes {
    uint64_t codes[2], scales[2], params[2];
} row_sizes;

static row_sizes sizes_of(const kvg_problem *p)
{
    row_sizes z = {{0}, {0}, {0}};
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        const kvg_format_info *f = kvg_format_get(p->storage[side].format);
        z.codes[side] = kvg_format_code_bytes(f->format, p->head_dim);
        z.params[side] = f->row_param_bytes;
        z.scales[side] = kvg_format_scale_bytes(f->format, p->head_dim) - f->row_param_bytes;
    }
    return z;
}

/* Rows of a page ordered head, offset (then head_first) or offset, head. */
static void set_page(const kvg_problem *p, bool head_first, uint64_t row, kvg_row_map *m)
{
    m->head = head_first ? row * p->paging.block_tokens : row;
    m->token = head_first ? row : row * p->kv_heads;
}

static void set_pages(const kvg_problem *p, uint64_t page, kvg_row_map *m)
{
    m->block = page;
    m->layer = page * p->paging.blocks;
}

/* [block][layer]{ [head][K rows, V rows] [head][K parameters, V parameters] } and [block][layer][head][offset][K, V] */
static void turbomind(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, L = p->paging.layers;
    const uint64_t head_data = B * (z->codes[KVG_K] + z->codes[KVG_V]);
    const uint64_t head_param = B * (z->params[KVG_K] + z->params[KVG_V]);
    const uint64_t layer_size = H * (head_data + head_param);
    const uint64_t scale_row = z->scales[KVG_K] + z->scales[KVG_V];
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_map *codes = &m->codes[side], *scales = &m->scales[side];
        *codes = (kvg_row_map){.pool = KVG_ROLE_DATA_POOL, .base = side == KVG_V ? B * z->codes[KVG_K] : 0,
                               .block = L * layer_size, .layer = layer_size, .head = head_data,
                               .token = z->codes[side]};
        if (z->params[side]) {
            *scales = (kvg_row_map){.pool = KVG_ROLE_DATA_POOL,
                                    .base = H * head_data + (side == KVG_V ? B * z->params[KVG_K] : 0),
                                    .block = L * layer_size, .layer = layer_size, .head = head_param,
                                    .token = z->params[side]};
        } else {
            *scales = (kvg_row_map){.pool = KVG_ROLE_SCALE_POOL, .base = side == KVG_V ? z->scales[KVG_K] : 0,
                                    .block = L * H * B * scale_row, .layer = H * B * scale_row, .head = B * scale_row,
                                    .token = scale_row};
        }
    }
}

/* [block][layer][K page, V page], pages [head][offset], for data and for scales */
static void trtllm_pool(const kvg_problem *p, kvg_role pool, const uint64_t row[2], kvg_row_map m[2])
{
    const uint64_t page = (uint64_t)p->paging.block_tokens * p->kv_heads;
    const uint64_t layer = page * (row[KVG_K] + row[KVG_V]);
    for (int side = KVG_K; side <= KVG_V; side++) {
        m[side] = (kvg_row_map){.pool = pool, .base = side == KVG_V ? page * row[KVG_K] : 0, .layer = layer,
                                .block = layer * p->paging.layers};
        set_page(p, true, row[side], &m[side]);
    }
}

static void trtllm(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m)
{
    const uint64_t scales[2] = {z->scales[KVG_K] + z->params[KVG_K], z->scales[KVG_V] + z->params[KVG_V]};
    trtllm_pool(p, KVG_ROLE_DATA_POOL, z->codes, m->codes);
    trtllm_pool(p, KVG_ROLE_SCALE_POOL, scales, m->scales);
}

/* K and V apart: [layer][block] pages, padded; pages [head][offset] or [offset][head] */
static void apart(const kvg_problem *p, const row_sizes *z, bool head_first, kvg_layout_map *m)
{
    const uint64_t page = (uint64_t)p->paging.block_tokens * p->kv_heads;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint64_t codes = z->codes[side] + p->paging.row_padding, scales = z->scales[side] + z->params[side];
        m->codes[side] = (kvg_row_map){.pool = KVG_ROLE_DATA_POOL, .side = (kvg_side)side};
        m->scales[side] = (kvg_row_map){.pool = KVG_ROLE_SCALE_POOL, .side = (kvg_side)side};
        set_page(p, head_first, codes, &m->codes[side]);
        set_page(p, head_first, scales, &m->scales[side]);
        set_pages(p, page * codes + p->paging.data_padding, &m->codes[side]);
        set_pages(p, page * scales + p->paging.scale_padding, &m->scales[side]);
    }
}

static void tokens_first(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m)
{
    apart(p, z, false, m);
}

static void heads_first(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m)
{
    apart(p, z, true, m);
}

/* [layer][block]{ K codes, K scales, V codes, V scales }, padded */
static void one_page(const kvg_problem *p, const row_sizes *z, bool head_first, kvg_layout_map *m)
{
    const uint64_t page = (uint64_t)p->paging.block_tokens * p->kv_heads;
    uint64_t base = 0;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const uint64_t rows[2] = {z->codes[side], z->scales[side] + z->params[side]};
        kvg_row_map *parts[2] = {&m->codes[side], &m->scales[side]};
        for (int part = 0; part < 2; part++) {
            *parts[part] = (kvg_row_map){.pool = KVG_ROLE_DATA_POOL, .base = base};
            set_page(p, head_first, rows[part], parts[part]);
            base += page * rows[part];
        }
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        set_pages(p, base + p->paging.data_padding, &m->codes[side]);
        set_pages(p, base + p->paging.data_padding, &m->scales[side]);
    }
}

static void vllm(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m)
{
    one_page(p, z, false, m);
}

static void vllm_hnd(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m)
{
    one_page(p, z, true, m);
}

static const struct {
    kvg_layout layout;
    void (*map)(const kvg_problem *p, const row_sizes *z, kvg_layout_map *m);
} layouts[] = {
    {KVG_LAYOUT_TURBOMIND, turbomind}, {KVG_LAYOUT_TRTLLM, trtllm},    {KVG_LAYOUT_NHD, tokens_first},
    {KVG_LAYOUT_HND, heads_first},     {KVG_LAYOUT_VLLM, vllm},        {KVG_LAYOUT_VLLM_HND, vllm_hnd},
    {KVG_LAYOUT_SLOT, tokens_first},   {KVG_LAYOUT_CONTIGUOUS, heads_first}, {KVG_LAYOUT_RING, heads_first},
    {KVG_LAYOUT_MLA, tokens_first},
};
enum {
    PAGED = 0
#define LAYOUT(ENUM, name, id, paged, ...) + (paged)
#include "core/layouts.def"
#undef LAYOUT
};
_Static_assert(sizeof layouts / sizeof layouts[0] == PAGED, "a paged layout of core/layouts.def has no row here");

void kvg_reference_layout_map(const kvg_problem *problem, kvg_layout_map *out)
{
    const row_sizes z = sizes_of(problem);
    *out = (kvg_layout_map){0};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        if (layouts[i].layout == problem->layout) layouts[i].map(problem, &z, out);
    }
    for (int side = KVG_K; side <= KVG_V; side++) {
        out->codes[side].bytes = (uint32_t)z.codes[side];
        out->scales[side].bytes = (uint32_t)(z.scales[side] + z.params[side]);
    }
    if (problem->paging.v_scale_swizzle) out->scales[KVG_V].swizzle = out->scales[KVG_V].bytes;
}

uint64_t kvg_reference_place(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head, uint32_t offset,
                             uint32_t index)
{
    if (m->swizzle) {
        const uint32_t group = m->swizzle / 4, t = offset % 4;
        offset = offset - t + index / group;
        index = index % group * 4 + t;
    }
    return m->base + layer * m->layer + block * m->block + head * m->head + offset * m->token + index;
}
