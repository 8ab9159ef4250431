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

double kvg_select_double(double *x, size_t count, size_t index)
{
    ptrdiff_t first = 0, last = (ptrdiff_t)count - 1; /* the number is among these */
    const ptrdiff_t k = (ptrdiff_t)index;
    while (first < last) {
        const double pivot = x[k];
        ptrdiff_t low = first, high = last; /* none above the pivot before low, none below it after high */
        while (low <= high) {
            while (x[low] < pivot) low++;
            while (x[high] > pivot) high--;
            if (low > high) break;
            const double moved = x[low];
            x[low++] = x[high];
            x[high--] = moved;
        }
        if (high < k) first = low;
        if (low > k) last = high;
    }
    return x[k];
}
