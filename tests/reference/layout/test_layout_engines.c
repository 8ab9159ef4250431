/* The engines' own formulas, as docs/spec/layouts.md sections 2 and 4 quote them: a third way to the same places. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "reference/reference.h"

#define COUNT(array) (sizeof(array) / sizeof (array)[0])

static const uint32_t dims[] = {64, 128, 192, 256, 512, 576};
static const uint32_t tokens[] = {1, 4, 8, 24, 64, 256};
static const uint32_t heads[] = {1, 2, 5, 8};

static kvg_problem problem_of(kvg_layout layout, kvg_format format, uint32_t B, uint32_t H, uint32_t D)
{
    kvg_problem p = {.op = KVG_OP_APPEND, .layout = layout, .dtype = KVG_DTYPE_F16, .tokens = 1, .kv_heads = H,
                     .head_dim = D, .paging = {.layers = 2, .blocks = 3, .block_tokens = B}};
    p.storage[KVG_K] = p.storage[KVG_V] = (kvg_storage){format, "canonical"};
    return p;
}

typedef enum page_part { PAGE_CODES, PAGE_SCALES, PAGE_PARTS } page_part;

typedef struct page_row {
    uint32_t layer, block, head, offset;
} page_row;

/* Calls visit for every row of K of the problem, which is laid out; returns the rows visited. */
typedef void visit_fn(const kvg_problem *p, page_row r);

static uint64_t for_each_row(const kvg_problem *problem, visit_fn *visit)
{
    kvg_problem p = *problem;
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
    const uint32_t B = p.paging.block_tokens, N = p.paging.blocks, H = p.kv_heads;
    const uint32_t rows = p.paging.layers * N * H * B;
    for (uint32_t n = 0; n < rows; n++) {
        visit(&p, (page_row){.layer = n / B / H / N, .block = n / B / H % N, .head = n / B % H, .offset = n % B});
    }
    return rows;
}

static const kvg_row_map *row_map(const kvg_problem *p, kvg_side side, page_part part)
{
    return part == PAGE_CODES ? &p->map.codes[side] : &p->map.scales[side];
}

static uint64_t byte_of(const kvg_row_map *m, page_row r, uint32_t index)
{
    return kvg_rows_place(m, r.layer, r.block, r.head, r.offset, index);
}

static uint64_t first_byte(const kvg_problem *p, page_row r, kvg_side side, page_part part)
{
    return byte_of(row_map(p, side, part), r, 0);
}

/* A grid of dims, tokens and heads. */
static uint64_t for_each_geometry(kvg_layout layout, kvg_format format, bool shared, visit_fn *visit)
{
    uint64_t rows = 0;
    for (size_t i = 0; i < COUNT(dims) * COUNT(tokens) * COUNT(heads); i++) {
        kvg_problem p = problem_of(layout, format, tokens[i / COUNT(heads) % COUNT(tokens)], heads[i % COUNT(heads)],
                                   dims[i / COUNT(heads) / COUNT(tokens)]);
        if (layout == KVG_LAYOUT_TRTLLM && p.paging.block_tokens == 24) continue;
        p.paging.shared_kv = shared;
        p.paging.v_dim = shared ? 64 : 0;
        rows += for_each_row(&p, visit);
    }
    return rows;
}

/* --- turbomind --- */

static void turbomind_row(const kvg_problem *p, page_row r)
{
    const kvg_format format = p->storage[KVG_K].format;
    const uint64_t q = format == KVG_FORMAT_F16 ? 16 : format == KVG_FORMAT_INT8 ? 8 : 4;
    const uint64_t t = format == KVG_FORMAT_INT8 || format == KVG_FORMAT_INT4 ? 16 : 0;
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, D = p->head_dim, kv = p->paging.shared_kv ? 1 : 2;
    const uint64_t token_data = q * D / 8, token_param = 2 * t / 8;
    const uint64_t head_data = B * token_data, head_param = B * token_param;
    const uint64_t layer_size = H * kv * (head_data + head_param);
    const uint64_t block = p->paging.layers * layer_size, start = r.block * block + r.layer * layer_size;
    const uint64_t k_data = r.head * kv * head_data + r.offset * token_data;
    const uint64_t k_param = H * kv * head_data + r.head * kv * head_param + r.offset * token_param;
    assert_int_equal(p->pool_bytes[KVG_K][0], p->paging.blocks * block);
    assert_int_equal(first_byte(p, r, KVG_K, PAGE_CODES), start + k_data);
    if (kv == 2) assert_int_equal(first_byte(p, r, KVG_V, PAGE_CODES), start + k_data + head_data);
    if (t == 0) return;
    assert_int_equal(first_byte(p, r, KVG_K, PAGE_SCALES), start + k_param);
    if (kv == 2) assert_int_equal(first_byte(p, r, KVG_V, PAGE_SCALES), start + k_param + head_param);
}

