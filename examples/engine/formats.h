/* Formats: a row of numbers as codes and scales, and back (docs/spec/formats.md, dialect canonical). */
#ifndef KVG_EXAMPLES_ENGINE_FORMATS_H
#define KVG_EXAMPLES_ENGINE_FORMATS_H

#include "core/problem.h"

enum { MOST_DIM = KVG_MAX_HEAD_DIM, MOST_CODE_BYTES = 2 * MOST_DIM, MOST_SCALE_BYTES = MOST_DIM / 8 };

/* How the rows of one side are stored. */
typedef struct row_type {
    kvg_format format;
    kvg_dtype model;
    uint32_t dim;
    float tensor_scale; /* 1 for a format without one */
} row_type;

typedef struct stored_row {
    uint8_t codes[MOST_CODE_BYTES], scales[MOST_SCALE_BYTES];
} stored_row;

bool format_is_known(const kvg_storage *storage);
bool format_has_row_parameters(kvg_format format);

/* Bytes of a row of `dim` elements. */
uint32_t format_code_bytes(kvg_format format, uint32_t dim);
uint32_t format_scale_bytes(kvg_format format, uint32_t dim);

/* `words` are the row's numbers in the model type. */
void encode_row(const row_type *type, const uint32_t *words, stored_row *row);
void decode_row(const row_type *type, const stored_row *row, uint32_t *words);

/* The numbers that a row stands for, before they are rounded to the model type. */
void numbers_of_row(const row_type *type, const stored_row *row, double *numbers);

#endif
