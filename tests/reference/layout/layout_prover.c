#include "tests/reference/layout/layout_prover.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[PROPERTY_COUNT] = {"size", "bounds", "overlap", "cover", "place", "whole", "aligned"};

const char *property_name(property which)
{
    return names[which];
}

const kvg_row_map *claim_row_map(const claim *c, kvg_side side, page_part part)
{
    return part == PAGE_CODES ? &c->map.codes[side] : &c->map.scales[side];
}

static const kvg_role pool_roles[2] = {KVG_ROLE_DATA_POOL, KVG_ROLE_SCALE_POOL};

claim claim_of_reference(const kvg_problem *p)
{
    claim c = {.place = kvg_rows_place};
    kvg_rows_map(p, &c.map);
    for (int i = 0; i < 4; i++) {
        const kvg_status s = kvg_problem_pool_bytes(p, pool_roles[i / 2], (kvg_side)(i % 2), &c.pools[i / 2][i % 2]);
        assert(s == KVG_OK);
        (void)s;
    }
    return c;
}

/* One proof while it runs. */
typedef struct walk {
    const claim *c;
    page g;
    uint64_t *marks[2][2]; /* of each pool */
    uint64_t firsts[2]; /* by side: bits of the first bytes of code rows */
    bool all_bytes;
    proof out;
} walk;

static void breaks(walk *w, property which, bool broken)
{
    w->out.broken |= (uint32_t)broken << which;
}

static int part_of(kvg_role pool)
{
    return pool == KVG_ROLE_SCALE_POOL;
}

/* Gives bytes [first, first + count) of a pool to an owner. */
static void mark(walk *w, kvg_role pool, kvg_side side, uint64_t first, uint64_t count)
{
    const uint64_t size = w->c->pools[part_of(pool)][side];
    if (first >= size || count > size - first) {
        breaks(w, PROPERTY_BOUNDS, true);
        return;
    }
    uint64_t *marks = w->marks[part_of(pool)][side];
    for (uint64_t end = first + count; first < end;) {
        const uint64_t bit = first % 64, here = end - first < 64 - bit ? end - first : 64 - bit;
        const uint64_t mask = ~(uint64_t)0 >> (64 - here) << bit;
        breaks(w, PROPERTY_OVERLAP, (marks[first / 64] & mask) != 0);
        marks[first / 64] |= mask;
        first += here;
    }
}

static bool corner(const walk *w, page_row r)
{
    return (r.layer == 0 || r.layer + 1 == w->g.L) && (r.block == 0 || r.block + 1 == w->g.N) &&
           (r.head == 0 || r.head + 1 == w->g.H) && (r.offset == 0 || r.offset + 1 == w->g.B);
}

static uint64_t place_in(const walk *w, const kvg_row_map *m, page_row r, uint32_t index)
{
    return w->c->place(m, r.layer, r.block, r.head, r.offset, index);
}

/* A row whose bytes are together by the page: first and last byte, or all. */
static void walk_whole(walk *w, page_row r, const kvg_row_map *m)
{
    const page_place want = page_first(&w->g, r);
    const uint64_t first = place_in(w, m, r, 0);
    const bool each = w->all_bytes || corner(w, r);
    breaks(w, PROPERTY_PLACE, m->pool != want.pool || m->side != want.side || first != want.byte);
    if (r.part == PAGE_CODES) w->firsts[r.side] |= first;
    bool whole = true;
    for (uint32_t i = each ? 1 : m->bytes - 1; i < m->bytes; i++) whole &= place_in(w, m, r, i) == first + i;
    w->out.single += each ? m->bytes : 0;
    breaks(w, PROPERTY_WHOLE, !whole);
    mark(w, m->pool, m->side, first, m->bytes);
}

static void walk_scattered(walk *w, page_row r, const kvg_row_map *m)
{
    for (uint32_t i = 0; i < m->bytes; i++) {
        const page_place want = page_byte(&w->g, r, i);
        const uint64_t at = place_in(w, m, r, i);
        breaks(w, PROPERTY_PLACE, m->pool != want.pool || m->side != want.side || at != want.byte);
        mark(w, m->pool, m->side, at, 1);
    }
    w->out.single += m->bytes;
}

