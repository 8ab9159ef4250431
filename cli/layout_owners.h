/* A page in memory for `kvgold layout`: which byte of which row each byte of its pools is. */
#ifndef KVG_CLI_LAYOUT_OWNERS_H
#define KVG_CLI_LAYOUT_OWNERS_H

#include "core/problem.h"

enum { KVG_PAGE_POOLS = 4, KVG_PAGE_FIELDS = 4 };

/* Coordinates of a byte of a row. Field: 0 K's codes, 1 K's scales, 2 and 3 those of V. */
enum { KVG_AT_FIELD, KVG_AT_LAYER, KVG_AT_BLOCK, KVG_AT_HEAD, KVG_AT_TOKEN, KVG_AT_BYTE, KVG_AT_COUNT };

typedef struct kvg_page {
    const kvg_problem *p;
    kvg_layout_map map;
    size_t bytes[KVG_PAGE_POOLS];    /* of pool 2 * side + scales */
    uint64_t *owner[KVG_PAGE_POOLS]; /* of kvg_page_own: of each byte 1 + the number of the byte of a row that it is; 0:
                                      * padding */
} kvg_page;

/* The problem must outlive the page. Call kvg_page_close at the end. */
void kvg_page_open(const kvg_problem *p, kvg_page *out);
void kvg_page_close(kvg_page *page);

/* Finds the owner of every byte. KVG_ERR_MEMORY: there are too many. */
kvg_status kvg_page_own(kvg_page *page) KVG_CHECKED;

const char *kvg_page_field(uint64_t field); /* "K.codes" */
const char *kvg_page_pool(int pool);        /* "k_data" */
const kvg_row_map *kvg_page_row(const kvg_page *page, uint64_t field);

/* The pool that a map leads to. */
int kvg_page_pool_of(const kvg_row_map *m);

/* Bytes of all rows of a field; 0 of V's if K and V share rows. They are numbered from 0 on, field by field. */
uint64_t kvg_page_field_bytes(const kvg_page *page, uint64_t field);

/* The coordinates of the byte with that number, and its place in its pool. */
void kvg_page_split(const kvg_page *page, uint64_t number, uint64_t at[KVG_AT_COUNT]);
uint64_t kvg_page_place(const kvg_page *page, const uint64_t at[KVG_AT_COUNT]);

#endif
