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
};

/* NULL: no such dialect. */
const slow_codec *slow_codec_find(kvg_format format, const char *dialect);

/* Where the code of element j lies in a row, in units of codes. */
size_t slow_place_of_element(const slow_codec *codec, size_t j, size_t dim);

/* The parts of the table, one per file. */
typedef struct slow_codecs {
    const slow_codec *rows;
    size_t count;
} slow_codecs;
slow_codecs slow_float_codecs(void);
slow_codecs slow_affine_codecs(void);
slow_codecs slow_symmetric_codecs(void);
slow_codecs slow_mx_codecs(void);
slow_codecs slow_nvfp4_codecs(void);

/* amax of section 1: NaN elements left out, 0 if none are left. */
slow_number slow_amax(const slow_number *x, size_t count);

/* Nibble p is the low half of byte p/2 if p is even, the high half if it is odd. */
void slow_put_nibble(uint8_t *codes, size_t position, unsigned nibble);
uint8_t slow_get_nibble(const uint8_t *codes, size_t position);

/* Little-endian 16 bits holding a value of `type`. */
void slow_put16(uint8_t *to, const slow_layout *type, slow_number n);
slow_number slow_get16(const uint8_t *from, const slow_layout *type);

#endif
