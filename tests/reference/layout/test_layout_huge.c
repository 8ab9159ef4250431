/* Pools that nobody allocates: their last rows, the rows on both sides of 2^31 and 2^32 bytes, and the largest pools
 * that there may be. 32-bit arithmetic is planted and must be caught. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/reference/layout/layout_grid.h"
#include "tests/reference/layout/layout_prover.h"

#define COUNT(array) (sizeof(array) / sizeof (array)[0])

static const kvg_role pool_roles[2] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};

/* --- planted: the same sum in fewer bits --- */

static uint64_t place_int32(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head, uint32_t offset,
                            uint32_t index)
{
    return (uint64_t)(int64_t)(int32_t)(uint32_t)kvg_rows_place(m, layer, block, head, offset, index);
}

static uint64_t place_uint32(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head, uint32_t offset,
                             uint32_t index)
{
    return (uint32_t)kvg_rows_place(m, layer, block, head, offset, index);
}

/* Only the product of the outermost index overflows. */
static uint64_t place_int32_product(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head,
                                    uint32_t offset, uint32_t index)
{
    kvg_row_map rest = *m;
    rest.block = 0;
    const int32_t product = (int32_t)(block * (uint32_t)m->block);
    return kvg_rows_place(&rest, layer, block, head, offset, index) + (uint64_t)(int64_t)product;
}

/* --- what is checked --- */

typedef struct tally {
    uint64_t pools, rows, wrong, straddled;
} tally;

/* Corner i of 16: first or last layer, block, head and offset; 15 is the last row. */
static page_row corner(const page *g, int i, kvg_side side, page_part part)
{
    return (page_row){i & 1 ? (uint32_t)g->L - 1 : 0, i & 2 ? (uint32_t)g->N - 1 : 0, i & 4 ? (uint32_t)g->H - 1 : 0,
                      i & 8 ? (uint32_t)g->B - 1 : 0, side, part};
}

/* First and last byte of a row against the page and against the end of the pool. */
static void check_row(const page *g, const claim *c, page_row r, tally *t)
{
    const kvg_row_map *m = claim_row_map(c, r.side, r.part);
    const uint32_t ends[2] = {0, m->bytes - 1};
    for (int i = 0; i < 2; i++) {
        const page_place want = page_byte(g, r, ends[i]);
        const uint64_t at = c->place(m, r.layer, r.block, r.head, r.offset, ends[i]);
        const uint64_t size = c->pools[m->pool == KVG_ROLE_SCALE_POOL][m->side];
        t->wrong += at != want.byte || m->pool != want.pool || m->side != want.side || at >= size;
    }
    t->rows++;
}

/* The last byte of any row of a pool, and the padding behind it, end where the pool ends. */
static void check_end(const page *g, const claim *c, kvg_role pool, kvg_side owner, tally *t)
{
    uint64_t end = 0;
    for (int i = 0; i < 4; i++) {
        const page_row r = corner(g, 15, (kvg_side)(i % 2), (page_part)(i / 2));
        const kvg_row_map *m = claim_row_map(c, r.side, r.part);
        if (m->bytes == 0 || m->pool != pool || m->side != owner) continue;
        const uint64_t behind = c->place(m, r.layer, r.block, r.head, r.offset, m->bytes - 1) + 1 +
                                (r.part == PAGE_CODES ? g->row_padding : 0);
        end = behind > end ? behind : end;
    }
    const uint64_t size = c->pools[pool == KVG_ROLE_SCALE_POOL][owner];
    t->wrong += end + page_padding(g, pool, owner) != size || size != page_pool_bytes(g, pool, owner);
    t->pools++;
}

/* The page n of a pool in the order of its bytes. */
static page_row page_number(const page *g, uint64_t n, kvg_side side, page_part part)
{
    const bool block_major = g->layout == KVG_LAYOUT_TURBOMIND || g->layout == KVG_LAYOUT_TRTLLM;
    const uint64_t inner = (uint64_t)(block_major ? g->L : g->N);
    const uint32_t high = (uint32_t)(n / inner), low = (uint32_t)(n % inner);
    return (page_row){.layer = block_major ? low : high, .block = block_major ? high : low, .side = side, .part = part};
}

/* All rows of the pages around byte `edge` of a pool: of the last page that begins before it, and its neighbours. */
static void check_edge(const page *g, const claim *c, kvg_side side, page_part part, uint64_t edge, tally *t)
{
    const uint64_t pages = (uint64_t)(g->L * g->N);
    uint64_t low = 0, high = pages;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        *(page_first(g, page_number(g, middle, side, part)).byte < edge ? &low : &high) = middle;
    }
    uint64_t below = 0, above = 0;
    for (uint64_t n = low ? low - 1 : 0; n <= low + 1 && n < pages; n++) {
        page_row r = page_number(g, n, side, part);
        for (r.head = 0; r.head < g->H; r.head++) {
            for (r.offset = 0; r.offset < g->B; r.offset++) {
                check_row(g, c, r, t);
                *(page_first(g, r).byte < edge ? &below : &above) += 1;
            }
        }
    }
    t->straddled += below > 0 && above > 0;
    t->wrong += below == 0 || above == 0;
}

