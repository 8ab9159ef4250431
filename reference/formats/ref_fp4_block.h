/* What the block-scaled E2M1 formats share: codes come from v by the dialect's E2M1 rules, bytes are (odd << 4) |
 * even. */
#ifndef KVG_REFERENCE_FORMATS_REF_FP4_BLOCK_H
#define KVG_REFERENCE_FORMATS_REF_FP4_BLOCK_H

#include "reference/formats/ref_codec.h"
#include "reference/formats/ref_e2m1.h"

typedef struct ref_fp4_dialect {
    kvg_dialect base;
    ref_e2m1_rules rules;
} ref_fp4_dialect;

#define REF_FP4_GRID {.codes = 16, .low = -6, .high = 6, .relative = 0.25, .absolute = 0.25}

static inline ref_packing ref_fp4_packing(const ref_row *row)
{
    (void)row;
    return REF_PACK_ODD_EVEN;
}

static inline uint16_t ref_fp4_encode(const ref_row *row, float x, double v)
{
    return ref_e2m1_encode(&((const ref_fp4_dialect *)row->dialect)->rules, x, v);
}

static inline double ref_fp4_grid_value(const ref_row *row, uint16_t code)
{
    (void)row;
    return kvg_ref_f32_of_e2m1((uint8_t)code);
}

#define REF_FP4_CODEC .packing = ref_fp4_packing, .encode = ref_fp4_encode, .grid_value = ref_fp4_grid_value

#endif
