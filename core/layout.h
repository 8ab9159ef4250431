/* Layouts: where the rows of a paged cache lie. The table is core/layouts.def, the contract
 * docs/spec/layouts.md. core/ knows names, geometry and sizes. The reference and each backend
 * compute addresses on their own. */
#ifndef KVG_CORE_LAYOUT_H
#define KVG_CORE_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_layout {
#define LAYOUT(ENUM, name, id, paged, blocks, shared, summary, text, groups) KVG_LAYOUT_##ENUM = id,
#include "core/layouts.def"
#undef LAYOUT
    KVG_LAYOUT_END,
    KVG_LAYOUT_TEXT = 1000 /* none of the table: problem.text says where bytes lie */
} kvg_layout;

/* A layout of the user's own: a name for people, and docs/spec/layouts.md section 8. */
typedef struct kvg_layout_text {
    const char *name, *text;
} kvg_layout_text;

/* The rule by which a position of a sequence becomes block and slot (core/layouts.def). */
typedef enum kvg_blocks { KVG_BLOCKS_TABLE, KVG_BLOCKS_ONE, KVG_BLOCKS_RING } kvg_blocks;
typedef enum kvg_sharing { KVG_SHARED_NEVER, KVG_SHARED_MAYBE, KVG_SHARED_ALWAYS } kvg_sharing;

typedef struct kvg_layout_info {
    kvg_layout layout;
    const char *name;
    bool paged;          /* has pools, blocks and slots; else plain rows */
    kvg_blocks blocks;
    kvg_sharing shared;  /* K and V may be one row; ALWAYS: they are, and there is one head */
    const char *summary;
    const char *text;    /* docs/spec/layouts.md section 8; "" of layout rows */
    const char *groups;  /* the same with V's scales in groups of 4 tokens; NULL: there is no such order */
} kvg_layout_info;

const kvg_layout_info *kvg_layout_table(size_t *count);
const kvg_layout_info *kvg_layout_get(kvg_layout layout); /* also of TEXT; NULL for another value outside the table */
kvg_status kvg_layout_find(const char *name, kvg_layout *out) KVG_CHECKED;
/* A name of the table, or a text: that has a blank, a bracket or a dot. *text keeps it, else its members are NULL. */
kvg_status kvg_layout_read(const char *given, kvg_layout_text *text, kvg_layout *out) KVG_CHECKED;

/* The geometry of a paged cache; all zero for layout rows. */
typedef struct kvg_paging {
    uint32_t layers;       /* L: layers that the pools hold */
    uint32_t layer;        /* the layer that the op works on, below layers */
    uint32_t blocks;       /* N: blocks of a pool; rules ONE and RING: sequences of a pool */
    uint32_t block_tokens; /* B: tokens of a block; rule ONE: the longest sequence's; RING: the window */
    uint32_t sequences;    /* ops flatten, expand, decode: rows of the block table */
    uint32_t row_padding;  /* bytes after the codes of a row */
    uint32_t data_padding; /* bytes after a page of a data pool */
    uint32_t scale_padding; /* bytes after a page of a scale pool */
    bool v_scale_swizzle;
    bool shared_kv;        /* V is elements v_first .. v_first + v_dim - 1 of K's row */
    uint32_t v_first, v_dim; /* 0, 0 unless shared_kv */
} kvg_paging;

/* Columns of a block table for sequences of up to `tokens` tokens; 1 of rules ONE and RING. */
uint32_t kvg_layout_table_width(kvg_layout layout, const kvg_paging *paging, uint32_t tokens);

#ifdef __cplusplus
}
#endif
#endif
