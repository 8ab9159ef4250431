#include "pages.h"

/* What a page holds of a row. */
typedef enum field { NO_FIELD, K_CODES, V_CODES, K_SCALES, V_SCALES, K_PARAMS, V_PARAMS } field;

/* The order of the rows in a section of a page. */
typedef enum order {
    TOKENS_HEADS,       /* [N H]{ a b } */
    HEADS_TOKENS,       /* [H N]{ a b } */
    HEADS_FIELDS_TOKENS /* [H]{ [N] a [N] b } */
} order;

enum { MOST_FIELDS = 4, MOST_SECTIONS = 4 };

/* The pools in the order of an op's tensors. */
typedef enum pool_index { K_DATA, V_DATA, K_SCALE, V_SCALE } pool_index;

typedef struct section {
    pool_index pool;
    order order;
    field fields[MOST_FIELDS];
} section;

/* A page is one block of one layer. Its sections in one pool follow one another. */
typedef struct page_layout {
    kvg_layout layout;
    bool block_first; /* pages are in the order [B L], else [L B] */
    section sections[MOST_SECTIONS];
} page_layout;

#define POOL_OF_EACH(data_order, scale_order)                                                                  \
    {{K_DATA, data_order, {K_CODES}}, {V_DATA, data_order, {V_CODES}},                                         \
     {K_SCALE, scale_order, {K_SCALES}}, {V_SCALE, scale_order, {V_SCALES}}}
#define ONE_POOL(order)                                                                                        \
    {{K_DATA, order, {K_CODES}}, {K_DATA, order, {K_SCALES}}, {K_DATA, order, {V_CODES}},                      \
     {K_DATA, order, {V_SCALES}}}
#define CELLS(order) {{K_DATA, order, {K_CODES, K_SCALES, V_CODES, V_SCALES}}}

