/* Known-wrong maps. Each is planted in the reference's claim over a grid; the prover must reject it wherever it moves a
 * byte or a size, and accept it everywhere else. */
#include "tests/reference/layout/test_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/reference/layout/layout_grid.h"
#include "tests/reference/layout/layout_prover.h"

typedef void plant_fn(const kvg_problem *p, claim *c);

static kvg_row_map *row_map(claim *c, int i)
{
    return i < 2 ? &c->map.codes[i] : &c->map.scales[i - 2];
}

static bool block_major(const kvg_problem *p)
{
    return p->layout == KVG_LAYOUT_TURBOMIND || p->layout == KVG_LAYOUT_TRTLLM;
}

static kvg_problem without_padding(const kvg_problem *p)
{
    kvg_problem q = *p;
    q.paging.row_padding = q.paging.data_padding = q.paging.scale_padding = 0;
    return q;
}

/* Scales inside the data pool without the data region in front of them. */
static void base_lost(const kvg_problem *p, claim *c)
{
    (void)p;
    uint64_t least = UINT64_MAX;
    for (int i = 2; i < 4; i++) {
        const kvg_row_map *m = row_map(c, i);
        if (m->pool == KVG_ROLE_DATA_POOL && m->bytes && m->base < least) least = m->base;
    }
    for (int i = 2; i < 4; i++) {
        kvg_row_map *m = row_map(c, i);
        if (m->pool == KVG_ROLE_DATA_POOL && m->bytes) m->base -= least;
    }
}

/* Strides of scales as a fixed share of those of data: 1/8 of the bytes where a scale byte goes with 16 nibbles. */
static void scales_with_data_strides(const kvg_problem *p, claim *c)
{
    (void)p;
    for (int side = KVG_K; side <= KVG_V; side++) {
        const kvg_row_map d = c->map.codes[side];
        kvg_row_map *s = &c->map.scales[side];
        if (s->bytes == 0) continue;
        s->layer = d.layer * s->bytes / d.bytes;
        s->block = d.block * s->bytes / d.bytes;
        s->head = d.head * s->bytes / d.bytes;
        kvg_rows_set_pitch(kvg_rows_pitch(&d) * s->bytes / d.bytes, s);
    }
}

static void strides_from_shape(const kvg_problem *p, claim *c)
{
    const kvg_problem q = without_padding(p);
    kvg_rows_map(&q, &c->map);
}

static void block_of_one_layer(const kvg_problem *p, claim *c)
{
    kvg_problem q = *p;
    q.paging.layers = 1;
    kvg_rows_map(&q, &c->map);
}

static void layer_of_one_block(const kvg_problem *p, claim *c)
{
    kvg_problem q = *p;
    q.paging.blocks = 1;
    kvg_rows_map(&q, &c->map);
}

static void heads_and_tokens_exchanged(const kvg_problem *p, claim *c)
{
    const uint64_t B = p->paging.block_tokens, H = p->kv_heads;
    for (int i = 0; i < 4; i++) {
        kvg_row_map *m = row_map(c, i);
        const uint64_t head = m->head, token = kvg_rows_pitch(m);
        if (token == head * H) {
            kvg_rows_set_pitch(head, m);
            m->head = head * B;
        } else if (head == token * B) {
            m->head = token;
            kvg_rows_set_pitch(token * H, m);
        }
    }
}

static void tokens_from_head_axis(const kvg_problem *p, claim *c)
{
    for (int i = 0; i < 4; i++) {
        kvg_row_map *m = row_map(c, i);
        const uint64_t pitch = kvg_rows_pitch(m);
        if (m->head == pitch * p->paging.block_tokens) m->head = pitch * p->kv_heads;
    }
}

static void sides_exchanged(const kvg_problem *p, claim *c)
{
    if (kvg_problem_sides(p) == 1) return;
    for (int i = 0; i < 4; i += 2) {
        kvg_row_map *k = row_map(c, i), *v = row_map(c, i + 1), old = *k;
        *k = *v;
        *v = old;
        v->bytes = k->bytes;
        k->bytes = old.bytes;
    }
}

static bool may_swizzle(const kvg_problem *p, kvg_side side)
{
    const kvg_format_info *f = kvg_format_get(p->storage[side].format);
    return f->block == 16 && p->paging.block_tokens % 4 == 0 && p->head_dim % 64 == 0 && !p->paging.shared_kv;
}

