/* Room formats: how a row of numbers becomes codes and scales, and back.
 *
 *   ref_fmt_<format>.c     One format: its table of dialects and its arithmetic.
 *   ref_codec              What a format's file gives to the rest, and the one way to use it.
 *   ref_float, _affine, _mx, _row_scale, _token_head, _fp4_block, _e2m1
 *                          What several formats share.
 *   ref_convention         Tensor scales by convention.
 *   ref_judge              Round-trip bounds, the value rule, and what a row reached.
 *
 * docs/spec/formats.md decides. A row of a dialect is never edited. */
/* What a format's file gives to the reference, and the one way everything else uses it.
 *
 * A codec works on one row of D elements. `scale` chooses the scale bytes and says, for each element, the real number v
 * that is about to be rounded to a code; `encode` rounds one; `decode` goes back. Packing is a table entry. The op
 * loops, the reach counters and the bounds are written once, on top of these. */
#ifndef KVG_REFERENCE_FORMATS_REF_CODEC_H
#define KVG_REFERENCE_FORMATS_REF_CODEC_H

#include "reference/reference.h"

/* How element codes lie in bytes (docs/spec/formats.md sections 5 to 8). */
typedef enum ref_packing {
    REF_PACK_U16,       /* two bytes each, little-endian */
    REF_PACK_U8,        /* one byte each */
    REF_PACK_ODD_EVEN,  /* (odd << 4) | even */
    REF_PACK_TURBOMIND, /* per 8: nibbles 0 2 4 6 1 3 5 7 of a little-endian uint32 */
    REF_PACK_HALVES     /* code j and code j + D/2 share byte j */
} ref_packing;

typedef struct ref_row {
    kvg_dtype dtype;     /* model type T */
    uint32_t head_dim;   /* D */
    const void *dialect; /* the format's own row type; starts with a kvg_dialect */
    float tensor_scale;  /* g; 1 where the format has none */
} ref_row;

/* The numbers that codes stand for, on the scale of v: spacing at most 2 * max(relative * |v|, absolute) between
 * `low` and `high`, the least and the greatest. */
typedef struct ref_grid {
    uint32_t codes; /* codes 0 to codes - 1 */
    double low, high;
    double relative, absolute;
} ref_grid;

/* Interval of block (row) scales d, decoded value = grid value * d, that right implementations may store. */
typedef struct ref_range {
    double low, high;
} ref_range;

typedef struct ref_codec {
    kvg_format format;
    const void *dialects; /* dialect_count rows of dialect_size bytes, each starting with a kvg_dialect */
    size_t dialect_size, dialect_count;
    ref_grid grid;
    const ref_grid *(*grid_of)(const ref_row *row); /* where dialects differ; NULL: `grid` */
    bool keeps_nan; /* f16, bf16: NaN payloads pass through decoding */

    kvg_dialect_number (*number)(const void *dialect); /* NULL: KVG_NUMBER_FUSED */
    ref_packing (*packing)(const ref_row *row);
    void (*scale)(const ref_row *row, const float *x, uint8_t *scales, double *v);
    uint16_t (*encode)(const ref_row *row, float x, double v); /* x lends sign and payload to a NaN */
    void (*decode)(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);

    /* The numbers that codes stand for before T rounds them (docs/spec/attention.md section 3): value = y * the
     * factor that is returned, y within 2^-52 of its exact value, exact but for the affine formats. The factor is
     * what a kernel can apply outside its dot product: the tensor scale, or the scale of a row. Payloads of NaN are
     * not kept. */
    double (*exact)(const ref_row *row, const uint16_t *codes, const uint8_t *scales, double *y);

    /* docs/spec/simt-contract.md section 1: the same numbers in f32. NULL: y * the factor of `exact`, which binary64
     * then holds exactly, rounded once. */
    void (*operands)(const ref_row *row, const uint16_t *codes, const uint8_t *scales, float *y);

    double (*grid_value)(const ref_row *row, uint16_t code);

    /* Round-trip bound (docs/spec/numerics.md section 2): either the range of scales for a block whose finite amax
     * is given, or, where parameters are not a plain scale, the whole row's bound. The other is NULL. */
    ref_range (*scale_range)(const ref_row *row, double amax, bool has_nan);
    void (*bound)(const ref_row *row, const float *x, double *bound);

    /* For KVG_DIALECT_VALUE rows; NULL where the format has none. See kvg_reference_row_accept. */
    bool (*accept)(const ref_row *row, const float *x, const uint16_t *codes, const uint8_t *scales, uint32_t *steps,
                   uint32_t *bad_element);
} ref_codec;

