/* Proves the reference's layout maps over the full grid: exit 1 if a property is broken.
 *
 *   layout_all [--stride N] [--start S] [--max-rows R]   proves combinations S, S + N, S + 2N ... of up to R rows; all
 *                                                        of them without options */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/reference/layout/layout_sweep.h"

static bool parse(int argc, char **argv, uint64_t *stride, uint64_t *start, uint64_t *max_rows)
{
    for (int i = 1; i < argc; i += 2) {
        uint64_t *to = strcmp(argv[i], "--stride") == 0     ? stride
                       : strcmp(argv[i], "--start") == 0    ? start
                       : strcmp(argv[i], "--max-rows") == 0 ? max_rows
                                                            : NULL;
        char *end = NULL;
        if (!to || i + 1 == argc) return false;
        *to = strtoull(argv[i + 1], &end, 10);
        if (*end != '\0' || end == argv[i + 1]) return false;
    }
    return *stride > 0;
}

int main(int argc, char **argv)
{
    uint64_t stride = 1, start = 0, max_rows = UINT64_MAX;
    if (!parse(argc, argv, &stride, &start, &max_rows)) {
        fprintf(stderr, "usage: %s [--stride N] [--start S] [--max-rows R], N at least 1\n", argv[0]);
        return 2;
    }
    const layout_sweep done = layout_sweep_run(&layout_grid_full, start, stride, max_rows);
    layout_sweep_print(&done);
    if (done.failures) layout_sweep_explain(&layout_grid_full, done.first_failure);
    return done.failures || done.combinations == 0;
}
