#include "tests/reference/layout/layout_page.h"

#include <string.h>

page page_open(const kvg_problem *p)
{
    const kvg_paging *o = &p->paging;
    page g = {.layout = p->layout, .L = o->layers, .N = o->blocks, .B = o->block_tokens, .H = p->kv_heads,
              .row_padding = o->row_padding, .data_padding = o->data_padding, .scale_padding = o->scale_padding,
              .swizzle = o->v_scale_swizzle, .sides = o->shared_kv ? 1 : 2};
    for (int side = KVG_K; side < g.sides; side++) {
        const kvg_format_info *f = kvg_format_get(p->storage[side].format);
        g.C[side] = p->head_dim * f->element_bits / 8;
        g.params[side] = f->row_param_bytes;
        g.Z[side] = f->block ? p->head_dim / f->block * f->block_scale_bytes : f->row_param_bytes;
    }
    return g;
}

uint32_t page_row_bytes(const page *g, kvg_side side, page_part part)
{
    return part == PAGE_CODES ? g->C[side] : g->Z[side];
}

/* [i][n]: index j below n follows index i. */
static wide in(wide i, wide n, wide j)
{
    return i * n + j;
}

static bool heads_first(const page *g)
{
    return g->layout != KVG_LAYOUT_NHD && g->layout != KVG_LAYOUT_VLLM && g->layout != KVG_LAYOUT_SLOT &&
           g->layout != KVG_LAYOUT_MLA;
}

static bool is_one_page(const page *g)
{
    return g->layout == KVG_LAYOUT_VLLM || g->layout == KVG_LAYOUT_VLLM_HND;
}

/* The row's number within its page and side. */
static wide order_of(const page *g, page_row r)
{
    return heads_first(g) ? in(r.head, g->B, r.offset) : in(r.offset, g->H, r.head);
}

/* [block][layer]{ [head][K rows, V rows] [head][K parameters, V parameters] }, [block][layer][head][offset][K, V] */
static page_place turbomind(const page *g, page_row r)
{
    const wide data = g->B * (g->C[KVG_K] + g->C[KVG_V]), param = g->B * (g->params[KVG_K] + g->params[KVG_V]);
    const wide start = in(r.block, g->L, r.layer) * (g->H * data + g->H * param);
    const bool v = r.side == KVG_V;
    if (r.part == PAGE_CODES) {
        const wide plane = r.head * data + (v ? g->B * g->C[KVG_K] : 0);
        return (page_place){KVG_ROLE_DATA_POOL, KVG_K, start + plane + (wide)r.offset * g->C[r.side]};
    }
    if (g->params[r.side]) {
        const wide plane = g->H * data + r.head * param + (v ? g->B * g->params[KVG_K] : 0);
        return (page_place){KVG_ROLE_DATA_POOL, KVG_K, start + plane + (wide)r.offset * g->params[r.side]};
    }
    const uint32_t k = g->Z[KVG_K] - g->params[KVG_K], both = k + g->Z[KVG_V] - g->params[KVG_V];
    const wide token = in(in(in(r.block, g->L, r.layer), g->H, r.head), g->B, r.offset);
    return (page_place){KVG_ROLE_SCALE_POOL, KVG_K, token * both + (v ? k : 0)};
}

/* [block][layer][K page, V page] for data and for scales */
static page_place trtllm(const page *g, page_row r)
{
    const uint32_t *bytes = r.part == PAGE_CODES ? g->C : g->Z;
    const wide start = in(r.block, g->L, r.layer) * g->H * g->B * (bytes[KVG_K] + bytes[KVG_V]);
    return (page_place){r.part == PAGE_CODES ? KVG_ROLE_DATA_POOL : KVG_ROLE_SCALE_POOL, KVG_K,
                        start + (r.side == KVG_V ? g->H * g->B * bytes[KVG_K] : 0) + order_of(g, r) * bytes[r.side]};
}

/* [layer][block]{ K codes, K scales, V codes, V scales } */
static page_place one_page(const page *g, page_row r)
{
    const uint32_t parts[4] = {g->C[KVG_K], g->Z[KVG_K], g->C[KVG_V], g->Z[KVG_V]};
    const int mine = 2 * (int)r.side + (int)r.part;
    wide before = 0;
    for (int i = 0; i < mine; i++) before += g->B * g->H * parts[i];
    return (page_place){KVG_ROLE_DATA_POOL, KVG_K,
                        in(r.layer, g->N, r.block) * page_page_bytes(g, KVG_ROLE_DATA_POOL, KVG_K) + before +
                            order_of(g, r) * parts[mine]};
}

/* [layer][block][head, offset in either order], K and V apart */
static page_place apart(const page *g, page_row r)
{
    const kvg_role pool = r.part == PAGE_CODES ? KVG_ROLE_DATA_POOL : KVG_ROLE_SCALE_POOL;
    const wide row = r.part == PAGE_CODES ? (wide)g->C[r.side] + g->row_padding : g->Z[r.side];
    return (page_place){pool, r.side,
                        in(r.layer, g->N, r.block) * page_page_bytes(g, pool, r.side) + order_of(g, r) * row};
}