static const uint64_t edges[] = {(uint64_t)1 << 31, (uint64_t)1 << 32};

static tally check_pools(const kvg_problem *p, place_fn *place, bool whole_pages)
{
    const page g = page_open(p);
    claim c = claim_of_reference(p);
    c.place = place;
    tally t = {0};
    for (int i = 0; i < 4; i++) {
        const kvg_side side = (kvg_side)(i % 2);
        const page_part part = (page_part)(i / 2);
        const kvg_row_map *m = claim_row_map(&c, side, part);
        if (c.pools[i / 2][side]) check_end(&g, &c, pool_roles[i / 2], side, &t);
        if (m->bytes == 0) continue;
        for (int n = 0; n < 16; n++) check_row(&g, &c, corner(&g, n, side, part), &t);
        for (size_t e = 0; e < COUNT(edges) && whole_pages; e++) {
            const uint64_t size = c.pools[m->pool == KVG_ROLE_SCALE_POOL][m->side];
            if (size > edges[e] + edges[e] / 16) check_edge(&g, &c, side, part, edges[e], &t);
        }
    }
    return t;
}

/* --- geometries --- */

#define PAIR(K, V) {KVG_FORMAT_##K, KVG_FORMAT_##V}
static const kvg_format pairs[][2] = {PAIR(F16, F16),     PAIR(E4M3, E4M3),   PAIR(INT8, INT8),   PAIR(INT4, INT4),
                                      PAIR(MXFP4, MXFP4), PAIR(NVFP4, NVFP4), PAIR(E4M3, NVFP4), PAIR(INT4, NVFP4)};
enum { OPTIONS = 4 };

/* Many small pages, pages above 2^32 bytes, and what fills 2^62 bytes. */
typedef enum shape { SHAPE_SMALL_PAGES, SHAPE_LONG_PAGES, SHAPE_LARGEST } shape;
static const struct {
    uint32_t heads, dim, layers, tokens;
} shapes[] = {{8, 128, 61, 64}, {128, 576, 7, 1 << 22}, {128, 576, 1021, 4096}};

/* Combination i of layouts, pairs and options: none, padding, swizzle, both. False where there is no such problem. */
static bool huge_problem(size_t i, shape of, kvg_problem *out)
{
    const size_t option = i / PAGE_LAYOUTS / COUNT(pairs);
    const bool padded = option & 1;
    kvg_problem p = {.op = KVG_OP_PROBE, .dtype = KVG_DTYPE_BF16, .tokens = 1, .kv_heads = shapes[of].heads,
                     .head_dim = shapes[of].dim};
    p.layout = (kvg_layout)(PAGE_FIRST_LAYOUT + i % PAGE_LAYOUTS);
    p.storage[KVG_K] = (kvg_storage){pairs[i / PAGE_LAYOUTS % COUNT(pairs)][KVG_K], "canonical"};
    p.storage[KVG_V] = (kvg_storage){pairs[i / PAGE_LAYOUTS % COUNT(pairs)][KVG_V], "canonical"};
    p.paging = (kvg_paging){.layers = shapes[of].layers, .blocks = 1, .block_tokens = shapes[of].tokens};
    p.paging.v_scale_swizzle = option & 2;
    if (padded) p.paging.data_padding = 11;
    if (padded && (p.layout == KVG_LAYOUT_NHD || p.layout == KVG_LAYOUT_HND)) {
        p.paging.row_padding = 13;
        p.paging.scale_padding = 9;
    }
    if (p.layout == KVG_LAYOUT_MLA) {
        p.paging.shared_kv = true;
        p.paging.v_dim = 64;
        p.paging.block_tokens *= p.kv_heads;
        p.kv_heads = 1;
    }
    *out = p;
    return page_legal(&p);
}

/* Bytes of one block in the largest pool. */
static uint64_t block_bytes(const kvg_problem *p)
{
    const page g = page_open(p);
    wide most = 0;
    for (int i = 0; i < 4; i++) {
        const wide bytes = page_pool_bytes(&g, pool_roles[i / 2], (kvg_side)(i % 2)) / g.N;
        most = bytes > most ? bytes : most;
    }
    return (uint64_t)most;
}

/* The problem with as many blocks as make its largest pool `bytes` or a little more. */
static kvg_problem sized(kvg_problem p, uint64_t bytes)
{
    const uint64_t one = block_bytes(&p), blocks = (bytes + one - 1) / one;
    assert_true(blocks <= INT32_MAX);
    p.paging.blocks = (uint32_t)blocks;
    assert_int_equal(kvg_problem_check(&p), KVG_OK);
    return p;
}

static uint64_t largest_pool(const kvg_problem *p)
{
    return block_bytes(p) * p->paging.blocks;
}

