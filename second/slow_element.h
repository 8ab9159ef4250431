/* What the bytes of a stored row say about one element, before anything is multiplied: docs/spec/formats.md. */
#ifndef KVG_SECOND_SLOW_ELEMENT_H
#define KVG_SECOND_SLOW_ELEMENT_H

#include "second/slow_cache.h"
#include "second/slow_side.h"

typedef struct slow_element {
    slow_number code;      /* the number of the code alone: E2M1, E4M3, q, nibble - 8, ... */
    slow_number scale;     /* of its block or row; 1 for formats without */
    slow_number parameter; /* of affine formats: the second one, min or zero point */
} slow_element;

slow_element slow_element_of(const slow_side *side, const slow_row_bytes *row, size_t dim);

#endif
