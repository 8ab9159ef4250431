#include "cli/layout_compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* A byte of a row, by its coordinates. */
enum { FIELD, LAYER, BLOCK, HEAD, TOKEN, BYTE, COORDINATES };
static const char *const coordinate_names[COORDINATES] = {"field", "layer", "block", "head", "token", "byte"};
enum { FIELDS = 4, POOLS = 4 };
static const char *const field_names[FIELDS] = {"K.codes", "K.scales", "V.codes", "V.scales"};

typedef struct page {
    const kvg_problem *p;
    kvg_layout_map map;
    uint64_t *owner[POOLS]; /* of each byte: 1 + the number of the byte of a row that it is; 0: padding */
    size_t bytes[POOLS];
} page;

static const kvg_row_map *row_of(const page *g, uint64_t field)
{
    return field % 2 ? &g->map.scales[field / 2] : &g->map.codes[field / 2];
}

static int pool_of(const kvg_row_map *m)
{
    return 2 * (int)m->side + (m->pool == KVG_ROLE_SCALE_POOL);
}

/* Bytes of all rows of a field are counted from 0 on, the last coordinate fastest. */
static uint64_t count_of(const page *g, uint64_t field)
{
    const kvg_paging *paging = &g->p->paging;
    if (field >= 2 * (uint64_t)kvg_problem_sides(g->p)) return 0;
    return (uint64_t)paging->layers * paging->blocks * g->p->kv_heads * paging->block_tokens * row_of(g, field)->bytes;
}

static void split(const page *g, uint64_t number, uint64_t at[COORDINATES])
{
    const kvg_paging *paging = &g->p->paging;
    uint64_t field = 0;
    while (number >= count_of(g, field)) number -= count_of(g, field++);
    const uint64_t size[COORDINATES] = {FIELDS, paging->layers, paging->blocks, g->p->kv_heads, paging->block_tokens,
                                        row_of(g, field)->bytes};
    for (int i = COORDINATES - 1; i > FIELD; i--) {
        at[i] = number % size[i];
        number /= size[i];
    }
    at[FIELD] = field;
}

static uint64_t place_of(const page *g, const uint64_t at[COORDINATES])
{
    return kvg_rows_place(row_of(g, at[FIELD]), (uint32_t)at[LAYER], (uint32_t)at[BLOCK], (uint32_t)at[HEAD],
                          (uint32_t)at[TOKEN], (uint32_t)at[BYTE]);
}

static uint64_t all_of(const page *g)
{
    uint64_t all = 0;
    for (uint64_t field = 0; field < FIELDS; field++) all += count_of(g, field);
    return all;
}

static page page_of(const kvg_problem *p)
{
    page g = {.p = p};
    kvg_rows_map(p, &g.map);
    return g;
}

static void free_owners(page *g)
{
    for (int i = 0; i < POOLS; i++) free(g->owner[i]);
}

/* The reader's page needs none. */
static kvg_status find_owners(page *g)
{
    for (int i = 0; i < POOLS; i++) {
        const kvg_role pool = i % 2 ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL;
        g->bytes[i] = kvg_problem_tensor(g->p, pool, (kvg_side)(i / 2)).bytes;
        g->owner[i] = calloc(g->bytes[i] + 1, sizeof *g->owner[i]);
        if (!g->owner[i]) return kvg_fail(KVG_ERR_MEMORY, "no memory for a page: give fewer blocks");
    }
    for (uint64_t n = 0; n < all_of(g); n++) {
        uint64_t at[COORDINATES];
        split(g, n, at);
        g->owner[pool_of(row_of(g, at[FIELD]))][place_of(g, at)] = n + 1;
    }
    return KVG_OK;
}

static void print_byte(const uint64_t at[COORDINATES])
{
    printf("%s", field_names[at[FIELD]]);
    for (int i = LAYER; i < COORDINATES; i++) {
        printf("%s %s %" PRIu64, i > LAYER ? "," : " of", coordinate_names[i], at[i]);
    }
}

/* What the reader takes in place of a field. */
typedef struct found {
    uint64_t right, padding, beyond, other[COORDINATES]; /* other: bytes of another layer and so on */
    uint64_t wrong_at[COORDINATES], wrong[COORDINATES];  /* the first byte of a row that is another one, and which */
    bool any_wrong;
} found;

static void look(const page *reader, const page *g, uint64_t number, found *f)
{
    uint64_t at[COORDINATES], is[COORDINATES];
    split(reader, number, at);
    const int pool = pool_of(row_of(reader, at[FIELD]));
    const uint64_t byte = place_of(reader, at);
    if (byte >= g->bytes[pool]) {
        f->beyond++;
        return;
    }
    if (!g->owner[pool][byte]) {
        f->padding++;
        return;
    }
    split(g, g->owner[pool][byte] - 1, is);
    bool right = true;
    for (int i = 0; i < COORDINATES; i++) {
        f->other[i] += at[i] != is[i];
        right &= at[i] == is[i];
    }
    f->right += right;
    if (right || f->any_wrong) return;
    f->any_wrong = true;
    for (int i = 0; i < COORDINATES; i++) f->wrong_at[i] = at[i], f->wrong[i] = is[i];
}

/* "K.codes: 12.5 % of 65536 bytes are right; the others are of another head, token". */
static void print_found(uint64_t field, uint64_t count, const found *f)
{
    const char *separator = "; the others are of another ";
    if (f->right == count) {
        printf("%s: all %" PRIu64 " bytes are right\n", field_names[field], count);
        return;
    }
    printf("%s: %.1f %% of %" PRIu64 " bytes are right", field_names[field], 100.0 * (double)f->right / (double)count,
           count);
    for (int i = 0; i < COORDINATES; i++) {
        if (!f->other[i]) continue;
        printf("%s%s", separator, coordinate_names[i]);
        separator = ", ";
    }
    if (f->padding) printf("; %" PRIu64 " are padding", f->padding);
    if (f->beyond) printf("; %" PRIu64 " lie beyond the pool", f->beyond);
    if (f->any_wrong) {
        printf("\n    in place of ");
        print_byte(f->wrong_at);
        printf("\n    it takes    ");
        print_byte(f->wrong);
    }
    printf("\n");
}

kvg_status kvg_layout_compare(const kvg_problem *reader, const kvg_problem *other, bool *same)
{
    const page own = page_of(reader);
    page g = page_of(other);
    *same = true;
    if (reader->paging.shared_kv != other->paging.shared_kv) {
        return kvg_fail(KVG_ERR_INVALID, "--compare: one layout has one row for K and V, and the other has two");
    }
    const kvg_status s = find_owners(&g);
    for (uint64_t field = 0, first = 0; !s && field < FIELDS; field++) {
        found f = {0};
        const uint64_t count = count_of(&own, field);
        for (uint64_t n = first; n < first + count; n++) look(&own, &g, n, &f);
        if (count) print_found(field, count, &f);
        *same &= f.right == count;
        first += count;
    }
    free_owners(&g);
    return s;
}
