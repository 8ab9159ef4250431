/* The table of cos and sin for op append, from a model's RoPE parameters: docs/spec/numerics.md
 * section 8. Every number is a fixed sequence of correctly rounded f32 operations, so the table has
 * the same bits on every machine. */
#ifndef KVG_REFERENCE_ROPE_TABLE_H
#define KVG_REFERENCE_ROPE_TABLE_H

#include "core/rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers from which the frequencies follow, besides the parameters. */
typedef struct kvg_rope_numbers {
    float base;             /* theta; dynamic NTK: the base for its length */
    float low, width;       /* yarn: the first pair of the range, and the range's length; else 0 */
    float attention_factor; /* multiplies cos and sin */
} kvg_rope_numbers;

/* All functions of this header require dims above 0 and a scaling.kind other than KVG_ROPE_TABLE.
 * They return KVG_ERR_INVALID where kvg_rope_check does, and if the parameters leave no range
 * (yarn) or give a base above 2^80 (dynamic). */
kvg_status kvg_reference_rope_numbers(const kvg_rope *rope, kvg_rope_numbers *out) KVG_CHECKED;

/* Writes frequencies[R/2]: radians per position of each pair. */
kvg_status kvg_reference_rope_frequencies(const kvg_rope *rope, float *frequencies) KVG_CHECKED;

/* Writes cos_sin[positions][R/2][2], the tensor of role COS_SIN. */
kvg_status kvg_reference_rope_table(const kvg_rope *rope, float *cos_sin) KVG_CHECKED;

/* Writes rows first to first + count - 1 of the same table from given frequencies. Positions must
 * be below 2^24. */
kvg_status kvg_reference_rope_rows(const kvg_rope *rope, const float *frequencies, uint32_t first, uint32_t count,
                                   float *cos_sin) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
