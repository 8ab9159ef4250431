#include "support/sort.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void kvg_sort_doubles(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, ascending);
}
