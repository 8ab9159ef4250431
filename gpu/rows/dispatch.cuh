/* From a format and a model type at run time to the kernel that was compiled for them. */
#ifndef KVG_GPU_ROWS_DISPATCH_CUH
#define KVG_GPU_ROWS_DISPATCH_CUH

#include "core/format.h"

/* Formats that differ in the size of their groups alone have one codec, which is told the size (row_rules.h). */
static inline kvg_format kvg_codec_of(kvg_format format)
{
    if (format == KVG_FORMAT_MLX4_G32 || format == KVG_FORMAT_MLX4_G128) return KVG_FORMAT_MLX4;
    if (format == KVG_FORMAT_MLX8_G32 || format == KVG_FORMAT_MLX8_G128) return KVG_FORMAT_MLX8;
    return format;
}

/* LAUNCH<FORMAT, T>::run(args, stream) */
template <kvg_format FORMAT, template <kvg_format, kvg_dtype> class LAUNCH, typename ARGS>
kvg_status kvg_dispatch_type(kvg_dtype dtype, const ARGS &args, cudaStream_t stream)
{
    constexpr bool affine = FORMAT == KVG_FORMAT_INT8 || FORMAT == KVG_FORMAT_INT4 || FORMAT == KVG_FORMAT_MLX4 ||
                            FORMAT == KVG_FORMAT_MLX8; /* parameters in 16 bits */
    if (dtype == KVG_DTYPE_F16) return LAUNCH<FORMAT, KVG_DTYPE_F16>::run(args, stream);
    if (dtype == KVG_DTYPE_BF16) return LAUNCH<FORMAT, KVG_DTYPE_BF16>::run(args, stream);
    if constexpr (!affine) {
        if (dtype == KVG_DTYPE_F32) return LAUNCH<FORMAT, KVG_DTYPE_F32>::run(args, stream);
    }
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no kernel for rows of type %s", kvg_dtype_name(dtype));
}

template <template <kvg_format, kvg_dtype> class LAUNCH, typename ARGS>
kvg_status kvg_dispatch(kvg_format format, kvg_dtype dtype, const ARGS &args, cudaStream_t stream)
{
    const kvg_format codec = kvg_codec_of(format);
#define CODEC(ENUM) \
    if (codec == KVG_FORMAT_##ENUM) return kvg_dispatch_type<KVG_FORMAT_##ENUM, LAUNCH>(dtype, args, stream);
#define CODEC_OF_ROWS CODEC
#include "gpu/rows/codecs.def"
#undef CODEC
    const kvg_format_info *info = kvg_format_get(format);
    return kvg_fail(KVG_ERR_UNIMPLEMENTED, "no kernel for format %s", info ? info->name : "of an unknown id");
}

#endif
