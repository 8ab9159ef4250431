/* The formats that gpu/ has a codec for. */
#ifndef KVG_TESTS_GPU_CODECS_H
#define KVG_TESTS_GPU_CODECS_H

#include "core/format.h"

static inline bool has_codec(kvg_format format)
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

#endif
