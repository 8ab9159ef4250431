#include "second/slow_layout.h"

#include "second/slow_text.h"

/* The numbers of a problem under the letters of docs/spec/layouts.md section 1. A side without rows has 0 bytes. */
typedef struct cache {
    uint64_t L, layer, N, B, H;
    uint64_t C[2], Z[2];
    uint64_t block_scales[2], row_params[2]; /* what Z consists of */
    uint64_t row_padding, data_padding, scale_padding;
    bool groups; /* V scales lie in 4-token groups */
} cache;

static cache cache_of(const kvg_problem *p)
{
    cache c = {
        .L = p->paging.layers,
        .layer = p->paging.layer,
        .N = p->paging.blocks,
        .B = p->paging.block_tokens,
        .H = p->kv_heads,
        .row_padding = p->paging.row_padding,
        .data_padding = p->paging.data_padding,
        .scale_padding = p->paging.scale_padding,
        .groups = p->paging.v_scale_swizzle,
    };
    for (int side = 0; side < kvg_problem_sides(p); side++) {
        const kvg_format_info *f = kvg_format_get(p->storage[side].format);
        c.C[side] = (uint64_t)p->head_dim * f->element_bits / 8;
        c.row_params[side] = f->row_param_bytes;
        c.block_scales[side] = f->block ? p->head_dim / f->block * f->block_scale_bytes : 0;
        c.Z[side] = c.block_scales[side] + c.row_params[side];
    }
    return c;
}

static slow_place in_data(kvg_side pool_of, uint64_t at)
{
    return (slow_place){KVG_ROLE_DATA_POOL, pool_of, at};
}

static slow_place in_scales(kvg_side pool_of, uint64_t at)
{
    return (slow_place){KVG_ROLE_SCALE_POOL, pool_of, at};
}

static bool in_groups(const cache *c, const slow_byte *b)
{
    return c->groups && b->side == KVG_V;
}

/* [head][offset][row], the last with 4-token groups: a tile [B][S] has byte (t div 4) * 4S + 4s + t mod 4. */
static uint64_t by_head(const cache *c, const slow_byte *b, uint64_t row, bool groups)
{
    uint64_t tile = b->head * (c->B * row), t = b->offset, s = b->index;
    return groups ? tile + t / 4 * (4 * row) + 4 * s + t % 4 : tile + t * row + s;
}

/* [offset][head][row], the last with 4-token groups: byte s' of offset t' instead. */
static uint64_t by_token(const cache *c, const slow_byte *b, uint64_t row, bool groups)
{
    uint64_t t = b->offset, s = b->index;
    if (groups) {
        t = b->offset - b->offset % 4 + b->index / (row / 4);
        s = b->index % (row / 4) * 4 + b->offset % 4;
    }
    return (t * c->H + b->head) * row + s;
}

/* --- turbomind: the engine's own quantities, with K and V apart because their formats may differ --- */

typedef struct engine {
    uint64_t token_data[2], token_param[2], head_data[2], head_param[2];
    uint64_t both_data, both_param; /* 2 * head_data, 2 * head_param of one format */
    uint64_t layer_size;
} engine;

static engine engine_of(const cache *c)
{
    engine e = {0};
    for (int side = KVG_K; side <= KVG_V; side++) {
        e.token_data[side] = c->C[side];
        e.token_param[side] = c->row_params[side];
        e.head_data[side] = c->B * e.token_data[side];
        e.head_param[side] = c->B * e.token_param[side];
        e.both_data += e.head_data[side];
        e.both_param += e.head_param[side];
    }
    e.layer_size = c->H * (e.both_data + e.both_param);
    return e;
}

static uint64_t turbomind_layer(const cache *c, const engine *e, const slow_byte *b)
{
    uint64_t block_size = c->L * e->layer_size;
    return b->block * block_size + c->layer * e->layer_size;
}

static slow_place turbomind_code(const cache *c, const slow_byte *b)
{
    engine e = engine_of(c);
    uint64_t k_data = b->head * e.both_data, v_data = k_data + e.head_data[KVG_K];
    uint64_t data = (b->side == KVG_K ? k_data : v_data) + b->offset * e.token_data[b->side];
    return in_data(KVG_K, turbomind_layer(c, &e, b) + data + b->index);
}

