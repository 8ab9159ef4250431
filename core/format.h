/* Storage formats and element types: names, sizes, lookup. The table is core/formats.def. */
#ifndef KVG_CORE_FORMAT_H
#define KVG_CORE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types of tensors. Ids are stored on disk. */
typedef enum kvg_dtype {
    KVG_DTYPE_U8 = 1,
    KVG_DTYPE_F16 = 2,
    KVG_DTYPE_BF16 = 3,
    KVG_DTYPE_F32 = 4,
    KVG_DTYPE_I32 = 5,
    KVG_DTYPE_I64 = 6
} kvg_dtype;

typedef enum kvg_format {
    KVG_FORMAT_NONE = 0, /* "any format" in an implementation's row */
#define FORMAT(ENUM, name, id, ...) KVG_FORMAT_##ENUM = id,
#include "core/formats.def"
#undef FORMAT
    KVG_FORMAT_END /* one past the largest id */
} kvg_format;

/* The kind of number that an element's code is. */
typedef enum kvg_codes {
    KVG_CODES_F16,
    KVG_CODES_BF16,
    KVG_CODES_E4M3,
    KVG_CODES_E5M2,
    KVG_CODES_E2M1,
    KVG_CODES_UNSIGNED, /* integers, 0 is code 0 */
    KVG_CODES_OFFSET,   /* integers, stored as the integer plus half the number of codes: 4 bits store -8 as 0 */
    KVG_CODES_SIGNED    /* integers in two's complement */
} kvg_codes;

/* The type of a block's scale, or of a row's parameters. */
typedef enum kvg_scales {
    KVG_SCALES_NONE,
    KVG_SCALES_E8M0,
    KVG_SCALES_E4M3,
    KVG_SCALES_F16,
    KVG_SCALES_F32,
    KVG_SCALES_AFFINE /* two numbers of the 16-bit model type: a factor, then a number to add or subtract */
} kvg_scales;

typedef struct kvg_format_info {
    kvg_format format;
    const char *name;
    uint32_t element_bits;
    uint32_t block;             /* elements per block scale, 0 if none */
    uint32_t block_scale_bytes; /* bytes per block scale */
    uint32_t row_param_bytes;   /* bytes of parameters per row */
    bool tensor_scale;          /* each tensor also has one f32 scale */
    const char *summary;
    kvg_codes codes;
    kvg_scales scales; /* scales of blocks or parameters of rows: no format has both */
} kvg_format_info;

/* The table, in id order; *count rows. */
const kvg_format_info *kvg_format_table(size_t *count);

/* The row of `format`; NULL for KVG_FORMAT_NONE and for values outside the table. */
const kvg_format_info *kvg_format_get(kvg_format format);

/* Looks up a name exactly as in the table. KVG_ERR_NOT_FOUND lists the known names. */
kvg_status kvg_format_find(const char *name, kvg_format *out) KVG_CHECKED;

/* kvg_format_of_codes: the format with such codes and without scales of blocks or rows;
 * KVG_FORMAT_NONE if there is none. kvg_format_of_dtype: the format that stores values of a model
 * type as they are; KVG_FORMAT_NONE for f32. */
kvg_format kvg_format_of_codes(kvg_codes codes);
kvg_format kvg_format_of_dtype(kvg_dtype dtype);

/* Code bytes and scale bytes (block scales and row parameters) of one row of `head_dim` elements.
 * head_dim must satisfy kvg_format_check_dim. */
size_t kvg_format_code_bytes(kvg_format format, size_t head_dim);
size_t kvg_format_scale_bytes(kvg_format format, size_t head_dim);

enum { KVG_MAX_HEAD_DIM = 1024 };

/* KVG_ERR_INVALID unless head_dim is a multiple of the format's block, and for 4-bit elements of 8
 * (whole uint32 words), at least 1 and at most KVG_MAX_HEAD_DIM. */
kvg_status kvg_format_check_dim(kvg_format format, size_t head_dim) KVG_CHECKED;

size_t kvg_dtype_bytes(kvg_dtype dtype);      /* 0 for an unknown value */
const char *kvg_dtype_name(kvg_dtype dtype);  /* "u8", "f16", ... ; "?" for an unknown value */
kvg_status kvg_dtype_find(const char *name, kvg_dtype *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
