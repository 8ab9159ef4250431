/* The place of each byte or number of an answer, as coordinates along the axes of its tensor, for
 * any op and layout. */
#ifndef KVG_HARNESS_TRIAL_QUESTION_PLACES_H
#define KVG_HARNESS_TRIAL_QUESTION_PLACES_H

#include "harness/trial/question/question.h"

enum { KVG_MAX_AXES = 10, KVG_PLACE_GROUPS = 32 };
#define KVG_NO_PLACE UINT32_MAX

/* An axis of a tensor, such as "head", with coordinates 0 to of - 1. */
typedef struct kvg_axis {
    const char *name, *plural;
    uint32_t of;
} kvg_axis;

/* The meaning of a byte of a pool. */
typedef struct kvg_pool_place {
    uint32_t row;   /* ((layer * blocks + block) * heads + head) * block_tokens + offset; KVG_NO_PLACE: padding */
    uint16_t index; /* index in the row's codes or scales */
    uint8_t part;   /* 0 K codes, 1 K scales, 2 V codes, 3 V scales */
} kvg_pool_place;

typedef struct kvg_places {
    const kvg_question *data;
    kvg_pool_place *pool[KVG_MAX_TENSORS]; /* for each output; NULL: it is no pool */
    uint32_t *token;                       /* append: for each slot, the case's token that it holds, or KVG_NO_PLACE */
    size_t outputs;
} kvg_places;

kvg_status kvg_places_open(const kvg_question *data, kvg_places *out) KVG_CHECKED;
void kvg_places_close(kvg_places *places);

/* The size of a unit of output `index`. A unit is right or wrong as a whole: a byte of codes,
 * scales and pools, a number of other tensors. */
size_t kvg_places_unit(const kvg_places *places, size_t index);

/* Writes the axes of an output and returns their number. */
size_t kvg_places_axes(const kvg_places *places, size_t index, kvg_axis axes[KVG_MAX_AXES]);

/* Writes the coordinates of a unit along these axes; KVG_NO_PLACE if it has none (padding). */
void kvg_places_at(const kvg_places *places, size_t index, size_t unit, uint32_t at[KVG_MAX_AXES]);

/* The group of a unit, below KVG_PLACE_GROUPS. One cause would change all units of a group
 * together: a tensor, or in a pool the codes or the scales of a side. */
unsigned kvg_places_group(const kvg_places *places, size_t index, size_t unit);

/* "K codes", "K scales", "V codes", "V scales": values of the axis "part" of pools. */
const char *kvg_places_part(unsigned part);

/* True if a number of flatten or expand is from the page that holds the last token of its
 * sequence. */
bool kvg_places_in_tail(const kvg_places *places, size_t index, size_t unit);

#endif