/* The scale pool of the FP4 modes: [layer][head][token][K, V] under the block id of the data. */
static void turbomind_scales(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, L = p->paging.layers, Z = p->head_dim / 16;
    const uint64_t scale_block = L * H * B * 2 * Z;
    const uint64_t token = r.block * scale_block + ((r.layer * H + r.head) * B + r.offset) * 2 * Z;
    assert_int_equal(p->map.scales[KVG_K].pool, KVG_ROLE_SCALE_POOL);
    assert_int_equal(p->pool_bytes[KVG_K][1], p->paging.blocks * scale_block);
    assert_int_equal(first_byte(p, r, KVG_K, PAGE_SCALES), token);
    assert_int_equal(first_byte(p, r, KVG_V, PAGE_SCALES), token + Z);
    turbomind_row(p, r);
}

void test_turbomind_formulas(void **state)
{
    (void)state;
    static const kvg_format formats[] = {KVG_FORMAT_F16, KVG_FORMAT_INT8, KVG_FORMAT_INT4};
    uint64_t rows = 0;
    for (size_t i = 0; i < COUNT(formats); i++) {
        rows += for_each_geometry(KVG_LAYOUT_TURBOMIND, formats[i], false, turbomind_row);
        rows += for_each_geometry(KVG_LAYOUT_TURBOMIND, formats[i], true, turbomind_row);
    }
    rows += for_each_geometry(KVG_LAYOUT_TURBOMIND, KVG_FORMAT_NVFP4, false, turbomind_scales);
    rows += for_each_geometry(KVG_LAYOUT_TURBOMIND, KVG_FORMAT_MX16, false, turbomind_scales);
    printf("turbomind: %llu rows\n", (unsigned long long)rows);
}

/* The numbers that the page works out. */
void test_turbomind_example(void **state)
{
    (void)state;
    kvg_problem p = problem_of(KVG_LAYOUT_TURBOMIND, KVG_FORMAT_INT4, 64, 8, 128);
    p.paging.layers = p.paging.blocks = 1;
    assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
    assert_int_equal(p.pool_bytes[KVG_K][0], 69632);
    for (uint32_t h = 0; h < 8; h++) {
        for (uint32_t i = 0; i < 64; i++) {
            const page_row r = {.head = h, .offset = i};
            assert_int_equal(first_byte(&p, r, KVG_K, PAGE_CODES), 8192 * h + 64 * i);
            assert_int_equal(first_byte(&p, r, KVG_V, PAGE_CODES), 8192 * h + 64 * i + 4096);
            assert_int_equal(first_byte(&p, r, KVG_K, PAGE_SCALES), 65536 + 512 * h + 4 * i);
            assert_int_equal(first_byte(&p, r, KVG_V, PAGE_SCALES), 65536 + 512 * h + 4 * i + 256);
        }
    }
}

/* --- trtllm: a pool of K pages and V pages, their index, and the token by a mask --- */

static void trtllm_row(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, L = p->paging.layers;
    for (int side = KVG_K; side <= KVG_V; side++) {
        for (page_part part = PAGE_CODES; part < PAGE_PARTS; part++) {
            const uint64_t row = row_map(p, (kvg_side)side, part)->bytes, page_bytes = H * B * row;
            const uint64_t index = r.block * L * 2 + (uint64_t)side, pool = r.layer * 2 * page_bytes;
            const uint64_t token = r.offset & (B - 1);
            if (row == 0) continue;
            assert_int_equal(first_byte(p, r, (kvg_side)side, part),
                             pool + index * page_bytes + (r.head * B + token) * row);
        }
    }
}

