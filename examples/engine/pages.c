#include "pages.h"

/* What a page has of a row. */
typedef enum field { NO_FIELD, K_CODES, V_CODES, K_SCALES, V_SCALES, K_PARAMS, V_PARAMS } field;

/* The order of rows in a section of a page. */
typedef enum order {
    TOKENS_HEADS,       /* [N H]{ a b } */
    HEADS_TOKENS,       /* [H N]{ a b } */
    HEADS_FIELDS_TOKENS /* [H]{ [N] a [N] b } */
} order;

typedef enum pool_index { K_DATA, V_DATA, K_SCALE, V_SCALE } pool_index;

enum { MOST_FIELDS = 4, MOST_SECTIONS = 4 };

typedef struct section {
    pool_index pool;
    order order;
    field fields[MOST_FIELDS];
} section;

/* A page is one block of one layer. The sections that it has in a pool follow one another. */
typedef struct page_layout {
    kvg_layout layout;
    bool block_first; /* pages are in the order [B L], else [L B] */
    section sections[MOST_SECTIONS];
} page_layout;

#define FOUR_POOLS(data, scales)                                                                           \
    {{K_DATA, data, {K_CODES}}, {V_DATA, data, {V_CODES}}, {K_SCALE, scales, {K_SCALES}},                  \
     {V_SCALE, scales, {V_SCALES}}}
#define ONE_POOL(order)                                                                                    \
    {{K_DATA, order, {K_CODES}}, {K_DATA, order, {K_SCALES}}, {K_DATA, order, {V_CODES}},                  \
     {K_DATA, order, {V_SCALES}}}
#define CELLS(order) {{K_DATA, order, {K_CODES, K_SCALES, V_CODES, V_SCALES}}}

