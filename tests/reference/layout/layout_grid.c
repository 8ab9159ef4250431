#include "tests/reference/layout/layout_grid.h"

#include <stdio.h>

#define COUNT(array) (uint32_t)(sizeof(array) / sizeof (array)[0])

static const uint32_t full_dims[] = {64, 80, 96, 112, 128, 192, 256, 512, 576};
static const uint32_t full_tokens[] = {1, 2, 3, 4, 5, 8, 16, 24, 32, 64, 128, 256};
static const uint32_t full_heads[] = {1, 2, 3, 4, 5, 7, 8, 16, 32, 64, 128};
static const uint32_t full_pools[][2] = {{1, 2}, {1, 3}, {2, 2}, {2, 3}, {3, 2}, {3, 3}};
const layout_grid layout_grid_full = {full_dims,         full_tokens,       full_heads,        full_pools,
                                      COUNT(full_dims), COUNT(full_tokens), COUNT(full_heads), COUNT(full_pools)};

static const uint32_t small_dims[] = {64, 96, 192};
static const uint32_t small_tokens[] = {1, 3, 4, 8};
static const uint32_t small_heads[] = {1, 2, 5};
static const uint32_t small_pools[][2] = {{1, 2}, {2, 3}, {3, 2}};
const layout_grid layout_grid_small = {small_dims,         small_tokens,       small_heads,        small_pools,
                                       COUNT(small_dims), COUNT(small_tokens), COUNT(small_heads), COUNT(small_pools)};

#define PAIR(K, V) {KVG_FORMAT_##K, KVG_FORMAT_##V}
static const kvg_format pairs[][2] = {
    PAIR(F16, F16),         PAIR(BF16, BF16),     PAIR(E4M3, E4M3), PAIR(E5M2, E5M2),   PAIR(INT8, INT8),
    PAIR(INT4, INT4),       PAIR(ROWINT4, ROWINT4), PAIR(ROWFP4, ROWFP4), PAIR(MX16, MX16), PAIR(MXFP4, MXFP4),
    PAIR(NVFP4, NVFP4),     PAIR(E4M3, NVFP4),    PAIR(NVFP4, E4M3), PAIR(INT8, INT4),  PAIR(BF16, MX16),
    PAIR(INT4, NVFP4),      PAIR(MXFP4, ROWFP4),
};

/* Odd paddings: nothing hides behind a round number. */
static const struct {
    uint32_t row, data, scale;
    bool swizzle, shared;
} options[] = {
    {0, 0, 0, false, false}, {3, 0, 0, false, false}, {0, 7, 0, false, false}, {0, 0, 5, false, false},
    {13, 11, 9, false, false}, {0, 0, 0, true, false}, {0, 7, 0, true, false}, {1, 129, 31, true, false},
    {0, 0, 0, false, true},
};

uint64_t layout_grid_size(const layout_grid *g)
{
    const uint64_t kinds = (uint64_t)PAGE_LAYOUTS * COUNT(pairs) * COUNT(options);
    return kinds * g->dim_count * g->token_count * g->head_count * g->pool_count;
}

/* The last digit of *index to base `base`, taken off. */
static uint32_t digit(uint64_t *index, uint32_t base)
{
    const uint32_t d = (uint32_t)(*index % base);
    *index /= base;
    return d;
}

bool layout_grid_at(const layout_grid *g, uint64_t index, kvg_problem *out)
{
    kvg_problem p = {.op = KVG_OP_APPEND, .dtype = KVG_DTYPE_BF16, .tokens = 1};
    p.layout = (kvg_layout)(PAGE_FIRST_LAYOUT + digit(&index, PAGE_LAYOUTS));
    const uint32_t pair = digit(&index, COUNT(pairs)), option = digit(&index, COUNT(options));
    p.head_dim = g->dims[digit(&index, g->dim_count)];
    p.kv_heads = g->heads[digit(&index, g->head_count)];
    p.paging.block_tokens = g->tokens[digit(&index, g->token_count)];
    const uint32_t *pool = g->pools[digit(&index, g->pool_count)];
    p.paging.layers = pool[0];
    p.paging.blocks = pool[1];
    p.paging.row_padding = options[option].row;
    p.paging.data_padding = options[option].data;
    p.paging.scale_padding = options[option].scale;
    p.paging.v_scale_swizzle = options[option].swizzle;
    p.paging.shared_kv = options[option].shared;
    p.paging.v_dim = options[option].shared ? p.head_dim - p.head_dim / 8 : 0;
    bool fits = true;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_format_info *f = kvg_format_get(pairs[pair][side]);
        p.storage[side] = (kvg_storage){f->format, "canonical"};
        fits = fits && p.head_dim % 8 == 0 && (f->block == 0 || p.head_dim % f->block == 0);
    }
    *out = p;
    return fits;
}

layout_name layout_grid_name(const kvg_problem *p)
{
    layout_name n;
    const kvg_paging *g = &p->paging;
    snprintf(n.text, sizeof n.text, "%s %s+%s L%u N%u B%u H%u D%u padding %u/%u/%u%s%s",
             kvg_layout_get(p->layout)->name, kvg_format_get(p->storage[KVG_K].format)->name,
             kvg_format_get(p->storage[KVG_V].format)->name, g->layers, g->blocks, g->block_tokens, p->kv_heads,
             p->head_dim, g->row_padding, g->data_padding, g->scale_padding, g->v_scale_swizzle ? " swizzle" : "",
             g->shared_kv ? " shared" : "");
    return n;
}
