/* The formats that op decode of gpu/ takes, and those of them that tensor cores know. */
#ifndef KVG_TESTS_GPU_CODECS_H
#define KVG_TESTS_GPU_CODECS_H

#include "core/format.h"

static inline bool gpu_decodes(kvg_format format)
{
    static const kvg_format codecs[] = {
#define CODEC(ENUM) KVG_FORMAT_##ENUM,
#include "gpu/rows/codecs.def"
#undef CODEC
    };
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0]; i++) {
        if (codecs[i] == format) return true;
    }
    return false;
}

/* docs/spec/decode-contract.md section 2 has no rows with scales in f32. */
static inline bool has_operands(kvg_format format)
{
    return gpu_decodes(format) && kvg_format_get(format)->scales != KVG_SCALES_F32;
}

#endif