void test_trtllm_formulas(void **state)
{
    (void)state;
    static const kvg_format formats[] = {KVG_FORMAT_BF16, KVG_FORMAT_E4M3, KVG_FORMAT_NVFP4};
    uint64_t rows = 0;
    for (size_t i = 0; i < COUNT(formats); i++) {
        rows += for_each_geometry(KVG_LAYOUT_TRTLLM, formats[i], false, trtllm_row);
    }
    printf("trtllm: %llu rows\n", (unsigned long long)rows);
}

/* --- vllm: a page of 2 * B * H rows of 9D/16 bytes, split into four views --- */

static void vllm_row(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, D = p->head_dim;
    const uint64_t side_bytes = B * H * (9 * D / 16), page_bytes = 2 * side_bytes;
    const uint64_t start = (r.layer * p->paging.blocks + r.block) * page_bytes;
    const uint64_t row = p->layout == KVG_LAYOUT_VLLM ? r.offset * H + r.head : r.head * B + r.offset;
    assert_int_equal(p->pool_bytes[KVG_K][0], p->paging.layers * p->paging.blocks * page_bytes);
    for (uint64_t side = KVG_K; side <= KVG_V; side++) {
        const uint64_t data = start + side * side_bytes, scales = data + B * H * (D / 2);
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_CODES), data + row * (D / 2));
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_SCALES), scales + row * (D / 16));
    }
}

void test_vllm_views(void **state)
{
    (void)state;
    const uint64_t rows = for_each_geometry(KVG_LAYOUT_VLLM, KVG_FORMAT_NVFP4, false, vllm_row) +
                          for_each_geometry(KVG_LAYOUT_VLLM_HND, KVG_FORMAT_NVFP4, false, vllm_row);
    printf("vllm: %llu rows\n", (unsigned long long)rows);
}

/* --- slot: buffers [slots, H, C] and [slots, H, Z] for each layer, K and V apart; slot = block * B + offset --- */

static void slot_row(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, slots = p->paging.blocks * B, slot = r.block * B + r.offset;
    for (int side = KVG_K; side <= KVG_V; side++) {
        for (page_part part = PAGE_CODES; part < PAGE_PARTS; part++) {
            const kvg_row_map *m = row_map(p, (kvg_side)side, part);
            assert_int_equal(m->side, side);
            assert_int_equal(first_byte(p, r, (kvg_side)side, part),
                             ((r.layer * slots + slot) * p->kv_heads + r.head) * m->bytes);
        }
    }
}

void test_slot_formula(void **state)
{
    (void)state;
    const uint64_t rows = for_each_geometry(KVG_LAYOUT_SLOT, KVG_FORMAT_NVFP4, false, slot_row);
    printf("slot: %llu rows\n", (unsigned long long)rows);
}

/* --- plain arrays: [layer][block][token][head] or [layer][block][head][token], with padding --- */

static void plain_row(const kvg_problem *p, page_row r, bool head_first)
{
    const kvg_paging *g = &p->paging;
    const uint64_t B = g->block_tokens, H = p->kv_heads, page = (uint64_t)r.layer * g->blocks + r.block;
    const uint64_t row = head_first ? r.head * B + r.offset : r.offset * H + r.head;
    for (int side = KVG_K; side < kvg_problem_sides(p); side++) {
        const uint64_t C = p->head_dim / 2 + g->row_padding, Z = p->head_dim / 16;
        const uint64_t data = B * H * C + g->data_padding, scales = B * H * Z + g->scale_padding;
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_CODES), page * data + row * C);
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_SCALES), page * scales + row * Z);
        assert_int_equal(p->pool_bytes[side][0], g->layers * g->blocks * data);
        assert_int_equal(p->pool_bytes[side][1], g->layers * g->blocks * scales);
    }
}

static void token_first_row(const kvg_problem *p, page_row r) { plain_row(p, r, false); }
static void head_first_row(const kvg_problem *p, page_row r) { plain_row(p, r, true); }

