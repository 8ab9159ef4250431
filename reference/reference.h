/* The golden reference: every storage format, bit for bit as docs/spec/formats.md defines it. It is
 * plain C, and none of its arithmetic is changed for speed.
 *
 * Use it as a backend like any other (kvg_reference_backend), or ask it about dialects and
 * bounds. */
#ifndef KVG_REFERENCE_REFERENCE_H
#define KVG_REFERENCE_REFERENCE_H

#include "core/backend.h"
#include "core/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

const kvg_backend *kvg_reference_backend(void);

/* Runs the problem's op on the reference: kvg_backend_choose and its run in one step. */
kvg_status kvg_reference_run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

/* --- paged layouts --- */

/* Runs a paged op with another map than the layout's own. Every place of the map must lie inside
 * the pools. */
kvg_status kvg_reference_run_mapped(const kvg_problem *problem, const kvg_layout_map *map, const kvg_tensor *in,
                                    kvg_tensor *out) KVG_CHECKED;

/* Steps 1 and 2 of append for one row, in place: adds bias[head_dim] to x[head_dim], and rotates a
 * row of K by cos_sin[rope.dims]. NULL: no bias, no rotation. Results are rounded to the model type
 * as docs/spec/layouts.md section 7 says. */
void kvg_reference_prepare(const kvg_problem *problem, kvg_side side, const float *bias, const float *cos_sin,
                           float *x);

/* --- dialects --- */

/* How a candidate's stored bytes are compared with a dialect (docs/spec/formats.md section 8, "Compare"). */
typedef enum kvg_dialect_compare {
    KVG_DIALECT_BITS,  /* every byte equal */
    KVG_DIALECT_VALUE  /* the engine uses rcp.approx: equal, or one code step apart at a tie */
} kvg_dialect_compare;

/* The public part of a dialect: a row of its format's table in
 * reference/formats/ref_fmt_<format>.c. */
typedef struct kvg_dialect {
    const char *name;
    const char *source; /* the engine and the rule, for people */
    kvg_dialect_compare compare;
} kvg_dialect;

/* The dialects of a format: their number, and each by its index. Index 0 is "canonical". The format
 * must be in the table. */
size_t kvg_reference_dialect_count(kvg_format format);
const kvg_dialect *kvg_reference_dialect(kvg_format format, size_t index);

/* The number that a code q stands for under two parameters (docs/spec/attention.md section 3), for
 * formats whose scales are KVG_SCALES_AFFINE. */
typedef enum kvg_dialect_number {
    KVG_NUMBER_FUSED,    /* q * first + second */
    KVG_NUMBER_TWICE,    /* RN_T(q * first) + second */
    KVG_NUMBER_FROM_ZERO, /* (q - second) * first */
    KVG_NUMBER_LESS_ZERO, /* q * first - RN_T(first * second) */
    KVG_NUMBER_FROM_ZERO_IN_T /* RN_T(q - second) * first */
} kvg_dialect_number;
kvg_dialect_number kvg_reference_dialect_number(kvg_format format, size_t index);

/* The index of a dialect by name. KVG_ERR_NOT_FOUND lists the format's names. */
kvg_status kvg_reference_dialect_find(kvg_format format, const char *name, size_t *index) KVG_CHECKED;

/* Judges the codes and scales that a candidate wrote for one row x of a KVG_DIALECT_VALUE dialect,
 * by the rule of docs/spec/formats.md section 8. True: *steps is the number of bytes that differ
 * from the reference's and are allowed to. False: the element *bad_element or its scale breaks the
 * rule. */
bool kvg_reference_row_accept(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                              const uint8_t *codes, const uint8_t *scales, uint32_t *steps, uint32_t *bad_element);

/* The round-trip bound of docs/spec/numerics.md section 2 for one row x: head_dim values of the
 * model type, widened to f32. Every right implementation of the dialect has |decoded - x[i]| <=
 * bound[i]. bound[i] is +Inf if x[i] is NaN or Inf, or if a NaN or Inf of x[i]'s block spoils its
 * scale. */
void kvg_reference_row_bound(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                             double *bound);

/* Counts of what an encoder met in the rows that it encoded. They show what a fill reaches. */
typedef struct kvg_reference_reach {
    uint64_t elements;
    uint64_t codes[256];       /* element codes seen (the low element_bits; f16 and bf16: the top byte) */
    uint64_t scales[256];      /* block-scale bytes seen (formats with block scales) */
    uint64_t ties;             /* elements exactly between two codes */
    uint64_t saturations;      /* finite elements beyond the largest code */
    uint64_t zero_blocks;      /* blocks (rows, for row formats) whose amax is 0 */
    uint64_t negative_zeros;   /* elements that are -0 */
    uint64_t subnormals;       /* elements that are subnormal in the model type */
    uint64_t specials;         /* elements that are NaN or Inf */
    uint64_t scale_underflows; /* blocks with amax > 0 whose scale became 0 */
} kvg_reference_reach;

/* Adds to *reach what row x reaches under the problem's dialect. */
void kvg_reference_row_reach(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                             kvg_reference_reach *reach);

/* Adds to *reach the codes and scales of a row, which need not come from an encoder. `scales` may
 * be NULL if the format has none. */
void kvg_reference_codes_reach(const kvg_problem *problem, kvg_side side, const uint8_t *codes, const uint8_t *scales,
                               kvg_reference_reach *reach);

/* The index of the element whose code is in byte `byte` of a row's codes. 4-bit codes: nibble 0 is
 * the low one, 1 the high one. */
uint32_t kvg_reference_code_dim(const kvg_problem *problem, kvg_side side, size_t byte, unsigned nibble);

/* kvg_reference_load widens `count` values of `dtype` (f16, bf16, f32) to f32, exactly.
 * kvg_reference_store rounds f32 to `dtype` as docs/spec/formats.md section 2.4 says. */
void kvg_reference_load(kvg_dtype dtype, const void *from, size_t count, float *to);
void kvg_reference_store(kvg_dtype dtype, const float *from, size_t count, void *to);

/* Tensor-scale conventions, docs/spec/formats.md section 9. */
typedef enum kvg_scale_convention { KVG_SCALE_P1 = 1, KVG_SCALE_P2, KVG_SCALE_P3, KVG_SCALE_P4 } kvg_scale_convention;
kvg_status kvg_scale_convention_find(const char *name, kvg_scale_convention *out) KVG_CHECKED; /* "P1" to "P4" */

/* The tensor scale g of a tensor whose largest magnitude is amax. KVG_ERR_INVALID: P1 to P3 need a
 * finite and positive amax. */
kvg_status kvg_scale_from_amax(kvg_scale_convention convention, float amax, float *g) KVG_CHECKED;

/* Converts a g of convention `from` to convention `to`. KVG_ERR_INVALID: only one of the two is P4,
 * or the result is not finite and above 0. */
kvg_status kvg_scale_convert(kvg_scale_convention from, kvg_scale_convention to, float g, float *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
