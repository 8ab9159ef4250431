#include "second/slow_codec.h"

#include <string.h>

const slow_codec *slow_codec_find(kvg_format format, const char *dialect)
{
    static const slow_codecs *const formats[] = {
#define FORMAT(ENUM, name, ...) [KVG_FORMAT_##ENUM] = &slow_of_##name,
#include "core/formats.def"
#undef FORMAT
    };
    const slow_codecs *codecs = formats[format];
    for (size_t i = 0; i < codecs->count; i++) {
        if (strcmp(codecs->rows[i].dialect, dialect) == 0) return &codecs->rows[i];
    }
    return NULL;
}

size_t slow_place_of_element(const slow_codec *codec, size_t j, size_t dim)
{
    return codec->place ? codec->place(j, dim) : j;
}

slow_number slow_amax(const slow_number *x, size_t count)
{
    slow_number amax = slow_zero(false);
    for (size_t i = 0; i < count; i++) {
        if (x[i].kind != SLOW_NAN && slow_compare_magnitudes(x[i], amax) > 0) amax = x[i];
    }
    amax.negative = false;
    return amax;
}

void slow_put_nibble(uint8_t *codes, size_t position, unsigned nibble)
{
    uint8_t *byte = &codes[position / 2];
    *byte = (uint8_t)(position % 2 ? (*byte & 0x0Fu) | nibble << 4 : (*byte & 0xF0u) | nibble);
}

uint8_t slow_get_nibble(const uint8_t *codes, size_t position)
{
    return position % 2 ? codes[position / 2] >> 4 : codes[position / 2] & 0x0F;
}

void slow_put16(uint8_t *to, const slow_layout *type, slow_number n)
{
    uint64_t code = slow_encode(type, n);
    to[0] = (uint8_t)code;
    to[1] = (uint8_t)(code >> 8);
}

slow_number slow_get16(const uint8_t *from, const slow_layout *type)
{
    return slow_decode(type, from[0] | (uint64_t)from[1] << 8);
}
