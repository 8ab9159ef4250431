#include "cli/layout_owners.h"

#include <stdlib.h>

const char *kvg_page_field(uint64_t field)
{
    static const char *const names[KVG_PAGE_FIELDS] = {"K.codes", "K.scales", "V.codes", "V.scales"};
    return names[field];
}

static kvg_role role_of(int pool)
{
    return pool % 2 ? KVG_ROLE_SCALE_POOL : KVG_ROLE_DATA_POOL;
}

const char *kvg_page_pool(int pool)
{
    return kvg_tensor_name(role_of(pool), (kvg_side)(pool / 2));
}

const kvg_row_map *kvg_page_row(const kvg_page *page, uint64_t field)
{
    return field % 2 ? &page->map.scales[field / 2] : &page->map.codes[field / 2];
}

int kvg_page_pool_of(const kvg_row_map *m)
{
    return 2 * (int)m->side + (m->pool == KVG_ROLE_SCALE_POOL);
}

uint64_t kvg_page_field_bytes(const kvg_page *page, uint64_t field)
{
    const kvg_paging *g = &page->p->paging;
    if (field >= 2 * (uint64_t)kvg_problem_sides(page->p)) return 0;
    return (uint64_t)g->layers * g->blocks * page->p->kv_heads * g->block_tokens * kvg_page_row(page, field)->bytes;
}

void kvg_page_split(const kvg_page *page, uint64_t number, uint64_t at[KVG_AT_COUNT])
{
    const kvg_paging *g = &page->p->paging;
    uint64_t field = 0;
    while (number >= kvg_page_field_bytes(page, field)) number -= kvg_page_field_bytes(page, field++);
    const uint64_t size[KVG_AT_COUNT] = {KVG_PAGE_FIELDS, g->layers, g->blocks, page->p->kv_heads, g->block_tokens,
                                         kvg_page_row(page, field)->bytes};
    for (int i = KVG_AT_BYTE; i > KVG_AT_FIELD; i--) { /* the last coordinate is the fastest */
        at[i] = number % size[i];
        number /= size[i];
    }
    at[KVG_AT_FIELD] = field;
}

uint64_t kvg_page_place(const kvg_page *page, const uint64_t at[KVG_AT_COUNT])
{
    return kvg_rows_place(kvg_page_row(page, at[KVG_AT_FIELD]), (uint32_t)at[KVG_AT_LAYER], (uint32_t)at[KVG_AT_BLOCK],
                          (uint32_t)at[KVG_AT_HEAD], (uint32_t)at[KVG_AT_TOKEN], (uint32_t)at[KVG_AT_BYTE]);
}

void kvg_page_open(const kvg_problem *p, kvg_page *out)
{
    *out = (kvg_page){.p = p};
    kvg_rows_map(p, &out->map);
    for (int i = 0; i < KVG_PAGE_POOLS; i++) out->bytes[i] = kvg_problem_tensor(p, role_of(i), (kvg_side)(i / 2)).bytes;
}

kvg_status kvg_page_own(kvg_page *page)
{
    uint64_t all = 0;
    for (int i = 0; i < KVG_PAGE_POOLS; i++) {
        page->owner[i] = calloc(page->bytes[i] + 1, sizeof *page->owner[i]);
        if (!page->owner[i]) return kvg_fail(KVG_ERR_MEMORY, "no memory for a page: give fewer blocks");
    }
    for (uint64_t field = 0; field < KVG_PAGE_FIELDS; field++) all += kvg_page_field_bytes(page, field);
    for (uint64_t n = 0; n < all; n++) {
        uint64_t at[KVG_AT_COUNT];
        kvg_page_split(page, n, at);
        page->owner[kvg_page_pool_of(kvg_page_row(page, at[KVG_AT_FIELD]))][kvg_page_place(page, at)] = n + 1;
    }
    return KVG_OK;
}

void kvg_page_close(kvg_page *page)
{
    for (int i = 0; i < KVG_PAGE_POOLS; i++) free(page->owner[i]);
}
