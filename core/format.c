#include "core/format.h"

#include <stdio.h>
#include <string.h>

#include "core/name.h"

static const kvg_format_info formats[] = {
#define FORMAT(ENUM, name, id, bits, codes, block, scale_bytes, param_bytes, scales, tensor_scale, summary) \
    {KVG_FORMAT_##ENUM, #name, bits, block, scale_bytes, param_bytes, tensor_scale, summary, KVG_CODES_##codes,        \
     KVG_SCALES_##scales},
#include "core/formats.def"
#undef FORMAT
};
enum { FORMAT_COUNT = sizeof formats / sizeof formats[0] };

const kvg_format_info *kvg_format_table(size_t *count)
{
    *count = FORMAT_COUNT;
    return formats;
}

const kvg_format_info *kvg_format_get(kvg_format format)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (formats[i].format == format) return &formats[i];
    }
    return NULL;
}

kvg_status kvg_format_find(const char *name, kvg_format *out)
{
    size_t i;
    kvg_status s = kvg_name_find("format", name, &formats[0].name, sizeof formats[0], FORMAT_COUNT, &i);
    if (!s) *out = formats[i].format;
    return s;
}

kvg_format kvg_format_of_codes(kvg_codes codes)
{
    for (size_t i = 0; i < FORMAT_COUNT; i++) {
        if (formats[i].codes == codes && formats[i].scales == KVG_SCALES_NONE) return formats[i].format;
    }
    return KVG_FORMAT_NONE;
}

kvg_format kvg_format_of_dtype(kvg_dtype dtype)
{
    switch (dtype) {
    case KVG_DTYPE_F16: return kvg_format_of_codes(KVG_CODES_F16);
    case KVG_DTYPE_BF16: return kvg_format_of_codes(KVG_CODES_BF16);
    case KVG_DTYPE_U8:
    case KVG_DTYPE_F32:
    case KVG_DTYPE_I32:
    case KVG_DTYPE_I64: break;
    }
    return KVG_FORMAT_NONE;
}

size_t kvg_format_code_bytes(kvg_format format, size_t head_dim)
{
    return head_dim * kvg_format_get(format)->element_bits / 8;
}

size_t kvg_format_scale_bytes(kvg_format format, size_t head_dim)
{
    const kvg_format_info *f = kvg_format_get(format);
    size_t blocks = f->block ? head_dim / f->block : 0;
    return blocks * f->block_scale_bytes + f->row_param_bytes;
}

kvg_status kvg_format_check_dim(kvg_format format, size_t head_dim)
{
    const kvg_format_info *f = kvg_format_get(format);
    if (!f) return kvg_fail(KVG_ERR_INVALID, "format id %d is not in core/formats.def", (int)format);
    size_t multiple = f->block ? f->block : f->element_bits < 8 ? 8 : 1;
    if (head_dim < 1 || head_dim > KVG_MAX_HEAD_DIM || head_dim % multiple != 0) {
        return kvg_fail(KVG_ERR_INVALID, "head_dim %zu does not fit format %s: use a multiple of %zu from %zu to %d",
                        head_dim, f->name, multiple, multiple, KVG_MAX_HEAD_DIM);
    }
    return KVG_OK;
}

static const struct {
    kvg_dtype dtype;
    const char *name;
    size_t bytes;
} dtypes[] = {
    {KVG_DTYPE_U8, "u8", 1},
    {KVG_DTYPE_F16, "f16", 2},
    {KVG_DTYPE_BF16, "bf16", 2},
    {KVG_DTYPE_F32, "f32", 4},
    {KVG_DTYPE_I32, "i32", 4},
    {KVG_DTYPE_I64, "i64", 8},
};
enum { DTYPE_COUNT = sizeof dtypes / sizeof dtypes[0] };

size_t kvg_dtype_bytes(kvg_dtype dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (dtypes[i].dtype == dtype) return dtypes[i].bytes;
    }
    return 0;
}

const char *kvg_dtype_name(kvg_dtype dtype)
{
    for (size_t i = 0; i < DTYPE_COUNT; i++) {
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    }
    return "?";
}

kvg_status kvg_dtype_find(const char *name, kvg_dtype *out)
{
    size_t i;
    kvg_status s = kvg_name_find("element type", name, &dtypes[0].name, sizeof dtypes[0], DTYPE_COUNT, &i);
    if (!s) *out = dtypes[i].dtype;
    return s;
}