/* The codec of a format in the table; each is defined in reference/formats/ref_fmt_<format>.c. */
const ref_codec *ref_codec_get(kvg_format format);

/* Fills `row` from one side of a checked problem. KVG_ERR_NOT_FOUND for an unknown dialect, KVG_ERR_INVALID for a
 * tensor scale that is not finite and positive. */
kvg_status ref_row_init(const kvg_problem *problem, kvg_side side, float tensor_scale, ref_row *row) KVG_CHECKED;

/* One side of a problem, ready for rows: each row is head_dim values of T, code_bytes and scale_bytes. */
typedef struct ref_side {
    ref_row row;
    const ref_codec *codec;
    ref_packing packing;
    size_t value_bytes, code_bytes, scale_bytes;
} ref_side;

/* tensor_scale: the side's tensor of that role (0 bytes: none). KVG_ERR_UNIMPLEMENTED for an unknown dialect. */
kvg_status ref_side_init(const kvg_problem *problem, kvg_side side, const kvg_tensor *tensor_scale, ref_side *out)
    KVG_CHECKED;

/* One row: x[head_dim] to codes and scales (NULL where the format has none), and back, where a NaN becomes the one of
 * docs/spec/formats.md section 2.5. */
void ref_side_quantise(const ref_side *side, const float *x, uint8_t *codes, uint8_t *scales);
void ref_side_dequantise(const ref_side *side, const uint8_t *codes, const uint8_t *scales, float *y);

void ref_pack(ref_packing packing, const uint16_t *codes, size_t count, uint8_t *bytes);
void ref_unpack(ref_packing packing, const uint8_t *bytes, size_t count, uint16_t *codes);

/* The element whose code is nibble `nibble` (low nibble of byte 0 first) of a row of `count` 4-bit codes. */
static inline size_t ref_nibble_element(ref_packing packing, size_t nibble, size_t count)
{
    static const uint8_t turbomind_order[8] = {0, 2, 4, 6, 1, 3, 5, 7}; /* elements of the nibbles of its uint32 */
    if (packing == REF_PACK_TURBOMIND) return nibble / 8 * 8 + turbomind_order[nibble % 8];
    if (packing == REF_PACK_HALVES) return nibble / 2 + nibble % 2 * (count / 2);
    return nibble;
}

/* RN_T of a double, widened again: one rounding to the model type. */
float ref_round_to(kvg_dtype dtype, double x);
/* The same of the exact a + b. */
float ref_round_sum(kvg_dtype dtype, double a, double b);

/* Half the spacing of the model type: relative to a normal value, and absolute among subnormals. */
double ref_half_ulp(kvg_dtype dtype);
double ref_half_step(kvg_dtype dtype);
double ref_largest(kvg_dtype dtype);
double ref_smallest_normal(kvg_dtype dtype);

/* The largest |x| of n elements; NaN elements are left out and set *has_nan. 0 if none are left. */
float ref_amax(const float *x, size_t n, bool *has_nan);

static inline double ref_min(double a, double b)
{
    return a < b ? a : b;
}

static inline double ref_max(double a, double b)
{
    return a > b ? a : b;
}

static inline uint16_t ref_read_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static inline void ref_write_u16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

/* Fields every codec fills from its table of dialects. */
#define REF_DIALECTS(table) \
    .dialects = (table), .dialect_size = sizeof (table)[0], .dialect_count = sizeof (table) / sizeof (table)[0]

#endif
