/* A codec writes and reads the rows of one dialect of one format; slow_codec_find knows them all. */
#ifndef KVG_SECOND_SLOW_CODEC_H
#define KVG_SECOND_SLOW_CODEC_H

#include "core/backend.h"
#include "second/slow_convert.h"

/* What a row has besides its elements. */
typedef struct slow_row {
    const slow_layout *type; /* the model type T */
    size_t dim;
    slow_number g; /* the decode scale; 1 for formats without */
} slow_row;

/* The number of an element (docs/spec/attention.md section 3) from its code, its scale and what else there is. */
typedef enum slow_form {
    SLOW_PRODUCT,         /* code * scale * g */
    SLOW_HALF_STEPS,      /* the same, codes of 4 bits being (nibble - 8) / 2 */
    SLOW_ROUNDED_PRODUCT, /* code * RN(scale * g) */
    SLOW_AFFINE,          /* code * scale + second */
    SLOW_AFFINE_TWICE,    /* RN_T(code * scale) + second */
    SLOW_ZERO_POINT,      /* (code - second) * scale */
    SLOW_LESS_ZERO,       /* code * scale - RN_T(scale * second) */
    SLOW_ZERO_POINT_IN_T  /* RN_T(code - second) * scale */
} slow_form;

typedef struct slow_codec slow_codec;
struct slow_codec {
    kvg_format format;
    const char *dialect;
    void (*quantise)(const slow_codec *codec, const slow_row *row, const slow_number *x, uint8_t *codes,
                     uint8_t *scales);
    /* x is left as the exact argument of the last rounding, RN_T, which is the caller's. */
    void (*dequantise)(const slow_codec *codec, const slow_row *row, const uint8_t *codes, const uint8_t *scales,
                       slow_number *x);
    const void *rules; /* of the type that the functions above expect; NULL if the dialect has no choices */
    slow_form form;
    size_t (*place)(size_t j, size_t dim); /* of element j's code, in units of codes; NULL: j */
};

/* NULL: no such dialect. */
const slow_codec *slow_codec_find(kvg_format format, const char *dialect);

/* Where the code of element j lies in a row, in units of codes. */
size_t slow_place_of_element(const slow_codec *codec, size_t j, size_t dim);

/* The codecs of one format: a file of second/ defines slow_of_<name> for each row of core/formats.def. */
typedef struct slow_codecs {
    const slow_codec *rows;
    size_t count;
} slow_codecs;
#define FORMAT(ENUM, name, ...) extern const slow_codecs slow_of_##name;
#include "core/formats.def"
#undef FORMAT
#define SLOW_CODECS(table) {(table), sizeof (table) / sizeof (table)[0]}

/* amax of section 1: NaN elements left out, 0 if none are left. */
slow_number slow_amax(const slow_number *x, size_t count);

/* Nibble p is the low half of byte p/2 if p is even, the high half if it is odd. */
void slow_put_nibble(uint8_t *codes, size_t position, unsigned nibble);
uint8_t slow_get_nibble(const uint8_t *codes, size_t position);

/* Little-endian 16 bits holding a value of `type`. */
void slow_put16(uint8_t *to, const slow_layout *type, slow_number n);
slow_number slow_get16(const uint8_t *from, const slow_layout *type);

#endif
