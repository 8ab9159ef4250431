#include "second/slow_element.h"

#include <string.h>

static unsigned nibble_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    return slow_get_nibble(row->codes, slow_place_of_element(s->codec, dim, s->row.dim));
}

static slow_number e2m1_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    return slow_decode(&slow_e2m1, nibble_of(s, row, dim));
}

static slow_number linear_of(const slow_side *s, const slow_row_bytes *row, size_t dim, int exponent)
{
    return slow_scaled((int)nibble_of(s, row, dim) - 8, exponent);
}

slow_element slow_element_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    slow_element e = {.scale = slow_scaled(1, 0)};
    const kvg_format_info *format = kvg_format_get(s->codec->format);
    const size_t block = format->block ? dim / format->block : 0;
    switch (s->codec->format) {
    case KVG_FORMAT_F16: e.code = slow_get16(row->codes + 2 * dim, &slow_f16); break;
    case KVG_FORMAT_BF16: e.code = slow_get16(row->codes + 2 * dim, &slow_bf16); break;
    case KVG_FORMAT_E4M3: e.code = slow_decode(&slow_e4m3, row->codes[dim]); break;
    case KVG_FORMAT_E5M2: e.code = slow_decode(&slow_e5m2, row->codes[dim]); break;
    case KVG_FORMAT_INT8: e.code = slow_scaled(row->codes[dim], 0); break;
    case KVG_FORMAT_INT4: e.code = slow_scaled(nibble_of(s, row, dim), 0); break;
    case KVG_FORMAT_ROWINT4: e.code = linear_of(s, row, dim, 0); break;
    case KVG_FORMAT_ROWFP4: {
        const bool linear = strcmp(s->codec->dialect, "marlin-linear") == 0;
        e.code = linear ? linear_of(s, row, dim, -1) : e2m1_of(s, row, dim);
        break;
    }
    case KVG_FORMAT_MX16:
    case KVG_FORMAT_MXFP4:
    case KVG_FORMAT_NVFP4: e.code = e2m1_of(s, row, dim); break;
    case KVG_FORMAT_NONE:
    case KVG_FORMAT_END: break;
    }
    if (format->row_param_bytes == 4) {
        e.scale = slow_get16(row->scales, s->row.type);
        e.parameter = slow_get16(row->scales + 2, s->row.type);
    } else if (format->row_param_bytes == 2) {
        e.scale = slow_get16(row->scales, &slow_f16);
    } else if (format->block) {
        const uint8_t byte = row->scales[block];
        e.scale = s->codec->format == KVG_FORMAT_NVFP4 ? slow_decode(&slow_e4m3, byte) : slow_e8m0_decode(byte);
    }
    return e;
}
