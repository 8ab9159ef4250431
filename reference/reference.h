/* The golden reference: every storage format, bit for bit as docs/spec/formats.md says. Plain C, never tuned.
 *
 * Use it as a backend like any other (kvg_reference_backend), or ask it about dialects and bounds. */
#ifndef KVG_REFERENCE_REFERENCE_H
#define KVG_REFERENCE_REFERENCE_H

#include "core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

const kvg_backend *kvg_reference_backend(void);

/* Runs the problem's op on the reference: kvg_backend_choose and its run in one step. */
kvg_status kvg_reference_run(const kvg_problem *problem, const kvg_tensor *in, kvg_tensor *out) KVG_CHECKED;

/* --- paged layouts: docs/spec/layouts.md --- */

/* Where one kind of bytes (codes or scales) of one side's rows lies: in the pool tensor (pool, side), the row of
 * (layer, block, head, offset) starts at base + layer * .layer + block * .block + head * .head + offset * .token. */
typedef struct kvg_row_map {
    kvg_role pool; /* KVG_ROLE_DATA_POOL or KVG_ROLE_SCALE_POOL */
    kvg_side side; /* whose pool tensor: K's for both sides where the layout joins them */
    uint64_t base, layer, block, head, token;
    uint32_t bytes;   /* of a row; 0: the side has none */
    uint32_t swizzle; /* scale bytes per row where they lie in 4-token groups (section 4); 0: linear */
} kvg_row_map;

typedef struct kvg_layout_map {
    kvg_row_map codes[2], scales[2]; /* by kvg_side */
} kvg_layout_map;

/* The map of a checked problem on a paged layout. */
void kvg_reference_layout_map(const kvg_problem *problem, kvg_layout_map *out);

/* The byte of its pool that holds byte `index` of a row. */
uint64_t kvg_reference_place(const kvg_row_map *map, uint32_t layer, uint32_t block, uint32_t head, uint32_t offset,
                             uint32_t index);

/* Runs a paged op with a map other than the layout's own. Every place must lie inside the pools. */
kvg_status kvg_reference_run_mapped(const kvg_problem *problem, const kvg_layout_map *map, const kvg_tensor *in,
                                    kvg_tensor *out) KVG_CHECKED;

/* Steps 1 and 2 of append for one row: x[head_dim] plus bias[head_dim] (NULL: none), and for K the rotation by
 * cos_sin[rope.dims] (NULL: none), rounded to the model type as docs/spec/layouts.md section 7 says. In place. */
void kvg_reference_prepare(const kvg_problem *problem, kvg_side side, const float *bias, const float *cos_sin,
                           float *x);

/* --- dialects --- */

/* How a candidate's stored bytes are compared with a dialect (docs/spec/formats.md section 8, "Compare"). */
typedef enum kvg_dialect_compare {
    KVG_DIALECT_BITS,  /* every byte equal */
    KVG_DIALECT_VALUE  /* rcp.approx upstream: equal, or one code step at a tie */
} kvg_dialect_compare;

/* The public part of a dialect: one row of its format's table in reference/formats/ref_fmt_<format>.c. */
typedef struct kvg_dialect {
    const char *name;
    const char *source; /* the engine and the rule, for people */
    kvg_dialect_compare compare;
} kvg_dialect;

/* The dialects of a format, "canonical" first: *count of them, reached by index. The format must be in the table. */
size_t kvg_reference_dialect_count(kvg_format format);
const kvg_dialect *kvg_reference_dialect(kvg_format format, size_t index);

/* The number of a code q under two parameters (docs/spec/attention.md section 3), where the scales of a format are
 * KVG_SCALES_AFFINE. */
typedef enum kvg_dialect_number {
    KVG_NUMBER_FUSED,    /* q * first + second */
    KVG_NUMBER_TWICE,    /* RN_T(q * first) + second */
    KVG_NUMBER_FROM_ZERO /* (q - second) * first */
} kvg_dialect_number;
kvg_dialect_number kvg_reference_dialect_number(kvg_format format, size_t index);

/* The index of a dialect by name. KVG_ERR_NOT_FOUND lists the format's names. */
kvg_status kvg_reference_dialect_find(kvg_format format, const char *name, size_t *index) KVG_CHECKED;

/* Judges the codes and scales that a candidate wrote for one row x of a KVG_DIALECT_VALUE dialect by the rule of
 * docs/spec/formats.md section 8. Returns true and sets *steps to the number of bytes that differ from the
 * reference's own but are allowed; false, with *bad_element set, if an element or its scale is outside. */
bool kvg_reference_row_accept(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                              const uint8_t *codes, const uint8_t *scales, uint32_t *steps, uint32_t *bad_element);

/* The round-trip bound of docs/spec/numerics.md section 2 for one row x (head_dim values of the model type, widened):
 * bound[i] >= |decoded - x[i]| for every right implementation of the dialect. Where x[i] is NaN or Inf, or the row's
 * block holds one that spoils its scale, bound[i] is +Inf: nothing is promised. */
void kvg_reference_row_bound(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                             double *bound);

/* Where an encoder had to decide, counted while it ran over one row: what a fill reached. */
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

/* Adds what row x reaches under the problem's dialect to *reach. */
void kvg_reference_row_reach(const kvg_problem *problem, kvg_side side, float tensor_scale, const float *x,
                             kvg_reference_reach *reach);

/* The same for a row of codes and scales, whether an encoder wrote them or not: which bytes there are. `scales` may be
 * NULL where the format has none. */
void kvg_reference_codes_reach(const kvg_problem *problem, kvg_side side, const uint8_t *codes, const uint8_t *scales,
                               kvg_reference_reach *reach);

/* The element of a row whose code is in byte `byte` of the row's codes: nibble 0 is the low one, 1 the high one. */
uint32_t kvg_reference_code_dim(const kvg_problem *problem, kvg_side side, size_t byte, unsigned nibble);

/* Widens `count` values of `dtype` (f16, bf16, f32) to f32, exactly; rounds f32 to `dtype` by section 2.4. */
void kvg_reference_load(kvg_dtype dtype, const void *from, size_t count, float *to);
void kvg_reference_store(kvg_dtype dtype, const float *from, size_t count, void *to);

/* Tensor-scale conventions, docs/spec/formats.md section 9. */
typedef enum kvg_scale_convention { KVG_SCALE_P1 = 1, KVG_SCALE_P2, KVG_SCALE_P3, KVG_SCALE_P4 } kvg_scale_convention;
kvg_status kvg_scale_convention_find(const char *name, kvg_scale_convention *out) KVG_CHECKED; /* "P1" to "P4" */

/* g for a tensor whose largest magnitude is amax. P1 to P3 refuse an amax that is not finite and positive. */
kvg_status kvg_scale_from_amax(kvg_scale_convention convention, float amax, float *g) KVG_CHECKED;

/* A g of convention `from` as one of `to`. KVG_ERR_INVALID if either is P4 and they differ, or if the result is not
 * finite and above 0. */
kvg_status kvg_scale_convert(kvg_scale_convention from, kvg_scale_convention to, float g, float *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
