/* The producer x consumer table for people (text, Markdown) and for programs (JSON). */
#ifndef KVG_HARNESS_MATRIX_MATRIX_PRINT_H
#define KVG_HARNESS_MATRIX_MATRIX_PRINT_H

#include <stdio.h>

#include "harness/matrix/matrix_run.h"

typedef struct cJSON cJSON;

/* Prints the parties, the table of verdicts, the table of bytes read as they are, and notes,
 * without an empty line at either end. Tables are cut into parts of at most `columns` columns; 0:
 * they are not cut. */
void kvg_matrix_print(const kvg_matrix *matrix, bool markdown, unsigned columns, FILE *out);

/* Appends an object to the array: shape, parties, cells. KVG_ERR_MEMORY. */
kvg_status kvg_matrix_json(const kvg_matrix *matrix, cJSON *array) KVG_CHECKED;

#endif
