/* A map: where the rows of a paged cache lie in its pools. Every layout has one, be it a name of core/layouts.def or a
 * text of the user's own (docs/spec/layouts.md section 8). reference/rows.h has those of names. */
#ifndef KVG_CORE_LAYOUT_MAP_H
#define KVG_CORE_LAYOUT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kvg_role {
    KVG_ROLE_NONE = 0,
#define ROLE(ENUM, k_name, v_name) KVG_ROLE_##ENUM,
#define SHARED(ENUM, name) KVG_ROLE_##ENUM,
#include "core/roles.def"
#undef ROLE
#undef SHARED
    KVG_ROLE_END
} kvg_role;

typedef enum kvg_side { KVG_K = 0, KVG_V = 1 } kvg_side;

/* A digit of an index in mixed radix, and how many bytes one more of it is away. The last digit of an index takes the
 * rest, and its size is 0.
 *
 * Worked example: {4, 1}, {0, 32} is an index of groups of four. Index 6 is digit 2 of group 1, at 2 * 1 + 1 * 32. */
typedef struct kvg_digit {
    uint64_t size, stride;
} kvg_digit;

enum { KVG_MAP_DIGITS = 3 };

/* Where one kind of bytes (codes or scales) of one side's rows lies. In the pool tensor (pool, side) byte `index` of
 * the row of (layer, block, head, offset) is at base + layer * .layer + block * .block + head * .head + what the digits
 * of `offset` in .token and of `index` in .byte give. */
typedef struct kvg_row_map {
    kvg_role pool; /* KVG_ROLE_DATA_POOL or KVG_ROLE_SCALE_POOL */
    kvg_side side; /* the side whose pool tensor is meant: K for both sides if the layout joins them */
    uint64_t base, layer, block, head;
    kvg_digit token[KVG_MAP_DIGITS], byte[KVG_MAP_DIGITS]; /* the lowest digit first */
    uint32_t bytes;    /* bytes of a row; 0: the side has no such bytes */
    uint32_t reserved; /* 0 */
} kvg_row_map;

typedef struct kvg_layout_map {
    kvg_row_map codes[2], scales[2]; /* by kvg_side */
} kvg_layout_map;

static inline uint64_t kvg_digits_place(const kvg_digit *digit, uint64_t index)
{
    uint64_t place = 0;
    for (; digit->size; digit++) {
        place += index % digit->size * digit->stride;
        index /= digit->size;
    }
    return place + index * digit->stride;
}

/* The byte of its pool that holds byte `index` of a row. */
static inline uint64_t kvg_rows_place(const kvg_row_map *m, uint32_t layer, uint32_t block, uint32_t head,
                                      uint32_t offset, uint32_t index)
{
    return m->base + layer * m->layer + block * m->block + head * m->head + kvg_digits_place(m->token, offset) +
           kvg_digits_place(m->byte, index);
}

/* The bytes of a row lie together. */
static inline bool kvg_rows_together(const kvg_row_map *m)
{
    return m->byte[0].size == 0 && m->byte[0].stride == 1;
}

#ifdef __cplusplus
}
#endif
#endif