static const page_layout layouts[] = {
    {KVG_LAYOUT_ROWS, false, FOUR_POOLS(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_TURBOMIND, true,
     {{K_DATA, HEADS_FIELDS_TOKENS, {K_CODES, V_CODES}}, {K_DATA, HEADS_FIELDS_TOKENS, {K_PARAMS, V_PARAMS}},
      {K_SCALE, HEADS_TOKENS, {K_SCALES, V_SCALES}}}},
    {KVG_LAYOUT_TRTLLM, true,
     {{K_DATA, HEADS_TOKENS, {K_CODES}}, {K_DATA, HEADS_TOKENS, {V_CODES}},
      {K_SCALE, HEADS_TOKENS, {K_SCALES}}, {K_SCALE, HEADS_TOKENS, {V_SCALES}}}},
    {KVG_LAYOUT_NHD, false, FOUR_POOLS(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_HND, false, FOUR_POOLS(HEADS_TOKENS, HEADS_TOKENS)},
    {KVG_LAYOUT_VLLM, false, ONE_POOL(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_HND, false, ONE_POOL(HEADS_TOKENS)},
    {KVG_LAYOUT_SLOT, false, FOUR_POOLS(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_CONTIGUOUS, false, FOUR_POOLS(HEADS_TOKENS, HEADS_TOKENS)},
    {KVG_LAYOUT_RING, false, FOUR_POOLS(HEADS_TOKENS, HEADS_TOKENS)},
    {KVG_LAYOUT_MLA, false, FOUR_POOLS(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_LBNHC, false, CELLS(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_LBHNC, false, CELLS(HEADS_TOKENS)},
    {KVG_LAYOUT_VLLM_BLNHC, true, CELLS(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_BLHNC, true, CELLS(HEADS_TOKENS)},
    {KVG_LAYOUT_VLLM_NVFP4_BLNHC, true, ONE_POOL(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_NVFP4_BLHNC, true, ONE_POOL(HEADS_TOKENS)},
    {KVG_LAYOUT_MINIMAX_M3, false, {{K_DATA, HEADS_FIELDS_TOKENS, {K_CODES, K_SCALES, V_CODES, V_SCALES}}}},
    {KVG_LAYOUT_SGLANG_SM100, false, FOUR_POOLS(TOKENS_HEADS, HEADS_TOKENS)},
};

static const page_layout *layout_of(kvg_layout layout)
{
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i].layout == layout) return &layouts[i];
    return NULL;
}

bool layout_is_known(kvg_layout layout)
{
    return layout_of(layout) != NULL;
}

/* --- sizes --- */

static bool is_codes(field f)
{
    return f == K_CODES || f == V_CODES;
}

/* Where a side's scales are: turbomind keeps row parameters apart from block scales. */
static field scales_of_side(const kvg_problem *p, int side)
{
    const bool apart = p->layout == KVG_LAYOUT_TURBOMIND && format_has_row_parameters(p->storage[side].format);
    return apart ? side == KVG_K ? K_PARAMS : V_PARAMS : side == KVG_K ? K_SCALES : V_SCALES;
}

/* Bytes that a row has of a field. */
static uint32_t field_bytes(const kvg_problem *p, field f)
{
    const int side = f == K_CODES || f == K_SCALES || f == K_PARAMS ? KVG_K : KVG_V;
    const kvg_format format = p->storage[side].format;
    if (f == NO_FIELD || (side == KVG_V && p->paging.shared_kv)) return 0;
    if (is_codes(f)) return format_code_bytes(format, p->head_dim);
    return f == scales_of_side(p, side) ? format_scale_bytes(format, p->head_dim) : 0;
}

/* Bytes of a row, with padding, in the first `count` fields of a section. */
static uint64_t row_bytes(const kvg_problem *p, const section *s, int count)
{
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += field_bytes(p, s->fields[i]) + (is_codes(s->fields[i]) ? p->paging.row_padding : 0);
    return bytes;
}

static uint32_t page_tokens(const kvg_problem *p)
{
    return p->layout == KVG_LAYOUT_ROWS ? p->tokens : p->paging.block_tokens;
}

/* Bytes of a page in a pool, in the first `count` sections. */
static uint64_t page_bytes(const kvg_problem *p, const page_layout *layout, int count, pool_index pool)
{
    uint64_t bytes = 0;
    for (const section *s = layout->sections; s < layout->sections + count; s++)
        if (s->pool == pool) bytes += row_bytes(p, s, MOST_FIELDS) * page_tokens(p) * p->kv_heads;
    return bytes;
}

/* --- places --- */

static uint64_t place_in_section(const kvg_problem *p, const section *s, int nth, uint64_t head, uint64_t offset)
{
    const uint64_t tokens = page_tokens(p), row = row_bytes(p, s, MOST_FIELDS), before = row_bytes(p, s, nth);
    if (s->order == TOKENS_HEADS) return (offset * p->kv_heads + head) * row + before;
    if (s->order == HEADS_TOKENS) return (head * tokens + offset) * row + before;
    return (head * row + before) * tokens + offset * (row_bytes(p, s, nth + 1) - before);
}

/* The first byte of a field of a row. */
static uint8_t *field_of_row(const kvg_problem *p, const kvg_tensor *pools, field f, uint64_t block, uint64_t head,
                             uint64_t offset)
{
    const kvg_paging *g = &p->paging;
    const page_layout *layout = layout_of(p->layout);
    int i = 0;
    while (layout->sections[i / MOST_FIELDS].fields[i % MOST_FIELDS] != f) i++;
    const section *s = &layout->sections[i / MOST_FIELDS];
    const uint64_t padding = s->pool == K_DATA || s->pool == V_DATA ? g->data_padding : g->scale_padding;
    const uint64_t page = layout->block_first ? block * g->layers + g->layer : (uint64_t)g->layer * g->blocks + block;
    const uint64_t byte = page * (page_bytes(p, layout, MOST_SECTIONS, s->pool) + padding) +
                          page_bytes(p, layout, i / MOST_FIELDS, s->pool) +
                          place_in_section(p, s, i % MOST_FIELDS, head, offset);
    return (uint8_t *)pools[s->pool].data + byte;
}

/* V's scales may lie in groups of four tokens: a row of the page then has a quarter of the bytes of each. */
static uint8_t *byte_in_group(const kvg_problem *p, const kvg_tensor *pools, uint64_t block, uint64_t head,
                              uint64_t offset, uint32_t index)
{
    const uint32_t token = offset % 4, quarter = field_bytes(p, V_SCALES) / 4;
    uint8_t *row = field_of_row(p, pools, V_SCALES, block, head, offset - token + index / quarter);
    return row + index % quarter * 4 + token;
}

static void copy_field(const kvg_problem *p, const kvg_tensor *pools, field f, row_place place, uint8_t *bytes,
                       bool store)
{
    const uint64_t block = (uint64_t)place.slot / page_tokens(p), offset = (uint64_t)place.slot % page_tokens(p);
    const bool grouped = f == V_SCALES && p->paging.v_scale_swizzle;
    const uint32_t count = field_bytes(p, f);
    uint8_t *row = count ? field_of_row(p, pools, f, block, place.head, offset) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *at = grouped ? byte_in_group(p, pools, block, place.head, offset, i) : row + i;
        if (store) *at = bytes[i];
        else bytes[i] = *at;
    }
}

void copy_row(const kvg_problem *p, const kvg_tensor *pools, row_place place, stored_row *row, bool store)
{
    copy_field(p, pools, place.side == KVG_K ? K_CODES : V_CODES, place, row->codes, store);
    copy_field(p, pools, scales_of_side(p, place.side), place, row->scales, store);
}

int64_t slot_of_position(const kvg_problem *p, const kvg_tensor *block_table, uint32_t sequence, int64_t position,
                         int64_t length)
{
    const int64_t tokens = p->paging.block_tokens;
    const bool ring = p->layout == KVG_LAYOUT_RING, one_block = ring || p->layout == KVG_LAYOUT_CONTIGUOUS;
    const int32_t *blocks = (const int32_t *)block_table->data + sequence * block_table->shape[1];
    const int32_t block = blocks[one_block ? 0 : position / tokens];
    if (block >= (int64_t)p->paging.blocks || (ring && position < length - tokens)) return -1;
    return block * tokens + position % tokens; /* negative, if the entry is */
}
