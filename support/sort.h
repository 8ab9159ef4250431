/* Numbers in order, for medians and quantiles. */
#ifndef KVG_SUPPORT_SORT_H
#define KVG_SUPPORT_SORT_H

#include <stddef.h>

/* Ascending, in place. Where NaNs come to stand is not defined. */
void kvg_sort_doubles(double *numbers, size_t count);

/* The number that kvg_sort_doubles would put at `index`, in linear time. Moves the numbers. */
double kvg_select_double(double *numbers, size_t count, size_t index);

#endif
