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

typedef enum kvg_format {
    KVG_FORMAT_NONE = 0, /* "any format" in an implementation's row */
#define FORMAT(ENUM, name, id, bits, block, scale_bytes, param_bytes, tensor_scale, summary) KVG_FORMAT_##ENUM = id,
#include "core/formats.def"
#undef FORMAT
    KVG_FORMAT_END /* one past the largest id */
} kvg_format;

typedef struct kvg_format_info {
    kvg_format format;
    const char *name;
    uint32_t element_bits;
    uint32_t block;             /* elements per block scale, 0 if none */
    uint32_t block_scale_bytes; /* bytes per block scale */
    uint32_t row_param_bytes;   /* bytes of parameters per row */
    bool tensor_scale;          /* an FP32 scale per tensor goes with it */
    const char *summary;
} kvg_format_info;

/* The table, in id order; *count rows. */
const kvg_format_info *kvg_format_table(size_t *count);

/* The row of `format`; NULL for KVG_FORMAT_NONE and for values outside the table. */
const kvg_format_info *kvg_format_get(kvg_format format);

/* Looks up a name exactly as in the table. KVG_ERR_NOT_FOUND lists the known names. */
kvg_status kvg_format_find(const char *name, kvg_format *out) KVG_CHECKED;

/* Code bytes and scale bytes (block scales and row parameters) of one row of `head_dim` elements.
 * head_dim must satisfy kvg_format_check_dim. */
size_t kvg_format_code_bytes(kvg_format format, size_t head_dim);
size_t kvg_format_scale_bytes(kvg_format format, size_t head_dim);

/* KVG_ERR_INVALID unless a row of head_dim elements is whole: a multiple of the block, whole uint32 words for 4-bit
 * elements (multiple of 8), at least 1 and at most KVG_MAX_HEAD_DIM. */
enum { KVG_MAX_HEAD_DIM = 1024 };
kvg_status kvg_format_check_dim(kvg_format format, size_t head_dim) KVG_CHECKED;

/* Element types of tensors. Ids are stored on disk. */
typedef enum kvg_dtype {
    KVG_DTYPE_U8 = 1,
    KVG_DTYPE_F16 = 2,
    KVG_DTYPE_BF16 = 3,
    KVG_DTYPE_F32 = 4,
    KVG_DTYPE_I32 = 5,
    KVG_DTYPE_I64 = 6
} kvg_dtype;

size_t kvg_dtype_bytes(kvg_dtype dtype);      /* 0 for an unknown value */
const char *kvg_dtype_name(kvg_dtype dtype);  /* "u8", "f16", ... ; "?" for an unknown value */
kvg_status kvg_dtype_find(const char *name, kvg_dtype *out) KVG_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