static void v_scales_the_other_way(const kvg_problem *p, claim *c)
{
    kvg_row_map *m = &c->map.scales[KVG_V];
    if (may_swizzle(p, KVG_V)) kvg_rows_set_tokens(kvg_rows_pitch(m), kvg_rows_group(m) ? 0 : m->bytes / 4, m);
}

static void k_scales_like_v(const kvg_problem *p, claim *c)
{
    kvg_row_map *m = &c->map.scales[KVG_K];
    if (p->paging.v_scale_swizzle && may_swizzle(p, KVG_K)) kvg_rows_set_tokens(kvg_rows_pitch(m), m->bytes / 4, m);
}

/* The permutation of a 4-token group, the other way round. */
static uint64_t place_unswizzled(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head, uint32_t offset,
                                 uint32_t index)
{
    kvg_row_map linear = *m;
    if (kvg_rows_group(m)) {
        const uint32_t byte = offset % 4 * m->bytes + index;
        offset = offset - offset % 4 + byte % 4;
        index = byte / 4;
        kvg_rows_set_tokens(kvg_rows_pitch(m), 0, &linear);
    }
    return kvg_rows_place(&linear, layer, block, head, offset, index);
}

static void swizzle_inverted(const kvg_problem *p, claim *c)
{
    (void)p;
    c->place = place_unswizzled;
}

/* A row's scales right behind its codes, where the layout has a plane of each. */
static void records_for_planes(const kvg_problem *p, claim *c)
{
    uint64_t base = 0;
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_map *d = &c->map.codes[side], *s = &c->map.scales[side];
        if (s->pool != KVG_ROLE_DATA_POOL || s->bytes == 0) continue;
        const uint64_t record = (uint64_t)d->bytes + s->bytes;
        kvg_rows_set_pitch(kvg_rows_pitch(d) / d->bytes * record, d);
        d->head = p->layout == KVG_LAYOUT_TURBOMIND ? d->head + s->head : d->head / d->bytes * record;
        d->base = base;
        s->base = base + d->bytes;
        kvg_rows_set_pitch(kvg_rows_pitch(d), s);
        s->head = d->head;
        base += record * p->paging.block_tokens * (p->layout == KVG_LAYOUT_TURBOMIND ? 1 : p->kv_heads);
    }
}

/* K and V of a token next to each other, where the layout has a plane of each. */
static void sides_interleaved(const kvg_problem *p, claim *c)
{
    if (!block_major(p) || kvg_problem_sides(p) == 1) return;
    const uint64_t row = (uint64_t)c->map.codes[KVG_K].bytes + c->map.codes[KVG_V].bytes;
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_map *d = &c->map.codes[side];
        d->base = side == KVG_V ? c->map.codes[KVG_K].bytes : 0;
        kvg_rows_set_pitch(row, d);
        d->head = row * p->paging.block_tokens;
    }
}

/* The reverse, in turbomind's scale pool. */
static void scale_planes_for_records(const kvg_problem *p, claim *c)
{
    for (int side = KVG_K; side <= KVG_V; side++) {
        kvg_row_map *s = &c->map.scales[side];
        if (p->layout != KVG_LAYOUT_TURBOMIND || s->pool != KVG_ROLE_SCALE_POOL || s->bytes == 0) continue;
        s->base *= p->paging.block_tokens;
        kvg_rows_set_pitch(s->bytes, s);
    }
}

static void v_sized_like_k(const kvg_problem *p, claim *c)
{
    kvg_problem q = *p;
    q.storage[KVG_V] = q.storage[KVG_K];
    q.paging.v_scale_swizzle = q.paging.v_scale_swizzle && kvg_format_get(q.storage[KVG_K].format)->block == 16;
    kvg_rows_map(&q, &c->map);
}

static void layer_ignored(const kvg_problem *p, claim *c)
{
    (void)p;
    for (int i = 0; i < 4; i++) row_map(c, i)->layer = 0;
}

static void layers_and_blocks_exchanged(const kvg_problem *p, claim *c)
{
    for (int i = 0; i < 4; i++) {
        kvg_row_map *m = row_map(c, i);
        const uint64_t least = block_major(p) ? m->layer : m->block;
        m->layer = block_major(p) ? least * p->paging.blocks : least;
        m->block = block_major(p) ? least : least * p->paging.layers;
    }
}

