/* A map: where the rows of a paged cache lie in its pools. Every layout has one, be it a name of core/layouts.def or a
 * text of the user's own (docs/spec/layouts.md section 8). kvg_rows_map gives it. A plug-in finds it in its problem:
 *
 *     const kvg_row_map *k = &problem->map.codes[KVG_K];
 *     kvg_rows_read(k, pool, problem->paging.layer, block, head, offset, row); // k->bytes bytes */
#ifndef KVG_CORE_LAYOUT_MAP_H
#define KVG_CORE_LAYOUT_MAP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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
    uint32_t bytes;    /* bytes of a row; 0: the side has no such bytes, and the pool is K's data pool */
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

/* The bytes of a row out of its pool, or into it. */
static inline void kvg_rows_read(const kvg_row_map *m, const uint8_t *pool, uint32_t layer, uint32_t block,
                                 uint32_t head, uint32_t offset, uint8_t *bytes)
{
    if (m->bytes == 0) return; /* nor is there a pool */
    const uint8_t *first = pool + kvg_rows_place(m, layer, block, head, offset, 0);
    if (kvg_rows_together(m)) {
        memcpy(bytes, first, m->bytes);
        return;
    }
    for (uint32_t i = 0; i < m->bytes; i++) bytes[i] = first[kvg_digits_place(m->byte, i)];
}

static inline void kvg_rows_write(const kvg_row_map *m, uint8_t *pool, uint32_t layer, uint32_t block, uint32_t head,
                                  uint32_t offset, const uint8_t *bytes)
{
    if (m->bytes == 0) return;
    uint8_t *first = pool + kvg_rows_place(m, layer, block, head, offset, 0);
    if (kvg_rows_together(m)) {
        memcpy(first, bytes, m->bytes);
        return;
    }
    for (uint32_t i = 0; i < m->bytes; i++) first[kvg_digits_place(m->byte, i)] = bytes[i];
}

/* Rows `pitch` bytes from one another. With `group` above 0 four neighbours lie in groups (docs/spec/layouts.md section
 * 4), `group` bytes of each in what would be a row. */
static inline void kvg_rows_set_tokens(uint64_t pitch, uint32_t group, kvg_row_map *m)
{
    m->token[0].size = group ? 4 : 0;
    m->token[0].stride = group ? 1 : pitch;
    m->token[1].stride = group ? 4 * pitch : 0;
    m->byte[0].size = group;
    m->byte[0].stride = group ? 4 : 1;
    m->byte[1].stride = group ? pitch : 0;
}

/* The inverse, of a map of a named layout. */
static inline uint64_t kvg_rows_pitch(const kvg_row_map *m)
{
    return m->token[0].size ? m->token[1].stride / 4 : m->token[0].stride;
}

static inline uint32_t kvg_rows_group(const kvg_row_map *m)
{
    return m->token[0].size ? m->bytes / 4 : 0;
}

static inline void kvg_rows_set_pitch(uint64_t pitch, kvg_row_map *m)
{
    kvg_rows_set_tokens(pitch, kvg_rows_group(m), m);
}

#ifdef __cplusplus
}
#endif
#endif
