#include "harness/case/cells.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
    const kvg_result_asked *x = ((const kvg_cell *)a)->asked, *y = ((const kvg_cell *)b)->asked;
    const char *const pairs[][2] = {
        {x->op, y->op}, {x->k_format, y->k_format}, {x->k_dialect, y->k_dialect},
        {x->v_format, y->v_format}, {x->v_dialect, y->v_dialect}, {x->layout, y->layout},
    };
    int order = 0;
    for (size_t i = 0; !order && i < sizeof pairs / sizeof pairs[0]; i++) order = strcmp(pairs[i][0], pairs[i][1]);
    return order;
}

size_t kvg_cells_merge(kvg_cell *cells, size_t count)
{
    size_t kept = 0;
    if (count) qsort(cells, count, sizeof cells[0], compare);
    for (size_t i = 0; i < count; i++) {
        if (kept && compare(&cells[kept - 1], &cells[i]) == 0) {
            cells[kept - 1].judged |= cells[i].judged;
        } else {
            cells[kept++] = cells[i];
        }
    }
    return kept;
}

size_t kvg_cells_judged(const kvg_cell *cells, size_t count)
{
    size_t judged = 0;
    for (size_t i = 0; i < count; i++) judged += cells[i].judged;
    return judged;
}