static slow_place turbomind_param(const cache *c, const slow_byte *b)
{
    engine e = engine_of(c);
    uint64_t k_param = c->H * e.both_data + b->head * e.both_param, v_param = k_param + e.head_param[KVG_K];
    uint64_t param = (b->side == KVG_K ? k_param : v_param) + b->offset * e.token_param[b->side];
    return in_data(KVG_K, turbomind_layer(c, &e, b) + param + b->index);
}

/* [block][layer][head][offset][Z(K) + Z(V)], of block scales only. */
static slow_place turbomind_scale(const cache *c, const slow_byte *b)
{
    if (c->row_params[b->side] > 0) return turbomind_param(c, b);
    uint64_t token = ((b->block * c->L + c->layer) * c->H + b->head) * c->B + b->offset;
    uint64_t k_scale = token * (c->block_scales[KVG_K] + c->block_scales[KVG_V]);
    uint64_t v_scale = k_scale + c->block_scales[KVG_K];
    return in_scales(KVG_K, (b->side == KVG_K ? k_scale : v_scale) + b->index);
}

/* --- trtllm: a list of pages, K V K V ... --- */

/* The engine's block index in layer 0, then moved by `layer` K pages and V pages. */
static uint64_t trtllm_page(const cache *c, const slow_byte *b, const uint64_t row[2])
{
    uint64_t index = b->block * c->L * 2 + (b->side == KVG_V);
    uint64_t k_pages = (index + 1) / 2 + c->layer, v_pages = index / 2 + c->layer;
    return c->H * c->B * (k_pages * row[KVG_K] + v_pages * row[KVG_V]);
}

static slow_place trtllm_code(const cache *c, const slow_byte *b)
{
    return in_data(KVG_K, trtllm_page(c, b, c->C) + by_head(c, b, c->C[b->side], false));
}

static slow_place trtllm_scale(const cache *c, const slow_byte *b)
{
    return in_scales(KVG_K, trtllm_page(c, b, c->Z) + by_head(c, b, c->Z[b->side], in_groups(c, b)));
}

/* --- [layer][block]: pages with padding --- */

static uint64_t page_start(const cache *c, const slow_byte *b, uint64_t page_bytes)
{
    return (c->layer * c->N + b->block) * page_bytes;
}

static uint64_t data_page(const cache *c, const slow_byte *b)
{
    return page_start(c, b, c->B * c->H * (c->C[b->side] + c->row_padding) + c->data_padding);
}

static uint64_t scale_page(const cache *c, const slow_byte *b)
{
    return page_start(c, b, c->B * c->H * c->Z[b->side] + c->scale_padding);
}

static slow_place nhd_code(const cache *c, const slow_byte *b)
{
    return in_data(b->side, data_page(c, b) + by_token(c, b, c->C[b->side] + c->row_padding, false));
}

static slow_place nhd_scale(const cache *c, const slow_byte *b)
{
    return in_scales(b->side, scale_page(c, b) + by_token(c, b, c->Z[b->side], in_groups(c, b)));
}

static slow_place hnd_code(const cache *c, const slow_byte *b)
{
    return in_data(b->side, data_page(c, b) + by_head(c, b, c->C[b->side] + c->row_padding, false));
}

static slow_place hnd_scale(const cache *c, const slow_byte *b)
{
    return in_scales(b->side, scale_page(c, b) + by_head(c, b, c->Z[b->side], in_groups(c, b)));
}

/* --- vllm: K codes, K scales, V codes, V scales in one page --- */

typedef enum part { K_CODES, K_SCALES, V_CODES, V_SCALES, PARTS } part;

static part part_of(const slow_byte *b, bool scales)
{
    return (b->side == KVG_K ? K_CODES : V_CODES) + (scales ? 1 : 0);
}

static uint64_t vllm_part(const cache *c, const slow_byte *b, part which)
{
    const uint64_t rows = c->B * c->H;
    const uint64_t size[PARTS] = {rows * c->C[KVG_K], rows * c->Z[KVG_K], rows * c->C[KVG_V], rows * c->Z[KVG_V]};
    uint64_t before = 0, page_bytes = c->data_padding;
    for (int i = 0; i < PARTS; i++) {
        if (i < (int)which) before += size[i];
        page_bytes += size[i];
    }
    return page_start(c, b, page_bytes) + before;
}