page_place page_first(const page *g, page_row row)
{
    if (g->layout == KVG_LAYOUT_TURBOMIND) return turbomind(g, row);
    if (g->layout == KVG_LAYOUT_TRTLLM) return trtllm(g, row);
    if (is_one_page(g)) return one_page(g, row);
    return apart(g, row);
}

/* Section 4 as hnd has it: byte (t div 4) * 4S + 4s + t mod 4 of the head's tile [B][S]. Other layouts keep byte b of
 * that tile where they have scale byte b mod S of offset b div S. */
page_place page_byte(const page *g, page_row row, uint32_t index)
{
    const uint32_t S = g->Z[row.side];
    if (g->swizzle && row.side == KVG_V && row.part == PAGE_SCALES) {
        const uint64_t tile = (uint64_t)(row.offset / 4) * 4 * S + 4 * index + row.offset % 4;
        row.offset = (uint32_t)(tile / S);
        index = (uint32_t)(tile % S);
    }
    page_place at = page_first(g, row);
    at.byte += index;
    return at;
}

wide page_page_bytes(const page *g, kvg_role pool, kvg_side side)
{
    const bool data = pool == KVG_ROLE_DATA_POOL;
    const wide rows = g->B * g->H;
    if (is_one_page(g))
        return rows * ((wide)g->C[KVG_K] + g->Z[KVG_K] + g->C[KVG_V] + g->Z[KVG_V]) + g->data_padding;
    return data ? rows * ((wide)g->C[side] + g->row_padding) + g->data_padding
                : rows * g->Z[side] + (g->Z[side] ? g->scale_padding : 0);
}

wide page_pool_bytes(const page *g, kvg_role pool, kvg_side side)
{
    const bool data = pool == KVG_ROLE_DATA_POOL;
    const wide tokens = g->N * g->L * g->H * g->B;
    const wide params = g->layout == KVG_LAYOUT_TURBOMIND ? (wide)g->params[KVG_K] + g->params[KVG_V] : 0;
    if (g->layout == KVG_LAYOUT_TURBOMIND || g->layout == KVG_LAYOUT_TRTLLM) {
        if (side == KVG_V) return 0;
        return tokens * (data ? (wide)g->C[KVG_K] + g->C[KVG_V] + params
                              : (wide)g->Z[KVG_K] + g->Z[KVG_V] - params);
    }
    if (is_one_page(g)) return data && side == KVG_K ? g->N * g->L * page_page_bytes(g, pool, side) : 0;
    return (int)side < g->sides ? g->N * g->L * page_page_bytes(g, pool, side) : 0;
}

uint32_t page_padding(const page *g, kvg_role pool, kvg_side side)
{
    if (page_pool_bytes(g, pool, side) == 0) return 0;
    return pool == KVG_ROLE_DATA_POOL ? g->data_padding : g->scale_padding;
}

uint32_t page_alignment(const page *g, kvg_side side)
{
    const page_row origin = {0, 0, 0, 0, side, PAGE_CODES};
    page_row next[4] = {origin, origin, origin, origin};
    next[0].layer = next[1].block = next[2].head = next[3].offset = 1;
    const wide base = page_first(g, origin).byte;
    wide bits = base | 16;
    for (int i = 0; i < 4; i++) bits |= page_first(g, next[i]).byte - base;
    return (uint32_t)(bits & -bits);
}

bool page_legal(const kvg_problem *p)
{
    const kvg_paging *o = &p->paging;
    const kvg_format_info *v = kvg_format_get(p->storage[KVG_V].format);
    const bool flashinfer = p->layout == KVG_LAYOUT_NHD || p->layout == KVG_LAYOUT_HND;
    const bool vllm = p->layout == KVG_LAYOUT_VLLM || p->layout == KVG_LAYOUT_VLLM_HND;
    const bool mla = p->layout == KVG_LAYOUT_MLA, trt = p->layout == KVG_LAYOUT_TRTLLM;
    const bool one_format = p->storage[KVG_K].format == p->storage[KVG_V].format &&
                            strcmp(p->storage[KVG_K].dialect, p->storage[KVG_V].dialect) == 0;
    uint32_t halves = o->block_tokens;
    while (halves % 2 == 0) halves /= 2;
    if ((o->row_padding || o->scale_padding) && !flashinfer) return false;
    if (o->data_padding && !flashinfer && !vllm) return false;
    if (trt && halves != 1) return false;
    if (o->v_scale_swizzle && (!(flashinfer || vllm || trt) || v->block != 16 || v->block_scale_bytes != 1 ||
                               o->block_tokens % 4 != 0 || p->head_dim / 16 % 4 != 0))
        return false;
    if (mla && (p->kv_heads != 1 || !o->shared_kv)) return false;
    if (o->shared_kv)
        return (mla || p->layout == KVG_LAYOUT_TURBOMIND) && one_format && o->v_dim > 0 &&
               (uint64_t)o->v_first + o->v_dim <= p->head_dim;
    return o->v_first == 0 && o->v_dim == 0;
}
