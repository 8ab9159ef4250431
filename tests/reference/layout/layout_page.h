/* docs/spec/layouts.md as closed formulas: arrays indexed by Horner's rule in 128 bits, no strides, nothing of
 * a text. What the proofs of this folder measure every map against. */
#ifndef KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_PAGE_H
#define KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_PAGE_H

#include "core/problem.h"

/* The layouts that section 2 writes as arrays. */
enum { PAGE_FIRST_LAYOUT = KVG_LAYOUT_TURBOMIND, PAGE_LAYOUTS = KVG_LAYOUT_MLA - PAGE_FIRST_LAYOUT + 1 };

__extension__ typedef unsigned __int128 wide;

typedef enum page_part { PAGE_CODES, PAGE_SCALES, PAGE_PARTS } page_part;

/* The signs of the page's section 1 for one paged problem. */
typedef struct page {
    kvg_layout layout;
    wide L, N, B, H;
    uint32_t C[2], Z[2]; /* by side; 0 for the V of a shared row */
    uint32_t params[2];  /* those of Z that are row parameters */
    uint32_t row_padding, data_padding, scale_padding;
    bool swizzle;
    int sides;
} page;

typedef struct page_row {
    uint32_t layer, block, head, offset;
    kvg_side side;
    page_part part;
} page_row;

typedef struct page_place {
    kvg_role pool;
    kvg_side side; /* whose pool tensor */
    wide byte;
} page_place;

page page_open(const kvg_problem *problem);

/* Bytes of a part of a row: C or Z. */
uint32_t page_row_bytes(const page *g, kvg_side side, page_part part);

/* Where the row begins (section 2), and where its byte `index` lies (section 4 too). */
page_place page_first(const page *g, page_row row);
page_place page_byte(const page *g, page_row row, uint32_t index);

/* Section 6. */
wide page_pool_bytes(const page *g, kvg_role pool, kvg_side side);

/* Section 3: bytes of padding at the end of every page of a pool, and bytes of such a page with them. Pages lie
 * [layer][block]. */
uint32_t page_padding(const page *g, kvg_role pool, kvg_side side);
wide page_page_bytes(const page *g, kvg_role pool, kvg_side side);

/* Section 6, last sentence: what every first byte of the codes of a side is a multiple of. */
uint32_t page_alignment(const page *g, kvg_side side);

/* Sections 1 to 5: whether op append may have this geometry and these options. The sizes of rows must be legal. */
bool page_legal(const kvg_problem *problem);

#endif
