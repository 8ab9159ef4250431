#include "gpu/rows/gpu_layout.h"

/* Bytes of a row: codes, scales per block, parameters per row. */
typedef struct row_size {
    uint64_t codes, scales, params;
} row_size;

static row_size size_of(const kvg_problem *p, int side)
{
    const kvg_format format = p->storage[side].format;
    const uint64_t params = kvg_format_get(format)->row_param_bytes;
    if (side == KVG_V && p->paging.shared_kv) return (row_size){0};
    return (row_size){kvg_format_code_bytes(format, p->head_dim),
                      kvg_format_scale_bytes(format, p->head_dim) - params, params};
}

/* A page of one side, [head][offset] or [offset][head], rows of `bytes` and what follows each. */
static kvg_gpu_rows page_of(const kvg_problem *p, bool heads_first, uint64_t bytes, uint64_t pitch)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads;
    return (kvg_gpu_rows){.head = heads_first ? B * pitch : pitch, .token = heads_first ? pitch : H * pitch,
                          .bytes = (uint32_t)bytes};
}

/* [block][layer]{ codes: [head][K rows, V rows], parameters: the same }; scales [block][layer][head][offset][K, V]. */
static void turbomind(const kvg_problem *p, const row_size *size, kvg_gpu_layout *out)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, L = p->paging.layers, layer = p->paging.layer;
    const uint64_t codes = size[0].codes + size[1].codes, params = size[0].params + size[1].params;
    const uint64_t scales = size[0].scales + size[1].scales, data_layer = H * B * (codes + params);
    for (int side = 0; side < 2; side++) {
        const row_size *s = &size[side];
        out->codes[side] = (kvg_gpu_rows){layer * data_layer + (side ? B * size[0].codes : 0), L * data_layer,
                                          B * codes, s->codes, (uint32_t)s->codes, 0, KVG_ROLE_DATA_POOL, KVG_K};
        if (s->params) {
            out->scales[side] = (kvg_gpu_rows){layer * data_layer + H * B * codes + (side ? B * size[0].params : 0),
                                               L * data_layer, B * params, s->params, (uint32_t)s->params, 0,
                                               KVG_ROLE_DATA_POOL, KVG_K};
        } else {
            out->scales[side] = (kvg_gpu_rows){layer * H * B * scales + (side ? size[0].scales : 0),
                                               L * H * B * scales, B * scales, scales, (uint32_t)s->scales, 0,
                                               KVG_ROLE_SCALE_POOL, KVG_K};
        }
    }
}

/* [block][layer][K page, V page], codes and scales alike. */
static void trtllm(const kvg_problem *p, const uint64_t bytes[2], kvg_role pool, kvg_gpu_rows out[2])
{
    const uint64_t rows = (uint64_t)p->paging.block_tokens * p->kv_heads, both = rows * (bytes[0] + bytes[1]);
    for (int side = 0; side < 2; side++) {
        out[side] = page_of(p, true, bytes[side], bytes[side]);
        out[side].base = p->paging.layer * both + (side ? rows * bytes[0] : 0);
        out[side].block = p->paging.layers * both;
        out[side].pool = pool;
        out[side].pool_side = KVG_K;
    }
}

/* A pool for each side: [layer][block] pages with padding after rows and pages. */
static void apart(const kvg_problem *p, bool heads_first, const uint64_t bytes[2], kvg_role pool, kvg_gpu_rows out[2])
{
    const bool data = pool == KVG_ROLE_DATA_POOL;
    const kvg_paging *g = &p->paging;
    for (int side = 0; side < 2; side++) {
        const uint64_t pitch = bytes[side] + (data ? g->row_padding : 0);
        out[side] = page_of(p, heads_first, bytes[side], pitch);
        out[side].block = g->block_tokens * p->kv_heads * pitch + (data ? g->data_padding : g->scale_padding);
        out[side].base = (uint64_t)g->layer * g->blocks * out[side].block;
        out[side].pool = pool;
        out[side].pool_side = (kvg_side)side;
    }
}

/* [layer][block]{ K codes, K scales, V codes, V scales }, padding after the page. */
static void vllm(const kvg_problem *p, bool heads_first, const uint64_t codes[2], const uint64_t scales[2],
                 kvg_gpu_layout *out)
{
    const uint64_t rows = (uint64_t)p->paging.block_tokens * p->kv_heads;
    const uint64_t page = rows * (codes[0] + scales[0] + codes[1] + scales[1]) + p->paging.data_padding;
    uint64_t part = (uint64_t)p->paging.layer * p->paging.blocks * page;
    for (int i = 0; i < 4; i++) {
        const int side = i / 2;
        const uint64_t bytes = i % 2 ? scales[side] : codes[side];
        kvg_gpu_rows *rows_of = i % 2 ? &out->scales[side] : &out->codes[side];
        *rows_of = page_of(p, heads_first, bytes, bytes);
        rows_of->base = part;
        rows_of->block = page;
        rows_of->pool = KVG_ROLE_DATA_POOL;
        rows_of->pool_side = KVG_K;
        part += rows * bytes;
    }
}

void kvg_gpu_layout_of(const kvg_problem *p, kvg_gpu_layout *out)
{
    const row_size size[2] = {size_of(p, KVG_K), size_of(p, KVG_V)};
    const uint64_t codes[2] = {size[0].codes, size[1].codes};
    const uint64_t scales[2] = {size[0].scales + size[0].params, size[1].scales + size[1].params};
    switch (p->layout) {
    case KVG_LAYOUT_TURBOMIND: turbomind(p, size, out); break;
    case KVG_LAYOUT_TRTLLM:
        trtllm(p, codes, KVG_ROLE_DATA_POOL, out->codes);
        trtllm(p, scales, KVG_ROLE_SCALE_POOL, out->scales);
        break;
    case KVG_LAYOUT_VLLM:
    case KVG_LAYOUT_VLLM_HND: vllm(p, p->layout == KVG_LAYOUT_VLLM_HND, codes, scales, out); break;
    case KVG_LAYOUT_HND:
    case KVG_LAYOUT_CONTIGUOUS:
    case KVG_LAYOUT_RING:
        apart(p, true, codes, KVG_ROLE_DATA_POOL, out->codes);
        apart(p, true, scales, KVG_ROLE_SCALE_POOL, out->scales);
        break;
    case KVG_LAYOUT_NHD:
    case KVG_LAYOUT_SLOT:
    case KVG_LAYOUT_MLA:
        apart(p, false, codes, KVG_ROLE_DATA_POOL, out->codes);
        apart(p, false, scales, KVG_ROLE_SCALE_POOL, out->scales);
        break;
    case KVG_LAYOUT_TEXT: /* the backend does not know that field of a problem */
    case KVG_LAYOUT_ROWS: /* no pools */
    case KVG_LAYOUT_END: break;
    }
    if (p->paging.v_scale_swizzle) out->scales[KVG_V].group = out->scales[KVG_V].bytes / 4;
}
