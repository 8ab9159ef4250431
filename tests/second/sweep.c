/* Every f32 through the conversions of docs/spec/formats.md section 2, golden against slow: exit 1 on a difference.
 *
 *   sweep [--stride N] [--start S]   tests the inputs S, S + N, S + 2N ... below 2^32; all of them without options */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/second/conversions.h"

static const uint64_t all = (uint64_t)1 << 32;

static bool parse(int argc, char **argv, uint64_t *stride, uint64_t *start)
{
    for (int i = 1; i < argc; i += 2) {
        uint64_t *to = strcmp(argv[i], "--stride") == 0 ? stride : strcmp(argv[i], "--start") == 0 ? start : NULL;
        char *end = NULL;
        if (!to || i + 1 == argc) return false;
        *to = strtoull(argv[i + 1], &end, 10);
        if (*end != '\0' || end == argv[i + 1]) return false;
    }
    return *stride > 0 && *start < all;
}

int main(int argc, char **argv)
{
    uint64_t stride = 1, start = 0, first = all;
    if (!parse(argc, argv, &stride, &start)) {
        fprintf(stderr, "usage: %s [--stride N] [--start S], N at least 1, S below 2^32\n", argv[0]);
        return 2;
    }
    uint64_t inputs = (all - start + stride - 1) / stride;
#pragma omp parallel for schedule(dynamic, 65536) reduction(min : first)
    for (uint64_t i = 0; i < inputs; i++) {
        uint64_t bits = start + i * stride;
        if (bits < first && conversions_differ((uint32_t)bits)) first = bits;
    }
    if (first < all) {
        printf("input 0x%08" PRIX64 ": %s differs\n", first, conversions_differ((uint32_t)first));
        return 1;
    }
    printf("%" PRIu64 " inputs, %d conversions each: no difference\n", inputs, CONVERSION_COUNT);
    return 0;
}