static void page_padding_in_front(const kvg_problem *p, claim *c)
{
    for (int i = 0; i < 4; i++) {
        kvg_row_map *m = row_map(c, i);
        m->base += m->pool == KVG_ROLE_DATA_POOL ? p->paging.data_padding : p->paging.scale_padding;
    }
}

static void row_padding_in_front(const kvg_problem *p, claim *c)
{
    for (int i = 0; i < 2; i++) row_map(c, i)->base += p->paging.row_padding;
}

static void v_over_k(const kvg_problem *p, claim *c)
{
    (void)p;
    for (int i = 1; i < 4; i += 2) {
        row_map(c, i)->base = row_map(c, i - 1)->base;
        row_map(c, i)->side = KVG_K;
    }
}

static void one_token_late(const kvg_problem *p, claim *c)
{
    (void)p;
    for (int i = 0; i < 4; i++) row_map(c, i)->base += kvg_rows_pitch(row_map(c, i));
}

static void shared_row_twice(const kvg_problem *p, claim *c)
{
    kvg_problem q = *p;
    q.paging.shared_kv = false;
    kvg_rows_map(&q, &c->map);
    c->map.codes[KVG_V].bytes = p->paging.shared_kv ? 0 : c->map.codes[KVG_V].bytes;
    c->map.scales[KVG_V].bytes = p->paging.shared_kv ? 0 : c->map.scales[KVG_V].bytes;
}

static void half_the_scales(const kvg_problem *p, claim *c)
{
    (void)p;
    for (int i = 2; i < 4; i++) {
        kvg_row_map *m = row_map(c, i);
        if (!kvg_rows_group(m)) m->bytes /= 2;
    }
}

/* --- sizes --- */

static void sizes_from(const kvg_problem *q, claim *c)
{
    const claim other = claim_of_reference(q);
    for (int i = 0; i < 4; i++) c->pools[i / 2][i % 2] = other.pools[i / 2][i % 2];
}

static void pools_without_padding(const kvg_problem *p, claim *c)
{
    const kvg_problem q = without_padding(p);
    sizes_from(&q, c);
}

static void pools_of_one_layer(const kvg_problem *p, claim *c)
{
    kvg_problem q = *p;
    q.paging.layers = 1;
    sizes_from(&q, c);
}

/* Both pools as large as the data needs. */
static void scale_pool_like_data(const kvg_problem *p, claim *c)
{
    (void)p;
    for (int side = KVG_K; side <= KVG_V; side++) {
        if (c->pools[1][side]) c->pools[1][side] = c->pools[0][side];
    }
}

static const struct {
    const char *id;
    plant_fn *plant;
} defects[] = {
    {"base_lost", base_lost},
    {"scales_with_data_strides", scales_with_data_strides},
    {"strides_from_shape", strides_from_shape},
    {"block_of_one_layer", block_of_one_layer},
    {"layer_of_one_block", layer_of_one_block},
    {"heads_and_tokens_exchanged", heads_and_tokens_exchanged},
    {"tokens_from_head_axis", tokens_from_head_axis},
    {"sides_exchanged", sides_exchanged},
    {"v_scales_the_other_way", v_scales_the_other_way},
    {"k_scales_like_v", k_scales_like_v},
    {"swizzle_inverted", swizzle_inverted},
    {"records_for_planes", records_for_planes},
    {"sides_interleaved", sides_interleaved},
    {"scale_planes_for_records", scale_planes_for_records},
    {"v_sized_like_k", v_sized_like_k},
    {"layer_ignored", layer_ignored},
    {"layers_and_blocks_exchanged", layers_and_blocks_exchanged},
    {"page_padding_in_front", page_padding_in_front},
    {"row_padding_in_front", row_padding_in_front},
    {"v_over_k", v_over_k},
    {"one_token_late", one_token_late},
    {"shared_row_twice", shared_row_twice},
    {"half_the_scales", half_the_scales},
    {"pools_without_padding", pools_without_padding},
    {"pools_of_one_layer", pools_of_one_layer},
    {"scale_pool_like_data", scale_pool_like_data},
};
enum { DEFECTS = sizeof defects / sizeof defects[0] };

/* --- does it change anything? --- */

