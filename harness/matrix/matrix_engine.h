/* Engines as writers and readers of a KV cache: harness/matrix/engines.def. */
#ifndef KVG_HARNESS_MATRIX_MATRIX_ENGINE_H
#define KVG_HARNESS_MATRIX_MATRIX_ENGINE_H

#include "reference/reference.h"

/* The number that an engine stores as the tensor scale of its pages. g is the decode scale
 * (docs/spec/formats.md section 9). */
typedef enum kvg_scale_number {
    KVG_NUMBER_DECODE, /* g */
    KVG_NUMBER_ENCODE, /* 1 / g */
    KVG_NUMBER_SIXTH   /* g / 6: a P1 scale that the engine multiplies by 6 when it loads it */
} kvg_scale_number;

typedef struct kvg_engine {
    const char *name;
    kvg_format format;
    kvg_layout layout;
    const char *dialect;
    kvg_scale_convention convention;
    kvg_scale_number number;
    bool swizzle;
    kvg_pairing order; /* order of the elements of a row of K, by the pairs that RoPE rotates together */
    const char *source;
    const kvg_layout_text *text; /* layout TEXT; else NULL */
} kvg_engine;

/* The table. Rows of one format follow each other. A name occurs at most once per format. */
const kvg_engine *kvg_engine_table(size_t *count);

/* KVG_ERR_NOT_FOUND lists the engines of the format. */
kvg_status kvg_engine_find(kvg_format format, const char *name, const kvg_engine **out) KVG_CHECKED;

const char *kvg_scale_number_name(kvg_scale_number number);
const char *kvg_engine_order_name(kvg_pairing order); /* "halves", "adjacent" */

/* The number that stands for g beside an engine's pages, and the inverse. Each is rounded once. */
float kvg_scale_to_number(kvg_scale_number number, float g);
float kvg_scale_of_number(kvg_scale_number number, float n);

/* The place of element `dim` of a row of `head_dim` (even) elements in halves. */
uint32_t kvg_element_place(kvg_pairing order, uint32_t head_dim, uint32_t dim);

#endif