/* Whether the product of the last block and its stride leaves 32 bits, in any part. */
static bool product_overflows(const kvg_problem *p)
{
    const claim c = claim_of_reference(p);
    for (int i = 0; i < 4; i++) {
        const kvg_row_map *m = claim_row_map(&c, (kvg_side)(i % 2), (page_part)(i / 2));
        if (m->bytes && (p->paging.blocks - 1) * m->block > INT32_MAX) return true;
    }
    return false;
}

/* A place function that is wrong here must be caught; one that is right here must be accepted. */
static void check_planted(const kvg_problem *p, place_fn *place, bool wrong, bool whole_pages, uint64_t caught[2])
{
    const bool found = check_pools(p, place, whole_pages).wrong > 0;
    if (found != wrong) print_error("  %s: 32 bits %s\n", layout_grid_name(p).text, found ? "rejected" : "accepted");
    assert_int_equal(found, wrong);
    caught[wrong]++;
}

void test_top_of_huge_pools(void **state)
{
    (void)state;
    static const struct {
        shape of;
        uint64_t bytes;
    } targets[] = {{SHAPE_SMALL_PAGES, (uint64_t)1 << 28}, {SHAPE_SMALL_PAGES, (uint64_t)5 << 29},
                   {SHAPE_SMALL_PAGES, (uint64_t)5 << 30}, {SHAPE_SMALL_PAGES, (uint64_t)3 << 38},
                   {SHAPE_LONG_PAGES, (uint64_t)1 << 46},  {SHAPE_LARGEST, (uint64_t)1 << 62}};
    tally all = {0};
    uint64_t pools = 0, elements = 0, caught[3][2] = {{0}};
    for (size_t i = 0; i < COUNT(targets) * PAGE_LAYOUTS * COUNT(pairs) * OPTIONS; i++) {
        const bool small_pages = targets[i % COUNT(targets)].of == SHAPE_SMALL_PAGES;
        kvg_problem p;
        if (!huge_problem(i / COUNT(targets), targets[i % COUNT(targets)].of, &p)) continue;
        p = sized(p, targets[i % COUNT(targets)].bytes);
        const tally t = check_pools(&p, kvg_rows_place, small_pages);
        if (t.wrong) print_error("  %s: %llu wrong\n", layout_grid_name(&p).text, (unsigned long long)t.wrong);
        assert_int_equal(t.wrong, 0);
        all.pools += t.pools;
        all.rows += t.rows;
        all.straddled += t.straddled;
        pools++;
        const wide count = (wide)p.paging.blocks * p.paging.layers * p.paging.block_tokens * p.kv_heads * p.head_dim *
                           (wide)kvg_problem_sides(&p);
        elements += count > ((wide)1 << 31);
        check_planted(&p, place_int32, largest_pool(&p) > edges[0], small_pages, caught[0]);
        check_planted(&p, place_uint32, largest_pool(&p) > edges[1], small_pages, caught[1]);
        check_planted(&p, place_int32_product, product_overflows(&p), small_pages, caught[2]);
    }
    printf("huge: %llu problems, %llu above 2^31 elements, %llu pools, %llu rows, %llu edges straddled\n",
           (unsigned long long)pools, (unsigned long long)elements, (unsigned long long)all.pools,
           (unsigned long long)all.rows, (unsigned long long)all.straddled);
    static const char *const names[3] = {"int32", "uint32", "int32 product"};
    for (int i = 0; i < 3; i++) {
        printf("huge: %s caught %llu, right and accepted %llu\n", names[i], (unsigned long long)caught[i][1],
               (unsigned long long)caught[i][0]);
        assert_true(caught[i][0] > 0 && caught[i][1] > 0);
    }
    assert_true(elements > 0 && all.straddled > 0);
}

static void expect_too_large(const kvg_problem *p)
{
    assert_int_equal(kvg_problem_check(p), KVG_ERR_INVALID);
    assert_non_null(strstr(kvg_error_text(), "exceeds 2^63 - 1 bytes"));
}

/* The most blocks that 2^63 - 1 bytes have room for, and one more; and products that come round to a small number. */
void test_largest_pools(void **state)
{
    (void)state;
    uint64_t tried = 0;
    for (size_t i = 0; i < PAGE_LAYOUTS * COUNT(pairs) * OPTIONS; i++) {
        kvg_problem p;
        if (!huge_problem(i, SHAPE_LARGEST, &p)) continue;
        const uint64_t most = INT64_MAX / block_bytes(&p);
        assert_true(most < INT32_MAX);
        p.paging.blocks = (uint32_t)most;
        assert_int_equal(kvg_problem_check(&p), KVG_OK);
        assert_int_equal(check_pools(&p, kvg_rows_place, false).wrong, 0);
        p.paging.blocks++;
        expect_too_large(&p);
        p.paging.blocks = INT32_MAX;
        expect_too_large(&p);
        p.paging.layers = UINT32_MAX;
        expect_too_large(&p);
        p.paging.blocks = p.paging.layers = p.paging.block_tokens = (uint32_t)1 << 30; /* padding alone modulo 2^64 */
        expect_too_large(&p);
        tried++;
    }
    assert_true(tried > 0);
    printf("huge: %llu largest pools, each with one block more refused\n", (unsigned long long)tried);
}