static bool same_row(const claim *a, const claim *b, page_row r)
{
    const kvg_row_map *m = claim_row_map(a, r.side, r.part), *n = claim_row_map(b, r.side, r.part);
    if (m->bytes != n->bytes) return false;
    if (m->bytes && (m->pool != n->pool || m->side != n->side)) return false;
    for (uint32_t i = 0; i < m->bytes; i++) {
        if (a->place(m, r.layer, r.block, r.head, r.offset, i) != b->place(n, r.layer, r.block, r.head, r.offset, i))
            return false;
    }
    return true;
}

static bool same_claims(const kvg_problem *p, const claim *a, const claim *b)
{
    const kvg_paging *g = &p->paging;
    for (int i = 0; i < 4; i++) {
        if (a->pools[i / 2][i % 2] != b->pools[i / 2][i % 2]) return false;
    }
    const uint32_t rows = g->layers * g->blocks * p->kv_heads * g->block_tokens;
    for (uint32_t n = 0; n < 4 * rows; n++) {
        const uint32_t row = n / 4, head_row = row / g->block_tokens, page_number = head_row / p->kv_heads;
        if (!same_row(a, b, (page_row){page_number / g->blocks, page_number % g->blocks, head_row % p->kv_heads,
                                       row % g->block_tokens, (kvg_side)(n % 2), (page_part)(n / 2 % 2)}))
            return false;
    }
    return true;
}

typedef struct tally {
    uint64_t changed, rejected, unchanged, accepted;
    uint64_t by[PROPERTY_COUNT];
} tally;

static void try_defect(const kvg_problem *p, const claim *right, plant_fn *plant, prover *v, tally *t)
{
    claim wrong = *right;
    plant(p, &wrong);
    const bool changed = !same_claims(p, right, &wrong);
    const proof done = prove(v, p, &wrong);
    *(changed ? &t->changed : &t->unchanged) += 1;
    *(changed ? &t->rejected : &t->accepted) += changed == (done.broken != 0);
    for (int i = 0; i < PROPERTY_COUNT; i++) t->by[i] += done.broken >> i & 1;
}

static void add(tally *to, const tally *from)
{
    to->changed += from->changed;
    to->rejected += from->rejected;
    to->unchanged += from->unchanged;
    to->accepted += from->accepted;
    for (int i = 0; i < PROPERTY_COUNT; i++) to->by[i] += from->by[i];
}

static void print_table(const tally *t)
{
    printf("%-28s %9s %9s %9s", "defect", "unchanged", "changed", "rejected");
    for (int i = 0; i < PROPERTY_COUNT; i++) printf(" %8s", property_name((property)i));
    printf("\n");
    for (int d = 0; d < DEFECTS; d++) {
        printf("%-28s %9llu %9llu %9llu", defects[d].id, (unsigned long long)t[d].unchanged,
               (unsigned long long)t[d].changed, (unsigned long long)t[d].rejected);
        for (int i = 0; i < PROPERTY_COUNT; i++) printf(" %8llu", (unsigned long long)t[d].by[i]);
        printf("\n");
    }
}

void test_planted_maps(void **state)
{
    (void)state;
    enum { STRIDE = 7 }; /* divides no axis of the grid */
    tally tallies[DEFECTS] = {{0}};
    const uint64_t count = layout_grid_size(&layout_grid_small) / STRIDE;
#pragma omp parallel
    {
        prover v = {0};
        tally mine[DEFECTS] = {{0}};
#pragma omp for schedule(dynamic, 64)
        for (uint64_t i = 0; i < count; i++) {
            kvg_problem p;
            if (!layout_grid_at(&layout_grid_small, i * STRIDE, &p) || !page_legal(&p)) continue;
            const claim right = claim_of_reference(&p);
            for (int d = 0; d < DEFECTS; d++) try_defect(&p, &right, defects[d].plant, &v, &mine[d]);
        }
        prover_close(&v);
#pragma omp critical
        for (int d = 0; d < DEFECTS; d++) add(&tallies[d], &mine[d]);
    }
    print_table(tallies);
    for (int d = 0; d < DEFECTS; d++) {
        assert_true(tallies[d].changed > 0);
        assert_int_equal(tallies[d].rejected, tallies[d].changed);
        assert_int_equal(tallies[d].accepted, tallies[d].unchanged);
    }
}
