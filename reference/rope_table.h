/* The table of cos and sin that op append takes, from a model's RoPE parameters: docs/spec/numerics.md section 8. Every
 * number is a fixed sequence of roundings to f32, each of them correct, so that it is the same on every machine. */
#ifndef KVG_REFERENCE_ROPE_TABLE_H
#define KVG_REFERENCE_ROPE_TABLE_H

#include "core/rope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the frequencies of a rope follow from, beside its parameters. */
typedef struct kvg_rope_numbers {
    float base;             /* theta, for dynamic NTK the base of its length */
    float low, width;       /* yarn: the pair where the range begins, and its length; else 0 */
    float attention_factor; /* multiplies cos and sin */
} kvg_rope_numbers;

/* All of these want dims above 0 and a scaling.kind that is not KVG_ROPE_TABLE. They return KVG_ERR_INVALID where
 * kvg_rope_check does, and where the parameters leave no range (yarn) or a base above 2^80 (dynamic). */
kvg_status kvg_reference_rope_numbers(const kvg_rope *rope, kvg_rope_numbers *out) KVG_CHECKED;

/* frequencies[R/2]: radians per position of each pair. */
kvg_status kvg_reference_rope_frequencies(const kvg_rope *rope, float *frequencies) KVG_CHECKED;

/* cos_sin[positions][R/2][2]: the tensor of role COS_SIN. */
kvg_status kvg_reference_rope_table(const kvg_rope *rope, float *cos_sin) KVG_CHECKED;

/* Rows first to first + count - 1 of that table, by frequencies that are given; positions below 2^24. */
kvg_status kvg_reference_rope_rows(const kvg_rope *rope, const float *frequencies, uint32_t first, uint32_t count,
                                   float *cos_sin) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