void test_plain_formulas(void **state)
{
    (void)state;
    uint64_t rows = 0;
    for (size_t i = 0; i < COUNT(dims) * COUNT(tokens) * COUNT(heads); i++) {
        kvg_problem p = problem_of(KVG_LAYOUT_NHD, KVG_FORMAT_NVFP4, tokens[i / COUNT(heads) % COUNT(tokens)],
                                   heads[i % COUNT(heads)], dims[i / COUNT(heads) / COUNT(tokens)]);
        kvg_problem q = p, mla = p;
        p.paging.row_padding = 3, p.paging.data_padding = 7, p.paging.scale_padding = 9;
        rows += for_each_row(&p, token_first_row);
        p.layout = KVG_LAYOUT_HND;
        rows += for_each_row(&p, head_first_row);
        q.layout = KVG_LAYOUT_CONTIGUOUS;
        rows += for_each_row(&q, head_first_row);
        q.layout = KVG_LAYOUT_RING;
        rows += for_each_row(&q, head_first_row);
        mla.layout = KVG_LAYOUT_MLA, mla.kv_heads = 1, mla.paging.shared_kv = true, mla.paging.v_dim = 64;
        rows += for_each_row(&mla, token_first_row);
    }
    printf("plain: %llu rows\n", (unsigned long long)rows);
}

/* --- places that the engines' own code gave --- */

/* A byte of a row, and where vLLM 0.33 (compute_layout_strides) and SGLang 0.5.23 (_store_nvfp4_kv_kernel) put it. */
static const struct {
    kvg_layout layout;
    kvg_format format;
    uint32_t head_dim, layers, blocks, heads, tokens, data_padding;
    page_row row;
    kvg_side side;
    page_part part;
    uint32_t index;
    uint64_t byte;
} known[] = {
#define PACKED(LAYOUT, padding, byte)                                                      \
    {KVG_LAYOUT_VLLM_##LAYOUT, KVG_FORMAT_E4M3, 8, 2, 3, 2, 4, padding,                    \
     {.layer = 0, .block = 1, .head = 1, .offset = 2}, KVG_V, PAGE_CODES, 5, byte}
    PACKED(LBHNC, 0, 237), PACKED(LBNHC, 0, 221), PACKED(LHBNC, 0, 301),
    PACKED(BLHNC, 0, 365), PACKED(BLNHC, 0, 349), PACKED(BHLNC, 0, 429),
    PACKED(LBHNC, 16, 253), PACKED(LBNHC, 16, 237), PACKED(BLHNC, 16, 397), PACKED(BLNHC, 16, 381),
#undef PACKED
#define NATIVE(SLOT, HEAD, SIDE, index, byte)                                              \
    {KVG_LAYOUT_SGLANG_SM100, KVG_FORMAT_NVFP4, 64, 1, 2, 2, 8, 0,                          \
     {.block = (SLOT) / 8, .head = HEAD, .offset = (SLOT) % 8}, KVG_##SIDE, PAGE_SCALES, index, byte}
    NATIVE(1, 0, K, 0, 4),   NATIVE(1, 1, K, 3, 39),  NATIVE(1, 0, V, 0, 1),   NATIVE(1, 0, V, 3, 13),
    NATIVE(1, 1, V, 1, 37),  NATIVE(6, 0, V, 0, 18),  NATIVE(6, 0, V, 1, 22),  NATIVE(6, 1, V, 3, 62),
    NATIVE(6, 1, K, 0, 56),  NATIVE(11, 0, K, 1, 77), NATIVE(11, 0, V, 2, 75), NATIVE(11, 1, V, 0, 99),
#undef NATIVE
};

void test_known_places(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(known); i++) {
        kvg_problem p = problem_of(known[i].layout, known[i].format, known[i].tokens, known[i].heads,
                                   known[i].head_dim);
        p.paging.layers = known[i].layers;
        p.paging.blocks = known[i].blocks;
        p.paging.data_padding = known[i].data_padding;
        p.paging.v_scale_swizzle = kvg_layout_get(known[i].layout)->groups != NULL;
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
        assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
        assert_int_equal(byte_of(row_map(&p, known[i].side, known[i].part), known[i].row, known[i].index),
                         known[i].byte);
    }
}