static const page_layout layouts[] = {
    {KVG_LAYOUT_TURBOMIND, true,
     {{K_DATA, HEADS_FIELDS_TOKENS, {K_CODES, V_CODES}}, {K_DATA, HEADS_FIELDS_TOKENS, {K_PARAMS, V_PARAMS}},
      {K_SCALE, HEADS_TOKENS, {K_SCALES, V_SCALES}}}},
    {KVG_LAYOUT_TRTLLM, true,
     {{K_DATA, HEADS_TOKENS, {K_CODES}}, {K_DATA, HEADS_TOKENS, {V_CODES}},
      {K_SCALE, HEADS_TOKENS, {K_SCALES}}, {K_SCALE, HEADS_TOKENS, {V_SCALES}}}},
    {KVG_LAYOUT_NHD, false, POOL_OF_EACH(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_HND, false, POOL_OF_EACH(HEADS_TOKENS, HEADS_TOKENS)},
    {KVG_LAYOUT_VLLM, false, ONE_POOL(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_HND, false, ONE_POOL(HEADS_TOKENS)},
    {KVG_LAYOUT_SLOT, false, POOL_OF_EACH(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_CONTIGUOUS, false, POOL_OF_EACH(HEADS_TOKENS, HEADS_TOKENS)},
    {KVG_LAYOUT_RING, false, POOL_OF_EACH(HEADS_TOKENS, HEADS_TOKENS)},
    {KVG_LAYOUT_MLA, false, POOL_OF_EACH(TOKENS_HEADS, TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_LBNHC, false, CELLS(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_LBHNC, false, CELLS(HEADS_TOKENS)},
    {KVG_LAYOUT_VLLM_BLNHC, true, CELLS(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_BLHNC, true, CELLS(HEADS_TOKENS)},
    {KVG_LAYOUT_VLLM_NVFP4_BLNHC, true, ONE_POOL(TOKENS_HEADS)},
    {KVG_LAYOUT_VLLM_NVFP4_BLHNC, true, ONE_POOL(HEADS_TOKENS)},
    {KVG_LAYOUT_MINIMAX_M3, false, {{K_DATA, HEADS_FIELDS_TOKENS, {K_CODES, K_SCALES, V_CODES, V_SCALES}}}},
    {KVG_LAYOUT_SGLANG_SM100, false, POOL_OF_EACH(TOKENS_HEADS, HEADS_TOKENS)},
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

static int side_of(field f)
{
    return f == K_CODES || f == K_SCALES || f == K_PARAMS ? KVG_K : KVG_V;
}

/* The field of a side that keeps its codes or its scales: turbomind has row parameters apart from block scales. */
static field field_of(const kvg_problem *p, int side, bool codes)
{
    if (codes) return side == KVG_K ? K_CODES : V_CODES;
    const bool params = p->layout == KVG_LAYOUT_TURBOMIND && format_has_row_parameters(p->storage[side].format);
    if (params) return side == KVG_K ? K_PARAMS : V_PARAMS;
    return side == KVG_K ? K_SCALES : V_SCALES;
}

/* Bytes that a row has of a field. */
static uint64_t field_bytes(const kvg_problem *p, field f)
{
    const int side = side_of(f);
    const kvg_format format = p->storage[side].format;
    if (f == NO_FIELD || (side == KVG_V && p->paging.shared_kv)) return 0;
    if (f == K_CODES || f == V_CODES) return format_code_bytes(format, p->head_dim);
    return f == field_of(p, side, false) ? format_scale_bytes(format, p->head_dim) : 0;
}

/* Bytes from a row's field to that of the next row: only codes have padding. */
static uint64_t field_pitch(const kvg_problem *p, field f)
{
    return field_bytes(p, f) + (f == K_CODES || f == V_CODES ? p->paging.row_padding : 0);
}

/* Bytes of a row in all fields of a section before `end`. */
static uint64_t pitch_before(const kvg_problem *p, const section *s, int end)
{
    uint64_t bytes = 0;
    for (int i = 0; i < end; i++) bytes += field_pitch(p, s->fields[i]);
    return bytes;
}

static uint64_t section_bytes(const kvg_problem *p, const section *s)
{
    return pitch_before(p, s, MOST_FIELDS) * p->paging.block_tokens * p->kv_heads;
}

static uint64_t page_bytes(const kvg_problem *p, const page_layout *layout, pool_index pool)
{
    uint64_t bytes = pool <= V_DATA ? p->paging.data_padding : p->paging.scale_padding;
    for (int i = 0; i < MOST_SECTIONS; i++)
        if (layout->sections[i].pool == pool) bytes += section_bytes(p, &layout->sections[i]);
    return bytes;
}

/* Where the field of a row begins in a section. */
static uint64_t place_in_section(const kvg_problem *p, const section *s, int which, uint64_t head, uint64_t offset)
{
    const uint64_t tokens = p->paging.block_tokens, pitch = pitch_before(p, s, MOST_FIELDS);
    const uint64_t before = pitch_before(p, s, which);
    if (s->order == TOKENS_HEADS) return (offset * p->kv_heads + head) * pitch + before;
    if (s->order == HEADS_TOKENS) return (head * tokens + offset) * pitch + before;
    return head * tokens * pitch + tokens * before + offset * field_pitch(p, s->fields[which]);
}

/* Where the field of a row lies: in which pool, and at which byte. */
static pool_index place_of_field(const kvg_problem *p, field f, row_place place, uint64_t offset, uint64_t *byte)
{
    const kvg_paging *g = &p->paging;
    const page_layout *layout = layout_of(p->layout);
    int section_index = 0, which = 0;
    for (int i = 0; i < MOST_SECTIONS * MOST_FIELDS; i++) {
        if (layout->sections[i / MOST_FIELDS].fields[i % MOST_FIELDS] != f) continue;
        section_index = i / MOST_FIELDS;
        which = i % MOST_FIELDS;
    }
    const section *s = &layout->sections[section_index];
    const uint64_t block = (uint64_t)place.slot / g->block_tokens;
    const uint64_t page = layout->block_first ? block * g->layers + g->layer : (uint64_t)g->layer * g->blocks + block;
    *byte = page * page_bytes(p, layout, s->pool) + place_in_section(p, s, which, place.head, offset);
    for (int i = 0; i < section_index; i++)
        if (layout->sections[i].pool == s->pool) *byte += section_bytes(p, &layout->sections[i]);
    return s->pool;
}

/* Byte `index` of a field of a row. V's scales may lie in groups of four tokens. */
static uint8_t *byte_of_field(const kvg_problem *p, const kvg_tensor *pools, field f, row_place place, uint32_t index)
{
    uint64_t offset = (uint64_t)place.slot % p->paging.block_tokens, byte;
    if (f == V_SCALES && p->paging.v_scale_swizzle) {
        const uint32_t quarter = (uint32_t)field_bytes(p, f) / 4, token = offset % 4;
        offset = offset - token + index / quarter;
        index = index % quarter * 4 + token;
    }
    const pool_index pool = place_of_field(p, f, place, offset, &byte);
    return (uint8_t *)pools[pool].data + byte + index;
}

void store_row(const kvg_problem *p, kvg_tensor *pools, row_place place, const stored_row *row)
{
    const field codes = field_of(p, place.side, true), scales = field_of(p, place.side, false);
    for (uint32_t i = 0; i < field_bytes(p, codes); i++) *byte_of_field(p, pools, codes, place, i) = row->codes[i];
    for (uint32_t i = 0; i < field_bytes(p, scales); i++) *byte_of_field(p, pools, scales, place, i) = row->scales[i];
}

void load_row(const kvg_problem *p, const kvg_tensor *pools, row_place place, stored_row *row)
{
    const field codes = field_of(p, place.side, true), scales = field_of(p, place.side, false);
    for (uint32_t i = 0; i < field_bytes(p, codes); i++) row->codes[i] = *byte_of_field(p, pools, codes, place, i);
    for (uint32_t i = 0; i < field_bytes(p, scales); i++) row->scales[i] = *byte_of_field(p, pools, scales, place, i);
}

int64_t slot_of_position(const kvg_problem *p, const kvg_tensor *block_table, uint32_t sequence, int64_t position,
                         int64_t length)
{
    const int64_t tokens = p->paging.block_tokens;
    const bool ring = p->layout == KVG_LAYOUT_RING, one_block = ring || p->layout == KVG_LAYOUT_CONTIGUOUS;
    const int32_t *blocks = (const int32_t *)block_table->data + sequence * block_table->shape[1];
    const int32_t block = blocks[one_block ? 0 : position / tokens];
    if (block < 0 || block >= (int64_t)p->paging.blocks || (ring && position < length - tokens)) return -1;
    return block * tokens + position % tokens;
}
