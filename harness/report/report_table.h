/* Rows of a table for a terminal; private to harness/report. */
#ifndef KVG_HARNESS_REPORT_REPORT_TABLE_H
#define KVG_HARNESS_REPORT_REPORT_TABLE_H

#include <stddef.h>
#include <stdio.h>

/* Makes columns as wide as the cells of a row. */
void report_widen_columns(const char *const *cells, size_t count, size_t *widths);

/* Prints a row. The first `left` cells stand at the left of their columns. */
void report_print_row(const char *const *cells, size_t count, size_t left, const size_t *widths, FILE *out);

#endif
