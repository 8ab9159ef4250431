/* How the operands of one tile of op mma lie: a[16][16], b[16][8] and c[16][8], row-major. */
#ifndef KVG_SUPPORT_MMA_TILE_H
#define KVG_SUPPORT_MMA_TILE_H

#include <stdint.h>

#include "core/profile.h"

enum {
    KVG_TILE_A = KVG_MMA_M * KVG_MMA_K, /* elements of the operands of one tile */
    KVG_TILE_B = KVG_MMA_K * KVG_MMA_N,
    KVG_TILE_C = KVG_MMA_M * KVG_MMA_N
};

/* The row of a and the column of b whose products make element `output` of c. */
static inline void kvg_mma_operands(const uint16_t *a, const uint16_t *b, int output, uint16_t row[KVG_MMA_K],
                                    uint16_t column[KVG_MMA_K])
{
    const int m = output / KVG_MMA_N, n = output % KVG_MMA_N;
    for (int k = 0; k < KVG_MMA_K; k++) {
        row[k] = a[m * KVG_MMA_K + k];
        column[k] = b[k * KVG_MMA_N + n];
    }
}

#endif