static void walk_row(walk *w, page_row r)
{
    for (r.part = PAGE_CODES; r.part < PAGE_PARTS; r.part++) {
        const kvg_row_map *m = claim_row_map(w->c, r.side, r.part);
        if (m->bytes == 0) continue;
        const bool swizzled = !kvg_rows_together(m) || (w->g.swizzle && r.side == KVG_V && r.part == PAGE_SCALES);
        (swizzled ? walk_scattered : walk_whole)(w, r, m);
        w->out.bytes += m->bytes;
        if (r.part == PAGE_CODES && w->g.row_padding) {
            mark(w, KVG_ROLE_DATA_POOL, r.side, (uint64_t)page_first(&w->g, r).byte + w->g.C[r.side], w->g.row_padding);
            w->out.padding += w->g.row_padding;
        }
    }
    w->out.rows++;
}

static void walk_rows(walk *w)
{
    page_row r = {0};
    for (r.layer = 0; r.layer < w->g.L; r.layer++) {
        for (r.block = 0; r.block < w->g.N; r.block++) {
            for (r.head = 0; r.head < w->g.H; r.head++) {
                for (r.offset = 0; r.offset < w->g.B; r.offset++) {
                    for (int side = KVG_K; side < w->g.sides; side++) {
                        r.side = (kvg_side)side;
                        walk_row(w, r);
                    }
                }
            }
        }
    }
}

static void walk_page_padding(walk *w)
{
    for (int i = 0; i < 4; i++) {
        const kvg_role pool = pool_roles[i / 2];
        const kvg_side side = (kvg_side)(i % 2);
        const uint32_t padding = page_padding(&w->g, pool, side);
        for (wide n = 1; padding && n <= w->g.L * w->g.N; n++) {
            mark(w, pool, side, (uint64_t)(n * page_page_bytes(&w->g, pool, side)) - padding, padding);
            w->out.padding += padding;
        }
    }
}

/* Sizes against the page; lays out the marks. */
static void open_pools(walk *w, prover *v)
{
    size_t at[4], words = 0;
    for (int i = 0; i < 4; i++) {
        const uint64_t bytes = w->c->pools[i / 2][i % 2];
        at[i] = words;
        words += bytes / 64 + 1;
        breaks(w, PROPERTY_SIZE, bytes != page_pool_bytes(&w->g, pool_roles[i / 2], (kvg_side)(i % 2)));
        breaks(w, PROPERTY_SIZE, claim_row_map(w->c, (kvg_side)(i % 2), (page_part)(i / 2))->bytes !=
                                     page_row_bytes(&w->g, (kvg_side)(i % 2), (page_part)(i / 2)));
    }
    if (words > v->words) {
        free(v->marks);
        v->marks = malloc(words * sizeof *v->marks);
        assert(v->marks);
        v->words = words;
    }
    memset(v->marks, 0, words * sizeof *v->marks);
    for (int i = 0; i < 4; i++) w->marks[i / 2][i % 2] = v->marks + at[i];
}

/* Whether every byte of every pool is marked. */
static bool covered(const walk *w)
{
    uint64_t marked = 0, size = 0;
    for (int i = 0; i < 4; i++) {
        const uint64_t bytes = w->c->pools[i / 2][i % 2];
        size += bytes;
        const uint64_t *marks = w->marks[i / 2][i % 2];
        for (uint64_t word = 0; word <= bytes / 64; word++) marked += (uint64_t)__builtin_popcountll(marks[word]);
    }
    return marked == size;
}

static void judge_alignment(walk *w)
{
    const bool tight = w->g.L > 1 && w->g.N > 1 && w->g.H > 1 && w->g.B > 1;
    for (int side = KVG_K; side < w->g.sides; side++) {
        const uint64_t bits = w->firsts[side] | 16;
        const uint32_t found = (uint32_t)(bits & -bits), said = page_alignment(&w->g, (kvg_side)side);
        breaks(w, PROPERTY_ALIGNED, found < said || (tight && found != said));
    }
}

proof prove(prover *v, const kvg_problem *problem, const claim *c)
{
    walk w = {.c = c, .g = page_open(problem)};
    open_pools(&w, v);
    uint64_t size = 0;
    for (int i = 0; i < 4; i++) size += c->pools[i / 2][i % 2];
    w.all_bytes = size <= 4096;
    walk_rows(&w);
    walk_page_padding(&w);
    breaks(&w, PROPERTY_COVER, !covered(&w));
    judge_alignment(&w);
    return w.out;
}

void prover_close(prover *v)
{
    free(v->marks);
    *v = (prover){0};
}