/* MiniMax-M3 in vLLM: slots of 9,216 bytes for 128 tokens of D 128, K's and V's of a head in turn. */
static void minimax_row(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, D = p->head_dim, S = D / 16, slot = B * (D / 2 + S);
    for (uint64_t side = KVG_K; side <= KVG_V; side++) {
        const uint64_t start = (r.layer * p->paging.blocks + r.block) * 2 * p->kv_heads * slot +
                               (2 * r.head + side) * slot;
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_CODES), start + r.offset * (D / 2));
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_SCALES), start + B * (D / 2) + r.offset * S);
    }
}

/* SGLang: [H][B] parts, each from a multiple of 128 bytes of the page on. */
static void minimax_sglang_row(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads, D = p->head_dim, row = r.head * B + r.offset;
    const uint64_t data = (B * H * (D / 2) + 127) / 128 * 128, scales = (B * H * (D / 16) + 127) / 128 * 128;
    for (uint64_t side = KVG_K; side <= KVG_V; side++) {
        const uint64_t start = (2 * (r.layer * p->paging.blocks + r.block) + side) * (data + scales);
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_CODES), start + row * (D / 2));
        assert_int_equal(first_byte(p, r, (kvg_side)side, PAGE_SCALES), start + data + row * (D / 16));
    }
}

void test_minimax_pages(void **state)
{
    (void)state;
    const uint64_t rows = for_each_geometry(KVG_LAYOUT_MINIMAX_M3, KVG_FORMAT_NVFP4, false, minimax_row) +
                          for_each_geometry(KVG_LAYOUT_MINIMAX_M3_SGLANG, KVG_FORMAT_NVFP4, false, minimax_sglang_row);
    printf("minimax: %llu rows\n", (unsigned long long)rows);
}

/* vLLM on ROCm: byte i of a row of D elements of e bytes, x = 16 / e elements a piece. K is [H][D/x][N][x], V is
 * [H][D][N], or with AITER [H][N/x][D][x]. The page of K comes before that of V. */
static void rocm_row(const kvg_problem *p, page_row r)
{
    const uint64_t e = kvg_format_get(p->storage[KVG_K].format)->element_bits / 8, x = 16 / e;
    const uint64_t B = p->paging.block_tokens, D = p->head_dim, side = p->kv_heads * D * B * e;
    const uint64_t h = r.head, t = r.offset;
    const uint64_t start = (r.layer * p->paging.blocks + r.block) * 2 * side;
    for (uint32_t i = 0; i < D * e; i++) {
        const uint64_t d = i / e, k = ((h * (D / x) + d / x) * B + t) * x + d % x;
        const uint64_t v = p->layout == KVG_LAYOUT_ROCM_ATTN ? (h * D + d) * B + t
                                                             : ((h * (B / x) + t / x) * D + d) * x + t % x;
        assert_int_equal(byte_of(&p->map.codes[KVG_K], r, i), start + k * e + i % e);
        assert_int_equal(byte_of(&p->map.codes[KVG_V], r, i),
                         start + side + v * e + i % e);
    }
}

void test_rocm_pages(void **state)
{
    (void)state;
    static const struct {
        kvg_layout layout;
        kvg_format format;
    } pages[] = {{KVG_LAYOUT_ROCM_ATTN, KVG_FORMAT_BF16}, {KVG_LAYOUT_ROCM_ATTN, KVG_FORMAT_E4M3},
                 {KVG_LAYOUT_ROCM_AITER, KVG_FORMAT_BF16}, {KVG_LAYOUT_ROCM_AITER_FP8, KVG_FORMAT_E4M3}};
    uint64_t rows = 0;
    for (size_t i = 0; i < COUNT(pages); i++) {
        kvg_problem p = problem_of(pages[i].layout, pages[i].format, 16 << i % 2, 1 + (uint32_t)i, 64);
        rows += for_each_row(&p, rocm_row);
    }
    printf("ROCm: %llu rows\n", (unsigned long long)rows);
}

/* The indexer of DeepSeek V3.2: a page has the values of all tokens, then a scale of 4 bytes each. With AITER values
 * lie in tiles of 16 tokens and 16 dims. */
