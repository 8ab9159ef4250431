#include "second/slow_element.h"

static unsigned nibble_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    return slow_get_nibble(row->codes, slow_place_of_element(s->codec, dim, s->row.dim));
}

static uint8_t byte_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    return row->codes[slow_place_of_element(s->codec, dim, s->row.dim)];
}

/* The number of the code alone. */
static slow_number code_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    const kvg_format_info *format = kvg_format_get(s->codec->format);
    const bool byte = format->element_bits == 8;
    switch (format->codes) {
    case KVG_CODES_F16: return slow_get16(row->codes + 2 * dim, &slow_f16);
    case KVG_CODES_BF16: return slow_get16(row->codes + 2 * dim, &slow_bf16);
    case KVG_CODES_E4M3: return slow_decode(&slow_e4m3, byte_of(s, row, dim));
    case KVG_CODES_E5M2: return slow_decode(&slow_e5m2, byte_of(s, row, dim));
    case KVG_CODES_E2M1:
        if (s->codec->form == SLOW_HALF_STEPS) return slow_scaled((int)nibble_of(s, row, dim) - 8, -1);
        return slow_decode(&slow_e2m1, nibble_of(s, row, dim));
    case KVG_CODES_UNSIGNED: return slow_scaled(byte ? byte_of(s, row, dim) : (int)nibble_of(s, row, dim), 0);
    case KVG_CODES_OFFSET:
        return slow_scaled(byte ? byte_of(s, row, dim) - 128 : (int)nibble_of(s, row, dim) - 8, 0);
    case KVG_CODES_SIGNED:
        return slow_scaled(byte ? (byte_of(s, row, dim) ^ 128) - 128 : (int)(nibble_of(s, row, dim) ^ 8) - 8, 0);
    }
    return slow_nan();
}

slow_element slow_element_of(const slow_side *s, const slow_row_bytes *row, size_t dim)
{
    const kvg_format_info *format = kvg_format_get(s->codec->format);
    const uint8_t *scale = row->scales + (format->block ? dim / format->block * format->block_scale_bytes : 0);
    slow_element e = {.code = code_of(s, row, dim), .scale = slow_scaled(1, 0)};
    switch (format->scales) {
    case KVG_SCALES_NONE: break;
    case KVG_SCALES_E8M0: e.scale = slow_e8m0_decode(*scale); break;
    case KVG_SCALES_E4M3: e.scale = slow_decode(&slow_e4m3, *scale); break;
    case KVG_SCALES_F16: e.scale = slow_get16(scale, &slow_f16); break;
    case KVG_SCALES_F32: slow_load(KVG_DTYPE_F32, scale, 1, &e.scale); break;
    case KVG_SCALES_AFFINE:
        e.scale = slow_get16(scale, s->row.type);
        e.parameter = slow_get16(scale + 2, s->row.type);
        break;
    }
    return e;
}
