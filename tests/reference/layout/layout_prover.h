/* Proves a layout map: every byte of every row of every pool, by marking them all. */
#ifndef KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_PROVER_H
#define KVG_TESTS_REFERENCE_LAYOUT_LAYOUT_PROVER_H

#include "reference/reference.h"
#include "tests/reference/layout/layout_page.h"

typedef uint64_t place_fn(const kvg_row_map *map, uint32_t layer, uint32_t block, uint32_t head, uint32_t offset,
                          uint32_t index);

/* What an implementation says of a problem. */
typedef struct claim {
    kvg_layout_map map;
    uint64_t pools[2][2]; /* bytes: [data, scales][side] */
    place_fn *place;
} claim;

/* The reference's. The problem must be checked. */
claim claim_of_reference(const kvg_problem *problem);

const kvg_row_map *claim_row_map(const claim *c, kvg_side side, page_part part);

typedef enum property {
    PROPERTY_SIZE,    /* row bytes and pool bytes are those of the page */
    PROPERTY_BOUNDS,  /* every byte lies in its pool */
    PROPERTY_OVERLAP, /* no byte belongs to two rows, or to a row and to padding */
    PROPERTY_COVER,   /* rows and documented padding are all the bytes of the pools */
    PROPERTY_PLACE,   /* every byte lies where the page says */
    PROPERTY_WHOLE,   /* code bytes, and scale bytes that are not swizzled, are contiguous */
    PROPERTY_ALIGNED, /* rows of codes begin at multiples of what the page says, and of no more */
    PROPERTY_COUNT
} property;

const char *property_name(property which);

typedef struct proof {
    uint32_t broken;      /* bit 1 << property */
    uint64_t rows, bytes; /* rows of codes walked; bytes of codes and scales that they have */
    uint64_t padding;     /* bytes of padding found where the page says */
    uint64_t single;      /* bytes whose place was asked for one by one */
} proof;

/* The marks of the pools, kept from proof to proof. */
typedef struct prover {
    uint64_t *marks;
    size_t words;
} prover;

void prover_close(prover *v);

/* Walks every row of the claim. Properties are judged on their own: one that is broken hides no other. Memory: a bit
 * for each byte of the pools. Asks for the place of every byte of swizzled rows, of pools up to 4 KiB and of the rows
 * in the corners of larger ones, and of the first and last byte of the others. */
proof prove(prover *v, const kvg_problem *problem, const claim *c);

#endif