static void indexer_row(const kvg_problem *p, page_row r)
{
    const uint64_t B = p->paging.block_tokens, D = p->head_dim, t = r.offset;
    const uint64_t start = (r.layer * p->paging.blocks + r.block) * (B * (D + 4) + p->paging.data_padding);
    for (uint32_t d = 0; d < D; d++) {
        const uint64_t tiled = t / 16 * 16 * D + d / 16 * 256 + 16 * (t % 16) + d % 16;
        const uint64_t value = p->layout == KVG_LAYOUT_DSA_INDEXER ? D * t + d : tiled;
        assert_int_equal(byte_of(&p->map.codes[KVG_K], r, d), start + value);
    }
    assert_int_equal(first_byte(p, r, KVG_K, PAGE_SCALES), start + D * B + 4 * t);
}

void test_indexer_pages(void **state)
{
    (void)state;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const kvg_layout layout = i % 2 ? KVG_LAYOUT_DSA_INDEXER : KVG_LAYOUT_DSA_INDEXER_AITER;
        kvg_problem p = problem_of(layout, KVG_FORMAT_FP8_TOKEN_HEAD, 64, 1, 128);
        p.paging.shared_kv = true;
        p.paging.v_dim = 128;
        p.paging.data_padding = i / 2 * 48;
        rows += for_each_row(&p, indexer_row);
    }
    printf("indexer: %llu rows\n", (unsigned long long)rows);
}

/* --- the swizzle of V's scales --- */

enum { MAX_TILE = 256 * 36 };

/* The scale bytes of one page and head: a bijection onto the places that linear scales would have. */
static void check_tile(const kvg_problem *p, const kvg_row_map *swizzled, page_row r)
{
    const uint32_t B = p->paging.block_tokens, S = swizzled->bytes;
    kvg_row_map linear = *swizzled;
    kvg_rows_set_tokens(kvg_rows_pitch(swizzled), 0, &linear);
    bool taken[MAX_TILE] = {false};
    assert_true(B * S <= MAX_TILE && kvg_rows_group(swizzled) == S / 4);
    for (uint32_t t = 0; t < B; t++) {
        for (uint32_t s = 0; s < S; s++) {
            const uint64_t at = kvg_rows_place(swizzled, r.layer, r.block, r.head, t, s);
            const uint32_t tile = t / 4 * 4 * S + 4 * s + t % 4;
            assert_true(tile < B * S && !taken[tile]);
            taken[tile] = true;
            assert_int_equal(at, kvg_rows_place(&linear, r.layer, r.block, r.head, tile / S, tile % S));
            if (p->layout == KVG_LAYOUT_HND) {
                assert_int_equal(at, kvg_rows_place(&linear, r.layer, r.block, r.head, 0, 0) + tile);
            }
        }
    }
}

void test_swizzle_tile(void **state)
{
    (void)state;
    static const kvg_layout layouts[] = {KVG_LAYOUT_TRTLLM, KVG_LAYOUT_NHD, KVG_LAYOUT_HND, KVG_LAYOUT_VLLM,
                                         KVG_LAYOUT_VLLM_HND};
    uint64_t tiles = 0;
    for (size_t i = 0; i < COUNT(layouts) * COUNT(dims) * COUNT(tokens) * COUNT(heads); i++) {
        const size_t axes = i / COUNT(layouts);
        kvg_problem p = problem_of(layouts[i % COUNT(layouts)], i % 2 ? KVG_FORMAT_NVFP4 : KVG_FORMAT_MX16,
                                   tokens[axes / COUNT(heads) % COUNT(tokens)], heads[axes % COUNT(heads)],
                                   dims[axes / COUNT(heads) / COUNT(tokens)]);
        p.paging.v_scale_swizzle = true;
        if (kvg_problem_check(&p)) continue;
        assert_int_equal(kvg_problem_lay_out(&p), KVG_OK);
        assert_int_equal(kvg_rows_group(&p.map.scales[KVG_K]), 0);
        for (uint32_t n = 0; n < p.paging.layers * p.paging.blocks * p.kv_heads; n++) {
            const uint32_t page_number = n / p.kv_heads;
            check_tile(&p, &p.map.scales[KVG_V], (page_row){.layer = page_number / p.paging.blocks,
                                                            .block = page_number % p.paging.blocks,
                                                            .head = n % p.kv_heads});
            tiles++;
        }
    }
    assert_true(tiles > 0);
    printf("swizzle: %llu tiles\n", (unsigned long long)tiles);
}