static slow_place vllm_code(const cache *c, const slow_byte *b)
{
    return in_data(KVG_K, vllm_part(c, b, part_of(b, false)) + by_token(c, b, c->C[b->side], false));
}

static slow_place vllm_scale(const cache *c, const slow_byte *b)
{
    return in_data(KVG_K, vllm_part(c, b, part_of(b, true)) + by_token(c, b, c->Z[b->side], in_groups(c, b)));
}

static slow_place vllm_hnd_code(const cache *c, const slow_byte *b)
{
    return in_data(KVG_K, vllm_part(c, b, part_of(b, false)) + by_head(c, b, c->C[b->side], false));
}

static slow_place vllm_hnd_scale(const cache *c, const slow_byte *b)
{
    return in_data(KVG_K, vllm_part(c, b, part_of(b, true)) + by_head(c, b, c->Z[b->side], in_groups(c, b)));
}

/* --- dense arrays --- */

/* [layer][slot][head][row] */
static uint64_t slot_at(const cache *c, const slow_byte *b, uint64_t row)
{
    uint64_t slots = c->N * c->B, slot = b->block * c->B + b->offset;
    return ((c->layer * slots + slot) * c->H + b->head) * row + b->index;
}

static slow_place slot_code(const cache *c, const slow_byte *b)
{
    return in_data(b->side, slot_at(c, b, c->C[b->side]));
}

static slow_place slot_scale(const cache *c, const slow_byte *b)
{
    return in_scales(b->side, slot_at(c, b, c->Z[b->side]));
}

/* [layer][sequence][head][position][row] */
static uint64_t sequence_at(const cache *c, const slow_byte *b, uint64_t row)
{
    return (((c->layer * c->N + b->block) * c->H + b->head) * c->B + b->offset) * row + b->index;
}

static slow_place sequence_code(const cache *c, const slow_byte *b)
{
    return in_data(b->side, sequence_at(c, b, c->C[b->side]));
}

static slow_place sequence_scale(const cache *c, const slow_byte *b)
{
    return in_scales(b->side, sequence_at(c, b, c->Z[b->side]));
}

/* [layer][block][offset][row] */
static uint64_t mla_at(const cache *c, const slow_byte *b, uint64_t row)
{
    return ((c->layer * c->N + b->block) * c->B + b->offset) * row + b->index;
}

static slow_place mla_code(const cache *c, const slow_byte *b)
{
    return in_data(KVG_K, mla_at(c, b, c->C[KVG_K]));
}

static slow_place mla_scale(const cache *c, const slow_byte *b)
{
    return in_scales(KVG_K, mla_at(c, b, c->Z[KVG_K]));
}

/* --- the table --- */

typedef slow_place place_fn(const cache *c, const slow_byte *b);

static const struct {
    place_fn *code, *scale;
} layouts[] = {
    [KVG_LAYOUT_TURBOMIND] = {turbomind_code, turbomind_scale},
    [KVG_LAYOUT_TRTLLM] = {trtllm_code, trtllm_scale},
    [KVG_LAYOUT_NHD] = {nhd_code, nhd_scale},
    [KVG_LAYOUT_HND] = {hnd_code, hnd_scale},
    [KVG_LAYOUT_VLLM] = {vllm_code, vllm_scale},
    [KVG_LAYOUT_VLLM_HND] = {vllm_hnd_code, vllm_hnd_scale},
    [KVG_LAYOUT_SLOT] = {slot_code, slot_scale},
    [KVG_LAYOUT_CONTIGUOUS] = {sequence_code, sequence_scale},
    [KVG_LAYOUT_RING] = {sequence_code, sequence_scale},
    [KVG_LAYOUT_MLA] = {mla_code, mla_scale},
};
_Static_assert(sizeof layouts / sizeof layouts[0] == KVG_LAYOUT_END, "a layout of core/layouts.def has no row here");

slow_place slow_place_of_code(const kvg_problem *problem, slow_byte byte)
{
    if (problem->layout == KVG_LAYOUT_TEXT) return slow_text_place(problem, byte, false);
    cache c = cache_of(problem);
    return layouts[problem->layout].code(&c, &byte);
}

slow_place slow_place_of_scale(const kvg_problem *problem, slow_byte byte)
{
    if (problem->layout == KVG_LAYOUT_TEXT) return slow_text_place(problem, byte, true);
    cache c = cache_of(problem);
    return layouts[problem->layout].scale(&c, &byte);
}
