/* What a comparison prints, and its report for machines. */
#ifndef KVG_HARNESS_PACK_COMPARE_PRINT_H
#define KVG_HARNESS_PACK_COMPARE_PRINT_H

#include <stdio.h>

#include "harness/pack/compare.h"

typedef struct kvg_compare_printer {
    FILE *to;
    bool verbose;
} kvg_compare_printer;

/* A kvg_compare_report; `context` is a kvg_compare_printer. */
void kvg_compare_print_case(void *context, const kvg_compared_case *c);
void kvg_compare_print_totals(const kvg_comparison *c, FILE *to);

/* docs/guide/compare.md section 5. KVG_ERR_IO. */
kvg_status kvg_compare_write_json(const kvg_comparison *c, const char *path, int exit_code) KVG_CHECKED;

#endif
